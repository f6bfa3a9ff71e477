//! The bytes that a heap's thread has allocated and freed, for programs that ask
//! (`docs/jemalloc.md`).
//!
//! malloc and free of a slot count nothing for this. A slab knows the number of its allocations and
//! of the frees by its owner. A heap's sums are those of the slabs that it owns now, and the bytes
//! *apart* from them:
//!
//! - slots that its thread has drawn from shared heaps, or freed in slabs of others;
//! - large blocks;
//! - what slabs that it has lost had counted, less what those that it has got had counted before,
//!   and less what other threads have freed in its slabs.
//!
//! Amounts wrap, because the last difference may be negative.

use crate::slab::Slab;
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;
use core::array::from_fn;

/// The counters of one heap. Holder only; the program's readers of `shown` need no order.
#[derive(Debug)]
pub struct Counters {
    /// The bytes apart: allocated, and freed.
    apart: [AtomicU64; 2],
    /// The sums at the last call of `show`. They never fall.
    shown: [AtomicU64; 2],
}

impl Counters {
    /// Returns counters of zero.
    pub(super) const fn new() -> Counters {
        Counters {
            apart: [const { AtomicU64::new(0) }; 2],
            shown: [const { AtomicU64::new(0) }; 2],
        }
    }

    fn add(&self, bytes: [u64; 2]) {
        for (word, bytes) in self.apart.iter().zip(bytes) {
            word.store(word.load(Relaxed).wrapping_add(bytes), Relaxed);
        }
    }

    /// Counts a block, not one of a slab that the heap owns, which the thread has allocated.
    #[inline]
    pub(crate) fn allocated_apart(&self, bytes: usize) {
        let [allocated, _] = &self.apart;
        allocated.store(allocated.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
    }

    /// Counts a block, not one of a slab that the heap owns, which the thread has freed.
    #[inline]
    pub(crate) fn freed_apart(&self, bytes: usize) {
        let [_, freed] = &self.apart;
        freed.store(freed.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
    }

    /// Counts blocks of the heap's slabs, which the slabs count like its own frees from now on, and
    /// which the threads that freed them have counted.
    pub(super) fn freed_by_others(&self, bytes: usize) {
        self.add([0, (bytes as u64).wrapping_neg()]);
    }

    /// Counts that the heap does not own a slab any more.
    pub(crate) fn slab_lost(&self, slab: &Slab) {
        self.add(slab.bytes_ever());
    }

    /// Counts that the heap owns another slab from now on.
    pub(crate) fn slab_got(&self, slab: &Slab) {
        self.add(slab.bytes_ever().map(u64::wrapping_neg));
    }

    /// Returns the sums: allocated, and freed. `owned` has those of the slabs that the heap owns.
    pub(crate) fn show(&self, owned: [u64; 2]) -> &[AtomicU64; 2] {
        let sums: [u64; 2] = from_fn(|at| owned[at].wrapping_add(self.apart[at].load(Relaxed)));
        for (shown, sum) in self.shown.iter().zip(sums) {
            // A slot in a quarantine of the secure build counts for the slab's owner until it
            // leaves. A sum may therefore be less than before, and wrap.
            if sum.wrapping_sub(shown.load(Relaxed)).cast_signed() > 0 {
                shown.store(sum, Relaxed);
            }
        }
        &self.shown
    }
}
