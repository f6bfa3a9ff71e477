//! `pthread_key_create`: when the C library has no key left, the program gets the one that told
//! Toft of exits.

use core::ffi::{c_int, c_void};
use toft_core::process::give_exit_key;

type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;

unsafe extern "C" {
    /// The C library's other name for the function.
    fn __pthread_key_create(key: *mut libc::pthread_key_t, destructor: Destructor) -> c_int;
}

/// `pthread_key_create`: all of the C library's keys are the program's, Toft's included.
///
/// # Safety
/// 1. As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_key_create(
    key: *mut libc::pthread_key_t,
    destructor: Destructor,
) -> c_int {
    // SAFETY: duty 1.
    let code = unsafe { __pthread_key_create(key, destructor) };
    if code == libc::EAGAIN && give_exit_key() {
        // SAFETY: duty 1.
        return unsafe { __pthread_key_create(key, destructor) };
    }
    code
}
