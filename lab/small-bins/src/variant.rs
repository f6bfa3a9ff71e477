//! The choices of the experiment, and a type for each set of them.
//!
//! The first five are the variants that were compared when glibc got the patch. Each later one
//! differs from the one before it in one choice, so that each idea has a figure.

use std::fmt::Debug;

/// Where chunks of one kind go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The bin of their size.
    Bin,
    /// The list of chunks that a later request sorts.
    Unsorted,
}

/// Which chunk of an exact bin is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that was freed first, as in glibc.
    Queue,
    /// The one that was freed last: its memory may still be in the processor's cache.
    Stack,
}

/// How much free memory stays at the end of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// 128 KiB, as in glibc.
    Fixed,
    /// An amount that doubles if returned memory is wanted again, and halves if much of it is not.
    Hysteresis,
}

/// What a variant does.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    /// The place of freed chunks that have an exact bin.
    pub small: To,
    /// The place of larger freed chunks.
    pub large: To,
    /// The place of what is left of a chunk that was split.
    pub remainders: To,
    /// True if the code marks a sorted chunk as unlikely to be small, for the compiler.
    pub unlikely: bool,
    /// True if the code marks a freed chunk as unlikely to be small, for the compiler.
    pub inverted: bool,
    /// The order within an exact bin.
    pub order: Order,
    /// A chunk that grows by a merge is in no list until another one grows.
    pub runs: bool,
    /// Blocks of each small size that a thread's cache holds: 0, which is no cache, or 8 and more.
    /// Of tiny sizes it holds [`TINY_PARKED`].
    pub parked: usize,
    /// What stays at the end of the heap.
    pub release: Release,
    /// The heap counts what it does.
    pub counts: bool,
}

/// The bytes of the largest tiny chunk. To merge and split such chunks costs more than they have.
pub const TINY: usize = 80;
/// Tiny blocks of each size that a cache holds. It stands for glibc's fast bins, which merge no
/// chunk either and have no bound. This one is at most 160 KiB for each size and thread.
pub const TINY_PARKED: usize = 2048;

impl Choices {
    /// Returns the number of chunks of this size that a cache holds.
    #[inline(always)]
    #[must_use]
    pub const fn parked_of(&self, size: usize) -> usize {
        if self.parked > 0 && size <= TINY { TINY_PARKED } else { self.parked }
    }

    /// Returns true if some chunks go to the unsorted list.
    #[must_use]
    pub const fn sorts(&self) -> bool {
        !matches!((self.small, self.large, self.remainders), (To::Bin, To::Bin, To::Bin))
    }
}

/// A set of choices that a heap is compiled for.
pub trait Variant: Copy + Debug + Default + Send + Sync + 'static {
    /// The name in tables and of libraries.
    const NAME: &'static str;
    /// What it does.
    const CHOICES: Choices;
    /// Each thread has a cache.
    const CACHES: bool = Self::CHOICES.parked > 0;
}

/// A variant that counts what it does, and is otherwise the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted<V>(V);

impl<V: Variant> Variant for Counted<V> {
    const NAME: &'static str = V::NAME;
    const CHOICES: Choices = Choices { counts: true, ..V::CHOICES };
}

/// Selects a variant by its place in [`NAMES`].
#[derive(Clone, Copy, Debug)]
pub struct Number<const N: usize>;

/// The variant of a [`Number`].
pub trait Pick {
    /// That variant.
    type Variant: Variant;
}

/// Calls a macro with every variant: place, type, name, choices, and the doc comment.
macro_rules! variants {
    ($($number:literal $type:ident $name:literal = $choices:expr, $doc:literal;)*) => {
        /// The names of all variants.
        pub const NAMES: &[&str] = &[$($name),*];

        $(
            #[doc = $doc]
            #[derive(Clone, Copy, Debug, Default)]
            pub struct $type;

            impl Variant for $type {
                const NAME: &'static str = $name;
                const CHOICES: Choices = $choices;
            }

            impl Pick for Number<$number> {
                type Variant = $type;
            }
        )*

        /// Calls a macro with each variant: `each!(call)` is `call!(Original); call!(Mod); ...`
        #[macro_export]
        macro_rules! each_variant {
            ($call:ident) => { $($call!($type);)* };
        }
    };
}

variants! {
    0 Original "original" = Choices {
        small: To::Unsorted,
        large: To::Unsorted,
        remainders: To::Unsorted,
        unlikely: false,
        inverted: false,
        order: Order::Queue,
        runs: false,
        parked: 0,
        release: Release::Fixed,
        counts: false,
    },
        "Every free chunk is sorted by a later request: glibc up to 2.40, without its caches.";
    1 Mod "mod" = Choices { small: To::Bin, ..Original::CHOICES },
        "Freed small chunks go straight to their bins.";
    2 ModUnlikely "mod-unlikely" = Choices { unlikely: true, ..Mod::CHOICES },
        "`Mod`, with the hint that a chunk that is sorted is large.";
    3 OnlyUnlikely "only-unlikely" = Choices { unlikely: true, ..Original::CHOICES },
        "`Original`, with that hint alone.";
    4 Inverted "inverted" = Choices { inverted: true, ..ModUnlikely::CHOICES },
        "`ModUnlikely`, with the hint that a freed chunk is large: glibc since 2.41.";
    5 Remainders "remainders" = Choices { remainders: To::Bin, ..Inverted::CHOICES },
        "`Inverted`, and remainders go straight to their bins.";
    6 FirstOut "first-out" = Choices { large: To::Bin, ..Remainders::CHOICES },
        "`Remainders`, and large chunks go straight to their bins: nothing is sorted later.";
    7 Stacks "stacks" = Choices { order: Order::Stack, ..FirstOut::CHOICES },
        "`FirstOut`, and exact bins are stacks.";
    8 Runs "runs" = Choices { runs: true, ..Stacks::CHOICES },
        "`Stacks`, and a chunk that grows stays outside of the bins.";
    9 Parking "parking" = Choices { parked: 32, ..Runs::CHOICES },
        "`Runs`, with a cache for each thread: 32 blocks of each small size, and more tiny ones.";
    10 Hysteresis "hysteresis" = Choices { release: Release::Hysteresis, ..Parking::CHOICES },
        "`Parking`, and returned memory that is wanted again is kept the next time.";
    11 OriginalParking "original-parking" = Choices { parked: 32, ..Original::CHOICES },
        "`Original` with the cache of `Parking`: its control group.";
    12 OriginalHysteresis "original-hysteresis" =
        Choices { release: Release::Hysteresis, ..OriginalParking::CHOICES },
        "`OriginalParking` with the release of `Hysteresis`: its control group.";
}

/// The place of a name in [`NAMES`]. Stops the compiler if there is no such variant.
#[must_use]
pub const fn number(name: &str) -> usize {
    let mut at = 0;
    while at < NAMES.len() {
        if same(NAMES[at].as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("no variant has this name")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// A call in a branch that is unlikely to be taken.
#[cold]
#[inline]
pub(crate) fn unlikely() {}

#[cfg(test)]
#[path = "../tests/unit/variant.rs"]
mod tests;
