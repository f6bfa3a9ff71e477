//! L0: the atomics that the rest of the crate uses.
//!
//! Nothing outside this folder names `core::sync::atomic`, so that the protocols of
//! `remote/` and `thread/` can be run under the loom model checker (`--cfg loom`) unchanged.

mod seat;
pub mod stack;
mod user;

pub use seat::{Busy, Seat};
pub use user::{Use, User};

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
    fence,
};

#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// Tells the processor that this is a spin loop.
#[inline]
pub fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// How often a thread looks again before it takes another way round.
///
/// Spinning is only ever a courtesy to a thread that is between two instructions; no path of the
/// allocator depends on it ending, so this bound is what makes law 5 hold.
pub const SPIN_LIMIT: u32 = if cfg!(loom) { 2 } else { 2_000 };

/// Spins until `done` returns true, [`SPIN_LIMIT`] times at most; returns whether it did.
pub fn spin_until(done: impl Fn() -> bool) -> bool {
    for _ in 0..SPIN_LIMIT {
        if done() {
            return true;
        }
        pause();
    }
    done()
}

/// Orders a read-modify-write of one location before a load of another.
///
/// In the real build both are SeqCst, which is enough and costs nothing more; loom models SeqCst
/// accesses as AcqRel and needs the fence.
#[inline(always)]
pub fn fence_between_locations() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// loom has no signal handlers to order against.
#[cfg(loom)]
pub fn compiler_fence(_: Ordering) {}

/// What a thread does whose order another relies on that makes every thread pass a barrier
/// (`Os::barrier`): nothing, but the compiler must keep the order. The model checker knows no such
/// barrier, so both sides get a fence, which promises less: the other's barrier is a fence between
/// any two of this thread's instructions.
#[inline(always)]
pub fn light_barrier() {
    #[cfg(not(loom))]
    compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// A plain store to what another thread may just be comparing and exchanging.
///
/// The model checker keeps no total order of the values of one location. It lets an exchange
/// succeed on a value that a plain store has replaced, and takes the result for newer than the
/// store. No processor does that, and the language forbids it. The checker orders two exchanges.
#[inline(always)]
pub fn store_beside_exchanges(atomic: &AtomicU8, value: u8) {
    #[cfg(not(loom))]
    atomic.store(value, Ordering::Relaxed);
    #[cfg(loom)]
    atomic.swap(value, Ordering::Relaxed);
}

/// Takes one off a counter that only the calling thread uses; returns what is left.
///
/// # Safety
/// 1. No other thread reads or writes the counter at the same time.
#[inline(always)]
pub unsafe fn decrement(counter: &AtomicU32) -> u32 {
    // A plain decrement in place is one instruction where an atomic load and store would be three.
    #[cfg(not(loom))]
    // SAFETY: duty 1.
    unsafe {
        let counter = counter.as_ptr();
        *counter = (*counter).wrapping_sub(1);
        *counter
    }
    #[cfg(loom)]
    {
        let left = counter.load(Ordering::Relaxed).wrapping_sub(1);
        counter.store(left, Ordering::Relaxed);
        left
    }
}

/// An atomic that is written only where that changes it.
pub trait StoreChanged<Value> {
    /// Stores a value unless it is there already. For the child of a fork, in which the first write
    /// to a page costs a fault and a copy.
    fn store_changed(&self, value: Value, ordering: Ordering);
}

macro_rules! store_changed {
    ($($atomic:ty, $value:ty;)*) => { $(
        impl StoreChanged<$value> for $atomic {
            fn store_changed(&self, value: $value, ordering: Ordering) {
                if self.load(Ordering::Relaxed) != value {
                    self.store(value, ordering);
                }
            }
        }
    )* };
}

store_changed! { AtomicU32, u32; AtomicU64, u64; AtomicUsize, usize; }

/// An atomic that can be read as plain memory.
pub trait Settled {
    /// What it holds.
    type Value;
    /// Reads a value that has settled. The compiler uses it in place, while it gives an atomic load
    /// a separate instruction.
    ///
    /// # Safety
    /// 1. No thread writes another value than the one that is there, unless the program frees a
    ///    pointer that it was never given. Then an old or a new value is read, and the caller does
    ///    nothing that is wrong with either.
    unsafe fn settled(&self) -> Self::Value;
}

macro_rules! settled {
    ($($atomic:ty, $value:ty;)*) => { $(
        impl Settled for $atomic {
            type Value = $value;
            #[inline(always)]
            unsafe fn settled(&self) -> $value {
                #[cfg(not(loom))]
                // SAFETY: duty 1; aligned, and as long-lived as the reference.
                unsafe {
                    *self.as_ptr()
                }
                #[cfg(loom)]
                self.load(Ordering::Relaxed)
            }
        }
    )* };
}

settled! { AtomicU8, u8; AtomicU16, u16; AtomicU32, u32; AtomicU64, u64; AtomicUsize, usize; }
