//! The allocator for all threads: as Rust's own, and across forks.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::mpsc;
use toft_small_bins::{Allocator, Variant, each_variant, variant::*};

#[global_allocator]
static GLOBAL: Allocator<Hysteresis> = Allocator::new();

/// The tests of this program run on the engine itself.
#[test]
fn the_global_allocator_is_the_engine() {
    let text = "x".repeat(100);
    // SAFETY: a live block.
    assert_eq!(unsafe { GLOBAL.usable_size(text.as_ptr().cast_mut()) }, 104);
    GLOBAL.check().unwrap();
}

/// Threads free what other threads have allocated.
fn handed_over<V: Variant>() {
    let allocator = &*Box::leak(Box::new(Allocator::<Counted<V>>::new()));
    std::thread::scope(|scope| {
        for seed in 0..3_usize {
            let (give, have) = mpsc::channel::<(usize, usize, u8)>();
            scope.spawn(move || {
                for n in 0..3000_usize {
                    let size =
                        1 + (n * 7919 + seed * 104_729) % if n % 50 == 0 { 200_000 } else { 1500 };
                    let block = allocator.malloc(size);
                    assert!(!block.is_null());
                    // SAFETY: a fresh block of this size.
                    unsafe { block.write_bytes(n as u8, size) };
                    give.send((block.expose_provenance(), size, n as u8)).unwrap();
                }
            });
            scope.spawn(move || {
                for (block, size, fill) in have {
                    let block = std::ptr::with_exposed_provenance_mut::<u8>(block);
                    // SAFETY: a live block of this size, which no other thread has.
                    unsafe {
                        let bytes = std::slice::from_raw_parts(block, size);
                        assert!(bytes.iter().all(|byte| *byte == fill));
                        allocator.free(block);
                    }
                }
            });
        }
    });
    allocator.check().unwrap();
}

#[test]
fn any_thread_frees_any_block() {
    macro_rules! call {
        ($type:ident) => {
            handed_over::<$type>();
        };
    }
    each_variant!(call);
}

/// Sizes and alignments of layouts, in the heap and beyond it; contents follow.
#[test]
fn layouts_are_kept_and_contents_move_with_blocks() {
    let allocator = Allocator::<Mod>::new();
    for align in [1, 16, 64, 4096, 1 << 16] {
        for size in [1, 100, 5000, 300_000] {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: sizes are not 0; each block is used as its layout says.
            unsafe {
                let mut block = allocator.alloc_zeroed(layout);
                assert!(block.addr().is_multiple_of(align));
                assert!(std::slice::from_raw_parts(block, size).iter().all(|byte| *byte == 0));
                block.write_bytes(7, size);
                for (from, to) in [(size, size * 3), (size * 3, size / 2 + 1)] {
                    let layout = Layout::from_size_align(from, align).unwrap();
                    block = GlobalAlloc::realloc(&allocator, block, layout, to);
                    assert!(block.addr().is_multiple_of(align));
                    let bytes = std::slice::from_raw_parts(block, to.min(size));
                    assert!(bytes.iter().all(|byte| *byte == 7));
                }
                let last = Layout::from_size_align(size / 2 + 1, align).unwrap();
                allocator.dealloc(block, last);
            }
        }
    }
    allocator.check().unwrap();
}
