//! A lock that knows which thread has it.
//!
//! Who wants it waits. That is for zones alone: nothing of malloc and free ever asks for one. A
//! thread that has it already, in a call that one of its signal handlers has interrupted, is told
//! so instead of waiting for itself.

use crate::os::Os;
use crate::sync::StoreChanged;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, SPIN_LIMIT, pause};
use Ordering::{Acquire, Relaxed, Release};

/// Set in the word while a thread sleeps.
const AWAITED: usize = 1;
/// Milliseconds after which a sleeper looks again, whatever happened.
const NAP: u32 = 20;

/// The lock; zero is open.
#[derive(Debug)]
pub(super) struct Lock {
    /// The number of the thread that has it, even and not zero, and [`AWAITED`]. Any thread, by
    /// exchange; Acquire when it is taken and Release when it is opened, so that who has it sees
    /// what was done under it.
    word: AtomicUsize,
    /// Changes when an awaited lock is opened: what sleepers sleep on.
    turn: AtomicU32,
}

/// The lock, while one has it.
#[derive(Debug)]
pub(super) struct Held<'a, O: Os> {
    lock: &'a Lock,
    os: &'a O,
}

/// The calling thread takes no signal until this is dropped.
#[derive(Debug)]
pub(super) struct Undisturbed<'a, O: Os> {
    os: &'a O,
    before: u64,
}

impl<'a, O: Os> Undisturbed<'a, O> {
    pub(super) fn begin(os: &'a O) -> Undisturbed<'a, O> {
        Undisturbed { os, before: os.shut_out_signals() }
    }
}

impl<O: Os> Drop for Undisturbed<'_, O> {
    fn drop(&mut self) {
        self.os.let_in_signals(self.before);
    }
}

/// The thread that asks has the lock already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mine;

impl Lock {
    /// Takes the lock for the thread that `me` stands for: not zero, and even.
    pub(super) fn take<'a, O: Os>(&'a self, os: &'a O, me: usize) -> Result<Held<'a, O>, Mine> {
        debug_assert!(me != 0 && me & AWAITED == 0);
        match self.word.compare_exchange(0, me, Acquire, Relaxed) {
            Ok(_) => Ok(Held { lock: self, os }),
            Err(_) => self.wait(os, me),
        }
    }

    #[cold]
    fn wait<'a, O: Os>(&'a self, os: &'a O, me: usize) -> Result<Held<'a, O>, Mine> {
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
            // Others may sleep as well: who opens it has to wake the next.
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

    /// Opens the lock in the child of a fork, if another thread than `me` had it; returns true if
    /// so.
    pub(super) fn open_for_the_dead(&self, me: usize) -> bool {
        let word = self.word.load(Relaxed) & !AWAITED;
        if word == me {
            // No thread waits here.
            self.word.store_changed(me, Relaxed);
            return false;
        }
        self.word.store_changed(0, Relaxed);
        word != 0
    }
}

impl<O: Os> Drop for Held<'_, O> {
    fn drop(&mut self) {
        if self.lock.word.swap(0, Release) & AWAITED != 0 {
            self.lock.turn.fetch_add(1, Release);
            self.os.wake(&self.lock.turn);
        }
    }
}
