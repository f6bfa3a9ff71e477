//! What can be asked of a zone: each call looks its handle up, takes the zone's lock, and does it.

use super::blocks::Zone;
use super::handle::{GENERATION_MAX, Handle};
use super::lock::Mine;
use super::lot::{GRAIN, LOT_BYTES, Whereabouts};
use super::record::{Figures, Name, Record, TAGGED};
use super::window::State;
use crate::os::Os;
use core::ops::Range;

/// The largest request: no object may be larger.
const SIZE_MAX: usize = isize::MAX as usize;

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The handle is zero.
    NoHandle,
    /// The handle was one of a zone that was destroyed.
    Destroyed,
    /// There never was a zone with that handle.
    NeverWas,
    /// The system has no memory, addresses or mappings left.
    NoMemory,
    /// The zone is for objects of another size or alignment.
    DoesNotFit,
    /// The system cannot do it.
    Unsupported,
    /// A signal handler asks, and has interrupted the same call of its thread.
    InHandler,
    /// The address is no live block of the zone.
    NotABlock(Whereabouts),
    /// The block that was to be handed out was written to since it was freed, at this byte.
    /// Hardened build only.
    WrittenTo {
        /// Where it begins.
        begin: usize,
        /// Its bytes.
        bytes: usize,
        /// The first byte that is not zero.
        byte: usize,
    },
}

/// Makes a name visible where a number of bytes are mapped at an address; returns true if it could.
pub type Show<'a> = &'a dyn Fn(usize, usize, &Name) -> bool;

/// What is wrong with a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where.
    pub address: usize,
    /// What does not hold.
    pub what: &'static str,
    /// For a block that was written to after it was freed, its bytes and the one that was; else
    /// zeros.
    pub block: (usize, usize),
}

/// What a zone is to be.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What it is called.
    pub name: Name,
    /// Bytes of each object; zero where they are of any size.
    pub object: usize,
    /// Whether pointers into it have tags.
    pub tagged: bool,
}

/// All zones of an allocator.
#[derive(Debug)]
pub struct Zones {
    state: *const State,
    /// Addresses that are malloc's.
    taken: [(usize, usize); 2],
}

impl Zones {
    /// Bytes of tables that `new` needs, zeroed.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Before anything is known: no zone, and none can be made.
    pub const fn none() -> Zones {
        Zones { state: core::ptr::null(), taken: [(0, 0); 2] }
    }

