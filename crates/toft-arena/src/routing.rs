//! Where a free chunk goes: the choices of the small-bin experiment, made when a shape is compiled.
//!
//! Every shape of the crate routes all chunks [directly](Routing::DIRECT). The others are control
//! groups: with a list of chunks that have yet to be sorted, as C libraries have it. A request that
//! no exact bin serves sorts that list, chunk by chunk, until one has exactly its size. What was
//! measured: `docs/experiments/small-bins.md`.

/// Where chunks of one kind go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The bin of their size.
    Bin,
    /// The list of those that have yet to be sorted.
    Unsorted,
}

/// Which chunk of an exact bin is the next to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that was freed last: it may still be in a cache.
    Last,
    /// The one that was freed first. [`Tables::LASTS`](crate::Tables::LASTS) says of how many bins
    /// the end is known.
    First,
}

/// Where free chunks go, by where they come from.
///
/// `top` and `rest` are outside of it: memory that touches one of them joins it, and what is left
/// of a chunk that was split is `rest` until another takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Freed chunks that have an exact bin.
    pub small: To,
    /// Freed chunks that are larger.
    pub large: To,
    /// What was left of a chunk that was split.
    pub remainders: To,
    /// Whether a chunk that has grown, because a freed one beside it has joined it, is kept as
    /// `rest`. Only where `rest` is free, or where the chunk has grown twice in a row: another that
    /// joins it then touches no list.
    pub runs: bool,
    /// Whether the compiler assumes that what is sorted is unlikely to be small.
    pub unlikely: bool,
    /// Whether the compiler lays out a free so that the way of large chunks goes straight
    /// on.
    pub inverted: bool,
    /// The order within an exact bin, and within the list that is to be sorted.
    pub order: Order,
}

impl Routing {
    /// Nothing is ever sorted: each free chunk goes to the bin of its size.
    pub const DIRECT: Self = Self {
        small: To::Bin,
        large: To::Bin,
        remainders: To::Bin,
        runs: false,
        unlikely: false,
        inverted: false,
        order: Order::Last,
    };
    /// And a chunk that grows stays outside of the bins: faster where blocks are freed in the order
    /// of their addresses, and a little less close a fit.
    pub const RUNS: Self = Self { runs: true, ..Self::DIRECT };
    /// As glibc up to 2.40: every free chunk is to be sorted.
    pub const ORIGINAL: Self = Self {
        small: To::Unsorted,
        large: To::Unsorted,
        remainders: To::Unsorted,
        runs: false,
        unlikely: false,
        inverted: false,
        order: Order::First,
    };
    /// The patch's first form: freed small chunks go to their bins.
    pub const MOD: Self = Self { small: To::Bin, ..Self::ORIGINAL };
    /// And small ones are unlikely among those that are sorted.
    pub const MOD_UNLIKELY: Self = Self { unlikely: true, ..Self::MOD };
    /// That hint alone.
    pub const ONLY_UNLIKELY: Self = Self { unlikely: true, ..Self::ORIGINAL };
    /// And a free of a large chunk goes straight on: what glibc 2.41 has.
    pub const MOD_UNLIKELY_INVERTED: Self = Self { inverted: true, ..Self::MOD_UNLIKELY };

    /// Whether there is anything to sort.
    #[must_use]
    pub const fn sorts(&self) -> bool {
        !matches!((self.small, self.large, self.remainders), (To::Bin, To::Bin, To::Bin))
    }
}

/// What is called in a branch that is unlikely to be taken.
#[cold]
#[inline]
pub(crate) fn unlikely() {}
