//! Units of held slabs join others on one store, leave it, and pages of stores are returned.

use super::batch::Batch;
use super::batch::is_empty;
use super::batch::pages;
use super::batch::put;
use crate::allocator::Allocator;
use crate::os::Os;
use crate::reclaim::BATCH;
use crate::remote::announce;
use crate::slab::{Slab, SlotSet, either, has_slot};

impl<O: Os> Allocator<O> {
    /// Units in which a slab has nothing any more are its own again.
    pub(crate) fn leave_groups(&self, batch: &mut Batch) {
        for slab in batch.slabs.iter().flatten().filter(|slab| slab.is_shared()) {
            for unit in 0..slab.units(batch.page) {
                let slots = batch.slots(slab, unit);
                if slab.share(unit) != 0 && is_empty(&slab.occupied(slots)) {
                    self.leave_group(batch, slab, unit, slots);
                }
            }
        }
    }

    fn leave_group(
        &self,
        batch: &Batch,
        slab: &'static Slab,
        unit: usize,
        (first, end): (usize, usize),
    ) {
        let (address, len) = batch.range(slab, unit);
        let group = slab.share(unit);
        // SAFETY: (1) a view of a store; all slots there are held or lent, and if this is the only
        // view no other slab needs the store.
        unsafe {
            if self.groups.members(group).nth(1).is_none() {
                let _ = self.os.empty_store(address, len);
            }
            if self.os.renew(address, len).is_err() {
                return;
            }
        }
        self.keep_small(address, len);
        let shares = batch.entry.remove(slab, unit);
        for slot in first..end {
            if batch.entry.may_have(slab, slot, batch.page) {
                slab.redeem(slot, true);
            }
        }
        if !shares {
            slab.is_private_again();
        }
        // What it had the use of is for the first who may have it.
        for other in self.groups.members(group) {
            let held = batch.holds(other);
            let mut any = false;
            for slot in first..end {
                if other.is_lent(slot) && batch.entry.may_have(other, slot, batch.page) {
                    other.redeem(slot, held);
                    any = true;
                }
            }
            if any {
                other.disturb();
                if !held {
                    announce(other);
                }
            }
        }
        slab.disturb();
    }

    /// Each unit that is a slab's own joins the first other with which it has no slot in common.
    pub(crate) fn join_groups(&self, batch: &mut Batch) {
        let mut partners = [BATCH; BATCH];
        let units = batch.slabs.iter().flatten().next().map_or(0, |slab| slab.units(batch.page));
        for unit in 0..units {
            let mut spaces = self.spaces(batch, unit);
            for number in 0..BATCH {
                let Some(Some(slab)) = batch.slabs.get(number).copied() else { continue };
                let Some(Some(used)) = spaces.get(number).copied() else { continue };
                if slab.share(unit) != 0 {
                    continue;
                }
                let fits = |other: usize| {
                    let with = batch.slabs.get(other).copied().flatten()?;
                    let space = spaces.get(other).copied().flatten()?;
                    let group = with.share(unit);
                    let open = if group == 0 { other < number } else { self.groups.takes(group) };
                    (open && other != number && batch.gain(slab, unit, &used, &space) != 0)
                        .then_some((other, with, space))
                };
                let partner = partners.get(number).copied().unwrap_or(BATCH);
                let found = fits(partner).or_else(|| (0..BATCH).find_map(fits));
                let Some((other, with, space)) = found else { continue };
                if !self.groups.has_room() {
                    batch.full = true;
                    return;
                }
                let gain = batch.gain(slab, unit, &used, &space);
                if self.join(batch, (slab, used), (other, with, space), unit) {
                    batch.bytes += gain;
                    put(&mut spaces, other, Some(either(&space, &used)));
                    put(&mut spaces, number, None);
                    put(&mut partners, number, other);
                }
            }
        }
    }

    /// For each slab the slots of a unit that it or those that it shares with use; nothing where
    /// that is said with another slab of the group, or where there are none.
    fn spaces(&self, batch: &Batch, unit: usize) -> [Option<SlotSet>; BATCH] {
        let mut spaces = [None; BATCH];
        for (number, slab) in batch.slabs.iter().enumerate() {
            let Some(slab) = *slab else { continue };
            let slots = batch.slots(slab, unit);
            let group = slab.share(unit);
            let used = if group == 0 {
                slab.occupied(slots)
            } else if batch.slabs.iter().take(number).flatten().any(|s| s.share(unit) == group) {
                continue;
            } else {
                self.groups
                    .members(group)
                    .fold(SlotSet::default(), |used, member| either(&used, &member.occupied(slots)))
            };
            if !is_empty(&used) {
                put(&mut spaces, number, Some(used));
            }
        }
        spaces
    }

