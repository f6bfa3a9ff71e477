//! What a thread counts: its calls, the locks that it took, and the blocks of other arenas.

use crate::sync::{AtomicUsize, Ordering::Relaxed};

/// A number that one thread writes and others may read.
#[derive(Debug)]
pub struct Count(AtomicUsize);

impl Count {
    const fn new() -> Count {
        Count(AtomicUsize::new(0))
    }

    /// Adds one. Only the thread that the count belongs to.
    #[inline(always)]
    pub fn add_one(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// The number.
    pub fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of a thread.
        #[derive(Debug)]
        pub struct Counts { $($(#[$doc])* pub $name: Count,)* }

        impl Counts {
            /// All zero.
            pub const fn new() -> Counts {
                Counts { $($name: Count::new(),)* }
            }

            /// Adds the counts to `sums`.
            pub fn add_to(&self, sums: &mut Sums) {
                $(sums.$name += self.$name.get();)*
            }
        }

        /// The counts of all threads together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Sums { $($(#[$doc])* pub $name: usize,)* }

        impl Sums {
            /// Hands each count and its name to `each`.
            pub fn for_each(&self, mut each: impl FnMut(&'static str, usize)) {
                $(each(stringify!($name), self.$name);)*
            }
        }
    };
}

counts! {
    /// Blocks that were handed out.
    allocated,
    /// Blocks that were freed.
    freed,
    /// Requests that passed through to the next allocator.
    passed,
    /// Locks taken.
    locks,
    /// Locks that another thread held at that moment.
    contended,
    /// Blocks freed that belong to another arena or, without locks, to another thread's heap.
    transfers,
    /// Blocks that came out of the thread's cache.
    cache_hits,
}
