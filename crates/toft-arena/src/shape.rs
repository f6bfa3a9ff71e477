//! What is fixed at compile time about a heap: its words, its alignment, its bins, its checks.
//!
//! Most programs choose one of [`Fast`], [`Small`] and [`Checked`], which the crate also has at its
//! root. The other shapes here are for special needs, and a program may write its own.
//!
//! | shape | alignment | smallest chunk | overhead of a block | for |
//! |---|---|---|---|---|
//! | [`Fast`] | 32 | 32 | 8 | speed |
//! | [`Small`] | 8 | 24 | 8 | little code, a small table of bins |
//! | [`Micro`] | 8 | 24 | 8 | the same for memory of a few KiB |
//! | [`Checked`] | 8 | 24 | 8 | finding bugs: every pointer is checked, calls are counted |
//! | [`Packed`] | 8 | 24 | 8 | the closest fit |
//! | [`Standard`] | 16 | 32 | 8 | C's alignment |
//! | [`Bare`] | 32 | 32 | 8 | speed without checks |
//! | [`Narrow`] | 8 | 16 | 4 | memory below 4 GiB that processes share |
//! | [`Relative`] | 8 | 24 | 8 | larger memory that processes share |
//!
//! Sizes are in bytes, on 64 bits.

use crate::fault::Fault;
use crate::space::Anywhere;
pub use crate::space::{Space, Within};
pub use crate::table::{Table, Tables};
pub use crate::word::Word;
use core::alloc::Layout;
use core::marker::PhantomData;

/// How much a heap checks before it trusts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checks {
    /// Nothing: the memory is trusted.
    None,
    /// Each link of a list of free chunks, before it is followed or changed, and the size of a free
    /// neighbour against the one at its other end.
    Links,
    /// Also the tag of a block that is freed or resized: that it is live, that its size is one and
    /// stays within the spans, and that what is after it does not say that it is free. Not whether
    /// the pointer is a block's.
    Tags,
    /// Also every pointer that is freed or resized: see [`Fault`].
    Pointers,
}

/// A kind of heap.
pub trait Shape: 'static {
    /// Where its memory lies, and how wide its words are.
    type Space: Space;
    /// Its bins: [`Table`] gives the number.
    type Bins: Tables<<Self::Space as Space>::Word>;
    /// What every block's address is a multiple of, and the step between sizes: a power of two,
    /// from the size of a word to 4096.
    const ALIGN: usize;
    /// Chunks smaller than this have a bin for each size. A power of two.
    const EXACT: usize;
    /// Larger ones have `1 << STEPS` bins for each doubling of size.
    const STEPS: u32;
    /// What is checked.
    const CHECKS: Checks = Checks::Links;
    /// Whether a large request looks for a close fit even while there is memory in `top`: 1 % more
    /// of the memory is used, and requests of more than `EXACT` bytes take a tenth more time.
    const CAREFUL: bool = true;
    /// Requests of at least `EXACT` and below this many bytes are rounded up to the smallest size
    /// of a bin. Then every chunk of the bin serves, and freed ones are parked for each other. It
    /// costs a thirty-second more memory for such a block on average, at four `STEPS`, and saves
    /// the search. None are where this is 0; a power of two. What cannot be met so is tried
    /// without.
    const ROUNDED: usize = 0;
    /// Whether everything is tried before a request fails: every chunk in which an aligned block
    /// might lie, those of a bin of which only some are large enough, and the memory below a block
    /// that is to grow. Else only the first eight chunks of such a bin are checked: a request fails
    /// that could be met, though seldom, and there is a fifth less code.
    const THOROUGH: bool = true;
    /// Whether a chunk that has grown, because a freed one beside it has joined it, is kept outside
    /// of the bins: where there is room, or where it has grown twice in a row. Another that joins
    /// it then touches no list. Faster where blocks are freed in the order of their addresses, and
    /// a little less close a fit.
    const RUNS: bool = false;
    /// Whether calls are counted.
    const COUNT: bool = false;
    /// Called with each fault, before the call that found it returns, with the lock of a
    /// [`Shared`](crate::Shared) held. It may end the program. It must not use the arena that calls
    /// it, which would wait for itself, and not unwind: a panic in it aborts.
    fn on_fault(_: Fault) {}
}

/// Blocks are multiples of 8 bytes, at least 16 of them, and cost a word beside that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packed;

/// Blocks are aligned to 16 bytes, as C's `malloc` promises, and take at least 24.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard;

/// For speed: blocks are aligned to 32 bytes. Those from 2 to 64 KiB are rounded up to one of 16
/// sizes for each doubling, so that few differ in size, and freed ones are parked for the next
/// request of their size. They take at least 24 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fast;

/// As [`Fast`], and nothing is checked: for memory that only trusted code writes, as other arenas
/// take for granted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bare;

