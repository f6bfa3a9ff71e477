//! A thread's buffer, from its first call to its end.

use crate::current;
use crate::file;
use crate::lock::Lock;
use crate::map::map;
use crate::session;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use toft_trace::chunk::{CHUNK_HEADER, Header, Kind};
use toft_trace::event::{Action, Event, LONGEST};

/// A thread's events are written when this many bytes of them are gathered.
const CAPACITY: usize = 64 * 1024;

/// Where a thread records, in a separate mapping. All-zero bytes are one that is empty. Those of
/// threads that exited are used again, and none is ever given back.
pub struct Recording {
    /// Held by the thread while it adds an event, and by the thread that writes them all.
    lock: Lock,
    /// Whether a thread has it. Set with the list's lock held.
    taken: AtomicBool,
    /// The rest of the list; written before it is in the list.
    rest: AtomicPtr<Recording>,
    events: UnsafeCell<Events>,
}

/// Changed with the recording's lock held.
struct Events {
    thread: u32,
    /// The sequence numbers before the first event in `bytes`, and of the last.
    before: u64,
    last: u64,
    /// How often the destructor of the thread's key has run.
    rounds: u32,
    len: usize,
    /// A chunk: room for its header, and the events.
    bytes: [u8; CHUNK_HEADER + CAPACITY],
}

// SAFETY: the events are reached with the lock held only.
unsafe impl Sync for Recording {}

/// The list of all recordings; grows at its front.
static ALL: AtomicPtr<Recording> = AtomicPtr::new(null_mut());
/// Held by a thread that changes the list or goes through it to write.
static LIST: Lock = Lock::new();
/// The recording of threads that have no other.
static SHARED: AtomicPtr<Recording> = AtomicPtr::new(null_mut());
static THREADS: AtomicU32 = AtomicU32::new(0);

/// The recording of a thread's word; for a thread that is new, one is begun. The word must be
/// [`current::BUSY`] meanwhile. Nothing when there is no memory.
pub fn of(word: usize) -> Option<&'static Recording> {
    match word {
        current::FRESH => begin(),
        current::SHARED => shared(),
        // SAFETY: the address of a recording, which are never given back.
        address => Some(unsafe { &*std::ptr::with_exposed_provenance(address) }),
    }
}

fn shared() -> Option<&'static Recording> {
    let known = SHARED.load(Acquire);
    if known.is_null() {
        LIST.with(|| {
            if SHARED.load(Acquire).is_null() {
                let new = take().map_or(null_mut(), |recording| &raw const *recording as *mut _);
                // Pairs with the Acquire above.
                SHARED.store(new, Release);
            }
        });
    }
    // SAFETY: null, or a recording that lives for ever.
    unsafe { SHARED.load(Acquire).as_ref() }
}

/// A recording for a new thread. The list's lock is held.
fn take() -> Option<&'static Recording> {
    let recording = match each().find(|recording| !recording.taken.load(Relaxed)) {
        Some(recording) => recording,
        None => {
            let new: *mut Recording = map(size_of::<Recording>()).cast();
            // SAFETY: null, or a mapping of this size, of which zeros are a value.
            let recording: &'static Recording = unsafe { new.as_ref() }?;
            recording.rest.store(ALL.load(Relaxed), Relaxed);
            // Pairs with the Acquire in `each`.
            ALL.store(new, Release);
            recording
        }
    };
    recording.taken.store(true, Relaxed);
    recording.with(|events| {
        events.thread = THREADS.fetch_add(1, Relaxed);
        (events.before, events.last, events.rounds, events.len) = (0, 0, 0, 0);
    });
    Some(recording)
}

fn each() -> impl Iterator<Item = &'static Recording> {
    // SAFETY: null, or a recording that lives for ever.
    let first = unsafe { ALL.load(Acquire).as_ref() };
    // SAFETY: as above.
    std::iter::successors(first, |recording| unsafe { recording.rest.load(Relaxed).as_ref() })
}

