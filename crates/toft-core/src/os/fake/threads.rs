//! The fake's time and threads: it starts none, and the test moves its clock.

use super::Fake;
use crate::os::thread::Run;
use crate::os::{SECOND, Threads};
use crate::sync::AtomicU32;

// SAFETY: (1) the test runs in one thread, or its threads meet at a separate barrier; (2) as for
// `Os`.
unsafe impl Threads for Fake {
    fn ticks(&self) -> u32 {
        self.state().ticks
    }

    fn counter(&self) -> u64 {
        self.state().ticks.into()
    }

    fn process(&self) -> u32 {
        self.state().process
    }

    unsafe fn spawn(&self, _: Run, _: usize, _: &AtomicU32) -> bool {
        false
    }

    fn prepare_own_thread(&self) {}

    fn barrier(&self) -> bool {
        let Some(mut meanwhile) = self.state().at_barrier.take() else { return true };
        let passed = (meanwhile.0)();
        let mut state = self.state();
        if state.at_barrier.is_none() {
            state.at_barrier = Some(meanwhile);
        }
        passed
    }

    fn sleep_on(&self, _: &AtomicU32, _: u32, milliseconds: u32) {
        let mut state = self.state();
        state.slept += u64::from(milliseconds);
        if state.sleeps {
            state.ticks = state.ticks.wrapping_add(milliseconds * SECOND / 1000);
        }
    }

    fn wake(&self, _: &AtomicU32) {}

    fn wait_briefly(&self) {
        self.state().waits += 1;
    }
}