    /// Makes a unit a view of the store that another slab has, which gets one if it has none.
    fn join(
        &self,
        batch: &Batch,
        (slab, used): (&'static Slab, SlotSet),
        (number, with, space): (usize, &'static Slab, SlotSet),
        unit: usize,
    ) -> bool {
        let (address, len) = batch.range(slab, unit);
        let (there, _) = batch.range(with, unit);
        if with.share(unit) == 0 {
            let Some(group) = batch.entry.empty_group() else { return false };
            let copy = |to| copy_slots(with, &space, there, len, to);
            let offset = number * with.tier().slab_bytes() + (there - with.base());
            // SAFETY: (1) a part of a slab that is its own; all its slots are held, or copied; (2)
            // each slab of the batch has its part of the store.
            if unsafe { self.os.share(batch.sharing, offset, there, len, copy) }.is_err() {
                return false;
            }
            batch.entry.add(group, with, unit);
        }
        let copy = |to| copy_slots(slab, &used, address, len, to);
        // SAFETY: (1) as above; (2) `with` shares its unit, and no slab in the group uses the slots
        // that this slab uses: they are held or lent there.
        if unsafe { self.os.share_with(batch.sharing, there, address, len, copy) }.is_err() {
            return false;
        }
        let (first, end) = batch.slots(slab, unit);
        for slot in first..end {
            if has_slot(&used, slot) {
                self.groups.members(with.share(unit)).for_each(|member| member.lend(slot));
            } else {
                slab.lend(slot);
            }
        }
        batch.entry.add(with.share(unit), slab, unit);
        true
    }

    /// Gives back pages of stores in which no slab uses a slot.
    pub(crate) fn empty_pages(&self, batch: &mut Batch) {
        let mut bytes = 0;
        for slab in batch.slabs.iter().flatten().filter(|slab| slab.is_shared()) {
            for unit in (0..slab.units(batch.page)).filter(|&unit| slab.share(unit) != 0) {
                let (address, len) = batch.range(slab, unit);
                for offset in pages(len, batch.page) {
                    let start = address - slab.base() + offset;
                    let stop = start + batch.page;
                    let slots @ (first, end) = slab.slots_within(start, stop);
                    let mut members = self.groups.members(slab.share(unit));
                    if !(first..end).any(|slot| slab.is_held_soiled(slot))
                        || !members.all(|member| is_empty(&member.occupied(slots)))
                    {
                        continue;
                    }
                    // SAFETY: (1) a page of a store of which all slots are held or lent in all
                    // views.
                    if unsafe { self.os.empty_store(address + offset, batch.page) }.is_ok() {
                        bytes += batch.page;
                        let whole = |slot: &usize| {
                            slot * slab.size() >= start && (slot + 1) * slab.size() <= stop
                        };
                        (first..end).filter(whole).for_each(|slot| slab.is_zero_again(slot));
                    }
                }
            }
        }
        batch.bytes += bytes;
    }
}

/// Copies what lies within `len` bytes from `start` on of the slots of a set to `to`.
fn copy_slots(slab: &Slab, set: &SlotSet, start: usize, len: usize, to: usize) {
    let (first, end) = slab.slots_within(start - slab.base(), start - slab.base() + len);
    for slot in (first..end).filter(|&slot| has_slot(set, slot)) {
        copy_slot(slab, slot, start, len, to);
    }
}

pub(crate) fn copy_slot(slab: &Slab, slot: usize, start: usize, len: usize, to: usize) {
    let begin = (slab.base() + slot * slab.size()).max(start);
    let end = (slab.base() + (slot + 1) * slab.size()).min(start + len);
    let from: *const u8 = core::ptr::with_exposed_provenance(begin);
    let to: *mut u8 = core::ptr::with_exposed_provenance_mut(to + (begin - start));
    // SAFETY: both are mapped, and apart; no thread writes to the first (writers are stopped), and
    // none uses the second.
    unsafe { core::ptr::copy_nonoverlapping(from, to, end.saturating_sub(begin)) };
}
