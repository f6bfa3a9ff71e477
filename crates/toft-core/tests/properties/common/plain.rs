//! An allocator over a fake system, its heaps, and its slabs, for tests of one thing.

use toft_core::Allocator;
use toft_core::options::Options;
use toft_core::os::fake::{Fake, Machine};
use toft_core::policy::SLACK_MIN;
use toft_core::slab::{SizeClass, Slab, SlotIndex};
use toft_core::thread::Heap;

/// A system, and an allocator over it.
pub fn allocator(options: Options) -> (Fake, Allocator<Fake>) {
    let fake = Fake::new(Machine::LARGE);
    let allocator = Allocator::new(fake.clone(), options, false).unwrap();
    allocator.filter().watch();
    (fake, allocator)
}

/// A heap as a new thread gets it.
pub fn birth(allocator: &Allocator<Fake>) -> &'static Heap {
    allocator.held_heaps().acquire_heap().unwrap()
}

/// A system, an allocator over it, and the heap of a thread.
pub fn one_heap(options: Options) -> (Fake, Allocator<Fake>, &'static Heap) {
    let (fake, allocator) = allocator(options);
    let heap = birth(&allocator);
    (fake, allocator, heap)
}

/// A system, an allocator over it, and the heaps of two threads.
pub fn two_heaps(options: Options) -> (Fake, Allocator<Fake>, &'static Heap, &'static Heap) {
    let (fake, allocator, first) = one_heap(options);
    let second = birth(&allocator);
    (fake, allocator, first, second)
}

/// The slab that contains a block, and the block's slot there.
pub fn with_slab<R>(
    allocator: &Allocator<Fake>,
    address: usize,
    body: impl Fn(&Slab, SlotIndex) -> R,
) -> R {
    let mut result = None;
    allocator.for_each_slab(|slab| {
        if let Some(slot) = slab.slot_around(address.wrapping_sub(slab.base())) {
            result = Some(body(slab, slot));
        }
    });
    result.unwrap()
}

/// Nothing waits in a quarantine: what is freed is free at once, in either build. The default build
/// has all partitions from the start, so that a call site keeps its own.
pub const AT_ONCE: Options = Options {
    partitions: if cfg!(feature = "secure-light") { 0 } else { 64 },
    quarantine: 0,
    ..Options::DEFAULT
};

/// Bytes of the slot that serves a request.
pub fn slot(size: usize) -> usize {
    SizeClass::of(size + SLACK_MIN).unwrap().size()
}

/// The largest request that a slot of `bytes` bytes serves, in either build.
pub fn filling(bytes: usize) -> usize {
    SizeClass::of(bytes).unwrap().size() - SLACK_MIN
}

/// Takes the blocks that fill the short slabs with which a bin of the default build begins. `take`
/// returns a block of `size` bytes of a bin that has none. The bin's next slab has as many slots as
/// its class allows.
pub fn fill_short_slabs(size: usize, take: impl FnMut() -> usize) -> Vec<usize> {
    let class = SizeClass::of(size + SLACK_MIN).unwrap();
    let after = |&before: &usize| Some(class.slots_after(before));
    let short = std::iter::successors(after(&0), after).take_while(|&slots| slots < class.slots());
    std::iter::repeat_with(take).take(short.sum()).collect()
}

/// Numbers for choices, the same in every run.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * limit as u128) >> 64) as usize
    }
}
