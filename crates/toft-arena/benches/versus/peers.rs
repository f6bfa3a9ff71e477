//! The allocators, each over one region of memory, without a lock.

use std::alloc::Layout;
use std::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};

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

/// An allocator. Pointers are null where there is no memory.
pub trait Peer {
    fn allocate(&mut self, layout: Layout) -> *mut u8;
    fn free(&mut self, block: *mut u8, layout: Layout);
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8;
}

type Make = fn(&Region) -> Box<dyn Peer>;

/// Every allocator there is.
pub const PEERS: &[(&str, Make)] = &[
    ("packed", |region| Box::new(Toft::<toft_arena::shape::Packed>::new(region))),
    ("standard", |region| Box::new(Toft::<toft_arena::shape::Standard>::new(region))),
    ("checked", |region| Box::new(Toft::<toft_arena::Checked>::new(region))),
    ("fast", |region| Box::new(Toft::<toft_arena::Fast>::new(region))),
    ("bare", |region| Box::new(Toft::<toft_arena::shape::Bare>::new(region))),
    ("unchecked", |region| Box::new(Toft::<Unchecked>::new(region))),
    ("narrow", |region| {
        // SAFETY: the region is one mapping.
        let space = unsafe { toft_arena::shape::Within::new(region.start, region.size) };
        let mut heap = toft_arena::Heap::new(space);
        // SAFETY: the region is used by one peer at a time.
        unsafe { heap.claim(region.start, region.size) }.unwrap();
        Box::new(Toft::<toft_arena::shape::Narrow>(heap))
    }),
    ("talc", |region| Box::new(Talc::new(region))),
    ("rlsf", |region| Box::new(Rlsf::new(region))),
    ("dlmalloc", |_| Box::new(Dlmalloc(dlmalloc::Dlmalloc::new()))),
    ("good_memory_allocator", |region| Box::new(Galloc::new(region))),
    ("linked_list_allocator", |region| Box::new(List::new(region))),
    ("buddy_system_allocator", |region| Box::new(Buddy::new(region))),
];

/// As `Packed`, without any check.
pub struct Unchecked;

impl toft_arena::shape::Shape for Unchecked {
    type Space = toft_arena::Anywhere;
    type Bins = <toft_arena::shape::Packed as toft_arena::shape::Shape>::Bins;
    const ALIGN: usize = 8;
    const EXACT: usize = 1024;
    const STEPS: u32 = 4;
    const CHECKS: toft_arena::shape::Checks = toft_arena::shape::Checks::None;
}

struct Toft<S: toft_arena::shape::Shape>(toft_arena::Heap<S>);

impl<S: toft_arena::shape::Shape<Space = toft_arena::Anywhere>> Toft<S> {
    fn new(region: &Region) -> Self {
        let mut heap = toft_arena::Heap::new(toft_arena::Anywhere);
        // SAFETY: the region is used by one peer at a time.
        unsafe { heap.claim(region.start, region.size) }.unwrap();
        Self(heap)
    }
}

impl<S: toft_arena::shape::Shape> Peer for Toft<S> {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        self.0.allocate(layout).map_or(null_mut(), NonNull::as_ptr)
    }
    #[inline]
    fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: workloads free what they have, once.
        unsafe { self.0.deallocate_sized(NonNull::new_unchecked(block), layout) };
    }
    #[inline]
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: workloads resize what they have.
        unsafe { self.0.reallocate(NonNull::new_unchecked(block), layout, size) }
            .map_or(null_mut(), NonNull::as_ptr)
    }
}

/// Resizes by allocating, copying and freeing.
fn moved(peer: &mut impl Peer, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let Ok(new_layout) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
    let new = peer.allocate(new_layout);
    if !new.is_null() {
        // SAFETY: two live blocks, neither shorter than what is copied.
        unsafe { new.copy_from_nonoverlapping(block, layout.size().min(size)) };
        peer.free(block, layout);
    }
    new
}

struct Talc(talc::base::Talc<talc::source::Manual, talc::base::binning::DefaultBinning>);

impl Talc {
    fn new(region: &Region) -> Self {
        let mut heap = talc::base::Talc::new(talc::source::Manual);
        // SAFETY: the region is used by one peer at a time.
        unsafe { heap.claim(region.start, region.size) }.unwrap();
        Self(heap)
    }
}

