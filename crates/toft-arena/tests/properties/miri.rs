//! What runs under Miri, which interprets it and finds undefined behaviour; `model.rs` does, too.
//!
//! ```sh
//! MIRIFLAGS=-Zmiri-permissive-provenance cargo +nightly miri test -p toft-arena --lib --test properties
//! MIRIFLAGS=-Zmiri-strict-provenance cargo +nightly miri test -p toft-arena --test properties strict
//! ```
//!
//! The second: behind one origin no address becomes a pointer.

use crate::common::contract::threads_free_each_others_blocks as run;
use crate::common::words::{is_full_of, layout};
use std::alloc::Layout;
use std::ptr::NonNull;
use toft_arena::shape::{Narrow, Packed, Within};
use toft_arena::source::{Manual, Once};
use toft_arena::{Anywhere, Checked, Fast, Heap, Shared, Spin, Striped};

/// A block that the program has turned into a reference to less than all of it.
#[test]
fn strict_a_pointer_to_the_object_alone_frees_and_resizes_its_block() {
    // Of 16 bytes also where eight are aligned to four.
    let mut memory = vec![0_u128; 256];
    let start = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: one allocation, used only here; blocks are live, and used as what they are.
    unsafe {
        let mut heap = Heap::<Narrow>::new(Within::new(start, 4096));
        heap.claim(start, 4096).unwrap();
        let layout = Layout::new::<[u8; 24]>();
        for resized in [false, true] {
            let block = heap.allocate(layout).unwrap();
            block.write_bytes(3, 24);
            let narrow = NonNull::from(block.cast::<[u8; 24]>().as_mut()).cast::<u8>();
            if resized {
                let wide = heap.reallocate(narrow, layout, 300).unwrap();
                assert!(is_full_of(3, wide, 24));
                wide.write_bytes(4, 300);
                heap.deallocate(wide);
            } else {
                heap.deallocate(narrow);
            }
        }
        heap.check().unwrap();
    }
}

/// Of the pointers that a caller hands in none is read or written through: here they have no right
/// to anything, so Miri would say so. What comes back has the right to all of its block.
#[test]
fn strict_pointers_of_callers_serve_as_numbers() {
    fn number(block: NonNull<u8>) -> NonNull<u8> {
        NonNull::new(std::ptr::without_provenance_mut(block.addr().get())).unwrap()
    }
    /// All of a block is written, and the byte that it was full of is still there.
    unsafe fn holds(block: NonNull<u8>, kept: usize, size: usize) -> NonNull<u8> {
        // SAFETY: the caller's block.
        unsafe {
            assert!((0..kept).step_by(61).all(|place| block.add(place).read() == 5));
            block.write_bytes(5, size);
        }
        block
    }
    const SIZE: usize = 32 << 10;
    // Of 16 bytes also where eight are aligned to four.
    let mut memory = vec![0_u128; SIZE / 16];
    let start = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: one allocation, used by one heap after the other; blocks are live, and written within
    // their sizes.
    unsafe {
        let mut heap = Heap::<Narrow>::new(Within::new(start, SIZE));
        heap.claim(start, SIZE).unwrap();
        let block = holds(heap.allocate(layout(100)).unwrap(), 0, 100);
        let usable = heap.usable_size(number(block));
        assert!(usable >= 100);
        heap.verify(number(block)).unwrap();
        heap.verify_sized(number(block), layout(100)).unwrap();
        assert!(heap.grow_in_place(number(block), 200));
        holds(block, 100, 200);
        heap.shrink_in_place(number(block), 150);
        // Something behind it, so that it has to move; then it grows where it is.
        let behind = heap.allocate(layout(8)).unwrap();
        let moved = holds(heap.reallocate(number(block), layout(150), 300).unwrap(), 150, 300);
        assert_ne!(moved, block);
        let same = holds(heap.resize(number(moved), 8, 400).unwrap(), 300, 400);
        assert_eq!(same, moved);
        // The hole that it has left is a close fit for what is left of it.
        let small = holds(heap.reallocate(number(same), layout(400), 140).unwrap(), 140, 140);
        assert_eq!(small, block, "it has not moved into the hole");
        // Nothing above, and something below.
        let other = holds(heap.allocate(layout(200)).unwrap(), 0, 200);
        let last = holds(heap.allocate(layout(50)).unwrap(), 0, 50);
        let fence = heap.allocate(layout(8)).unwrap();
        heap.deallocate_sized(number(other), layout(200));
        let down = holds(heap.grow_down(number(last), 50, 8, 120).unwrap(), 50, 120);
        assert!(down < last);
        heap.try_deallocate(number(down)).unwrap();
        for block in [small, behind, fence] {
            heap.deallocate(number(block));
        }
        heap.check().unwrap();
        assert_eq!(heap.survey().live_blocks, 0);
    }
    // SAFETY: as above. Large blocks are copied without the lock.
    unsafe {
        let shared = Shared::<Narrow, _, _>::new(Within::new(start, SIZE), Manual, Spin::new());
        shared.with(|arena| arena.heap_mut().claim(start, SIZE)).unwrap().unwrap();
        let mut size = 5000;
        let mut block = holds(shared.allocate(layout(size)).unwrap(), 0, size);
        let behind = shared.allocate(layout(8)).unwrap();
        for next in [9000, 9100, 4500, 100, 60] {
            let new = shared.reallocate(number(block), layout(size), next).unwrap();
            block = holds(new, size.min(next), next);
            size = next;
        }
        shared.deallocate_sized(number(block), layout(size));
        shared.deallocate(number(behind));
        shared.check().unwrap().unwrap();
        assert_eq!(shared.survey().unwrap().live_blocks, 0);
    }
}

#[test]
fn threads() {
    const SIZE: usize = 1 << 20;
    let mut memory = vec![0_u128; SIZE / 16];
    let start = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: one after the other uses the memory, and nothing else does.
    unsafe {
        run(&Shared::<Packed, _, _>::new(Anywhere, Once::new(start, SIZE), Spin::new()), 2);
        run(&Shared::<Checked, _, _>::new(Anywhere, Once::new(start, SIZE), Spin::new()), 2);
        run(&Striped::<Fast, _, 2>::new(start, SIZE, [const { Spin::new() }; 2]), 2);
    }
}
