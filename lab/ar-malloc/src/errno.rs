//! Keeps `errno`, which a program may read after any call that did not fail.

/// Restores `errno` when it is dropped.
pub struct Errno(libc::c_int);

impl Errno {
    /// Notes the calling thread's `errno`.
    pub fn kept() -> Errno {
        // SAFETY: the location is a thread-local int of the calling thread.
        Errno(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: the location is a thread-local int of the calling thread.
        unsafe { *libc::__errno_location() = self.0 }
    }
}
