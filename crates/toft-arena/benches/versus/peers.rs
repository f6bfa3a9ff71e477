//! The allocators, each over one region of memory.

pub use super::adapters::Peer;
use super::adapters::{Buddy, Dlmalloc, Good, List, Rlsf, Start, Talc};
use std::alloc::Layout;
use toft_arena::shape::{Bare, Checks, Narrow, Packed, Shape, Standard, Within};
use toft_arena::{Anywhere, Checked, Fast, Heap};

/// Memory that is there: every page has been touched.
pub struct Region {
    pub start: *mut u8,
    pub size: usize,
}

impl Region {
    pub fn new(size: usize) -> Self {
        let layout = Layout::from_size_align(size, 4096).unwrap();
        // SAFETY: the layout has a size; the bytes are the region's own.
        let start = unsafe { std::alloc::alloc(layout) };
        assert!(!start.is_null());
        // SAFETY: as above.
        unsafe { start.write_bytes(1, size) };
        Self { start, size }
    }

    /// The start of this region, at most `size` bytes.
    pub fn first(&self, size: usize) -> Self {
        Self { start: self.start, size: size.min(self.size) }
    }
}

type Make = fn(&Region) -> Box<dyn Peer>;

/// Every allocator there is.
pub const PEERS: &[(&str, Make)] = &[
    ("packed", made::<Heap<Packed>>),
    ("standard", made::<Heap<Standard>>),
    ("checked", made::<Heap<Checked>>),
    ("fast", made::<Heap<Fast>>),
    ("bare", made::<Heap<Bare>>),
    ("unchecked", made::<Heap<Unchecked>>),
    ("narrow", |region| {
        // SAFETY: the region is one mapping.
        let mut heap = Heap::<Narrow>::new(unsafe { Within::new(region.start, region.size) });
        // SAFETY: the region is used by one peer at a time.
        unsafe { heap.claim(region.start, region.size) }.unwrap();
        Box::new(heap)
    }),
    ("talc", made::<Talc>),
    ("rlsf", made::<Rlsf>),
    ("dlmalloc", made::<Dlmalloc>),
    ("good_memory_allocator", made::<Good>),
    ("linked_list_allocator", made::<List>),
    ("buddy_system_allocator", made::<Buddy>),
];

fn made<P: Start + 'static>(region: &Region) -> Box<dyn Peer> {
    let mut peer = Box::new(P::NEW);
    // SAFETY: the region is used by one peer at a time.
    unsafe { peer.start(region.start, region.size) };
    peer
}

/// As `Packed`, without any check.
pub struct Unchecked;

impl Shape for Unchecked {
    type Space = Anywhere;
    type Bins = <Packed as Shape>::Bins;
    const ALIGN: usize = 8;
    const EXACT: usize = 1024;
    const STEPS: u32 = 4;
    const CHECKS: Checks = Checks::None;
}