/// For microcontrollers and WebAssembly: little code, and 64 bins instead of 320 or more. Nothing
/// is checked. A request may fail although one free chunk among many would have served. Blocks are
/// as those of [`Packed`]. The feature `small` makes the code smaller still.
#[derive(Clone, Copy, Debug, Default)]
pub struct Small;

/// As [`Small`], with 32 bins: for memory of a few KiB, of which most blocks have less than 4 KiB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Micro;

/// All memory behind one origin and below 4 GiB: a block costs four bytes, and what is written does
/// not depend on where it is mapped. This is also exactly how a heap looks on a 32-bit machine.
/// Tags are checked, for the memory is most often one that others write.
#[derive(Clone, Copy, Debug, Default)]
pub struct Narrow;

/// As [`Packed`], behind one origin: it may be mapped anywhere, and provenance is strict. Tags are
/// checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Relative;

/// As [`Packed`]; calls are counted, and every pointer that is freed is checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked;

#[cfg(target_pointer_width = "64")]
type Wide = Table<usize, 512, 8>;
#[cfg(not(target_pointer_width = "64"))]
type Wide = Table<usize, 320, 10>;

macro_rules! eight {
    ($name:ty, $space:ty, $($more:tt)*) => {
        impl Shape for $name {
            type Space = $space;
            type Bins = Wide;
            const ALIGN: usize = 8;
            const EXACT: usize = 1024;
            const STEPS: u32 = 4;
            $($more)*
        }
    };
}

eight! { Packed, Anywhere, }
eight! { Relative, Within<usize>,
    const CHECKS: Checks = Checks::Tags;
}
eight! { Checked, Anywhere,
    const CHECKS: Checks = Checks::Pointers;
    const COUNT: bool = true;
}

macro_rules! few {
    ($name:ty, $bins:ty, $exact:literal) => {
        impl Shape for $name {
            type Space = Anywhere;
            type Bins = $bins;
            const ALIGN: usize = 8;
            const EXACT: usize = $exact;
            const STEPS: u32 = 2;
            const CHECKS: Checks = Checks::None;
            const CAREFUL: bool = false;
            const THOROUGH: bool = false;
        }
    };
}

// 16 or 8 exact bins, and four for each doubling up to half a megabyte or 4 KiB.
few!(Small, Table<usize, 64, 1, 0, 0, u64>, 128);
few!(Micro, Table<usize, 32, 1, 0, 0, u32>, 64);

impl Shape for Standard {
    type Space = Anywhere;
    type Bins = Wide;
    const ALIGN: usize = 16;
    const EXACT: usize = 1024;
    const STEPS: u32 = 4;
}

/// 64 exact bins, and 16 for each of five doublings, have a list of parked chunks beside them. Of
/// all bins that are not exact it is known how large their chunks are at most.
#[cfg(target_pointer_width = "64")]
type Parking = Table<usize, 448, 7, 144, 384>;
#[cfg(not(target_pointer_width = "64"))]
type Parking = Table<usize, 320, 10, 144, 256>;

macro_rules! fast {
    ($name:ty, $($more:tt)*) => {
        impl Shape for $name {
            type Space = Anywhere;
            type Bins = Parking;
            const ALIGN: usize = 32;
            const EXACT: usize = 2048;
            const STEPS: u32 = 4;
            const ROUNDED: usize = 64 << 10;
            const CAREFUL: bool = false;
            const RUNS: bool = true;
            $($more)*
        }
    };
}

fast! { Fast, }
fast! { Bare,
    const CHECKS: Checks = Checks::None;
}

impl Shape for Narrow {
    type Space = Within<u32>;
    type Bins = Table<u32, 320, 10>;
    const ALIGN: usize = 8;
    const EXACT: usize = 512;
    const STEPS: u32 = 4;
    const CHECKS: Checks = Checks::Tags;
}

/// A function that is called with each fault: see [`OnFault`].
pub trait FaultHook: 'static {
    /// As [`Shape::on_fault`], with the same duties.
    fn on_fault(fault: Fault);
}

/// The shape `S`, of which each fault is passed to the hook `H`, and not to the hook of `S`.
///
/// ```
/// use toft_arena::shape::{FaultHook, OnFault};
/// use toft_arena::{Anywhere, Checked, Fault, Heap};
///
/// struct Log;
/// impl FaultHook for Log {
///     fn on_fault(fault: Fault) {
///         eprintln!("{fault}");
///     }
/// }
///
/// let heap = Heap::<OnFault<Checked, Log>>::new(Anywhere);
/// assert_eq!(heap.faults().0, 0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OnFault<S, H>(PhantomData<fn() -> (S, H)>);

impl<S: Shape, H: FaultHook> Shape for OnFault<S, H> {
    type Space = S::Space;
    type Bins = S::Bins;
    const ALIGN: usize = S::ALIGN;
    const EXACT: usize = S::EXACT;
    const STEPS: u32 = S::STEPS;
    const CHECKS: Checks = S::CHECKS;
    const CAREFUL: bool = S::CAREFUL;
    const ROUNDED: usize = S::ROUNDED;
    const THOROUGH: bool = S::THOROUGH;
    const RUNS: bool = S::RUNS;
    const COUNT: bool = S::COUNT;
    fn on_fault(fault: Fault) {
        H::on_fault(fault);
    }
}

