//! The calls on zones. Each call finds the zone of its handle, takes the zone's lock, and does the
//! work.

use crate::blocks::Zone;
use crate::handle::{GENERATION_MAX, Handle};
use crate::lock::Mine;
use crate::lot::{GRAIN, LOT_BYTES, ZoneLocation};
use crate::record::{Figures, Name, Record, TAGGED};
use crate::window::State;
use core::ops::Range;
use toft_core::os::Os;

/// The largest request: no object may be larger.
const SIZE_MAX: usize = isize::MAX as usize;

/// The reason why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The handle is zero.
    NoHandle,
    /// The zone of the handle was destroyed.
    Destroyed,
    /// No zone ever had the handle.
    NeverWas,
    /// The system has no memory, addresses or mappings left.
    NoMemory,
    /// The zone is for objects of another size or alignment.
    DoesNotFit,
    /// The system does not support it.
    Unsupported,
    /// The call is from a signal handler, which interrupted a call of its thread on the same zone.
    InHandler,
    /// No live block of the zone begins at the address.
    NotABlock(ZoneLocation),
    /// A free block that was to be handed out was written to. Secure build only.
    WrittenTo {
        /// The address at which the block begins.
        begin: usize,
        /// The number of bytes of the block.
        bytes: usize,
        /// The position of the first byte that is not zero.
        byte: usize,
    },
}

/// Makes a name visible for the given number of bytes that are mapped at an address. Returns true
/// if it could.
pub type Show<'a> = &'a dyn Fn(usize, usize, &Name) -> bool;

/// A defect of a zone that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The address of the defect.
    pub address: usize,
    /// The rule that is violated.
    pub what: &'static str,
    /// The size of a free block that was written to, and the position of the byte that was; else
    /// zeros.
    pub block: (usize, usize),
}

/// The properties of a new zone.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The name.
    pub name: Name,
    /// The number of bytes of each object, or zero if objects have any size.
    pub object: usize,
    /// True if pointers into the zone have tags.
    pub tagged: bool,
}

/// All zones of an allocator.
#[derive(Clone, Copy, Debug)]
pub struct Zones {
    state: *const State,
}

impl Zones {
    /// The number of zeroed bytes of tables that `at_tables` needs.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Returns the zones whose tables are at an address.
    ///
    /// # Safety
    /// 1. `tables` is zero, or the address of `TABLE_BYTES` bytes that live for ever, are aligned
    ///    to 64, were zero before the first call, and belong to these zones alone.
    pub unsafe fn at_tables(tables: usize) -> Zones {
        Zones { state: core::ptr::with_exposed_provenance(tables) }
    }

    pub(crate) fn state<'a>(self) -> Option<&'a State> {
        // SAFETY: null, or `at_tables` duty 1, so it lives for ever; all-zero is a `State`.
        unsafe { self.state.as_ref() }
    }

    /// Returns true if an address is in the window of zones.
    pub fn contains(&self, address: usize) -> bool {
        self.state().is_some_and(|state| state.place_of(address).is_some())
    }

    /// Returns the number of bytes that are mapped for the tables of zones.
    pub fn table_bytes(&self) -> usize {
        self.state().map_or(0, State::table_bytes)
    }

    /// Returns what is at an address. It takes no lock, so it may miss a change that happens at the
    /// same time.
    pub fn at(&self, address: usize) -> ZoneLocation {
        self.state().map_or(ZoneLocation::NoZone, |state| state.at(address))
    }

    /// Returns the name of the zone at a place of the table.
    pub fn name_at(&self, place: usize) -> Name {
        let record = self.state().and_then(|state| state.record(place));
        record.map_or(Name::new(b""), Record::name)
    }

    /// Creates a zone. All zones keep clear of the addresses that are `taken` when the first one is
    /// created. Here and everywhere, `me` is the number of the calling thread, which is even and
    /// not zero.
    pub fn create(
        &self,
        os: &impl Os,
        me: usize,
        terms: &Terms,
        taken: &[Range<usize>],
    ) -> Result<Handle, Refusal> {
        let slot = match terms.object {
            0 => 0,
            size if size > SIZE_MAX => return Err(Refusal::NoMemory),
            size => size.next_multiple_of(GRAIN),
        };
        // Tags are mapped page by page together with their lots.
        if terms.tagged && !(LOT_BYTES / GRAIN).is_multiple_of(os.page_size()) {
            return Err(Refusal::Unsupported);
        }
        let state = self.state().ok_or(Refusal::NoMemory)?;
        let open = state.open(os, me)?;
        open.begin(taken)?;
        let key = state.key();
        loop {
            let (place, record) = open.take_record()?;
            if record.generation() >= GENERATION_MAX {
                // The generations of this record are used up, so it is left out for ever.
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

    /// Locks the zone of a handle, and returns it.
    pub fn enter<'a, O: Os>(
        self,
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

    /// Allocates a block of `size` bytes in a zone, at a multiple of `align`, which is a power of
    /// two. The block is zero if `zeroed` is set.
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
}

impl<O: Os> Zone<'_, O> {
    /// Changes the name of the zone.
    pub fn rename(&self, name: &Name, show: Show<'_>) {
        self.record.set_name(name);
        self.for_each_stretch(|address, bytes| {
            self.record.show_name(show(address, bytes, name));
        });
    }

    /// Returns the name and the figures of the zone.
    pub fn figures(&self) -> (Name, Figures) {
        (self.record.name(), self.record.figures())
    }
}
