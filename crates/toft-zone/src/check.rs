//! The invariants of zones, and the checks of `toft_zone_verify`.

use crate::blocks::Zone;
use crate::lot::{Kind, LOT_BYTES, Lot};
use crate::record::{Record, head};
use crate::window::State;
use crate::zones::{Damage, Zones};
use toft_core::harden::first_nonzero;
use toft_core::os::Os;
use toft_core::policy::SECURE;
use toft_core::sync::Ordering::Relaxed;

impl<O: Os> Zone<'_, O> {
    /// Verifies the tables of the zone. The secure build also verifies that free slots were not
    /// written to.
    pub fn verify(&self) -> Result<(), Damage> {
        let tables = self.state.verify(self.place, self.record);
        tables.and_then(|()| self.state.free_is_clean(self.record))
    }
}

impl Zones {
    /// Verifies every zone. No other thread may use a zone meanwhile.
    pub fn check(&self) -> Result<(), &'static str> {
        let Some(state) = self.state() else { return Ok(()) };
        for (place, record) in state.all_records().filter(|(_, record)| record.is_live()) {
            state.verify(place, record).map_err(|damage| damage.what)?;
        }
        let lost = state.all_lots().any(|(_, lot)| {
            let zone = state.record(lot.zone.load(Relaxed) as usize);
            lot.kind() != Kind::Free && !zone.is_some_and(Record::is_live)
        });
        if lost { Err("Z1: a lot of a zone that is not there") } else { Ok(()) }
    }
}

impl State {
    fn verify(&self, place: usize, record: &Record) -> Result<(), Damage> {
        let (mut blocks, mut bytes, mut mapped) = (0u64, 0u64, 0);
        let mut number = head(&record.first);
        while let Some(lot) = self.lot(number) {
            let at = lot.place.load(Relaxed);
            let damage =
                |what| Err(Damage { address: self.base() + at * LOT_BYTES, what, block: (0, 0) });
            let leads_back = self.entry(at).is_some_and(|entry| entry.load(Relaxed) == number);
            if !leads_back || lot.zone.load(Relaxed) as usize != place {
                return damage("Z1: a lot and its descriptor");
            }
            match lot.kind() {
                Kind::Bare => mapped += LOT_BYTES,
                Kind::Large => {
                    mapped += lot.size();
                    bytes += lot.size() as u64;
                    blocks += 1;
                }
                Kind::Slots => {
                    let (live, beyond) = lot.count();
                    if live != lot.live() || beyond || lot.fresh() > lot.slots() {
                        return damage("Z2: the count of live slots of a lot");
                    }
                    if (lot.in_bin.load(Relaxed) != 0) != (live < lot.slots()) {
                        return damage("Z3: lots with free slots");
                    }
                    mapped += LOT_BYTES;
                    blocks += live as u64;
                    bytes += (live * lot.size()) as u64;
                }
                Kind::Free | Kind::Reserved => return damage("Z1: a lot that is nobody's"),
            }
            number = lot.next.load(Relaxed);
        }
        let figures = record.figures();
        let sums = (blocks, bytes, mapped as u64);
        if sums != (figures.live_blocks, figures.live_bytes, figures.mapped_bytes) {
            return Err(Damage {
                address: self.base(),
                what: "Z4: the figures of a zone",
                block: (0, 0),
            });
        }
        for list in &record.bins {
            let mut number = head(list);
            while let Some(lot) = self.lot(number) {
                let at = self.base() + lot.place.load(Relaxed) * LOT_BYTES;
                if lot.in_bin.load(Relaxed) == 0 || lot.kind() != Kind::Slots {
                    return Err(Damage {
                        address: at,
                        what: "Z3: lots with free slots",
                        block: (0, 0),
                    });
                }
                number = lot.after.load(Relaxed);
            }
        }
        Ok(())
    }

    /// Verifies that free slots are zero. Secure build only.
    fn free_is_clean(&self, record: &Record) -> Result<(), Damage> {
        let mut number = if SECURE { head(&record.first) } else { 0 };
        while let Some(lot) = self.lot(number) {
            if lot.kind() == Kind::Slots {
                self.lot_is_clean(lot)?;
            }
            number = lot.next.load(Relaxed);
        }
        Ok(())
    }

    fn lot_is_clean(&self, lot: &Lot) -> Result<(), Damage> {
        let (begin, size) = (self.address_of(lot.place.load(Relaxed)), lot.size());
        for slot in (0..lot.fresh()).filter(|&slot| !lot.is_live(slot)) {
            let address = begin + slot * size;
            // SAFETY: (1) a slot that is not in use. Its lot stays mapped while the zone is locked.
            if let Some(byte) = unsafe { first_nonzero(address, size) } {
                return Err(Damage { address, what: "", block: (size, byte) });
            }
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "fake-os"))]
mod tests {
    use super::*;
    use crate::{Name, Terms};
    use toft_core::os::fake::{Fake, Machine};
    use toft_core::os::process::scratch;

    #[test]
    fn planted_damage_is_found() {
        let fake = Fake::new(Machine::LARGE);
        // SAFETY: (1) zeroed pages that nothing else uses, which stay.
        let zones = unsafe { Zones::at_tables(scratch(4096).unwrap()) };
        let terms = Terms { name: Name::new(b""), object: 64, tagged: false };
        let zone = zones.create(&fake, 2, &terms, &[]).unwrap();
        let show = |_: usize, _: usize, _: &Name| false;
        let block = zones.allocate(&fake, 2, zone, (64, 1, false), &show).unwrap();
        let what = || zones.enter(&fake, 2, zone).unwrap().verify().map_err(|damage| damage.what);
        assert_eq!(what(), Ok(()));
        let lot = zones.state().unwrap().lot_of(block).unwrap();
        lot.damage_bit(5);
        assert_eq!(what(), Err("Z2: the count of live slots of a lot"));
        lot.damage_bit(5);
        lot.in_bin.store(0, Relaxed);
        assert_eq!(what(), Err("Z3: lots with free slots"));
        lot.in_bin.store(1, Relaxed);
        lot.zone.store(7, Relaxed);
        assert_eq!(what(), Err("Z1: a lot and its descriptor"));
        lot.zone.store(0, Relaxed);
        let record = zones.state().unwrap().record(0).unwrap();
        record.count(64, true);
        assert_eq!(what(), Err("Z4: the figures of a zone"));
        record.count(64, false);
        assert_eq!(what(), Ok(()));
    }
}
