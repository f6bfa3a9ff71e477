//! An arena behind a shared reference, and what keeps its users apart.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | [`Shared`]: every call holds the lock; copies of large blocks do not |
//! | `locks.rs` | the trait of locks; none, one thread, spinning (in turn), interrupts off |
//! | `adapters.rs` | locks of `std` and of `lock_api` |
//! | `striped.rs` | several arenas over one range, for threads that shall not wait for each other |
//! | `parts.rs` | the parts of that range, and whose each is |
//! | `global.rs` | `GlobalAlloc` |
//! | `wasm.rs` | the arena of a WebAssembly module without threads |
//! | `allocator.rs` | (features `allocator-api2`, `nightly`) `Allocator` |

mod adapters;
#[cfg(any(feature = "allocator-api2", feature = "nightly"))]
mod allocator;
mod global;
mod locks;
#[cfg(target_has_atomic = "8")]
mod parts;
#[cfg(target_has_atomic = "8")]
mod striped;
#[cfg(all(target_arch = "wasm32", not(target_feature = "atomics")))]
mod wasm;

#[cfg(feature = "lock_api")]
pub use adapters::LockApi;
#[cfg(feature = "std")]
pub use adapters::StdLock;
pub use locks::{Exclusive, Interrupts, NoInterrupts, OneThread, Unlocked};
#[cfg(target_has_atomic = "8")]
pub use locks::{Spin, Ticket};
#[cfg(target_has_atomic = "8")]
pub use striped::{ByStack, ByStripes, Spread, Striped};
#[cfg(all(target_arch = "wasm32", not(target_feature = "atomics")))]
pub use wasm::{OneModule, Wasm};

use crate::arena::Arena;
use crate::fault::{NoMemory, SpanError};
use crate::heap::{Invariant, Span, Survey};
use crate::shape::{Checks, Shape};
use crate::source::{Manual, Source};
use crate::space::Anywhere;
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// What is copied with the lock held at most, when a block moves.
const COPY_HELD: usize = 16 << 10;

/// An [`Arena`] that may be used through a shared reference, as a static or from several threads,
/// each call under a lock.
pub struct Shared<S: Shape, F, L> {
    lock: L,
    arena: UnsafeCell<Arena<S, F>>,
}

// SAFETY: the arena is reached in `hold` only, which holds the lock, and a lock that is `Sync` is
// held by one at a time (Exclusive, 1). So an arena that may be sent may be used by all.
unsafe impl<S: Shape, F: Send, L: Sync> Sync for Shared<S, F, L>
where
    S::Space: Send,
    S::Bins: Send,
{
}

impl<S: Shape, F: Source<S>, L: Exclusive> Shared<S, F, L> {
    /// An arena behind a lock.
    #[must_use]
    pub const fn new(space: S::Space, source: F, lock: L) -> Self {
        Self { lock, arena: UnsafeCell::new(Arena::new(space, source)) }
    }

    /// Uses the arena, alone. `None` if the lock cannot be had and says so, as [`OneThread`] does
    /// of a caller that has it already; others wait for ever then.
    ///
    /// ```compile_fail,E0133
    /// use toft_arena::{Anywhere, Arena, OneThread, Shared, source::Manual};
    /// use toft_arena::shape::Packed;
    /// let shared = Shared::<Packed, _, _>::new(Anywhere, Manual, OneThread::new());
    /// shared.with(|arena| *arena = Arena::new(Anywhere, Manual));
    /// ```
    ///
    /// # Safety
    /// 1. The arena stays where it is: no other is put in its place.
    #[inline]
    pub unsafe fn with<R>(&self, work: impl FnOnce(&mut Arena<S, F>) -> R) -> Option<R> {
        self.hold(work)
    }

    /// Reads the arena, alone. `None` as of `with`.
    pub fn look<R>(&self, work: impl FnOnce(&Arena<S, F>) -> R) -> Option<R> {
        self.hold(|arena| work(arena))
    }

    /// As [`Arena::trim`]. `None` as of `with`.
    pub fn trim(&self) -> Option<()> {
        self.hold(Arena::trim)
    }

    /// As [`Arena::settle`]. `None` as of `with`.
    pub fn settle(&self) -> Option<bool> {
        self.hold(Arena::settle)
    }

    /// As [`Arena::check`]. `None` as of `with`.
    pub fn check(&self) -> Option<Result<(), Invariant>> {
        self.look(Arena::check)
    }

    /// As [`Arena::survey`]. `None` as of `with`.
    pub fn survey(&self) -> Option<Survey> {
        self.look(Arena::survey)
    }

    #[inline]
    fn hold<R>(&self, work: impl FnOnce(&mut Arena<S, F>) -> R) -> Option<R> {
        // SAFETY: the lock lets in one at a time.
        self.lock.hold(|| work(unsafe { &mut *self.arena.get() }))
    }

    /// The block, with the right to all of it, if it looks like one.
    #[cfg(target_has_atomic = "8")]
    fn own(&self, block: NonNull<u8>, layout: Layout) -> Option<NonNull<u8>> {
        self.hold(|arena| own(arena, block, layout)).flatten()
    }

    /// As `hold`; `None` also while another thread has the lock.
    #[inline]
    #[cfg(target_has_atomic = "8")]
    fn try_hold<R>(&self, work: impl FnOnce(&mut Arena<S, F>) -> R) -> Option<R> {
        // SAFETY: the lock lets in one at a time.
        self.lock.try_hold(|| work(unsafe { &mut *self.arena.get() }))
    }

