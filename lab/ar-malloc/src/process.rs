//! The one allocator of a process: its start, the exit of its threads, and its forks.

use crate::allocator::Allocator;
use crate::current;
use crate::settings::Settings;
use crate::sync::{AtomicUsize, Ordering};
use crate::thread::Thread;
use Ordering::{Acquire, Relaxed, Release};
use std::ffi::c_void;

/// The allocator of this process.
pub static ALLOCATOR: Allocator = Allocator::new();

const FRESH: usize = 0;
const STARTING: usize = 1;
const STARTED: usize = 2;
/// The thread that changes it to `STARTING` starts the allocator and publishes with Release.
static STATE: AtomicUsize = AtomicUsize::new(FRESH);
/// The key whose destructor runs when a thread exits. Written by the thread that starts.
static KEY: AtomicUsize = AtomicUsize::new(0);

/// Calls `work` with the record of the calling thread; returns `None` if there is no memory for
/// one. `settings` are those of the process if this is its first call.
#[inline]
pub fn with_thread<R>(
    settings: fn() -> Settings,
    work: impl FnOnce(&'static Thread) -> R,
) -> Option<R> {
    match current::get() {
        current::FRESH => Some(work(enter(settings)?)),
        current::EXITED => visit(work),
        // SAFETY: the word is one of the constants, or the address of this thread's record, which
        // lives for ever.
        address => Some(work(unsafe { &*std::ptr::with_exposed_provenance(address) })),
    }
}

/// The first call of a thread.
#[cold]
#[inline(never)]
fn enter(settings: fn() -> Settings) -> Option<&'static Thread> {
    let starts = STATE.compare_exchange(FRESH, STARTING, Acquire, Acquire).is_ok();
    if starts {
        let mut key = 0;
        // SAFETY: the key is a live local; the destructor has the type of one.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(exited)) } == 0;
        KEY.store(if made { key as usize + 1 } else { 0 }, Relaxed);
        ALLOCATOR.start(settings());
        STATE.store(STARTED, Release);
    }
    while STATE.load(Acquire) != STARTED {
        // SAFETY: no duties.
        unsafe { libc::sched_yield() };
    }
    let thread = ALLOCATOR.enter()?;
    // From here on a call of malloc by the functions below is served.
    current::set(std::ptr::from_ref(thread).expose_provenance());
    if let Some(key) = KEY.load(Relaxed).checked_sub(1) {
        // SAFETY: the key was made above. The value only has to be non-null.
        unsafe {
            libc::pthread_setspecific(key as libc::pthread_key_t, (&raw const *thread).cast())
        };
    }
    if starts {
        // SAFETY: the three functions are fit to run around a fork.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    }
    Some(thread)
}

/// A call of a thread whose record was taken back: it borrows one.
#[cold]
#[inline(never)]
fn visit<R>(work: impl FnOnce(&'static Thread) -> R) -> Option<R> {
    let thread = ALLOCATOR.threads.borrow()?;
    let result = work(thread);
    ALLOCATOR.leave(thread);
    Some(result)
}

/// The destructor of the key.
unsafe extern "C" fn exited(_: *mut c_void) {
    let address = current::get();
    current::set(current::EXITED);
    if address != current::FRESH && address != current::EXITED {
        // SAFETY: the address of this thread's record, which lives for ever.
        ALLOCATOR.leave(unsafe { &*std::ptr::with_exposed_provenance::<Thread>(address) });
    }
}

extern "C" fn before_fork() {
    ALLOCATOR.before_fork();
}

/// In the child, the records of all other threads stay with threads that do not exist: their heaps
/// and caches may be in the middle of a change. What is free in them is lost to the child.
extern "C" fn after_fork() {
    // SAFETY: (1) the C library calls `before_fork` and this function on one thread.
    unsafe { ALLOCATOR.after_fork() };
}
