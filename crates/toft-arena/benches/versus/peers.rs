//! The allocators, each over one region of memory, without a lock.

use std::alloc::Layout;
use std::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};
use toft_arena::shape::{Bare, Narrow, Packed, Shape, Standard, Within};
use toft_arena::{Anywhere, Checked, Fast, Heap, Small};

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
    ("packed", heap::<Packed>),
    ("standard", heap::<Standard>),
    ("fast", heap::<Fast>),
    ("bare", heap::<Bare>),
    ("small", heap::<Small>),
    ("narrow", |region| {
        // SAFETY: the region is one mapping.
        let space = unsafe { Within::new(region.start, region.size) };
        claimed(Heap::<Narrow>::new(space), region)
    }),
    ("checked", heap::<Checked>),
    ("talc", |region| {
        let mut heap = Talc::new(talc::source::Manual);
        // SAFETY: the region is used by one peer at a time.
        unsafe { heap.claim(region.start, region.size) }.unwrap();
        Box::new(heap)
    }),
    ("rlsf", |region| {
        let mut heap = Rlsf::new();
        let memory = NonNull::new(slice_from_raw_parts_mut(region.start, region.size)).unwrap();
        // SAFETY: as above.
        unsafe { heap.insert_free_block_ptr(memory) };
        Box::new(heap)
    }),
];

fn heap<S: Shape<Space = Anywhere>>(region: &Region) -> Box<dyn Peer> {
    claimed(Heap::<S>::new(Anywhere), region)
}

fn claimed<S: Shape>(mut heap: Heap<S>, region: &Region) -> Box<dyn Peer> {
    // SAFETY: the region is used by one peer at a time.
    unsafe { heap.claim(region.start, region.size) }.unwrap();
    Box::new(heap)
}

/// An allocator. Pointers are null where there is no memory. Blocks are live, of their layouts, and
/// have at least one byte.
pub trait Peer {
    fn allocate(&mut self, layout: Layout) -> *mut u8;
    fn free(&mut self, block: *mut u8, layout: Layout);
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8;
}

// SAFETY, of all: blocks are live, of their layouts, and not null, as the trait says.
impl<S: Shape> Peer for Heap<S> {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        Heap::allocate(self, layout).map_or(null_mut(), NonNull::as_ptr)
    }
    fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.deallocate_sized(NonNull::new_unchecked(block), layout) };
    }
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.reallocate(NonNull::new_unchecked(block), layout, size) }
            .map_or(null_mut(), NonNull::as_ptr)
    }
}

type Talc = talc::base::Talc<talc::source::Manual, talc::base::binning::DefaultBinning>;

impl Peer for Talc {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: sizes are never zero.
        unsafe { Talc::allocate(self, layout) }.map_or(null_mut(), NonNull::as_ptr)
    }
    fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.deallocate(block, layout) };
    }
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; two live blocks, neither shorter than what is copied.
        unsafe {
            if self.try_realloc_in_place(block, layout, size) {
                return block;
            }
            let new = Peer::allocate(self, Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(block, layout.size().min(size));
                self.deallocate(block, layout);
            }
            new
        }
    }
}

type Rlsf = rlsf::Tlsf<'static, u32, u64, 32, 64>;

impl Peer for Rlsf {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        Rlsf::allocate(self, layout).map_or(null_mut(), NonNull::as_ptr)
    }
    fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.deallocate(NonNull::new_unchecked(block), layout.align()) };
    }
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(new) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        // SAFETY: as above.
        unsafe { self.reallocate(NonNull::new_unchecked(block), new) }
            .map_or(null_mut(), NonNull::as_ptr)
    }
}
