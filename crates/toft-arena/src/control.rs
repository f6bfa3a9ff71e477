//! The control groups of the small-bin experiment: [`Standard`](crate::Standard) in all but where
//! free chunks go.
//!
//! The first five are the variants that were compared when glibc got its patch; each of the next
//! differs from the one before it in one idea, so that each idea has its own figure.
//! `docs/experiments/small-bins.md` has them.

use crate::routing::{Order, Routing, To};
use crate::shape::Shape;
use crate::space::Anywhere;
use crate::table::Table;

macro_rules! control {
    ($($(#[$doc:meta])* $name:ident: $routing:expr, $parks:expr, $lasts:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl Shape for $name {
            type Space = Anywhere;
            #[cfg(target_pointer_width = "64")]
            type Bins = Table<usize, 512, 8, { $parks }, { $lasts }>;
            #[cfg(not(target_pointer_width = "64"))]
            type Bins = Table<usize, 320, 10, { $parks }, { $lasts }>;
            const ALIGN: usize = 16;
            const EXACT: usize = 1024;
            const STEPS: u32 = 4;
            const ROUTING: Routing = $routing;
        }
    )*};
}

control! {
    /// Every free chunk is sorted when a request looks for one.
    Original: Routing::ORIGINAL, 0, 64;
    /// Freed small chunks go to their bins.
    Mod: Routing::MOD, 0, 64;
    /// As `Mod`, and the compiler is told that small ones are unlikely among what is sorted.
    ModUnlikely: Routing::MOD_UNLIKELY, 0, 64;
    /// As `Original`, with that hint.
    OnlyUnlikely: Routing::ONLY_UNLIKELY, 0, 64;
    /// As `ModUnlikely`, and a free of a large chunk goes straight on: what glibc chose.
    ModUnlikelyInverted: Routing::MOD_UNLIKELY_INVERTED, 0, 64;
    /// As `Mod`, and what is left of a chunk that was split goes to its bin, too.
    Remainders: Routing { remainders: To::Bin, ..Routing::MOD }, 0, 64;
    /// As `Remainders`, and large chunks too: nothing is sorted.
    /// What was freed last is used first in `Standard`: that is all that it differs in.
    FirstOut: Routing { order: Order::First, ..Routing::DIRECT }, 0, 64;
    /// As `Standard`, and a chunk that grows stays outside of the bins.
    Runs: Routing::RUNS, 0, 0;
    /// As `Runs`, and small chunks are parked: what a thread's cache is to glibc.
    Parking: Routing::RUNS, 64, 0;
    /// As `Parking`, with the routing of `Original`.
    OriginalParking: Routing::ORIGINAL, 64, 64;
    /// As `Parking`, with the routing of `ModUnlikelyInverted`.
    ModParking: Routing::MOD_UNLIKELY_INVERTED, 64, 64;
}