    /// No zone yet; they keep clear of these addresses.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    pub unsafe fn new(tables: usize, taken: [Range<usize>; 2]) -> Zones {
        let taken = taken.map(|range| (range.start, range.end));
        Zones { state: core::ptr::with_exposed_provenance(tables), taken }
    }

    pub(super) fn state(&self) -> Option<&State> {
        // SAFETY: null, or `new` duty 1; all-zero is a `State`.
        unsafe { self.state.as_ref() }
    }

    /// Whether an address is one that zones may have.
    pub fn contains(&self, address: usize) -> bool {
        self.state().is_some_and(|state| state.place_of(address).is_some())
    }

    /// Bytes mapped for what is known of zones.
    pub fn table_bytes(&self) -> usize {
        self.state().map_or(0, State::table_bytes)
    }

    /// What an address is, without a lock: what happens at the same time is seen or not.
    pub fn at(&self, address: usize) -> Whereabouts {
        self.state().map_or(Whereabouts::Nobodys, |state| state.at(address))
    }

    /// What the zone at a place of the table is called.
    pub fn name_at(&self, place: usize) -> Name {
        let record = self.state().and_then(|state| state.record(place));
        record.map_or(Name::new(b""), Record::name)
    }

    /// Makes a zone. `me` stands for the calling thread, here and everywhere: even, and not zero.
    pub fn create(&self, os: &impl Os, me: usize, terms: &Terms) -> Result<Handle, Refusal> {
        let slot = match terms.object {
            0 => 0,
            size if size > SIZE_MAX => return Err(Refusal::NoMemory),
            size => size.next_multiple_of(GRAIN),
        };
        // Tags are mapped page by page with what they are of.
        if terms.tagged && !(LOT_BYTES / GRAIN).is_multiple_of(os.page_size()) {
            return Err(Refusal::Unsupported);
        }
        let state = self.state().ok_or(Refusal::NoMemory)?;
        let open = state.open(os, me)?;
        open.begin(&self.taken.map(|(start, end)| start..end))?;
        let key = state.key();
        loop {
            let (place, record) = open.take_record()?;
            if record.generation() >= GENERATION_MAX {
                // Worn out: it is left alone.
                continue;
            }
            record.skip_generation();
            let Some(handle) = Handle::new(&key, place, record.generation()) else {
                open.give_record(place, record);
                continue;
            };
            let flags = if terms.tagged { TAGGED } else { 0 };
            record.begin(&terms.name, terms.object, slot, flags);
            return Ok(handle);
        }
    }

    /// The zone of a handle, locked.
    pub(super) fn enter<'a, O: Os>(
        &'a self,
        os: &'a O,
        me: usize,
        handle: Handle,
    ) -> Result<Zone<'a, O>, Refusal> {
        if handle.word() == 0 {
            return Err(Refusal::NoHandle);
        }
        let state = self.state().filter(|state| state.is_there()).ok_or(Refusal::NeverWas)?;
        let (place, generation) = handle.open(&state.key());
        let record = state.record(place).ok_or(Refusal::NeverWas)?;
        let refused = |record: &Record| {
            let now = record.generation();
            if generation == 0 || generation > now { Refusal::NeverWas } else { Refusal::Destroyed }
        };
        if record.generation() != generation {
            return Err(refused(record));
        }
        let held = record.lock.take(os, me).map_err(|Mine| Refusal::InHandler)?;
        if record.generation() != generation || !record.is_live() {
            return Err(refused(record));
        }
        Ok(Zone { state, os, me, place, record, _held: held })
    }

    /// A block of a zone: of `size` bytes, at a multiple of `align`, a power of two; zero, if that
    /// is asked for.
    pub fn allocate(
        &self,
        os: &impl Os,
        me: usize,
        handle: Handle,
        (size, align, zeroed): (usize, usize, bool),
        show: Show<'_>,
    ) -> Result<usize, Refusal> {
        if size > SIZE_MAX || align > SIZE_MAX {
            return Err(Refusal::NoMemory);
        }
        let zone = self.enter(os, me, handle)?;
        let block = zone.allocate(size, align, zeroed)?;
        if let Some((address, bytes)) = block.mapped {
            zone.record.show_name(show(address, bytes, &zone.record.name()));
        }
        Ok(block.address)
    }

    /// Takes a block of a zone back.
    pub fn free(
        &self,
        os: &impl Os,
        me: usize,
        handle: Handle,
        address: usize,
    ) -> Result<(), Refusal> {
        self.enter(os, me, handle)?.free(address)
    }

    /// Usable bytes of a live block of a zone.
    pub fn usable_size(
        &self,
        os: &impl Os,
        me: usize,
        handle: Handle,
        address: usize,
    ) -> Result<usize, Refusal> {
        self.enter(os, me, handle)?.usable_size(address)
    }

    /// Gives a zone another name.
    pub fn rename(
        &self,
        os: &impl Os,
        me: usize,
        handle: Handle,
        name: &Name,
        show: Show<'_>,
    ) -> Result<(), Refusal> {
        let zone = self.enter(os, me, handle)?;
        zone.record.set_name(name);
        zone.for_each_stretch(|address, bytes| {
            zone.record.show_name(show(address, bytes, name));
        });
        Ok(())
    }

    /// The name of a zone.
    pub fn name(&self, os: &impl Os, me: usize, handle: Handle) -> Result<Name, Refusal> {
        Ok(self.enter(os, me, handle)?.record.name())
    }

    /// Figures of a zone.
    pub fn figures(&self, os: &impl Os, me: usize, handle: Handle) -> Result<Figures, Refusal> {
        Ok(self.enter(os, me, handle)?.record.figures())
    }

    /// Ends a zone: nothing of it is there any more, and nothing leads to it.
    pub fn destroy(&self, os: &impl Os, me: usize, handle: Handle) -> Result<(), Refusal> {
        self.enter(os, me, handle)?.destroy()
    }
}
