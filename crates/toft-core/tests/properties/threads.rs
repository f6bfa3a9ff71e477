//! Heaps in a program that holds all thread keys: each belongs to one thread, and is an orphan
//! after its exit.

use crate::common::plain::{birth, one_heap, two_heaps};
use std::cell::Cell;
use toft_core::options::Options;
use toft_core::thread::HeapState::{Held, Live, Orphan};

/// Numbers of two threads. Heaps have numbers from 0 on.
const OLD: u32 = 7;
const NEW: u32 = 9;

#[test]
fn a_heap_whose_thread_is_dead_is_an_orphan() {
    let (_, allocator, old, other) = two_heaps(Options::DEFAULT);
    old.set_thread(OLD);
    other.set_thread(NEW);
    allocator.heaps.orphan_exited(|thread| thread == NEW);
    assert_eq!(allocator.heaps.heap_state(0), Orphan);
    assert_eq!(allocator.heaps.heap_state(1), Live);
    assert!(core::ptr::eq(birth(&allocator), old));
}

/// A thread that has acquired a heap and not yet stored its number keeps it, after an exit and
/// after a fork.
#[test]
fn who_had_the_heap_before_is_forgotten() {
    for forks in [false, true] {
        let (_, allocator, mine, old) = two_heaps(Options::DEFAULT);
        old.set_thread(OLD);
        match forks {
            true => allocator.after_fork_in_child(mine),
            false => allocator.heaps.orphan(old),
        }
        assert!(core::ptr::eq(birth(&allocator), old));
        allocator.heaps.orphan_exited(|_| false);
        assert_eq!(allocator.heaps.heap_state(1), Live, "forks: {forks}");
    }
}

/// Two newborn threads find the same thread dead. The first has acquired its heap when the second
/// tries to.
#[test]
fn a_heap_that_another_has_got_meanwhile_stays_its_own() {
    let (_, allocator, heap) = one_heap(Options::DEFAULT);
    heap.set_thread(OLD);
    let first = Cell::new(true);
    allocator.heaps.orphan_exited(|thread| {
        if first.replace(false) {
            allocator.heaps.orphan_exited(|thread| thread != OLD);
            birth(&allocator).set_thread(NEW);
        }
        thread == NEW
    });
    assert_eq!(allocator.heaps.heap_state(0), Live);
    assert!(!core::ptr::eq(birth(&allocator), heap));
}

/// A fork while another thread holds the heap to check its owner: the owner has it in the child.
#[test]
fn a_fork_during_the_check_leaves_the_heap_to_its_owner() {
    let (_, allocator, heap) = one_heap(Options::DEFAULT);
    heap.set_thread(OLD);
    let calls = Cell::new(0);
    allocator.heaps.orphan_exited(|_| {
        calls.set(calls.get() + 1);
        if calls.get() == 2 {
            assert_eq!(allocator.heaps.heap_state(0), Held);
            allocator.after_fork_in_child(heap);
            assert_eq!(allocator.heaps.heap_state(0), Live);
        }
        calls.get() == 2
    });
    assert_eq!(calls.get(), 2);
}