    /// The arena, for a caller with exclusive access.
    ///
    /// # Safety
    /// 1. As `with`.
    pub unsafe fn get_mut(&mut self) -> &mut Arena<S, F> {
        self.arena.get_mut()
    }

    /// As [`Arena::allocate`].
    ///
    /// # Errors
    /// As `Arena::allocate`, and if the lock cannot be had.
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        self.hold(|arena| arena.allocate(layout)).unwrap_or(Err(NoMemory))
    }

    /// As [`Arena::allocate_zeroed`].
    ///
    /// # Errors
    /// As `Arena::allocate`, and if the lock cannot be had.
    #[inline]
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        self.hold(|arena| arena.allocate_zeroed(layout)).unwrap_or(Err(NoMemory))
    }

    /// As [`Arena::deallocate`]. A block that is freed while this very caller has the lock stays.
    ///
    /// # Safety
    /// 1. As `Arena::deallocate`.
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>) {
        // SAFETY: by 1.
        self.hold(|arena| unsafe { arena.deallocate(block) });
    }

    /// As [`Arena::deallocate_sized`], and as `deallocate`.
    ///
    /// # Safety
    /// 1. As `Arena::deallocate_sized`.
    #[inline]
    pub unsafe fn deallocate_sized(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: by 1.
        self.hold(|arena| unsafe { arena.deallocate_sized(block, layout) });
    }

    /// As [`Arena::reallocate`]. While more than 16 KiB are copied elsewhere the lock is not held,
    /// unless the block grows downwards because there is no other room, or the feature `small` is
    /// on.
    ///
    /// # Errors
    /// As `Arena::reallocate`, and if the lock cannot be had.
    ///
    /// # Safety
    /// 1. As `Arena::reallocate`.
    pub unsafe fn reallocate(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Result<NonNull<u8>, NoMemory> {
        // SAFETY: by 1. The block is the caller's until it is freed here, so it may be read without
        // the lock; and so is the new one.
        unsafe {
            if cfg!(feature = "small") || layout.size().min(size) <= COPY_HELD {
                return self
                    .hold(|arena| arena.reallocate(block, layout, size))
                    .unwrap_or(Err(NoMemory));
            }
            if size <= layout.size() {
                let smaller = |arena: &mut Arena<S, F>| {
                    let own = own(arena, block, layout)?;
                    let heap = arena.heap_mut();
                    let hole = heap.hole_for(block, layout.align(), size);
                    if hole.is_none() {
                        heap.shrink_in_place(block, size);
                    }
                    Some((hole, own))
                };
                let (hole, own) = self.hold(smaller).flatten().ok_or(NoMemory)?;
                let Some(hole) = hole else { return Ok(own) };
                hole.as_ptr().copy_from_nonoverlapping(own.as_ptr(), size);
                self.deallocate_sized(block, layout);
                return Ok(hole);
            }
            let wanted = Layout::from_size_align(size, layout.align()).map_err(|_| NoMemory)?;
            // Where it is, or a new block: one turn with the lock for both.
            let place = |arena: &mut Arena<S, F>| {
                let own = own(arena, block, layout)?;
                if arena.heap_mut().grow_in_place(block, size) {
                    return Some((Ok(own), own));
                }
                Some((arena.allocate(wanted), own))
            };
            let (new, own) = self.hold(place).flatten().ok_or(NoMemory)?;
            if new == Ok(own) {
                return Ok(own);
            }
            let Ok(new) = new else {
                // The block itself may be what there is no room beside: it may grow downwards, with
                // the lock held.
                return self
                    .hold(|arena| arena.reallocate(block, layout, size))
                    .unwrap_or(Err(NoMemory));
            };
            new.as_ptr().copy_from_nonoverlapping(own.as_ptr(), layout.size());
            self.deallocate_sized(block, layout);
            Ok(new)
        }
    }
}

impl<S: Shape<Space = Anywhere>, L: Exclusive> Shared<S, Manual, L> {
    /// Hands memory to the arena for ever.
    ///
    /// ```
    /// use std::mem::MaybeUninit;
    /// use toft_arena::{Anywhere, Fast, Shared, Spin, source::Manual};
    ///
    /// static ARENA: Shared<Fast, Manual, Spin> = Shared::new(Anywhere, Manual, Spin::new());
    ///
    /// // A kernel makes the slice of a range of pages that it has found free.
    /// let memory = Box::leak(Box::new([MaybeUninit::uninit(); 65_536]));
    /// ARENA.claim(memory)?;
    /// # Ok::<(), toft_arena::SpanError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Heap::claim`](crate::Heap::claim), and if the lock cannot be had. The memory is lost
    /// then.
    pub fn claim(&self, memory: &'static mut [MaybeUninit<u8>]) -> Result<Span, SpanError> {
        self.hold(|arena| arena.claim(memory)).unwrap_or(Err(SpanError::Locked))
    }
}

/// The block, with the right to all of it; `None` for what is no block, where pointers are checked:
/// it is not copied from either.
fn own<S: Shape, F: Source<S>>(
    arena: &mut Arena<S, F>,
    block: NonNull<u8>,
    layout: Layout,
) -> Option<NonNull<u8>> {
    // SAFETY: the heap stays where it is.
    let heap = unsafe { arena.heap_mut() };
    let sound = S::CHECKS < Checks::Pointers || heap.verify_sized(block, layout).is_ok();
    sound.then(|| heap.own(block))
}

impl<S: Shape, F: Source<S>, L: Exclusive> fmt::Debug for Shared<S, F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("survey", &self.survey()).finish_non_exhaustive()
    }
}
