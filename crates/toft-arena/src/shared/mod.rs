//! An arena behind a shared reference, and what keeps its users apart.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | [`Shared`]: every call holds the lock; copies of large blocks do not |
//! | `locks.rs` | the trait of locks; none, one thread, spinning; with interrupts off |
//! | `adapters.rs` | locks of `std` and of `lock_api` |
//! | `global.rs` | `GlobalAlloc` |
//! | `allocator.rs` | (feature `allocator-api2`) `Allocator` |

mod adapters;
#[cfg(feature = "allocator-api2")]
mod allocator;
mod global;
mod locks;

#[cfg(feature = "lock_api")]
pub use adapters::LockApi;
#[cfg(feature = "std")]
pub use adapters::StdLock;
#[cfg(target_has_atomic = "8")]
pub use locks::Spin;
pub use locks::{Exclusive, Interrupts, NoInterrupts, OneThread, Unlocked};

use crate::arena::Arena;
use crate::fault::NoMemory;
use crate::heap::{Invariant, Survey};
use crate::shape::{Checks, Shape};
use crate::source::Source;
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::NonNull;

/// What is copied with the lock held at most, when a block moves.
const COPY_HELD: usize = 4096;

/// An [`Arena`] that may be used through a shared reference, as a static or from several threads, each
/// call under a lock.
pub struct Shared<S: Shape, F, L> {
    lock: L,
    arena: UnsafeCell<Arena<S, F>>,
}

// SAFETY: the arena is reached in `hold` only, which holds the lock, and a lock that is `Sync` is held by
// one at a time (Exclusive, 1). So an arena that may be sent may be used by all.
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

    /// Uses the arena, alone. `None` if the lock cannot be had and says so, as [`OneThread`] does of a caller that
    /// has it already; others wait for ever then.
    ///
    /// ```compile_fail,E0133
    /// use toft_arena::{Anywhere, Arena, OneThread, Packed, Shared, source::Manual};
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

    /// Looks at the arena, alone. `None` as of `with`.
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

    /// The arena of somebody who has it alone.
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

    /// As [`Arena::reallocate`]. While more than 4 KiB are copied elsewhere the lock is not held.
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
        // SAFETY: by 1. The block is the caller's until it is freed here, so it may be read without the
        // lock; and so is the new one.
        unsafe {
            if layout.size() <= COPY_HELD || size <= layout.size() {
                return self
                    .hold(|arena| arena.reallocate(block, layout, size))
                    .unwrap_or(Err(NoMemory));
            }
            let in_place = |arena: &mut Arena<S, F>| {
                let heap = arena.heap_mut();
                // What is no block is not copied from either.
                let sound =
                    S::CHECKS < Checks::Pointers || heap.verify_sized(block, layout).is_ok();
                sound.then(|| (heap.grow_in_place(block, size), heap.own(block)))
            };
            let (grown, own) = self.hold(in_place).flatten().ok_or(NoMemory)?;
            if grown {
                return Ok(own);
            }
            let wanted = Layout::from_size_align(size, layout.align()).map_err(|_| NoMemory)?;
            let Ok(new) = self.allocate(wanted) else {
                // The block itself may be what there is no room beside: it may grow downwards, with the lock held.
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

impl<S: Shape, F: Source<S>, L: Exclusive> fmt::Debug for Shared<S, F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("survey", &self.survey()).finish_non_exhaustive()
    }
}
