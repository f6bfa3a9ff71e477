//! The one lock of an allocator. A process that has one thread does not take it.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const OPEN: u32 = 0;
const CLOSED: u32 = 1;
/// Closed, and a thread may sleep until it opens.
const AWAITED: u32 = 2;

/// A futex: written by every thread that locks or unlocks. Each Acquire pairs with the Release of
/// the `unlock` before it.
#[derive(Debug)]
pub(crate) struct Lock(AtomicU32);

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    /// glibc: not zero while the process has one thread. Only that thread can start another.
    static __libc_single_threaded: libc::c_char;
}

/// Returns true if no other thread can be in the allocator.
#[inline(always)]
fn alone() -> bool {
    // SAFETY: glibc writes it only while this thread waits in `pthread_create` or `fork`.
    #[cfg(target_env = "gnu")]
    return unsafe { (&raw const __libc_single_threaded).read_volatile() != 0 };
    #[cfg(not(target_env = "gnu"))]
    return false;
}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(OPEN))
    }

    /// Runs `work` while no other thread runs such work.
    #[inline(always)]
    pub(crate) fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        // Starting a thread is no work of an allocator, so this does not change meanwhile.
        let shared = !alone();
        if shared {
            self.lock();
        }
        let result = work();
        if shared {
            self.unlock();
        }
        result
    }

    /// Takes the lock.
    #[inline(always)]
    pub(crate) fn lock(&self) {
        if self.0.compare_exchange(OPEN, CLOSED, Acquire, Relaxed).is_err() {
            self.wait();
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        for _ in 0..100 {
            if self.0.load(Relaxed) == OPEN
                && self.0.compare_exchange(OPEN, CLOSED, Acquire, Relaxed).is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        while self.0.swap(AWAITED, Acquire) != OPEN {
            crate::mapped::keeping_errno(|| self.futex(libc::FUTEX_WAIT, AWAITED));
        }
    }

    /// Opens the lock: of the thread that has taken it, or of its copy in a forked child.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        if self.0.swap(OPEN, Release) == AWAITED {
            self.wake();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        crate::mapped::keeping_errno(|| self.futex(libc::FUTEX_WAKE, 1));
    }

    #[cold]
    fn futex(&self, operation: i32, value: u32) {
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: a live word; waiting without a time limit, or waking one thread.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, value, none) };
    }
}

#[cfg(test)]
#[path = "../tests/unit/lock.rs"]
mod tests;
