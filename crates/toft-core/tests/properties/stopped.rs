//! Threads that are stopped in the middle of a mapping. The other threads get what they request, as
//! long as there is memory and address space.

use crate::common::plain::{allocator, birth, filling};
use crate::common::world::code_address;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use toft_core::Allocator;
use toft_core::options::Options;
use toft_core::os::fake::{Fake, Machine};
use toft_core::region::Layout;
use toft_core::report::Call;
use toft_core::slab::{MEDIUM_MAX, SizeClass};
use toft_core::thread::Heap;

/// More threads than a partition has plots.
const THREADS: usize = 600;

/// More slabs than have descriptors, or entries of the page map, when a thread begins to map more.
const SLABS: usize = 3000;

/// Threads that each allocate a block, and are stopped in each of their mappings until all others
/// have theirs.
struct Stopping {
    allocator: &'static Allocator<Fake>,
    /// The heaps of the threads. Each is created by the first block of its thread.
    heaps: Vec<OnceLock<&'static Heap>>,
    /// The threads that have not begun yet.
    left: AtomicUsize,
    /// The size of the blocks.
    size: AtomicUsize,
    blocks: Mutex<Vec<(usize, usize)>>,
}

impl Stopping {
    fn allocate(&self, thread: usize) {
        let size = self.size.load(Relaxed);
        let heap = self.heaps[thread].get_or_init(|| birth(self.allocator));
        let block = self.allocator.allocate(heap, size, code_address(thread % 5));
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
        heaps: (0..THREADS).map(|_| OnceLock::new()).collect(),
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
    // The first size creates the heaps, beside threads that are stopped while they create theirs.
    for size in [300, 40, 900, 5000, 60_000, 200_000] {
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
            allocator.free(all.heaps[thread].get().unwrap(), block, Call::Free);
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

/// Threads that allocate blocks of the largest slots.
struct Growing {
    allocator: Allocator<Fake>,
    blocks: Mutex<Vec<usize>>,
    /// The number of blocks when a thread was stopped.
    stopped: OnceLock<usize>,
}

impl Growing {
    fn allocate(&self, heap: &Heap) {
        let block = self.allocator.allocate(heap, filling(MEDIUM_MAX), code_address(0));
        let mut blocks = self.blocks.lock().unwrap();
        let block = block.unwrap_or_else(|| panic!("block {} was refused", blocks.len()));
        let word: *mut usize = core::ptr::with_exposed_provenance_mut(block);
        // SAFETY: a new block, aligned to 16 bytes.
        unsafe { word.write(block) };
        blocks.push(block);
    }

    fn count(&self) -> usize {
        self.blocks.lock().unwrap().len()
    }

    fn is_large(&self, block: usize) -> bool {
        self.allocator.large().units().block_at(block).is_some()
    }
}

/// Stops a thread while it maps more of a part of the metadata. Meanwhile a thread, whose heap is
/// created then, needs many slabs.
fn growth_beside(part: impl Fn(&Layout) -> Range<usize>) {
    // Without guard pages the host has fewer mappings.
    let fake = Fake::new(Machine { guards: false, ..Machine::LARGE });
    let options = Options { partitions: 2, ..Options::DEFAULT };
    let allocator = Allocator::new(fake.clone(), options, false).unwrap();
    allocator.filter().watch();
    let part = part(&allocator.layout());
    let all =
        Arc::new(Growing { allocator, blocks: Mutex::default(), stopped: OnceLock::default() });
    let others = all.clone();
    fake.at_map(move |range| {
        if part.contains(&range.start) && others.stopped.set(others.count()).is_ok() {
            let heap = birth(&others.allocator);
            let slots = SizeClass::of(MEDIUM_MAX).unwrap().slots();
            (0..SLABS * slots).for_each(|_| others.allocate(heap));
        }
    });
    let heap = birth(&all.allocator);
    while all.stopped.get().is_none() {
        assert!(all.count() < 1 << 20, "nothing of this part is ever mapped");
        all.allocate(heap);
    }
    fake.at_map(|_| {});
    all.allocator.check().unwrap();
    let blocks = all.blocks.lock().unwrap().clone();
    let large = blocks[all.stopped.get().copied().unwrap()..].iter();
    let large = large.filter(|&&block| all.is_large(block)).count();
    assert!(large > 0, "the other thread had enough of what was being mapped");
    let unique: BTreeSet<usize> = blocks.iter().copied().collect();
    assert_eq!(unique.len(), blocks.len());
    for block in blocks {
        let word: *const usize = core::ptr::with_exposed_provenance(block);
        // SAFETY: a live block.
        assert_eq!(unsafe { word.read() }, block);
    }
    // Now the mapping has ended.
    let before = all.count();
    (0..100).for_each(|_| all.allocate(heap));
    assert!(all.blocks.lock().unwrap()[before..].iter().all(|&block| !all.is_large(block)));
    all.allocator.check().unwrap();
    assert_eq!((fake.take_reports(), fake.waits()), (Vec::<String>::new(), 0));
}

/// More slabs are needed than have descriptors, or entries of the page map. Each request is served.
#[test]
fn a_stopped_mapping_of_metadata_makes_no_request_fail() {
    growth_beside(|layout| layout.more_slabs..layout.zero_size);
    growth_beside(|layout| layout.page_map..layout.more_slabs);
}
