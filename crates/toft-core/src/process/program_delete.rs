//! The program's own `operator delete`, if it has replaced the plain form.
//!
//! C++ lets a program replace the plain forms of new and delete alone: the sized form that
//! compilers call then leads to the program's plain one. A preloaded library's sized form hides the
//! C++ library's, so it has to lead there itself.

use crate::allocator::GLOBAL;
use crate::process::start::write_sealed;
use crate::sync::Ordering::Relaxed;
use core::ffi::c_void;

/// A plain `operator delete`.
pub type Delete = unsafe extern "C" fn(*mut c_void);

/// Notes that the program has replaced the plain forms of new and delete, while it has one thread.
pub fn program_deletes_by(delete: Delete) {
    write_sealed(|global| global.delete.store(delete as *mut c_void, Relaxed));
}

/// Returns true if the program has replaced the plain forms of new and delete.
pub fn program_deletes() -> bool {
    // Relaxed: written before there was a second thread.
    !GLOBAL.delete.load(Relaxed).is_null()
}
