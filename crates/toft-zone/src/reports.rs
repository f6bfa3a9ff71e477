//! Reports bad calls on zones, and pointers into zones that malloc's calls got.

use crate::private_zones::PrivateZones;
use crate::{Damage, Handle, Refusal, Tagged, ZoneLocation};
use toft_core::os::Os;
use toft_core::report::{Call, Line, head};

impl<O: Os> PrivateZones<'_, O> {
    /// Reports a refused call if the program made a mistake.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(
        self,
        refusal: Refusal,
        call: Call,
        zone: Handle,
        address: usize,
    ) -> Refusal {
        let mut line = self.allocator.reports().line();
        let handle = zone.word() as usize;
        match refusal {
            Refusal::NoMemory | Refusal::DoesNotFit | Refusal::Unsupported => return refusal,
            // A request for memory returns it instead.
            Refusal::InHandler if call == Call::ZoneMalloc => return refusal,
            Refusal::InHandler => {
                head(&mut line, "invalid zone", call, handle);
                line.text(
                    "a signal handler has interrupted a call about the same zone by its own thread",
                );
            }
            Refusal::NoHandle => {
                head(&mut line, "invalid zone", call, 0);
                line.text("zero is the handle of no zone");
            }
            Refusal::Destroyed => {
                head(&mut line, "invalid zone", call, handle);
                line.text("the zone of this handle was destroyed");
            }
            Refusal::NeverWas => {
                head(&mut line, "invalid zone", call, handle);
                line.text("there never was a zone with this handle");
            }
            Refusal::NotABlock(_) if !self.zones.contains(address) => {
                head(&mut line, "invalid free", call, address);
                line.text("not a block of a private zone");
                if self.allocator.may_be_block(address) {
                    line.text(", but an address of malloc's");
                }
            }
            Refusal::NotABlock(ZoneLocation::Block {
                zone: place,
                begin,
                bytes,
                live: true,
                ..
            }) if address == begin && zone.word() != 0 => {
                head(&mut line, "invalid free", call, address);
                line.text("this ").number(bytes as u64).text("-byte block is of zone ");
                self.name_zone(&mut line, place);
                line.text(", not of the one that was named");
            }
            Refusal::NotABlock(_) => self.describe(&mut line, call, address),
            Refusal::WrittenTo { begin, bytes, byte } => {
                self.written_after_free(&mut line, call, (begin, bytes, byte));
            }
        }
        self.allocator.reports().conclude(&mut line);
        refusal
    }

    fn written_after_free(
        self,
        line: &mut Line,
        call: Call,
        (begin, bytes, byte): (usize, usize, usize),
    ) {
        head(line, "write after free", call, begin);
        line.text("byte ").number(byte as u64).text(" of this freed ").number(bytes as u64);
        line.text("-byte block was overwritten (zone ");
        if let ZoneLocation::Block { zone, .. } = self.zones.at(begin) {
            self.name_zone(line, zone);
        }
        line.text(")");
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn stale_tag(self, tagged: Tagged) {
        let mut line = self.allocator.reports().line();
        let address = tagged.address();
        match self.zones.at(address) {
            ZoneLocation::Block { zone, begin, bytes, live, .. } => {
                head(&mut line, "use after free", Call::ZoneResolve, address);
                line.text("tag ").number(tagged.tag().into()).text(" is not that of the ");
                line.number(bytes as u64).text("-byte block at ").address(begin).text(" (zone ");
                self.name_zone(&mut line, zone);
                line.text(if live { ", live again)" } else { ", free)" });
            }
            _ => {
                head(&mut line, "use after free", Call::ZoneResolve, address);
                line.text("no private zone has this address any more, nor has anybody else");
            }
        }
        self.allocator.reports().conclude(&mut line);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn damaged(self, damage: Damage) {
        let mut line = self.allocator.reports().line();
        match damage.block {
            (0, _) => {
                head(&mut line, "damaged metadata", Call::ZoneVerify, damage.address);
                line.text("not so: ").text(damage.what);
            }
            (bytes, byte) => {
                let block = (damage.address, bytes, byte);
                self.written_after_free(&mut line, Call::ZoneVerify, block);
            }
        }
        self.allocator.reports().conclude(&mut line);
    }

    /// Writes the description of an address in the window of zones.
    pub(crate) fn describe(self, line: &mut Line, call: Call, address: usize) {
        let (zone, begin, bytes, slot, live, fresh) = match self.zones.at(address) {
            ZoneLocation::Block { zone, begin, bytes, slot, live, fresh } => {
                (zone, begin, bytes, slot, live, fresh)
            }
            ZoneLocation::Bare { zone } => {
                head(line, "invalid free", call, address);
                line.text("not a block, though of zone ");
                return self.name_zone(line, zone);
            }
            ZoneLocation::NoZone => {
                head(line, "invalid free", call, address);
                line.text("no private zone has this address any more, nor has anybody else");
                return;
            }
        };
        let inside = address - begin;
        if inside != 0 {
            head(line, "invalid free", call, address);
            let beyond = inside >= bytes;
            line.number(if beyond { inside - bytes } else { inside } as u64);
            line.text(if beyond { " bytes behind the " } else { " bytes inside the " });
            line.number(bytes as u64).text("-byte block at ").address(begin).text(" (");
        } else if live {
            head(line, "invalid free", call, address);
            line.text("this ").number(bytes as u64).text("-byte block is not malloc's (");
        } else if fresh {
            head(line, "invalid free", call, address);
            line.text("never handed out (").number(bytes as u64).text("-byte ");
        } else {
            head(line, "double free", call, address);
            line.text("this ").number(bytes as u64).text("-byte block is already free (");
        }
        if let Some(slot) = slot {
            line.text("slot ").number(slot as u64).text(" of ");
        }
        line.text("zone ");
        self.name_zone(line, zone);
        line.text(if live {
            ", live)"
        } else if fresh {
            ", never handed out)"
        } else {
            ", free)"
        });
    }

    /// Writes a zone's name.
    fn name_zone(self, line: &mut Line, place: usize) {
        line.text("\"").raw(self.zones.name_at(place).bytes()).text("\"");
    }
}