fn begin() -> Option<&'static Recording> {
    let recording = LIST.with(take)?;
    recording.event(None, |_| Some(Action::Start));
    if let Some(key) = session::thread_key() {
        // May allocate, which is not recorded.
        // SAFETY: our key; the value is only compared with null by libc.
        unsafe { libc::pthread_setspecific(key, (&raw const *recording).cast()) };
    }
    Some(recording)
}

/// The destructor of the thread's key. Others may follow that still allocate, so the thread is let
/// go in the last round.
pub extern "C" fn ended(value: *mut c_void) {
    const ROUNDS: u32 = 4;
    if current::get() != value as usize {
        return;
    }
    current::set(current::BUSY);
    // SAFETY: the value is the address of the thread's recording.
    let recording = unsafe { &*value.cast::<Recording>() };
    let rounds = recording.with(|events| {
        events.rounds += 1;
        events.rounds
    });
    if rounds < ROUNDS
        && let Some(key) = session::thread_key()
    {
        // SAFETY: as in `begin`.
        unsafe { libc::pthread_setspecific(key, value) };
        current::set(value as usize);
        return;
    }
    recording.event(None, |_| Some(Action::End));
    recording.with(Events::write);
    LIST.with(|| recording.taken.store(false, Relaxed));
    current::set(current::SHARED);
}

impl Recording {
    /// The word of a thread that has this one.
    pub fn word(&'static self) -> usize {
        if SHARED.load(Relaxed).cast_const() == &raw const *self {
            current::SHARED
        } else {
            (&raw const *self).expose_provenance()
        }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Events) -> R) -> R {
        // SAFETY: the lock is held, so that this is the only borrow.
        self.lock.with(|| work(unsafe { &mut *self.events.get() }))
    }

    /// Adds an event, with the definition of its site if that is new. Its sequence number is taken
    /// with the lock held, so that those of a thread rise. When `action` gives nothing, nothing has
    /// happened.
    pub fn event(&self, site: Option<(u32, usize)>, action: impl FnOnce(u64) -> Option<Action>) {
        self.with(|events| {
            if let Some((site, address)) = site {
                let address = address as u64;
                events.add(Event { sequence: events.last, action: Action::Site { site, address } });
            }
            let sequence = session::next_sequence();
            if let Some(action) = action(sequence) {
                events.add(Event { sequence, action });
            }
            if file::is_late() {
                events.write();
            }
        });
    }
}

impl Events {
    fn add(&mut self, event: Event) {
        if self.len + LONGEST > CAPACITY {
            self.write();
        }
        self.len += event.encode(self.last, &mut self.bytes[CHUNK_HEADER + self.len..]);
        self.last = event.sequence;
    }

    fn write(&mut self) {
        if self.len == 0 {
            return;
        }
        let header = Header {
            kind: Some(Kind::Events),
            thread: self.thread,
            length: self.len as u32,
            before: self.before,
        };
        self.bytes[..CHUNK_HEADER].copy_from_slice(&header.encode());
        file::append(&self.bytes[..CHUNK_HEADER + self.len]);
        self.before = self.last;
        self.len = 0;
    }
}

/// Writes what all threads have gathered.
pub fn write_all() {
    LIST.with(|| each().for_each(|recording| recording.with(Events::write)));
}

/// Closes all locks, before a fork.
pub fn close() {
    LIST.close();
    each().for_each(|recording| recording.lock.close());
}

/// Opens all locks, after a fork.
pub fn open() {
    each().for_each(|recording| recording.lock.open());
    LIST.open();
}

/// In the child of a fork: no thread has a recording any more, and nothing was recorded. The
/// thread's word is set to a new one at its next call.
pub fn forget() {
    for recording in each() {
        recording.taken.store(false, Relaxed);
        recording.with(|events| events.len = 0);
    }
    SHARED.store(null_mut(), Relaxed);
    THREADS.store(0, Relaxed);
}
