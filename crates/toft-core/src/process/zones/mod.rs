//! Private zones (`zone/`), as the program asks for them, and what is said of a call that is wrong.

pub mod calls;

use crate::allocator::{Allocator, handle};
use crate::os::Os;
use crate::os::seccomp::Calls;
use crate::os::thread::thread_block;
use crate::report::{Call, Line, head};
use crate::zone::{Damage, Figures, Handle, Name, Refusal, Tagged, Terms, Zone, ZoneLocation};
use core::ffi::CStr;

/// What a zone is called in `/proc/PID/maps` begins with this.
const SHOWN: &[u8] = b"toft zone ";

handle!(PrivateZones, zones);

impl<O: Os> PrivateZones<'_, O> {
    /// Makes a private zone.
    pub fn zone_create(self, terms: &Terms) -> Result<Handle, Refusal> {
        self.zones.create(&self.os, thread_block(), terms)
    }

    /// A block of a zone, of `size` bytes at a multiple of `align`, a power of two; zero, if that
    /// is asked for.
    pub fn zone_allocate(
        self,
        zone: Handle,
        size: usize,
        align: usize,
        zeroed: bool,
    ) -> Result<usize, Refusal> {
        let wanted = (size, align, zeroed);
        let show = |address, bytes, name: &Name| self.show(address, bytes, name);
        let result = self.zones.allocate(&self.os, thread_block(), zone, wanted, &show);
        result.map_err(|refusal| self.refused(refusal, Call::ZoneMalloc, zone, 0))
    }

    /// Makes a call on a zone, and names what is refused if it is the program's mistake.
    fn on<R>(
        self,
        zone: Handle,
        call: Call,
        address: usize,
        body: impl FnOnce(Zone<'_, O>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let result = self.zones.enter(&self.os, thread_block(), zone).and_then(body);
        result.map_err(|refusal| self.refused(refusal, call, zone, address))
    }

    /// Takes a block of a zone back.
    pub fn zone_free(self, zone: Handle, address: usize) -> Result<(), Refusal> {
        self.on(zone, Call::ZoneFree, address, |zone| zone.free(address))
    }

    /// Usable bytes of a live block of a zone.
    pub fn zone_usable_size(self, zone: Handle, address: usize) -> Result<usize, Refusal> {
        self.on(zone, Call::ZoneUsableSize, address, |zone| zone.usable_size(address))
    }

    /// Verifies a zone, and names what is wrong with it; returns true if nothing is.
    pub fn zone_verify(self, zone: Handle) -> Result<bool, Refusal> {
        match self.on(zone, Call::ZoneVerify, 0, |zone| Ok(zone.verify()))? {
            Ok(()) => Ok(true),
            Err(damage) => {
                self.zone_is_damaged(damage);
                Ok(false)
            }
        }
    }

    /// Ends a zone and all blocks in it.
    pub fn zone_destroy(self, zone: Handle) -> Result<(), Refusal> {
        self.on(zone, Call::ZoneDestroy, 0, |zone| zone.destroy())
    }

    /// Gives a zone another name.
    pub fn zone_rename(self, zone: Handle, name: &Name) -> Result<(), Refusal> {
        let show = |address, bytes, name: &Name| self.show(address, bytes, name);
        self.on(zone, Call::ZoneName, 0, |zone| {
            zone.rename(name, &show);
            Ok(())
        })
    }

    /// A zone's name and figures.
    pub fn zone_figures(self, zone: Handle) -> Result<(Name, Figures), Refusal> {
        self.on(zone, Call::ZoneStats, 0, |zone| Ok(zone.figures()))
    }

    /// The tagged word for a block of a tagged zone, or for an address within it.
    pub fn zone_tag(self, address: usize) -> Result<Tagged, Refusal> {
        let result = self.zones.tagged(address);
        result
            .map_err(|refusal| self.refused(refusal, Call::ZoneTag, Handle::from_word(0), address))
    }

    /// The pointer of a tagged word, if its block is still the one that it was.
    #[inline]
    pub fn zone_resolve(self, tagged: Tagged) -> Result<usize, Refusal> {
        self.zones.resolve(tagged).inspect_err(|_| self.stale_tag(tagged))
    }

    /// Lets `/proc/PID/maps` show a zone's name; returns true if it does.
    fn show(self, address: usize, bytes: usize, name: &Name) -> bool {
        if name.bytes().is_empty() {
            return false;
        }
        // 10 bytes, at most 63, and a zero.
        let mut text = [0u8; 80];
        for (place, &byte) in text.iter_mut().zip(SHOWN.iter().chain(name.bytes())) {
            *place = byte;
        }
        let Ok(text) = CStr::from_bytes_until_nul(&text) else { return false };
        let Some(_permit) = self.filter().permit(&self.os, Calls::NAMES, false) else {
            return false;
        };
        self.os.name(address, bytes, text).is_ok()
    }

    /// Something was refused: names it, if it is the program's mistake.
    #[cold]
    #[inline(never)]
    fn refused(self, refusal: Refusal, call: Call, zone: Handle, address: usize) -> Refusal {
        let mut line = Line::new(self.hide_addresses);
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
                if self.may_be_block(address) {
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
                self.reports().name_zone(&mut line, place);
                line.text(", not of the one that was named");
            }
            Refusal::NotABlock(_) => self.reports().describe_in_zone(&mut line, call, address),
            Refusal::WrittenTo { begin, bytes, byte } => {
                self.written_after_free(&mut line, call, (begin, bytes, byte));
            }
        }
        self.reports().conclude(&mut line);
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
            self.reports().name_zone(line, zone);
        }
        line.text(")");
    }

    #[cold]
    #[inline(never)]
    fn stale_tag(self, tagged: Tagged) {
        let mut line = Line::new(self.hide_addresses);
        let address = tagged.address();
        match self.zones.at(address) {
            ZoneLocation::Block { zone, begin, bytes, live, .. } => {
                head(&mut line, "use after free", Call::ZoneResolve, address);
                line.text("tag ").number(tagged.tag().into()).text(" is not that of the ");
                line.number(bytes as u64).text("-byte block at ").address(begin).text(" (zone ");
                self.reports().name_zone(&mut line, zone);
                line.text(if live { ", live again)" } else { ", free)" });
            }
            _ => {
                head(&mut line, "use after free", Call::ZoneResolve, address);
                line.text("no private zone has this address any more, nor has anybody else");
            }
        }
        self.reports().conclude(&mut line);
    }

    #[cold]
    #[inline(never)]
    fn zone_is_damaged(self, damage: Damage) {
        let mut line = Line::new(self.hide_addresses);
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
        self.reports().conclude(&mut line);
    }
}
