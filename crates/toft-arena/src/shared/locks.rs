//! What keeps the users of an arena apart.

use core::cell::Cell;
use core::marker::PhantomData;
#[cfg(target_has_atomic = "8")]
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// A lock.
///
/// # Safety
/// 1. While one call of `hold` runs its work, no other call on the same value does, in any thread
///    that may use the value. After it, another sees everything that it has done.
pub unsafe trait Exclusive {
    /// Does the work alone, and returns what it does. A lock that notices that its caller has it
    /// already returns `None`, and does nothing: [`OneThread`] does; [`Spin`] and others wait for
    /// ever. It also lets others in if the work panics.
    fn hold<R>(&self, work: impl FnOnce() -> R) -> Option<R>;

    /// As `hold`, but returns `None` and does nothing while another thread has the lock. A lock
    /// that cannot tell waits.
    fn try_hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        self.hold(work)
    }
}

/// No lock: the caller keeps calls apart.
#[derive(Debug)]
pub struct Unlocked(());

impl Unlocked {
    /// No lock.
    ///
    /// # Safety
    /// 1. No two calls that use this overlap: there is one thread, and no interrupt or signal
    ///    handler allocates; or another lock is around it.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

// SAFETY: 1. as `new` was promised.
unsafe impl Exclusive for Unlocked {
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        Some(work())
    }
}

/// For one thread: not `Sync`. Notices when the source of an arena uses that arena.
#[derive(Debug, Default)]
pub struct OneThread {
    held: Cell<bool>,
}

impl OneThread {
    /// A lock that is free.
    #[must_use]
    pub const fn new() -> Self {
        Self { held: Cell::new(false) }
    }
}

/// Frees a lock when it goes, also in a panic.
struct Frees<F: FnMut()>(F);

impl<F: FnMut()> Drop for Frees<F> {
    fn drop(&mut self) {
        self.0();
    }
}

// SAFETY: 1. it is not Sync, and the flag is set while work is done.
unsafe impl Exclusive for OneThread {
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        if self.held.replace(true) {
            return None;
        }
        let _frees = Frees(|| self.held.set(false));
        Some(work())
    }
}

/// Spins until it has the lock. What an interrupt handler uses as well needs [`NoInterrupts`]
/// around it.
#[cfg(target_has_atomic = "8")]
#[derive(Debug, Default)]
pub struct Spin {
    /// Written by the thread that takes the lock (`Acquire`, sees what the last holder did) and by
    /// its holder (`Release`).
    held: AtomicBool,
}

#[cfg(target_has_atomic = "8")]
impl Spin {
    /// A lock that is free.
    #[must_use]
    pub const fn new() -> Self {
        Self { held: AtomicBool::new(false) }
    }
}

// SAFETY: 1. one compare-exchange succeeds until the flag is cleared, which its winner does.
#[cfg(target_has_atomic = "8")]
unsafe impl Exclusive for Spin {
    #[inline]
    fn hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        while self
            .held
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            while self.held.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
        let _frees = Frees(|| self.held.store(false, Ordering::Release));
        Some(work())
    }

    #[inline]
    fn try_hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        // A load first: a compare-exchange takes the line away from the holder.
        let free = !self.held.load(Ordering::Relaxed)
            && self
                .held
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        free.then(|| {
            let _frees = Frees(|| self.held.store(false, Ordering::Release));
            work()
        })
    }
}

/// Spins until it is its turn: who came first is first. For processors that would else starve each
/// other; where threads may be more than processors it is slow, for the next in turn may not be
/// running. At most 255 wait.
#[cfg(target_has_atomic = "8")]
#[derive(Debug, Default)]
pub struct Ticket {
    /// The next number to draw. A thread that waits draws one; the order is that of the numbers
    /// (`Relaxed`).
    next: AtomicU8,
    /// Whose turn it is. Written by the holder only (`Release`); whose number it is sees what the
    /// last holder did (`Acquire`).
    turn: AtomicU8,
}

#[cfg(target_has_atomic = "8")]
impl Ticket {
    /// A lock that is free.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: AtomicU8::new(0), turn: AtomicU8::new(0) }
    }

    /// Waits for a number's turn, and does the work in it.
    #[inline]
    fn in_turn<R>(&self, number: u8, work: impl FnOnce() -> R) -> R {
        while self.turn.load(Ordering::Acquire) != number {
            core::hint::spin_loop();
        }
        let _frees = Frees(|| self.turn.store(number.wrapping_add(1), Ordering::Release));
        work()
    }
}

// SAFETY: 1. each number is drawn once while it may be its turn, and the turn is passed on by whose
// it is.
#[cfg(target_has_atomic = "8")]
unsafe impl Exclusive for Ticket {
    #[inline]
    fn hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        Some(self.in_turn(self.next.fetch_add(1, Ordering::Relaxed), work))
    }

    #[inline]
    fn try_hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let number = self.turn.load(Ordering::Relaxed);
        let drawn = self.next.compare_exchange(
            number,
            number.wrapping_add(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        // Its turn it is, unless 256 others have had theirs since.
        drawn.is_ok().then(|| self.in_turn(number, work))
    }
}

/// A processor's interrupts.
///
/// # Safety
/// 1. Between `disable` and the `restore` of what it returned no interrupt handler runs on this
///    processor.
/// 2. Neither lets the compiler move accesses of memory across it: each is, or has, a compiler
///    barrier (`core::sync::atomic::compiler_fence`, or `asm!` without `nomem`).
pub unsafe trait Interrupts {
    /// Whether they were on.
    type State;
    /// Switches them off.
    fn disable() -> Self::State;
    /// Switches them on again, if they were on.
    fn restore(state: Self::State);
}

/// A lock that is taken with interrupts off, so that a handler may use the arena too: it never
/// finds the lock held by what it has interrupted. With [`Unlocked`] inside for a single processor.
#[derive(Debug)]
pub struct NoInterrupts<I, L> {
    inner: L,
    interrupts: PhantomData<fn() -> I>,
}

impl<I: Interrupts, L> NoInterrupts<I, L> {
    /// A lock inside.
    #[must_use]
    pub const fn new(inner: L) -> Self {
        Self { inner, interrupts: PhantomData }
    }
}

// SAFETY: 1. as the lock inside.
unsafe impl<I: Interrupts, L: Exclusive> Exclusive for NoInterrupts<I, L> {
    #[inline]
    fn hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        without_interrupts::<I, _>(|| self.inner.hold(work))
    }

    #[inline]
    fn try_hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        without_interrupts::<I, _>(|| self.inner.try_hold(work))
    }
}

#[inline]
fn without_interrupts<I: Interrupts, R>(work: impl FnOnce() -> R) -> R {
    let mut state = Some(I::disable());
    let _restores = Frees(|| {
        if let Some(state) = state.take() {
            I::restore(state);
        }
    });
    work()
}
