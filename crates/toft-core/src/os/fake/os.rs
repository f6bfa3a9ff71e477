//! The fake's implementation of the allocator's requests.

extern crate std;

use super::Fake;
use super::faults::{Request, Verdict};
use crate::os::filter::Permit;
use crate::os::seccomp::Answers;
use crate::os::{Error, Group, Os};
use std::string::String;

// SAFETY: (1) the fake allocates through the test's own allocator. Its lock is held for a few
// instructions. It panics only in a test that is to fail.
unsafe impl Os for Fake {
    fn is_filtered(&self) -> Option<bool> {
        self.state().filtered
    }

    fn probe_filter(&self, _: bool) -> Option<Answers> {
        let mut state = self.state();
        state.probes += 1;
        state.probe
    }

    fn group<'a>(&self, permit: &dyn Fn() -> Option<Permit<'a>>) -> Group {
        permit().map(|_permit| self.state().group).unwrap_or_default()
    }

    fn memory_there_is(&self) -> Option<usize> {
        self.state().memory
    }

    fn random(&self) -> Result<u64, Error> {
        let mut state = self.state();
        if let Verdict::Fail(error) = state.faults.judge(Request::Random) {
            return Err(error);
        }
        // SplitMix64: every seed gives a good sequence.
        state.random = state.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Ok(word ^ (word >> 31))
    }

    fn report(&self, line: &[u8]) {
        self.state().reports.push(String::from_utf8_lossy(line).into_owned());
    }

    fn abort(&self) -> ! {
        let last = self.state().reports.last().cloned().unwrap_or_default();
        panic!("the allocator ends the process: {last}")
    }
}
