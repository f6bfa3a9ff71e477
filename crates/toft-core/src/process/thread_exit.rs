//! The exit of a thread: the thread key that tells of it, and what becomes of the heap.

use crate::allocator::{GLOBAL, allocator, calls_are_looked_at, inside, is_ready};
use crate::os::process;
use crate::sync::Ordering::{Acquire, Relaxed};
use crate::thread::{EXITED_HEAP, Heap, set_current_heap};
use core::ffi::c_void;

/// How often a thread's exit lets the destructors of other keys run first.
const EXIT_ROUNDS: u32 = 2;

/// The thread key that tells of exits; `None` where the program has all.
pub(crate) fn exit_key() -> Option<u32> {
    let key = GLOBAL.exit_key.load(Acquire).checked_sub(1);
    key.filter(|_| !allocator().heaps.has_lost_key())
}

/// Gives the thread key up, because the program has all others and wants one more; returns true if
/// there was one to give. Exits are found by asking the kernel from then on. Where every call is
/// looked at, libc keeps each thread's heap under the key, and it stays.
pub fn give_exit_key() -> bool {
    if !is_ready() || calls_are_looked_at() {
        return false;
    }
    let Some(key) = exit_key() else { return false };
    let first = allocator().heaps.lose_key();
    if first {
        process::delete_key(key);
    }
    first
}

/// Arms the key that tells of the calling thread's exit; returns false if there is none.
pub(crate) fn arm_exit(heap: &Heap) -> bool {
    let Some(key) = exit_key() else { return false };
    process::arm_thread_exit(key, heap.address());
    if exit_key().is_some() {
        return true;
    }
    // It has become the program's meanwhile, and the value with it.
    process::arm_thread_exit(key, 0);
    false
}

/// A thread ends. Its heap stays as it is, for the next one.
pub(crate) unsafe extern "C" fn thread_exits(heap: *mut c_void) {
    inside(|| thread_ends(heap));
}

fn thread_ends(heap: *mut c_void) {
    let heap: &'static Heap = {
        // SAFETY: the value is what `birth` armed the key with, and heaps live for ever.
        unsafe { &*heap.cast() }
    };
    let rounds = heap.exit_rounds.load(Relaxed);
    // Destructors of other keys may still allocate and free: let them go first.
    if rounds < EXIT_ROUNDS && arm_exit(heap) {
        heap.exit_rounds.store(rounds + 1, Relaxed);
        return;
    }
    if let Some(guard) = heap.enter() {
        allocator().held_heaps().empty_outbox(heap, &guard);
    }
    set_current_heap(EXITED_HEAP.heap());
    allocator().heaps.orphan(heap);
}
