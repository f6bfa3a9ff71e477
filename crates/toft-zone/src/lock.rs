//! A lock that records which thread holds it.
//!
//! A thread that wants the lock waits. Only zones use this lock; malloc and free never take one. A
//! signal handler may interrupt a call of its thread that holds the lock. If the handler wants the
//! lock too, it gets an error instead of waiting for its own thread.

use Ordering::{Acquire, Relaxed, Release};
use toft_core::os::Threads;
use toft_core::sync::StoreChanged;
use toft_core::sync::{AtomicU32, AtomicUsize, Ordering, SPIN_LIMIT, pause};

/// The bit of the word that is set while a thread sleeps.
const AWAITED: usize = 1;
/// The number of milliseconds after which a sleeping thread checks the lock again.
const NAP: u32 = 20;

/// The lock. Zero means open.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The number of the thread that holds the lock, which is even and not zero, and [`AWAITED`].
    /// Any thread writes it, by exchange. Taking the lock is an Acquire and opening it is a
    /// Release, so the holder sees the writes of earlier holders.
    word: AtomicUsize,
    /// The word that waiting threads sleep on. It changes when an awaited lock is opened.
    turn: AtomicU32,
}

/// The lock, held by the current thread until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a, O: Threads> {
    lock: &'a Lock,
    os: &'a O,
}

/// Blocks all signals of the calling thread until this is dropped.
#[derive(Debug)]
pub(crate) struct Undisturbed<'a, O: Threads> {
    os: &'a O,
    before: u64,
}

impl<'a, O: Threads> Undisturbed<'a, O> {
    pub(crate) fn begin(os: &'a O) -> Undisturbed<'a, O> {
        Undisturbed { os, before: os.block_signals() }
    }
}

impl<O: Threads> Drop for Undisturbed<'_, O> {
    fn drop(&mut self) {
        self.os.restore_signals(self.before);
    }
}

/// The error of a thread that already holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mine;

impl Lock {
    /// Takes the lock for the thread with number `me`, which is even and not zero.
    pub(crate) fn take<'a, O: Threads>(
        &'a self,
        os: &'a O,
        me: usize,
    ) -> Result<Held<'a, O>, Mine> {
        debug_assert!(me != 0 && me & AWAITED == 0);
        match self.word.compare_exchange(0, me, Acquire, Relaxed) {
            Ok(_) => Ok(Held { lock: self, os }),
            Err(_) => self.wait(os, me),
        }
    }

    #[cold]
    fn wait<'a, O: Threads>(&'a self, os: &'a O, me: usize) -> Result<Held<'a, O>, Mine> {
        for _ in 0..SPIN_LIMIT {
            let word = self.word.load(Relaxed);
            if word & !AWAITED == me {
                return Err(Mine);
            }
            if word == 0 && self.word.compare_exchange(0, me, Acquire, Relaxed).is_ok() {
                return Ok(Held { lock: self, os });
            }
            pause();
        }
        loop {
            let turn = self.turn.load(Acquire);
            let word = self.word.load(Relaxed);
            // Other threads may sleep too. The new holder keeps the mark, and so wakes the next
            // one.
            let wanted = if word == 0 { me | AWAITED } else { word | AWAITED };
            if word != wanted && self.word.compare_exchange(word, wanted, Acquire, Relaxed).is_err()
            {
                continue;
            }
            if word == 0 {
                return Ok(Held { lock: self, os });
            }
            os.sleep_on(&self.turn, turn, NAP);
        }
    }

    /// Opens the lock in the child of a fork if a thread other than `me` held it. Returns true if
    /// so.
    pub(crate) fn unlock_exited(&self, me: usize) -> bool {
        let word = self.word.load(Relaxed) & !AWAITED;
        if word == me {
            // No thread waits in the child.
            self.word.store_changed(me, Relaxed);
            return false;
        }
        self.word.store_changed(0, Relaxed);
        word != 0
    }
}

impl<O: Threads> Drop for Held<'_, O> {
    fn drop(&mut self) {
        if self.lock.word.swap(0, Release) & AWAITED != 0 {
            self.lock.turn.fetch_add(1, Release);
            self.os.wake(&self.lock.turn);
        }
    }
}
