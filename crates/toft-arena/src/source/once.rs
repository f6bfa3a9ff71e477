//! One range of memory, claimed with the first request: what a static heap is.

use super::Source;
use crate::fault::NoMemory;
use crate::heap::Heap;
use crate::shape::Shape;
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
#[cfg(target_has_atomic = "8")]
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A range of memory that is claimed when the first block is requested. It is given by its address,
/// or, as `Once<A>`, it is an [`array!`](crate::array).
pub struct Once<A = Given> {
    start: *mut u8,
    size: usize,
    zeroed: bool,
    array: PhantomData<fn() -> A>,
}

/// The memory of a [`Once`] is given by its address.
#[derive(Debug)]
pub enum Given {}

// SAFETY: the range is for the one heap that claims it, in whatever thread.
unsafe impl<A> Send for Once<A> {}

impl Once {
    /// A range of memory.
    ///
    /// # Safety
    /// 1. As [`Heap::claim`], from now on.
    #[must_use]
    pub const unsafe fn new(start: *mut u8, size: usize) -> Self {
        Self { start, size, zeroed: false, array: PhantomData }
    }

    /// A range of memory that is full of zeros.
    ///
    /// # Safety
    /// 1. As [`Heap::claim_zeroed`], from now on.
    #[must_use]
    pub const unsafe fn zeroed(start: *mut u8, size: usize) -> Self {
        Self { start, size, zeroed: true, array: PhantomData }
    }
}

impl<A: Array> Once<A> {
    const OF_ARRAY: Self =
        Self { start: core::ptr::null_mut(), size: 0, zeroed: false, array: PhantomData };

    /// The memory of an [`array!`](crate::array). The first arena that requests memory gets it, and
    /// a second one gets none.
    #[cfg(target_has_atomic = "8")]
    #[must_use]
    pub const fn array() -> Self {
        Self::OF_ARRAY
    }

    /// The memory of an [`array!`](crate::array). The first arena that requests memory gets it, and
    /// a second one gets none.
    ///
    /// # Safety
    /// 1. No other arena has this array: without an atomic exchange, two that ask at the same
    /// moment would both get it.
    #[cfg(not(target_has_atomic = "8"))]
    #[must_use]
    pub const unsafe fn array() -> Self {
        Self::OF_ARRAY
    }
}

/// A static array for one arena. The macro [`array!`](crate::array) implements it.
pub trait Array {
    /// The array, the same in each call.
    fn bytes() -> &'static Bytes<[u8]>;
}

/// The bytes of an [`Array`], zero at first.
pub struct Bytes<T: ?Sized> {
    /// Whether an arena has the bytes. Written by the arena that takes them (`Relaxed`: one
    /// exchange wins, and nothing is published by it).
    #[cfg(target_has_atomic = "8")]
    taken: AtomicBool,
    /// Without an atomic exchange, `Once::array` asks for one arena.
    #[cfg(not(target_has_atomic = "8"))]
    taken: core::cell::Cell<bool>,
    bytes: UnsafeCell<T>,
}

// SAFETY: the bytes are reached by `take` only, and only once.
unsafe impl<T: ?Sized + Send> Sync for Bytes<T> {}

impl<const SIZE: usize> Bytes<[u8; SIZE]> {
    /// `SIZE` zero bytes.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it is for statics, and large")]
    pub const fn new() -> Self {
        #[cfg(target_has_atomic = "8")]
        let taken = AtomicBool::new(false);
        #[cfg(not(target_has_atomic = "8"))]
        let taken = core::cell::Cell::new(false);
        Self { taken, bytes: UnsafeCell::new([0; SIZE]) }
    }
}

impl Bytes<[u8]> {
    /// The address and size of the bytes, once. They are the caller's from then on.
    fn take(&'static self) -> Option<(*mut u8, usize)> {
        #[cfg(target_has_atomic = "8")]
        let taken = self.taken.swap(true, Relaxed);
        #[cfg(not(target_has_atomic = "8"))]
        let taken = self.taken.replace(true);
        (!taken).then(|| (self.bytes.get().cast(), self.bytes.get().len()))
    }
}

impl<T: ?Sized> fmt::Debug for Bytes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bytes").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl<A> fmt::Debug for Once<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once")
            .field("start", &self.start)
            .field("size", &self.size)
            .field("zeroed", &self.zeroed)
            .finish()
    }
}

// SAFETY: 1. it claims only. 2. as `new` was promised.
unsafe impl<S: Shape> Source<S> for Once {
    unsafe fn more(&mut self, heap: &mut Heap<S>, _: Layout) -> Result<(), NoMemory> {
        let size = core::mem::take(&mut self.size);
        if size == 0 {
            return Err(NoMemory);
        }
        // SAFETY: as `new` or `zeroed` was promised; the size is 0 from now on.
        let claimed = unsafe {
            if self.zeroed {
                heap.claim_zeroed(self.start, size)
            } else {
                heap.claim(self.start, size)
            }
        };
        claimed.map(|_| ()).map_err(|_| NoMemory)
    }
}

// SAFETY: 1. it claims only. 2. the array is a static.
unsafe impl<S: Shape, A: Array> Source<S> for Once<A> {
    unsafe fn more(&mut self, heap: &mut Heap<S>, _: Layout) -> Result<(), NoMemory> {
        let (start, size) = A::bytes().take().ok_or(NoMemory)?;
        // SAFETY: `take` gives the bytes once, so no span has them; they are zero, because no other
        // code has them; no memory comes before them.
        unsafe { heap.add(start.addr(), start, size, true, false) }
            .map(|_| ())
            .map_err(|_| NoMemory)
    }
}

/// Declares a type for a static array of zero bytes, which
/// [`Once::array`](crate::source::Once::array) gives to an arena. Nothing of it is in the program's
/// file.
///
/// ```
/// toft_arena::array!(Memory, 64 * 1024);
/// ```
#[macro_export]
macro_rules! array {
    ($(#[$attribute:meta])* $visible:vis $name:ident, $size:expr) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        $visible struct $name;

        impl $crate::source::Array for $name {
            fn bytes() -> &'static $crate::source::Bytes<[u8]> {
                static TOFT_ARENA_BYTES: $crate::source::Bytes<[u8; $size]> =
                    $crate::source::Bytes::new();
                &TOFT_ARENA_BYTES
            }
        }
    };
}
