//! Threads that are stopped in the middle of a mapping. The other threads get what they request, as
//! long as there is memory and address space.

use crate::common::plain::{allocator, birth};
use crate::common::world::code_address;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use toft_core::Allocator;
use toft_core::options::Options;
use toft_core::os::fake::Fake;
use toft_core::report::Call;
use toft_core::thread::Heap;

/// More threads than a partition has plots.
const THREADS: usize = 600;

/// Threads that each allocate a block, and are stopped in each of their mappings until all others
/// have theirs.
struct Stopping {
    allocator: &'static Allocator<Fake>,
    heaps: Vec<&'static Heap>,
    /// The threads that have not begun yet.
    left: AtomicUsize,
    /// The size of the blocks.
    size: AtomicUsize,
    blocks: Mutex<Vec<(usize, usize)>>,
}

impl Stopping {
    fn allocate(&self, thread: usize) {
        let size = self.size.load(Relaxed);
        let block = self.allocator.allocate(self.heaps[thread], size, code_address(thread % 5));
        let block = block.unwrap_or_else(|| panic!("thread {thread}: {size} bytes were refused"));
        let bytes: *mut u8 = core::ptr::with_exposed_provenance_mut(block);
        // SAFETY: a new block of `size` bytes.
        unsafe { bytes.write_bytes(thread as u8, size) };
        self.blocks.lock().unwrap().push((thread, block));
    }

    /// Lets each thread allocate `size` bytes.
    fn allocate_by_all(&self, size: usize) {
        self.size.store(size, Relaxed);
        self.left.store(THREADS - 1, Relaxed);
        self.allocate(THREADS - 1);
        // The threads that no other one was stopped for.
        while let Some(thread) = self.next() {
            self.allocate(thread);
        }
    }

    fn next(&self) -> Option<usize> {
        let next = self.left.load(Relaxed).checked_sub(1)?;
        self.left.store(next, Relaxed);
        Some(next)
    }
}

fn all_get_their_blocks() {
    let (fake, allocator) = allocator(Options { partitions: 2, ..Options::DEFAULT });
    let allocator: &'static Allocator<Fake> = Box::leak(Box::new(allocator));
    let all = Arc::new(Stopping {
        allocator,
        heaps: (0..THREADS).map(|_| birth(allocator)).collect(),
        left: AtomicUsize::new(0),
        size: AtomicUsize::new(0),
        blocks: Mutex::default(),
    });
    let others = all.clone();
    fake.at_map(move |_| {
        while let Some(thread) = others.next() {
            others.allocate(thread);
        }
    });
    for size in [40, 900, 5000, 60_000, 200_000] {
        all.allocate_by_all(size);
        let blocks = core::mem::take(&mut *all.blocks.lock().unwrap());
        assert_eq!(blocks.len(), THREADS);
        for (thread, block) in blocks {
            let bytes: *const u8 = core::ptr::with_exposed_provenance(block);
            // SAFETY: a live block of `size` bytes.
            let (first, last) = unsafe { (bytes.read(), bytes.add(size - 1).read()) };
            assert_eq!((first, last), (thread as u8, thread as u8));
            let large = allocator.large().units().block_at(block);
            assert!(size > 100_000 || large.is_none(), "there is a slab for each");
            allocator.free(all.heaps[thread], block, Call::Free);
        }
        let checked = allocator.check();
        assert!(checked.is_ok(), "after {size} bytes: {checked:?}");
    }
    // The closure has handles of the fake.
    fake.at_map(|_| {});
    assert_eq!((fake.take_reports(), fake.waits()), (Vec::<String>::new(), 0));
    allocator.check().unwrap();
}

/// More threads than plots are stopped at once, each while it maps memory. Each request is served.
#[test]
fn stopped_threads_make_no_request_fail() {
    // Each stopped thread is a call within the one before.
    let deep = std::thread::Builder::new().stack_size(1 << 30);
    deep.spawn(all_get_their_blocks).unwrap().join().unwrap();
}
