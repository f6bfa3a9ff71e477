//! What runs under Miri, which interprets it and finds undefined behaviour. It also runs without,
//! with more of the same.
//!
//! ```sh
//! MIRIFLAGS=-Zmiri-permissive-provenance cargo +nightly miri test -p toft-arena --lib --test properties
//! MIRIFLAGS=-Zmiri-strict-provenance cargo +nightly miri test -p toft-arena --test properties strict
//! ```
//!
//! The second: behind one origin no address becomes a pointer.

use std::alloc::Layout;
use std::ptr::NonNull;
use toft_arena::shape::{Narrow, Packed, Within};
use toft_arena::source::{Manual, Once};
use toft_arena::{Anywhere, Checked, Fast, Heap, Shared, Spin, Striped};

const ROUNDS: u64 = if cfg!(miri) { 1 } else { 300 };
const OPERATIONS: usize = if cfg!(miri) { 20 } else { 250 };

/// Random bytes for the fuzz target's entry, for one of its shapes.
fn random(shape: u8) {
    let mut state = 0x9E37_79B9_7F4A_7C15 ^ u64::from(shape);
    for _ in 0..ROUNDS {
        let mut bytes = vec![shape, 30];
        for _ in 0..8 * OPERATIONS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push((state >> 32) as u8);
        }
        crate::common::fuzz::arena(&bytes);
    }
}

#[test]
fn packed() {
    random(0);
}

#[test]
fn standard() {
    random(1);
}

#[test]
fn fast() {
    random(2);
}

#[test]
fn bare() {
    random(3);
}

#[test]
fn checked() {
    random(4);
}

#[test]
fn strict_narrow() {
    random(5);
}

#[test]
fn strict_relative() {
    random(6);
}

#[test]
fn strict_tiny() {
    random(7);
}

#[test]
fn parks() {
    random(8);
}

#[test]
fn lines() {
    random(9);
}

/// A block that the program has turned into a reference to less than all of it.
#[test]
fn strict_a_pointer_to_the_object_alone_frees_and_resizes_its_block() {
    // A u64 is aligned to 4 only on some machines of 32 bits.
    #[derive(Clone, Copy)]
    #[repr(align(16))]
    struct Line(#[expect(dead_code, reason = "it is memory")] [u8; 16]);
    let mut memory = vec![Line([0; 16]); 256];
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
                assert!((0..24).all(|place| wide.add(place).read() == 3));
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
    fn sized(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
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
        let block = holds(heap.allocate(sized(100)).unwrap(), 0, 100);
        let usable = heap.usable_size(number(block));
        assert!(usable >= 100);
        heap.verify(number(block)).unwrap();
        heap.verify_sized(number(block), sized(100)).unwrap();
        assert!(heap.grow_in_place(number(block), 200));
        holds(block, 100, 200);
        heap.shrink_in_place(number(block), 150);
        // Something behind it, so that it has to move; then it grows where it is.
        let behind = heap.allocate(sized(8)).unwrap();
        let moved = holds(heap.reallocate(number(block), sized(150), 300).unwrap(), 150, 300);
        assert_ne!(moved, block);
        let same = holds(heap.resize(number(moved), 8, 400).unwrap(), 300, 400);
        assert_eq!(same, moved);
        // The hole that it has left is a close fit for what is left of it.
        let small = holds(heap.reallocate(number(same), sized(400), 140).unwrap(), 140, 140);
        assert_eq!(small, block, "it has not moved into the hole");
        // Nothing above, and something below.
        let other = holds(heap.allocate(sized(200)).unwrap(), 0, 200);
        let last = holds(heap.allocate(sized(50)).unwrap(), 0, 50);
        let fence = heap.allocate(sized(8)).unwrap();
        heap.deallocate_sized(number(other), sized(200));
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
        let mut block = holds(shared.allocate(sized(size)).unwrap(), 0, size);
        let behind = shared.allocate(sized(8)).unwrap();
        for next in [9000, 9100, 4500, 100, 60] {
            let new = shared.reallocate(number(block), sized(size), next).unwrap();
            block = holds(new, size.min(next), next);
            size = next;
        }
        shared.deallocate_sized(number(block), sized(size));
        shared.deallocate(number(behind));
        shared.check().unwrap().unwrap();
        assert_eq!(shared.survey().unwrap().live_blocks, 0);
    }
}

/// What two threads do to one arena is ordered by its lock.
#[test]
fn threads() {
    fn run(allocator: &(impl std::alloc::GlobalAlloc + Sync)) {
        let (sender, receiver) = std::sync::mpsc::channel::<Box<(usize, Layout)>>();
        let turns = if cfg!(miri) { 20 } else { 5000 };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for turn in 0..turns {
                    let layout = Layout::from_size_align(8 + turn % 90, 8).unwrap();
                    // SAFETY: the block is written within its layout.
                    let block = unsafe {
                        let block = allocator.alloc_zeroed(layout);
                        assert!(!block.is_null());
                        block.write(turn as u8);
                        allocator.realloc(block, layout, 100)
                    };
                    let layout = Layout::from_size_align(100, 8).unwrap();
                    sender.send(Box::new((block.expose_provenance(), layout))).unwrap();
                }
            });
            scope.spawn(move || {
                for (turn, sent) in receiver.iter().enumerate() {
                    let block = std::ptr::with_exposed_provenance_mut::<u8>(sent.0);
                    // SAFETY: sent once by the thread that has allocated it.
                    unsafe {
                        assert_eq!(block.read(), turn as u8);
                        allocator.dealloc(block, sent.1);
                    }
                }
            });
        });
    }
    const SIZE: usize = 1 << 20;
    let mut memory = vec![0_u64; SIZE / 8];
    let start = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: one after the other uses the memory, and nothing else does.
    unsafe {
        run(&Shared::<Packed, _, _>::new(Anywhere, Once::new(start, SIZE), Spin::new()));
        run(&Shared::<Checked, _, _>::new(Anywhere, Once::new(start, SIZE), Spin::new()));
        run(&Striped::<Fast, _, 2>::new(start, SIZE, [const { Spin::new() }; 2]));
    }
}
