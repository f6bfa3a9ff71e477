//! Heaps change hands only whole: one whose thread was ended in the middle of a change is nobody's from then on,
//! until a child of a fork has put it right.

mod common;

use common::plain::birth;
use common::world::code_address;
use toft::Allocator;
use toft::entry::Call;
use toft::options::Options;
use toft::os::fake::{Fake, Machine};
use toft::thread::{EXITED_HEAP, Heap, HeapState};

fn allocator() -> Allocator<Fake> {
    let allocator = Allocator::new(Fake::new(Machine::LARGE), Options::DEFAULT, false).unwrap();
    allocator.filter().watch();
    allocator
}

/// Lets the thread of a heap end: between two calls, or in the middle of a change.
fn end(allocator: &Allocator<Fake>, heap: &Heap, in_the_middle: bool) {
    if in_the_middle {
        core::mem::forget(heap.sit().expect("it is free"));
    }
    allocator.heaps.orphan(heap);
}

#[test]
fn a_heap_left_in_the_middle_of_a_change_is_not_adopted() {
    for in_the_middle in [false, true] {
        let allocator = allocator();
        let (first, mine) = (birth(&allocator), birth(&allocator));
        end(&allocator, first, in_the_middle);
        // A thread that has ended borrows one for a call.
        let ended = EXITED_HEAP.heap();
        let block = allocator.allocate(ended, 100, code_address(1));
        allocator.free(ended, block.expect("there is memory"), Call::Free);
        let next = birth(&allocator);
        assert_eq!(!core::ptr::eq(first, next), in_the_middle);
        assert!(next.sit().is_some());

        // What it was in the middle of is put right where no other thread is.
        allocator.after_fork_in_child(mine);
        let adopted = [(); 3].map(|()| birth(&allocator));
        assert!(adopted.iter().any(|heap| core::ptr::eq(*heap, first)));
        assert!(adopted.iter().all(|heap| heap.sit().is_some()));
        allocator.check().unwrap();
    }
}

#[test]
fn a_heap_whose_thread_is_found_dead_is_adopted_if_it_is_whole() {
    for in_the_middle in [false, true] {
        let allocator = allocator();
        let first = birth(&allocator);
        first.set_thread(7);
        if in_the_middle {
            core::mem::forget(first.sit());
        }
        allocator.heaps.orphan_the_dead(|thread| thread == 7);
        assert_eq!(allocator.heaps.who(0), HeapState::Live, "it runs");
        allocator.heaps.orphan_the_dead(|_| false);
        assert_eq!(allocator.heaps.who(0), HeapState::Orphan);
        let next = birth(&allocator);
        assert_eq!(!core::ptr::eq(first, next), in_the_middle);
        assert!(next.sit().is_some());
    }
}
