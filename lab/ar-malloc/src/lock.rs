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
    contended: bool,
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

impl Held<'_> {
    /// Returns true if another thread held the lock when this one asked for it.
    #[inline]
    pub fn was_contended(&self) -> bool {
        self.contended
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
        let _errno = Errno::kept();
        let none = std::ptr::null::<libc::timespec>();
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel only compares the word, which lives as long as the lock.
        unsafe { libc::syscall(libc::SYS_futex, lock.word.as_ptr(), operation, value, none) };
    }

    /// Wakes one thread that sleeps on the lock.
    pub fn wake_one(lock: &Lock) {
        let _errno = Errno::kept();
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel uses only the address of the word.
        unsafe { libc::syscall(libc::SYS_futex, lock.word.as_ptr(), operation, 1) };
    }
}

/// The kernel's side of a futex as a model: a wake that comes before the sleep wakes no thread, and
/// the comparison and the sleep are one step.
#[cfg(loom)]
mod futex {
    use super::{Lock, Ordering};
    use loom::sync::{Condvar, Mutex};

    #[derive(Debug)]
    pub struct Bed(Mutex<()>, Condvar);

    impl Default for Bed {
        fn default() -> Bed {
            Bed(Mutex::new(()), Condvar::new())
        }
    }

    pub fn wait(lock: &Lock, value: u32) {
        let awake = lock.bed.0.lock().unwrap();
        if lock.word.load(Ordering::Relaxed) == value {
            drop(lock.bed.1.wait(awake).unwrap());
        }
    }

    pub fn wake_one(lock: &Lock) {
        let _awake = lock.bed.0.lock().unwrap();
        lock.bed.1.notify_one();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/unit/lock.rs"]
mod tests;
