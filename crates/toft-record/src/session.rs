//! What is recorded, and how a call becomes an event.
//!
//! The order of things makes the table of objects exact. A block's address enters the table after
//! the allocator has handed it out and before the program sees it; it leaves before the allocator
//! gets it back. Sequence numbers follow the same rule, so that a block's free is always behind its
//! allocation, on whatever threads they are.

use crate::current;
use crate::map::Errno;
use crate::objects::{self, Inserted};
use crate::sites;
use crate::thread::{self, Recording};
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use toft_trace::event::Action;

/// Whether nothing is recorded: no file was named.
static OFF: AtomicBool = AtomicBool::new(false);
static SEQUENCE: AtomicU64 = AtomicU64::new(0);
/// Calls that could not be recorded.
static UNRECORDED: AtomicU64 = AtomicU64::new(0);
/// Blocks given back whose allocation was not recorded.
static UNKNOWN: AtomicU64 = AtomicU64::new(0);

/// The next number in the order of the process. One for every event, and not one for every so many:
/// then a free by another thread would need other means to be known as later.
pub fn next_sequence() -> u64 {
    SEQUENCE.fetch_add(1, Relaxed) + 1
}

/// Records nothing from now on.
pub fn turn_off() {
    OFF.store(true, Relaxed);
}

/// Whether nothing is.
pub fn is_off() -> bool {
    OFF.load(Relaxed)
}

/// The figures of the last chunk.
pub fn missed() -> (u64, u64) {
    (UNRECORDED.load(Relaxed), UNKNOWN.load(Relaxed))
}

/// In the child of a fork: as if nothing had happened.
pub fn forget() {
    SEQUENCE.store(0, Relaxed);
    UNRECORDED.store(0, Relaxed);
    UNKNOWN.store(0, Relaxed);
}

/// The key whose destructor says that a thread ends.
pub fn thread_key() -> Option<libc::pthread_key_t> {
    /// The key plus one; 0 before there is one.
    static KEY: AtomicUsize = AtomicUsize::new(0);
    if let Some(key) = KEY.load(Acquire).checked_sub(1) {
        return Some(key as libc::pthread_key_t);
    }
    let mut key = 0;
    // SAFETY: the key is a live local; the destructor has the type of one.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread::ended)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, key as usize + 1, AcqRel, Acquire) {
        Ok(_) => Some(key),
        Err(other) => {
            // SAFETY: made above, and no other thread has seen it.
            unsafe { libc::pthread_key_delete(key) };
            Some((other - 1) as libc::pthread_key_t)
        }
    }
}

/// A call that is being recorded. Until it is dropped, what this thread allocates is not recorded.
pub struct Turn {
    /// What the thread's word will be.
    word: usize,
    recording: &'static Recording,
    _errno: Errno,
}

impl Turn {
    /// Begins one, unless nothing is recorded or this thread is at it already.
    #[inline]
    pub fn begin() -> Option<Turn> {
        let word = current::get();
        if word == current::BUSY || OFF.load(Relaxed) {
            return None;
        }
        let errno = Errno::keep();
        current::set(current::BUSY);
        match thread::of(word) {
            Some(recording) => Some(Turn { word: recording.word(), recording, _errno: errno }),
            None => {
                UNRECORDED.fetch_add(1, Relaxed);
                current::set(current::SHARED);
                None
            }
        }
    }

    /// A block was handed out.
    pub fn allocated(&self, address: usize, size: usize, align: usize, site: usize, zeroed: bool) {
        let (site, definition) = site_number(site);
        let mut instead = None;
        self.recording.event(definition, |object| {
            match objects::insert(address, object) {
                Inserted::Fresh => {}
                Inserted::Instead(before) => instead = Some(before),
                Inserted::Full => {
                    UNRECORDED.fetch_add(1, Relaxed);
                    return None;
                }
            }
            let (size, align) = (size as u64, align as u64);
            Some(Action::Allocate { size, align, site, zeroed })
        });
        self.freed_unseen(instead);
    }

    /// A block will be given back: to be called before it is.
    pub fn freed(&self, address: usize) {
        match objects::remove(address) {
            Some(object) => self.recording.event(None, |_| Some(Action::Free { object })),
            None => {
                UNKNOWN.fetch_add(1, Relaxed);
            }
        }
    }

    /// A block will be resized: to be called before it is. Gives its object, which is at no address
    /// until [`Turn::resized`].
    pub fn resizing(&self, address: usize) -> Option<u64> {
        let object = objects::remove(address);
        if object.is_none() {
            UNKNOWN.fetch_add(1, Relaxed);
        }
        object
    }

    /// It was.
    pub fn resized(&self, object: u64, address: usize, size: usize, site: usize) {
        let (site, definition) = site_number(site);
        let size = size as u64;
        self.recording.event(definition, |_| Some(Action::Resize { object, size, site }));
        self.at(object, address);
    }

    /// It was not, and is where it was.
    pub fn stayed(&self, object: u64, address: usize) {
        self.at(object, address);
    }

    /// It was given back instead.
    pub fn gone(&self, object: u64) {
        self.recording.event(None, |_| Some(Action::Free { object }));
    }

    fn at(&self, object: u64, address: usize) {
        match objects::insert(address, object) {
            Inserted::Fresh => {}
            Inserted::Instead(before) => self.freed_unseen(Some(before)),
            Inserted::Full => {
                // Its free will not be known, so that it is best over now.
                UNRECORDED.fetch_add(1, Relaxed);
                self.gone(object);
            }
        }
    }

    /// The allocator gave out an address that was not given back through us.
    fn freed_unseen(&self, object: Option<u64>) {
        if let Some(object) = object {
            self.gone(object);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        current::set(self.word);
    }
}

fn site_number(address: usize) -> (u32, Option<(u32, usize)>) {
    let (number, first) = sites::number(address);
    (number, first.then_some((number, address)))
}
