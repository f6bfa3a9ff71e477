//! Heaps of threads that no key tells of: the kernel is asked which still run, and no heap has two threads.

mod common;

use common::plain::{allocator, birth};
use std::cell::Cell;
use toft::options::Options;
use toft::thread::HeapState::{Live, Orphan};

/// Numbers of two threads. Heaps have numbers from 0 on.
const OLD: u32 = 7;
const NEW: u32 = 9;

#[test]
fn a_heap_whose_thread_is_dead_is_an_orphan() {
    let (_, allocator) = allocator(Options::DEFAULT);
    let (old, other) = (birth(&allocator), birth(&allocator));
    old.set_thread(OLD);
    other.set_thread(NEW);
    allocator.heaps.orphan_the_dead(|thread| thread == NEW);
    assert_eq!(allocator.heaps.who(0), Orphan);
    assert_eq!(allocator.heaps.who(1), Live);
    assert!(core::ptr::eq(birth(&allocator), old));
}

/// Between its birth and its number a thread has a heap that remembers nobody, however the last thread ended.
#[test]
fn who_had_the_heap_before_is_forgotten() {
    for forks in [false, true] {
        let (_, allocator) = allocator(Options::DEFAULT);
        let (mine, old) = (birth(&allocator), birth(&allocator));
        old.set_thread(OLD);
        match forks {
            true => allocator.after_fork_in_child(mine),
            false => allocator.heaps.orphan(old),
        }
        assert!(core::ptr::eq(birth(&allocator), old));
        allocator.heaps.orphan_the_dead(|_| false);
        assert_eq!(allocator.heaps.who(1), Live, "forks: {forks}");
    }
}

/// Two threads find the same one dead, and the first has got its heap when the second wants to take it.
#[test]
fn a_heap_that_another_has_got_meanwhile_stays_its_own() {
    let (_, allocator) = allocator(Options::DEFAULT);
    let heap = birth(&allocator);
    heap.set_thread(OLD);
    let first = Cell::new(true);
    allocator.heaps.orphan_the_dead(|thread| {
        if first.replace(false) {
            allocator.heaps.orphan_the_dead(|thread| thread != OLD);
            birth(&allocator).set_thread(NEW);
        }
        thread == NEW
    });
    assert_eq!(allocator.heaps.who(0), Live);
    assert!(!core::ptr::eq(birth(&allocator), heap));
}
