//! The word that names the thread that uses something, if one thread at a time may use it. No
//! thread waits for another.

use super::{AtomicU32, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// The user: a number that is not zero, or zero if there is no user. Any thread writes its number
/// by compare and exchange. A user that leaves stores zero.
#[derive(Debug)]
pub struct User(AtomicU32);

/// The right of the present user. It ends when this value is dropped.
#[derive(Debug)]
pub struct Use<'a>(&'a User);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        // leave: pairs with `take` and `take_from`. The next user sees all that this one did.
        self.0.0.store(0, Release);
    }
}

impl User {
    /// Returns a word without a user.
    #[cfg(not(loom))]
    pub const fn new() -> User {
        User(AtomicU32::new(0))
    }

    /// Returns a word without a user.
    #[cfg(loom)]
    pub fn new() -> User {
        User(AtomicU32::new(0))
    }

    /// Makes `me` the user. Returns `None` if there is a user already.
    ///
    /// It does not read the word first. The word was last written on another processor as a rule,
    /// and the cache line would move twice: for the read, and for the exchange.
    pub fn take(&self, me: u32) -> Option<Use<'_>> {
        // pairs: leave.
        self.0.compare_exchange(0, me, Acquire, Relaxed).ok().map(|_| Use(self))
    }

    /// Makes `me` the user in place of `user`, whose thread has exited. Returns `None` if `user` is
    /// not the user now.
    pub fn take_from(&self, user: u32, me: u32) -> Option<Use<'_>> {
        if self.now() != user {
            return None;
        }
        // pairs: leave.
        self.0.compare_exchange(user, me, Acquire, Relaxed).ok().map(|_| Use(self))
    }

    /// Returns the present user, or zero if there is none.
    pub fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Ends the use by a thread that does not exist in this child of a fork.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }
}

impl Default for User {
    fn default() -> User {
        User::new()
    }
}
