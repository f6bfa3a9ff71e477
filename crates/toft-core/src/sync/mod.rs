//! L0: the atomics that the rest of the crate uses.
//!
//! No other folder names `core::sync::atomic`. The loom model checker (`--cfg loom`) can therefore
//! run the protocols of `remote/` and `thread/` unchanged.

mod reentrancy;
pub mod stack;
mod user;

pub use reentrancy::{Busy, ReentrancyGuard};
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

/// The number of times that a thread spins before it continues without the result.
///
/// A thread spins only while another thread is between two instructions. Every path of the
/// allocator also works if the spin ends without success. Law 5 therefore holds because of this
/// bound.
pub const SPIN_LIMIT: u32 = if cfg!(loom) { 2 } else { 2_000 };

/// Spins until `done` returns true, at most [`SPIN_LIMIT`] times. Returns the last result of
/// `done`.
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
/// In the real build both accesses are SeqCst, which is enough. Loom models SeqCst accesses as
/// AcqRel, and needs the fence.
#[inline(always)]
pub fn fence_between_locations() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Does nothing: loom has no signal handlers to order against.
#[cfg(loom)]
pub fn compiler_fence(_: Ordering) {}

/// Keeps the order of the calling thread's accesses, for a thread that makes every thread pass a
/// barrier (`Os::barrier`).
///
/// Only the compiler must keep the order, so this costs no instruction. The model checker has no
/// such barrier, so there both sides use a fence. That promises less: the real barrier acts as a
/// fence between any two instructions of this thread.
#[inline(always)]
pub fn light_barrier() {
    #[cfg(not(loom))]
    compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Makes this processor the owner of the cache line of a word that only the calling thread writes.
/// Changes nothing.
///
/// For a line that the caller is about to read and then to write to, and that another processor
/// wrote last: it moves once then, and not twice.
pub fn own_line(word: &AtomicUsize) {
    _ = word.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// Decrements a counter that only the calling thread writes, and returns the new value.
///
/// Another thread may read it by an atomic load. The language calls that a race. The processor
/// writes the word whole, in one instruction, so the reader gets the value before or after. The
/// same instruction as inline assembly with a jump makes the compiler save a register in each free
/// (30 instructions, not 28). An atomic load and store take three instructions.
///
/// # Safety
/// 1. No other thread writes the counter at the same time.
#[inline(always)]
pub unsafe fn decrement(counter: &AtomicU32) -> u32 {
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

/// An atomic that is written only if the value changes.
pub trait StoreChanged<Value> {
    /// Stores `value` unless the atomic holds it already. For the child of a fork, where the first
    /// write to a page costs a fault and a copy.
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

store_changed! { AtomicU8, u8; AtomicU32, u32; AtomicU64, u64; AtomicUsize, usize; }

/// An atomic that can be read as plain memory.
pub trait Settled {
    /// The type of the value.
    type Value;
    /// Reads a value that does not change any more. The compiler can use it in place. An atomic
    /// load would take a separate instruction.
    ///
    /// # Safety
    /// 1. No thread writes a different value, unless the program frees a pointer that it was never
    ///    given. The read then returns the old or the new value, and the caller does nothing wrong
    ///    with either.
    unsafe fn settled(&self) -> Self::Value;
}

macro_rules! settled {
    ($($atomic:ty, $value:ty;)*) => { $(
        impl Settled for $atomic {
            type Value = $value;
            #[inline(always)]
            unsafe fn settled(&self) -> $value {
                #[cfg(not(loom))]
                // SAFETY: duty 1; the pointer is aligned, and lives as long as the reference.
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
