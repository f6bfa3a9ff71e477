//! The allocators behind one trait, without a lock. The crate that measures their code has this
//! file too, so it uses `core` only.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};
use toft_arena::shape::Shape;
use toft_arena::{Anywhere, Heap};

/// An allocator. Pointers are null where there is no memory. Blocks are live, of their layouts, and
/// have at least one byte.
pub trait Peer {
    fn allocate(&mut self, layout: Layout) -> *mut u8;
    fn free(&mut self, block: *mut u8, layout: Layout);
    /// By allocating, copying and freeing, where an allocator has no other way.
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        moved(self, block, layout, size)
    }
}

/// An allocator over memory that is handed to it once, where it stays from then on.
pub trait Start: Peer {
    const NEW: Self;
    /// # Safety
    /// 1. Only this allocator uses the memory.
    unsafe fn start(&mut self, start: *mut u8, size: usize);
}

fn moved<P: Peer + ?Sized>(peer: &mut P, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let Ok(new_layout) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
    let new = peer.allocate(new_layout);
    if !new.is_null() {
        // SAFETY: two live blocks, neither shorter than what is copied.
        unsafe { new.copy_from_nonoverlapping(block, layout.size().min(size)) };
        peer.free(block, layout);
    }
    new
}

/// The pointer of a block that an allocator may not have.
fn pointer<E>(block: Result<NonNull<u8>, E>) -> *mut u8 {
    block.map_or(null_mut(), NonNull::as_ptr)
}

/// A block of an allocator, which is not null.
fn block(block: *mut u8) -> NonNull<u8> {
    // SAFETY: callers of `Peer` have a live block.
    unsafe { NonNull::new_unchecked(block) }
}

// SAFETY, of all: blocks are live and of their layouts, as the trait says.
impl<S: Shape> Peer for Heap<S> {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        pointer(Heap::allocate(self, layout))
    }
    fn free(&mut self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.deallocate_sized(block(old), layout) };
    }
    fn resize(&mut self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        pointer(unsafe { self.reallocate(block(old), layout, size) })
    }
}

impl<S: Shape<Space = Anywhere>> Start for Heap<S> {
    const NEW: Self = Heap::new(Anywhere);
    unsafe fn start(&mut self, start: *mut u8, size: usize) {
        // SAFETY: by 1.
        let _ = unsafe { self.claim(start, size) };
    }
}

pub type Talc = talc::base::Talc<talc::source::Manual, talc::base::binning::DefaultBinning>;

impl Peer for Talc {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: sizes are never zero.
        unsafe { Talc::allocate(self, layout) }.map_or(null_mut(), NonNull::as_ptr)
    }
    fn free(&mut self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.deallocate(old, layout) };
    }
    fn resize(&mut self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let in_place = unsafe { self.try_realloc_in_place(old, layout, size) };
        if in_place { old } else { moved(self, old, layout, size) }
    }
}

impl Start for Talc {
    const NEW: Self = Talc::new(talc::source::Manual);
    unsafe fn start(&mut self, start: *mut u8, size: usize) {
        // SAFETY: by 1.
        let _ = unsafe { self.claim(start, size) };
    }
}

/// The widest bitmaps of the machine, and as many lists.
#[cfg(target_pointer_width = "64")]
pub type Rlsf = rlsf::Tlsf<'static, u32, u64, 32, 64>;
#[cfg(not(target_pointer_width = "64"))]
pub type Rlsf = rlsf::Tlsf<'static, u32, u32, 24, 32>;

impl Peer for Rlsf {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        Rlsf::allocate(self, layout).map_or(null_mut(), NonNull::as_ptr)
    }
    fn free(&mut self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.deallocate(block(old), layout.align()) };
    }
    fn resize(&mut self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(new) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        // SAFETY: as above.
        unsafe { self.reallocate(block(old), new) }.map_or(null_mut(), NonNull::as_ptr)
    }
}

impl Start for Rlsf {
    const NEW: Self = Rlsf::new();
    unsafe fn start(&mut self, start: *mut u8, size: usize) {
        // SAFETY: by 1.
        unsafe {
            self.insert_free_block_ptr(NonNull::new_unchecked(slice_from_raw_parts_mut(
                start, size,
            )))
        };
    }
}

/// It maps its memory itself, so nothing is ever exhausted on it.
pub type Dlmalloc = dlmalloc::Dlmalloc;

impl Peer for Dlmalloc {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: any size may be asked for.
        unsafe { self.malloc(layout.size(), layout.align()) }
    }
    fn free(&mut self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { Dlmalloc::free(self, old, layout.size(), layout.align()) };
    }
    fn resize(&mut self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.realloc(old, layout.size(), layout.align(), size) }
    }
}

impl Start for Dlmalloc {
    const NEW: Self = Dlmalloc::new();
    unsafe fn start(&mut self, _: *mut u8, _: usize) {}
}

/// It wants sizes that are multiples of a word.
pub type Good = good_memory_allocator::Allocator;

fn whole(layout: Layout) -> Layout {
    let word = layout.align().max(8);
    Layout::from_size_align(layout.size().next_multiple_of(word), word).unwrap_or(layout)
}

impl Peer for Good {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: sizes are never zero.
        unsafe { self.alloc(whole(layout)) }
    }
    fn free(&mut self, old: *mut u8, _: Layout) {
        // SAFETY: as above.
        unsafe { self.dealloc(old) };
    }
    fn resize(&mut self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let size = size.next_multiple_of(layout.align().max(8));
        // SAFETY: as above.
        unsafe { self.realloc(old, whole(layout), size) }
    }
}

impl Start for Good {
    const NEW: Self = Good::empty();
    unsafe fn start(&mut self, start: *mut u8, size: usize) {
        // SAFETY: by 1.
        unsafe { self.init(start.expose_provenance(), size) };
    }
}

pub type List = linked_list_allocator::Heap;

impl Peer for List {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        pointer(self.allocate_first_fit(layout))
    }
    fn free(&mut self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.deallocate(block(old), layout) };
    }
}

impl Start for List {
    const NEW: Self = List::empty();
    unsafe fn start(&mut self, start: *mut u8, size: usize) {
        // SAFETY: by 1.
        unsafe { self.init(start, size) };
    }
}

pub type Buddy = buddy_system_allocator::Heap<32>;

impl Peer for Buddy {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        pointer(self.alloc(layout))
    }
    fn free(&mut self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.dealloc(block(old), layout) };
    }
}

impl Start for Buddy {
    const NEW: Self = Buddy::new();
    unsafe fn start(&mut self, start: *mut u8, size: usize) {
        // SAFETY: by 1.
        unsafe { self.init(start.expose_provenance(), size) };
    }
}
