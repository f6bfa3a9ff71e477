//! A lock of four bytes. It spins for a moment and then sleeps in the kernel.

use crate::sync::{AtomicU32, Ordering, const_outside_models};
use Ordering::{Acquire, Relaxed, Release};

const OPEN: u32 = 0;
const HELD: u32 = 1;
/// Held, and other threads may sleep.
const AWAITED: u32 = 2;

/// Number of looks before a thread sleeps. A hundred take about as long as a cache refill.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

/// A mutual exclusion lock.
#[derive(Debug)]
pub struct Lock {
    /// `OPEN`, `HELD` or `AWAITED`. Any thread writes it: Acquire when it takes the lock, Release
    /// when it lets go, so that each holder sees what earlier holders wrote.
    word: AtomicU32,
    #[cfg(loom)]
    bed: futex::Bed,
}

/// A held lock. Dropping it lets the lock go.
#[derive(Debug)]
pub struct Held<'a> {
    lock: &'a Lock,
    /// True if another thread held the lock when this one asked for it.
    pub contended: bool,
}

impl Lock {
    const_outside_models! {
        /// An open lock.
        new() -> Lock {
            Lock { word: AtomicU32::new(OPEN), #[cfg(loom)] bed: futex::Bed::default() }
        }
    }

    /// Takes the lock. Waits while another thread holds it.
    #[inline]
    pub fn take(&self) -> Held<'_> {
        let contended = self.word.compare_exchange(OPEN, HELD, Acquire, Relaxed).is_err();
        if contended {
            self.wait();
        }
        Held { lock: self, contended }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        for _ in 0..SPINS {
            std::hint::spin_loop();
            let open = self.word.load(Relaxed) == OPEN;
            if open && self.word.compare_exchange(OPEN, HELD, Acquire, Relaxed).is_ok() {
                return;
            }
        }
        // A thread that has slept does not know if others still sleep, so it keeps `AWAITED`.
        while self.word.swap(AWAITED, Acquire) != OPEN {
            futex::wait(self, AWAITED);
        }
    }

    /// Lets a lock go whose [`Held`] was forgotten.
    ///
    /// # Safety
    /// 1. The calling thread holds the lock. The child of a fork holds what its parent's thread
    ///    held.
    pub unsafe fn let_go(&self) {
        if self.word.swap(OPEN, Release) == AWAITED {
            futex::wake_one(self);
        }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: (1) this value exists only while its thread holds the lock.
        unsafe { self.lock.let_go() }
    }
}

#[cfg(not(loom))]
mod futex {
    use super::Lock;
    use crate::errno::Errno;

    /// Sleeps unless the lock's word has another value. May return early.
    pub fn wait(lock: &Lock, value: u32) {
        call(lock, libc::FUTEX_WAIT, value);
    }

    /// Wakes one thread that sleeps on the lock.
    pub fn wake_one(lock: &Lock) {
        call(lock, libc::FUTEX_WAKE, 1);
    }

    fn call(lock: &Lock, operation: i32, value: u32) {
        let _errno = Errno::kept();
        let none = std::ptr::null::<libc::timespec>();
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel only compares the word, which lives as long as the lock.
        unsafe { libc::syscall(libc::SYS_futex, lock.word.as_ptr(), operation, value, none) };
    }
}

#[cfg(loom)]
#[path = "../tests/model/futex.rs"]
mod futex;

#[cfg(all(test, not(loom)))]
#[path = "../tests/unit/lock.rs"]
mod tests;