/// What follows from a [`Shape`].
pub(crate) trait Sizes: Shape {
    /// The size of a word in the memory.
    const WORD: usize = <Self::Space as Space>::Word::BYTES;
    /// The smallest chunk: two links and a size.
    const MIN: usize = (3 * Self::WORD + Self::ALIGN - 1) & !(Self::ALIGN - 1);
    /// The bits of a tag that are not its size.
    const FLAGS: usize = if Self::ALIGN >= 8 { 7 } else { 3 };
    /// A chunk's place is this far above a multiple of `ALIGN`, so that what follows its tag is
    /// one.
    const LEAD: usize = Self::ALIGN - Self::WORD;
    /// More than the size of any block.
    const LIMIT: usize = {
        let most = <Self::Space as Space>::Word::MAX;
        if most / 2 < isize::MAX as usize { most / 2 } else { isize::MAX as usize }
    };
    /// What must hold between these numbers.
    const SOUND: () = {
        assert!(Self::ALIGN.is_power_of_two() && Self::ALIGN >= Self::WORD);
        // Two bits of every size are flags, and a place is never odd.
        assert!(Self::WORD >= 4 && Self::ALIGN <= 4096);
        assert!(Self::EXACT.is_power_of_two() && Self::EXACT > Self::MIN);
        // A parked chunk has a separate flag.
        assert!(Self::Bins::PARKS == 0 || Self::ALIGN >= 8);
        let exact = Self::EXACT / Self::ALIGN;
        let rounded = if Self::ROUNDED == 0 {
            0
        } else {
            assert!(Self::ROUNDED.is_power_of_two() && Self::ROUNDED > Self::EXACT);
            ((Self::ROUNDED / Self::EXACT).trailing_zeros() as usize) << Self::STEPS
        };
        assert!(Self::Bins::BINS > exact + rounded);
        // All that a list has parked is of one size.
        assert!(Self::Bins::PARKS <= exact + rounded);
        // The first bins of more than one size are not narrower than the step between sizes.
        assert!(Self::EXACT >> Self::STEPS >= Self::ALIGN);
        assert!(Self::EXACT / Self::ALIGN + (1 << Self::STEPS) <= Self::Bins::BINS);
    };

    /// Whether what is left of a chunk that was split is kept outside of the bins. That takes a
    /// fifth of the code, so a shape that is not thorough goes without.
    const RESTS: bool = Self::THOROUGH;

    /// The size of the chunk for a block of this many bytes. `None` if there can be none.
    ///
    /// Always inlined, for a result of two words is returned in memory.
    #[inline(always)]
    fn chunk_size(bytes: usize) -> Option<usize> {
        if bytes < Self::LIMIT - 2 * Self::ALIGN { Some(Self::chunk_for(bytes)) } else { None }
    }

    /// As `chunk_size`, for the block of a layout. That has at most `isize::MAX` bytes, so where
    /// words are as wide no size has to be compared, and no sum overflows.
    #[inline(always)]
    fn chunk_of(layout: Layout) -> Option<usize> {
        let fits = Self::LIMIT == isize::MAX as usize;
        if fits { Some(Self::chunk_for(layout.size())) } else { Self::chunk_size(layout.size()) }
    }

    /// As `chunk_size`, for less than any block has at most.
    #[cfg_attr(not(feature = "small"), inline(always))]
    #[cfg_attr(feature = "small", inline(never))]
    fn chunk_for(bytes: usize) -> usize {
        let size = (bytes + Self::WORD + Self::ALIGN - 1) & !(Self::ALIGN - 1);
        if size < Self::MIN { Self::MIN } else { size }
    }

    /// From here on a bin may have chunks that are too small for a request that belongs there.
    const MIXED: usize = if Self::ROUNDED == 0 { Self::EXACT } else { Self::ROUNDED };

    /// The size of the chunk that is looked for first.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn rounded(size: usize) -> usize {
        if size < Self::EXACT || size >= Self::ROUNDED {
            return size;
        }
        let step = 1 << (size.ilog2() - Self::STEPS);
        (size + step - 1) & !(step - 1)
    }

    /// The first place of a chunk at or after this one.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn place_from(place: usize) -> usize {
        ((place + Self::ALIGN - 1 - Self::LEAD) & !(Self::ALIGN - 1)) + Self::LEAD
    }
}

impl<S: Shape> Sizes for S {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for bytes in [usize::MAX, usize::MAX / 2, isize::MAX as usize - 1] {
            assert_eq!(Packed::chunk_size(bytes), None);
        }
        assert_eq!(Narrow::chunk_size(u32::MAX as usize), None);
        assert_eq!(Narrow::chunk_size(u32::MAX as usize / 2), None);
        assert!(Narrow::chunk_size(1 << 30).is_some());
    }
}
