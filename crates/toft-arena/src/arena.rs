//! A heap with a source of memory.

use crate::fault::{NoMemory, SpanError};
use crate::heap::{Heap, Invariant, Span, Survey};
use crate::shape::Shape;
use crate::source::{Manual, Source};
use crate::space::Anywhere;
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A [`Heap`] that asks its [`Source`] for memory when it has none, and gives back what the source
/// wants back.
pub struct Arena<S: Shape, F> {
    heap: Heap<S>,
    source: F,
    /// A free chunk of this size or more is worth telling the source about.
    worth: usize,
}

impl<S: Shape, F: Source<S>> Arena<S, F> {
    /// An arena without memory. The source is asked with the first request.
    #[must_use]
    pub const fn new(space: S::Space, source: F) -> Self {
        Self { heap: Heap::new(space), source, worth: 0 }
    }

    /// The heap, read-only.
    pub fn heap(&self) -> &Heap<S> {
        &self.heap
    }

    /// The heap, to claim memory by hand.
    ///
    /// Unsafe, for the heap goes on using what its source frees when it is dropped:
    ///
    /// ```compile_fail,E0133
    /// use toft_arena::{Anywhere, Arena, Heap, source::Manual};
    /// use toft_arena::shape::Packed;
    /// let mut arena = Arena::<Packed, _>::new(Anywhere, Manual);
    /// let stolen = std::mem::replace(arena.heap_mut(), Heap::new(Anywhere));
    /// ```
    ///
    /// # Safety
    /// 1. The heap stays this arena's: no other is put in its place.
    /// 2. Only the source uses what is given up of spans that the source has given.
    pub unsafe fn heap_mut(&mut self) -> &mut Heap<S> {
        &mut self.heap
    }

    /// The source, read-only.
    pub fn source(&self) -> &F {
        &self.source
    }

    /// The source, to change how it works.
    ///
    /// ```compile_fail,E0133
    /// use toft_arena::{Anywhere, Arena, source::Manual};
    /// use toft_arena::shape::Packed;
    /// let mut arena = Arena::<Packed, _>::new(Anywhere, Manual);
    /// *arena.source_mut() = Manual;
    /// ```
    ///
    /// # Safety
    /// 1. The source stays this arena's: no other is put in its place, for with it would go the
    ///    memory; and no other heap is given to it.
    pub unsafe fn source_mut(&mut self) -> &mut F {
        &mut self.source
    }

    /// As [`Heap::settle`].
    pub fn settle(&mut self) -> bool {
        self.heap.settle()
    }

    /// As [`Heap::check`].
    ///
    /// # Errors
    /// As `Heap::check`.
    pub fn check(&self) -> Result<(), Invariant> {
        self.heap.check()
    }

    /// As [`Heap::survey`].
    #[must_use]
    pub fn survey(&self) -> Survey {
        self.heap.survey()
    }

    /// As [`Heap::allocate`]; the source is not asked.
    ///
    /// # Errors
    /// As `Heap::allocate`.
    pub fn try_allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        self.heap.allocate(layout)
    }

    /// As [`Heap::allocate`]; asks the source for what is not there.
    ///
    /// # Errors
    /// The source has no memory either, or what it gave did not serve.
    #[inline]
    pub fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        match self.heap.allocate(layout) {
            Ok(block) => Ok(block),
            Err(NoMemory) => Self::ask(&mut self.heap, &mut self.source, layout),
        }
    }

    /// As [`Heap::allocate_zeroed`]; asks the source for what is not there.
    ///
    /// # Errors
    /// As `allocate`.
    pub fn allocate_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        let top = self.heap.top();
        let block = self.allocate(layout)?;
        // SAFETY: the block is new, and has that many bytes.
        unsafe { self.heap.clear(block, layout.size(), top) };
        Ok(block)
    }

    #[cold]
    #[inline(never)]
    fn ask(heap: &mut Heap<S>, source: &mut F, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        // The second time is for a source that has counted on free memory which its own does not
        // continue.
        for _ in 0..2 {
            // SAFETY: 1. and 2. both are this arena's alone (`heap_mut`, `source_mut`), and go
            // together; 3. (`heap_mut`).
            unsafe { source.more(heap, layout)? };
            if let Ok(new) = heap.allocate_apart(layout) {
                return Ok(new);
            }
        }
        Err(NoMemory)
    }

    /// As [`Heap::deallocate`].
    ///
    /// # Safety
    /// 1. As `Heap::deallocate`.
    #[inline]
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: by 1.
        let free = unsafe { self.heap.deallocate(block) };
        self.offer(free);
    }

    /// As [`Heap::deallocate_sized`].
    ///
    /// # Safety
    /// 1. As `Heap::deallocate_sized`.
    #[inline]
    pub unsafe fn deallocate_sized(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: by 1.
        let free = unsafe { self.heap.deallocate_sized(block, layout) };
        self.offer(free);
    }

    /// As [`Heap::reallocate`]; asks the source for what is not there.
    ///
    /// # Errors
    /// As `allocate`; the block is as it was.
    ///
    /// # Safety
    /// 1. As `Heap::reallocate`.
    pub unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Result<NonNull<u8>, NoMemory> {
        let more = |heap: &mut Heap<S>, layout| Self::ask(heap, &mut self.source, layout);
        // SAFETY: by 1.
        unsafe { self.heap.reallocate_or(block, layout, size, more) }
    }

    /// Tells the source of a free chunk, if it wants to know. Never called while a request is met:
    /// what is given back there would be asked for again at once.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn offer(&mut self, free: usize) {
        if F::TAKES_BACK && free >= self.worth {
            self.offer_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn offer_now(&mut self) {
        // SAFETY: as in `ask`.
        self.worth = unsafe { self.source.less(&mut self.heap) };
    }

    /// Has the source take back all that it can, now.
    pub fn trim(&mut self) {
        // SAFETY: as in `ask`.
        unsafe { self.source.least(&mut self.heap) };
        self.worth = 0;
    }
}

impl<S: Shape<Space = Anywhere>> Arena<S, Manual> {
    /// As [`Heap::claim_static`].
    ///
    /// # Errors
    /// As `Heap::claim_static`.
    pub fn claim(&mut self, memory: &'static mut [MaybeUninit<u8>]) -> Result<Span, SpanError> {
        self.heap.claim_static(memory)
    }
}
