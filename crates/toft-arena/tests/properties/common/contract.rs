//! What every global allocator does, for the tests of all that are made of an arena.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::Mutex;
use std::sync::mpsc::channel;

pub fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Asks an allocator for all that the trait has, and holds it to its contract.
pub fn conforms(allocator: &impl GlobalAlloc) {
    // SAFETY: blocks are used within their layout, and freed once with it.
    unsafe {
        let mut live = Vec::new();
        for turn in 0..200_usize {
            let layout = layout(1 + turn * 29 % 900, 1 << (turn % 9));
            let block = if turn % 2 == 0 {
                allocator.alloc(layout)
            } else {
                allocator.alloc_zeroed(layout)
            };
            assert!(!block.is_null() && block.addr() % layout.align() == 0);
            let bytes = std::slice::from_raw_parts_mut(block, layout.size());
            assert!(turn % 2 == 0 || bytes.iter().all(|&byte| byte == 0));
            bytes.fill(turn as u8);
            live.push((block, layout, turn as u8));
            if turn % 3 == 0 {
                let (block, layout, byte) = live.swap_remove(turn / 3 % live.len());
                let new_size = 1 + turn * 311 % 9000;
                let new = allocator.realloc(block, layout, new_size);
                assert!(!new.is_null() && new.addr() % layout.align() == 0);
                let kept = std::slice::from_raw_parts(new, layout.size().min(new_size));
                assert!(kept.iter().all(|&own| own == byte));
                new.write_bytes(byte, new_size);
                live.push((new, self::layout(new_size, layout.align()), byte));
            }
            if turn % 4 == 0 {
                let (block, layout, byte) = live.swap_remove(turn % live.len());
                let bytes = std::slice::from_raw_parts(block, layout.size());
                assert!(bytes.iter().all(|&own| own == byte));
                allocator.dealloc(block, layout);
            }
        }
        // A request that cannot be met, and a block that stays what it was.
        assert!(allocator.alloc(layout(isize::MAX as usize / 2, 8)).is_null());
        let (block, old, byte) = live[0];
        assert!(allocator.realloc(block, old, isize::MAX as usize / 2).is_null());
        assert!((0..old.size()).all(|place| block.add(place).read() == byte));
        for (block, layout, _) in live {
            allocator.dealloc(block, layout);
        }
    }
}

/// Threads that each free what any of them has allocated: what they do to one arena is ordered by
/// its lock.
pub fn threads_free_each_others_blocks(allocator: &(impl GlobalAlloc + Sync), threads: usize) {
    let (sender, receiver) = channel::<(usize, Layout, u8)>();
    let receiver = Mutex::new(receiver);
    let turns = if cfg!(miri) { 20 } else { 2000 };
    let work = |thread: usize| {
        for turn in 0..turns {
            let (small, larger) = (layout(8 + turn * 37 % 700, 8), layout(800, 8));
            let byte = (thread ^ turn) as u8;
            // SAFETY: the block is written within its layout, and belongs to the thread that
            // receives it.
            unsafe {
                let block = allocator.alloc_zeroed(small);
                assert!(!block.is_null());
                block.write_bytes(byte, small.size());
                let block = allocator.realloc(block, small, larger.size());
                assert!(!block.is_null());
                block.write_bytes(byte, 16);
                sender.send((block.expose_provenance(), larger, byte)).unwrap();
            }
            let (address, layout, byte) = receiver.lock().unwrap().recv().unwrap();
            let block = std::ptr::with_exposed_provenance_mut::<u8>(address);
            // SAFETY: a live block of this layout, received once.
            unsafe {
                assert!((0..8).all(|place| block.add(place).read() == byte));
                allocator.dealloc(block, layout);
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}
