//! Verifying on demand, and every so many allocations: `toft_verify`, `TOFT_VERIFY`.
//!
//! What is verified is what the calling thread may look at while others go on: its own heap's slabs and bins, and the
//! pool of guarded blocks. Other threads free into its slabs meanwhile, and the reclaimer holds slots of them for
//! moments, so that an invariant counts as broken only when it stays so for a fifth of a second.

use super::misuse::{Line, head, tier};
use super::{Allocator, Call};
use crate::os::{Os, wait_for};
use crate::slab::{Slab, Violation};
use crate::sync::Ordering::Relaxed;
use crate::thread::Heap;

impl<O: Os> Allocator<O> {
    /// Verifies what belongs to the calling thread, and names the first thing that is wrong; says whether there is
    /// none. In a signal handler that has interrupted a change, nothing.
    pub fn verify(&self, heap: &Heap) -> bool {
        let Some(_seat) = heap.sit() else { return true };
        let mut bad: Option<(usize, Violation)> = None;
        let holds = |check: &dyn Fn() -> Result<(), Violation>| {
            let ok = wait_for(&self.os, || check().is_ok());
            if ok { Ok(()) } else { check() }
        };
        self.for_each_slab(|slab| {
            if bad.is_none()
                && heap.owns(slab)
                && let Err(violation) = holds(&|| slab.check())
            {
                bad = Some(((&raw const *slab).addr(), violation));
            }
        });
        if bad.is_none() && !self.slots_are_whole(heap) {
            return false;
        }
        if let Some((descriptor, violation)) = bad {
            self.for_each_slab(|slab| {
                if (&raw const *slab).addr() == descriptor {
                    self.tables_are_damaged(slab.base(), Some(slab), violation);
                }
            });
            return false;
        }
        let rest = || {
            heap.check(self.options.partitions)?;
            self.guarded.check().map_err(Violation)
        };
        match holds(&rest) {
            Ok(()) => true,
            Err(violation) => {
                self.tables_are_damaged(heap.address(), None, violation);
                false
            }
        }
    }

    fn tables_are_damaged(&self, address: usize, slab: Option<&Slab>, violation: Violation) {
        let mut line = Line::new(self.hide_addresses);
        head(&mut line, "damaged metadata", Call::Verify, address);
        line.text("not so: ").text(violation.0);
        if let Some(slab) = slab {
            line.text(" (").text(tier(slab)).text(" slab of ").number(slab.size() as u64);
            line.text("-byte slots, partition ").number(slab.partition() as u64);
            line.text("; call site ").address(slab.site()).text(")");
        }
        self.conclude(&mut line);
    }

    /// Every so many allocations that are looked at.
    pub(super) fn verify_now_and_then(&self, heap: &Heap) {
        let every = self.options.verify;
        if every != 0 && (self.looked_at().fetch_add(1, Relaxed) + 1).is_multiple_of(every) {
            self.verify(heap);
        }
    }
}
