//! The allocator as the global allocator of a Rust program: this one.
#![cfg(not(loom))]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::collections::HashMap;
use toft_ar_malloc::{ArMalloc, Locks, Settings};

#[global_allocator]
static GLOBAL: ArMalloc<2, { Locks::Class as u8 }, true> = ArMalloc;

#[test]
fn collections_and_threads_work_on_it() {
    let expected = Settings { arenas: 2, locks: Locks::Class, cache: true, stats: false };
    assert_eq!(ArMalloc::<2, { Locks::Class as u8 }, true>::SETTINGS, expected);
    let sums: Vec<usize> = std::thread::scope(|scope| {
        let work = |thread: usize| {
            let mut map = HashMap::new();
            for number in 0..5000 {
                map.insert(format!("{thread}-{number}"), vec![number; number % 300]);
            }
            map.values().map(Vec::len).sum()
        };
        let handles: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    let sum: usize = (0..5000).map(|number| number % 300).sum();
    assert_eq!(sums, [sum; 4]);
}

#[test]
fn sizes_and_alignments_are_as_asked_and_contents_move_along() {
    for align in [1, 8, 16, 64, 4096] {
        for size in [1, 15, 16, 17, 1024, 1025, 100_000] {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: sizes are above zero, and blocks are used within their sizes.
            unsafe {
                let zeroed = alloc_zeroed(layout);
                assert!((0..size).all(|at| zeroed.add(at).read() == 0));
                let mut block = alloc(layout);
                block.write_bytes(7, size);
                for new in [size / 2 + 1, size * 3] {
                    let layout = Layout::from_size_align(size.max(1), align).unwrap();
                    let old = if new < size { size } else { size / 2 + 1 };
                    let from = Layout::from_size_align(old, align).unwrap_or(layout);
                    block = realloc(block, from, new);
                    assert!(block.addr().is_multiple_of(align) && zeroed != block);
                    let kept = old.min(new);
                    assert!((0..kept).all(|at| block.add(at).read() == 7), "{size} {align}");
                }
                dealloc(block, Layout::from_size_align(size * 3, align).unwrap());
                dealloc(zeroed, layout);
            }
        }
    }
}

/// A program that links this crate keeps the malloc of its C library.
#[test]
fn the_names_of_c_are_not_replaced() {
    // SAFETY: zero is a sound structure of null pointers, and the address is of a function.
    let found = unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        assert_ne!(libc::dladdr(libc::malloc as *const libc::c_void, &raw mut found), 0);
        std::ffi::CStr::from_ptr(found.dli_fname)
    };
    assert!(found.to_string_lossy().contains("libc"), "{found:?}");
}
