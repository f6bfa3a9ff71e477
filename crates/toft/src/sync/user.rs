//! The word that says which thread uses something that one thread at a time may use. No thread
//! waits for another one.

use super::{AtomicU32, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// Who uses something: a number that is not zero, or zero for no thread. Any thread, by compare and
/// exchange; who leaves stores zero.
#[derive(Debug)]
pub struct User(AtomicU32);

/// The right to use it, while it lasts.
#[derive(Debug)]
pub struct Use<'a>(&'a User);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        // leave: pairs with `take_from`. The next user sees all that this one did.
        self.0.0.store(0, Release);
    }
}

impl User {
    /// Not in use.
    #[cfg(loom)]
    pub fn new() -> User {
        User(AtomicU32::new(0))
    }

    /// Takes it for `me`; returns `None` if it is in use.
    pub fn take(&self, me: u32) -> Option<Use<'_>> {
        self.take_from(0, me)
    }

    /// Takes it for `me` from `user`, whose thread has ended. `None` if another uses it.
    pub fn take_from(&self, user: u32, me: u32) -> Option<Use<'_>> {
        if self.now() != user {
            return None;
        }
        // pairs: leave.
        self.0.compare_exchange(user, me, Acquire, Relaxed).ok().map(|_| Use(self))
    }

    /// Who uses it at this moment; zero for no thread.
    pub fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Ends the use by a thread that does not exist in this child of a fork.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }
}

#[cfg(loom)]
impl Default for User {
    fn default() -> User {
        User::new()
    }
}
