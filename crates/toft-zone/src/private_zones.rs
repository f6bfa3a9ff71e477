//! The zones of an allocator, as a program asks for them. A call that is wrong is reported
//! (`reports.rs`).

use crate::{Figures, Handle, Name, Refusal, Tagged, Terms, Zone, Zones};
use core::ffi::CStr;
use toft_core::Allocator;
use toft_core::os::Os;
use toft_core::os::seccomp::Calls;
use toft_core::os::thread::thread_block;
use toft_core::report::Call;

/// What a zone is called in `/proc/PID/maps` begins with this.
const SHOWN: &[u8] = b"toft zone ";

/// The zones of an allocator.
#[derive(Debug)]
pub struct PrivateZones<'a, O> {
    /// The zones.
    pub zones: Zones,
    /// The allocator, whose addresses the zones keep clear of.
    pub allocator: &'a Allocator<O>,
}

impl<O> Clone for PrivateZones<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for PrivateZones<'_, O> {}

impl<O: Os> PrivateZones<'_, O> {
    /// Makes a private zone.
    pub fn create(self, terms: &Terms) -> Result<Handle, Refusal> {
        self.zones.create(self.allocator.os(), thread_block(), terms, &self.allocator.addresses())
    }

    /// A block of a zone, of `size` bytes at a multiple of `align`, a power of two; zero, if that
    /// is asked for.
    pub fn allocate(
        self,
        zone: Handle,
        size: usize,
        align: usize,
        zeroed: bool,
    ) -> Result<usize, Refusal> {
        let wanted = (size, align, zeroed);
        let show = |address, bytes, name: &Name| self.show(address, bytes, name);
        let result = self.zones.allocate(self.allocator.os(), thread_block(), zone, wanted, &show);
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
        let result = self.zones.enter(self.allocator.os(), thread_block(), zone).and_then(body);
        result.map_err(|refusal| self.refused(refusal, call, zone, address))
    }

    /// Takes a block of a zone back.
    pub fn free(self, zone: Handle, address: usize) -> Result<(), Refusal> {
        self.on(zone, Call::ZoneFree, address, |zone| zone.free(address))
    }

    /// Usable bytes of a live block of a zone.
    pub fn usable_size(self, zone: Handle, address: usize) -> Result<usize, Refusal> {
        self.on(zone, Call::ZoneUsableSize, address, |zone| zone.usable_size(address))
    }

    /// Verifies a zone, and names what is wrong with it; returns true if nothing is.
    pub fn verify(self, zone: Handle) -> Result<bool, Refusal> {
        match self.on(zone, Call::ZoneVerify, 0, |zone| Ok(zone.verify()))? {
            Ok(()) => Ok(true),
            Err(damage) => {
                self.damaged(damage);
                Ok(false)
            }
        }
    }

    /// Ends a zone and all blocks in it.
    pub fn destroy(self, zone: Handle) -> Result<(), Refusal> {
        self.on(zone, Call::ZoneDestroy, 0, |zone| zone.destroy())
    }

    /// Gives a zone another name.
    pub fn rename(self, zone: Handle, name: &Name) -> Result<(), Refusal> {
        let show = |address, bytes, name: &Name| self.show(address, bytes, name);
        self.on(zone, Call::ZoneName, 0, |zone| {
            zone.rename(name, &show);
            Ok(())
        })
    }

    /// A zone's name and figures.
    pub fn figures(self, zone: Handle) -> Result<(Name, Figures), Refusal> {
        self.on(zone, Call::ZoneStats, 0, |zone| Ok(zone.figures()))
    }

    /// The tagged word for a block of a tagged zone, or for an address within it.
    pub fn tag(self, address: usize) -> Result<Tagged, Refusal> {
        let result = self.zones.tagged(address);
        result
            .map_err(|refusal| self.refused(refusal, Call::ZoneTag, Handle::from_word(0), address))
    }

    /// The pointer of a tagged word, if its block is still the one that it was.
    #[inline]
    pub fn resolve(self, tagged: Tagged) -> Result<usize, Refusal> {
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
        let Some(_permit) =
            self.allocator.filter().permit(self.allocator.os(), Calls::NAMES, false)
        else {
            return false;
        };
        self.allocator.os().name(address, bytes, text).is_ok()
    }
}
