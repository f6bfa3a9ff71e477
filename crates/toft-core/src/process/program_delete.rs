//! The program's own `operator delete`, if it has replaced the plain form.
//!
//! C++ lets a program replace the plain forms of new and delete alone: the sized form that
//! compilers call then leads to the program's plain one. A preloaded library's sized form hides the
//! C++ library's, so it has to lead there itself, also for a block of Toft's: the program's form
//! may count it, or free what begins before it.

use crate::allocator::{GLOBAL, allocator};
use crate::process::start::{ready, write_sealed};
use crate::sync::Ordering::Relaxed;
use core::ffi::c_void;

/// A plain `operator delete`.
pub type Delete = unsafe extern "C" fn(*mut c_void);

/// Notes that the program has replaced the plain forms of new and delete, while it has one thread.
pub fn program_deletes_by(delete: Delete) {
    write_sealed(|global| global.delete.store(delete as *mut c_void, Relaxed));
}

/// Notes that another `operator new` than Toft's may request blocks: the C++ library's, or one of
/// the program. It rounds a size up to a multiple of the alignment, and deletes name the size of
/// the object.
pub fn sizes_may_be_rounded() {
    if ready() {
        allocator().note_rounded_sizes();
    }
}

/// Returns true if the program has replaced the plain forms of new and delete.
pub fn program_deletes() -> bool {
    // Relaxed: written before there was a second thread.
    !GLOBAL.delete.load(Relaxed).is_null()
}

/// Passes a block to the program's own plain `operator delete`. Returns false if there is none.
///
/// # Safety
/// 1. The program called a form of `operator delete` for one object with `address`.
#[inline(always)]
pub unsafe fn delete_by_program(address: *mut c_void) -> bool {
    let delete = GLOBAL.delete.load(Relaxed);
    if delete.is_null() {
        return false;
    }
    // SAFETY: stored by `program_deletes_by`.
    let delete = unsafe { core::mem::transmute::<*mut c_void, Delete>(delete) };
    // SAFETY: duty 1.
    unsafe { delete(address) };
    true
}
