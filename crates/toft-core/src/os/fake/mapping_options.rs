//! The ranges of the fake that are locked, and the names of ranges.

extern crate std;

use super::super::{Error, MappingOptions, Memory};
use super::{Fake, Request, Verdict};
use core::ffi::CStr;
use std::string::String;
use std::vec::Vec;

/// The requests so far, in order.
#[derive(Debug, Default)]
pub(super) struct Asked {
    locked: Vec<(usize, usize)>,
    names: Vec<(usize, usize, String)>,
}

impl Fake {
    /// Returns the ranges that were locked, by address and length.
    pub fn locked(&self) -> Vec<(usize, usize)> {
        self.state().asked.locked.clone()
    }

    /// Returns the ranges that were given names, by address and length.
    pub fn names(&self) -> Vec<(usize, usize, String)> {
        self.state().asked.names.clone()
    }
}

// SAFETY: (1) no other page is changed; (2) as for `Os`.
unsafe impl MappingOptions for Fake {
    fn lock(&self, addr: usize, len: usize) -> Result<(), Error> {
        self.admit(Request::Lock, addr, len)?.asked.locked.push((addr, len));
        Ok(())
    }

    unsafe fn release_locked(&self, addr: usize, len: usize) -> Result<(), Error> {
        self.lock(addr, len)?;
        // SAFETY: (1) the caller's duty 1.
        unsafe { self.discard(addr, len) }
    }

    fn name(&self, addr: usize, len: usize, name: &CStr) -> Result<(), Error> {
        let mut state = self.state();
        if let Verdict::Fail(error) = state.faults.judge(Request::Name) {
            return Err(error);
        }
        let name = name.to_string_lossy().into_owned();
        state.asked.names.push((addr, len, name));
        Ok(())
    }
}
