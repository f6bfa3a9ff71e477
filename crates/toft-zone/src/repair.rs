//! Zones in the child of a fork, where other threads no longer exist. Such a thread may have been
//! cut off in the middle of a change.
//!
//! The descriptors are true at every moment, so all lists and figures can be rebuilt from them. If
//! no thread was in the middle of a change, nothing is done. The addresses of a `Reserved`
//! descriptor may be mapped or not. They stay as they are, and are not handed out if something is
//! mapped there.

use crate::lot::{Kind, LOT_BYTES};
use crate::record::{Record, head};
use crate::window::{Open, State};
use crate::zones::Zones;
use toft_core::os::Os;
use toft_core::sync::Ordering::Relaxed;

impl Zones {
    /// Repairs the zones in the child. `me` is its only thread. It may itself be in a signal
    /// handler, in the middle of a call.
    pub fn repair(&self, os: &impl Os, me: usize) {
        let Some(state) = self.state() else { return };
        state.repair_tables(os);
        let torn_window = state.lock.unlock_exited(me);
        if torn_window && let Ok(open) = state.open(os, me) {
            open.release_unfinished();
        }
        for (place, record) in state.all_records() {
            let torn = record.lock.unlock_exited(me);
            if torn && record.is_live() {
                state.make_lists(place, record);
            }
        }
        if torn_window && let Ok(open) = state.open(os, me) {
            open.make_free_lists();
        }
    }
}

impl State {
    /// Rebuilds the lists and figures of a zone.
    fn make_lists(&self, place: usize, record: &Record) {
        record.clear_lists();
        record.clear_figures();
        for (number, lot) in self.all_lots().filter(|(_, l)| l.zone.load(Relaxed) as usize == place)
        {
            let bytes = match lot.kind() {
                Kind::Free | Kind::Reserved => continue,
                Kind::Large => lot.size(),
                Kind::Bare | Kind::Slots => LOT_BYTES,
            };
            record.mapped.fetch_add(bytes, Relaxed);
            lot.before.store(0, Relaxed);
            lot.next.store(head(&record.first), Relaxed);
            if let Some(second) = self.lot(head(&record.first)) {
                second.before.store(number, Relaxed);
            }
            record.first.store(number, Relaxed);
            let list = match lot.kind() {
                Kind::Large => {
                    record.live_blocks.fetch_add(1, Relaxed);
                    record.live_bytes.fetch_add(bytes as u64, Relaxed);
                    continue;
                }
                Kind::Slots => {
                    lot.recount();
                    record.live_blocks.fetch_add(lot.live() as u64, Relaxed);
                    record.live_bytes.fetch_add((lot.live() * lot.size()) as u64, Relaxed);
                    let has_room = lot.live() < lot.slots();
                    lot.in_bin.store(u32::from(has_room), Relaxed);
                    if has_room { record.bin(lot.size()) } else { None }
                }
                _ => Some(&record.bare),
            };
            // The end of a stretch that was cut short is unknown, so each lot becomes a separate
            // stretch.
            lot.stretch.store(1, Relaxed);
            if let Some(list) = list {
                lot.after.store(head(list), Relaxed);
                list.store(number, Relaxed);
            }
        }
    }
}

impl<O: Os> Open<'_, O> {
    /// Frees each descriptor that was in the middle of a change, and all descriptors of zones that
    /// were being destroyed.
    fn release_unfinished(&self) {
        for (number, lot) in self.state.all_lots() {
            let record = self.state.record(lot.zone.load(Relaxed) as usize);
            let ends = !record.is_some_and(Record::is_live);
            let place = lot.place.load(Relaxed);
            let bytes = match lot.kind() {
                Kind::Free => continue,
                Kind::Reserved => {
                    let lots = lot.size().div_ceil(LOT_BYTES).max(1);
                    let ours = |place: &usize| {
                        self.state.entry(*place).is_some_and(|entry| entry.load(Relaxed) == number)
                    };
                    for place in (place..place.saturating_add(lots)).filter(ours) {
                        self.mark(place, 1, 0);
                    }
                    lot.set_kind(Kind::Free);
                    continue;
                }
                Kind::Large => lot.size(),
                Kind::Bare | Kind::Slots => LOT_BYTES,
            };
            if ends {
                // SAFETY: (1) mapped for a zone that no longer exists. A lot that was already
                // unmapped is `Reserved`, or belonged to a stretch that was unmapped as a whole.
                // Then nothing is there.
                let _ = unsafe { self.os.unmap(self.state.address_of(place), bytes) };
                self.mark(place, bytes.div_ceil(LOT_BYTES), 0);
                lot.set_kind(Kind::Free);
            }
        }
    }

    /// Rebuilds the lists of free descriptors and free records.
    fn make_free_lists(&self) {
        self.state.free_lots.store(0, Relaxed);
        for (number, lot) in self.state.all_lots().filter(|(_, lot)| lot.kind() == Kind::Free) {
            self.give_lot(number, lot);
        }
        self.state.free_records.store(0, Relaxed);
        for (place, record) in self.state.all_records().filter(|(_, record)| !record.is_live()) {
            record.ended();
            self.give_record(place, record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader without a lock may find a lot that is just being taken or freed.
    #[test]
    fn a_lot_that_is_nowhere_has_an_address_all_the_same() {
        // SAFETY: all-zero is a `State`, one without a window.
        let state: State = unsafe { core::mem::zeroed() };
        state.base.store(1 << 40, Relaxed);
        assert_eq!(state.address_of(2), (1 << 40) + 2 * LOT_BYTES);
        assert_eq!(state.address_of(usize::MAX), (1 << 40) - LOT_BYTES);
    }
}