impl Peer for Talc {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: sizes are never zero.
        unsafe { self.0.allocate(layout) }.map_or(null_mut(), NonNull::as_ptr)
    }
    #[inline]
    fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: workloads free what they have, once.
        unsafe { self.0.deallocate(block, layout) };
    }
    #[inline]
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: workloads resize what they have.
        if unsafe { self.0.try_realloc_in_place(block, layout, size) } {
            return block;
        }
        moved(self, block, layout, size)
    }
}

struct Rlsf(rlsf::Tlsf<'static, u32, u64, 32, 64>);

impl Rlsf {
    fn new(region: &Region) -> Self {
        let mut heap = rlsf::Tlsf::new();
        let block = NonNull::new(slice_from_raw_parts_mut(region.start, region.size)).unwrap();
        // SAFETY: the region is used by one peer at a time.
        unsafe { heap.insert_free_block_ptr(block) };
        Self(heap)
    }
}

impl Peer for Rlsf {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        self.0.allocate(layout).map_or(null_mut(), NonNull::as_ptr)
    }
    #[inline]
    fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: workloads free what they have, once.
        unsafe { self.0.deallocate(NonNull::new_unchecked(block), layout.align()) };
    }
    #[inline]
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(new) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        // SAFETY: workloads resize what they have.
        unsafe { self.0.reallocate(NonNull::new_unchecked(block), new) }
            .map_or(null_mut(), NonNull::as_ptr)
    }
}

/// It maps its memory itself, so nothing is ever exhausted on it.
struct Dlmalloc(dlmalloc::Dlmalloc);

impl Peer for Dlmalloc {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: any size may be asked for.
        unsafe { self.0.malloc(layout.size(), layout.align()) }
    }
    #[inline]
    fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: workloads free what they have, once.
        unsafe { self.0.free(block, layout.size(), layout.align()) };
    }
    #[inline]
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: workloads resize what they have.
        unsafe { self.0.realloc(block, layout.size(), layout.align(), size) }
    }
}

/// It wants sizes that are multiples of a word. Its memory points at it, so it may not be moved.
struct Galloc(Box<good_memory_allocator::Allocator>);

fn whole(layout: Layout) -> Layout {
    layout.pad_to_align().align_to(8).unwrap().pad_to_align()
}

impl Galloc {
    fn new(region: &Region) -> Self {
        let mut heap = Box::new(good_memory_allocator::Allocator::empty());
        // SAFETY: the region is used by one peer at a time; the heap stays where it is now.
        unsafe { heap.init(region.start.expose_provenance(), region.size) };
        Self(heap)
    }
}

impl Peer for Galloc {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: sizes are never zero.
        unsafe { self.0.alloc(whole(layout)) }
    }
    #[inline]
    fn free(&mut self, block: *mut u8, _: Layout) {
        // SAFETY: workloads free what they have, once.
        unsafe { self.0.dealloc(block) };
    }
    #[inline]
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: workloads resize what they have.
        unsafe {
            self.0.realloc(block, whole(layout), size.next_multiple_of(layout.align().max(8)))
        }
    }
}

struct List(linked_list_allocator::Heap);

impl List {
    fn new(region: &Region) -> Self {
        let mut heap = linked_list_allocator::Heap::empty();
        // SAFETY: the region is used by one peer at a time.
        unsafe { heap.init(region.start, region.size) };
        Self(heap)
    }
}

impl Peer for List {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        self.0.allocate_first_fit(layout).map_or(null_mut(), NonNull::as_ptr)
    }
    #[inline]
    fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: workloads free what they have, once.
        unsafe { self.0.deallocate(NonNull::new_unchecked(block), layout) };
    }
    #[inline]
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        moved(self, block, layout, size)
    }
}

struct Buddy(buddy_system_allocator::Heap<32>);

impl Buddy {
    fn new(region: &Region) -> Self {
        let mut heap = buddy_system_allocator::Heap::new();
        // SAFETY: the region is used by one peer at a time.
        unsafe { heap.init(region.start.expose_provenance(), region.size) };
        Self(heap)
    }
}

impl Peer for Buddy {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        self.0.alloc(layout).map_or(null_mut(), NonNull::as_ptr)
    }
    #[inline]
    fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: workloads free what they have, once.
        unsafe { self.0.dealloc(NonNull::new_unchecked(block), layout) };
    }
    #[inline]
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        moved(self, block, layout, size)
    }
}
