//! Where slabs of the default build are: all in one run, in the order of demand.

use super::{SlabNeed, Supply};
use crate::os::{Error, Memory, Os};
use crate::region::run::{Mood, NoUnits, Run, State as RunState};

/// The run begins at a multiple of this number of bytes: as many as the largest power of two that
/// divides the size of a slot.
const ALIGN: usize = 128 << 10;
/// The number of places, so far apart, where the run may begin.
const LEADS: usize = 16;
/// The least and the most bytes that are mapped at a time.
const STEPS: (usize, usize, usize) = (1 << 20, 64 << 20, 0);

/// The shared words. In the metadata tables, zero at first.
#[derive(Debug)]
#[repr(C)]
struct State {
    mood: Mood,
    run: RunState,
}

/// The run.
#[derive(Debug)]
pub struct Dense {
    pub(super) run: Run,
    state: *const State,
}

impl Dense {
    fn mood(&self) -> &Mood {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &(*self.state).mood }
    }
}

impl Supply for Dense {
    const NONE: Self = Dense { run: Run::none(), state: core::ptr::null() };

    fn table_bytes(_bytes: usize, _partitions: usize) -> usize {
        size_of::<State>()
    }

    unsafe fn new(
        os: &impl Os,
        (base, bytes): (usize, usize),
        _partitions: usize,
        tables: usize,
    ) -> Result<Self, Error> {
        let state: *const State = core::ptr::with_exposed_provenance(tables);
        // The window has fewer places, because large blocks in it may have huge pages.
        let lead = (os.random()? as usize & (LEADS - 1)) * ALIGN;
        let places = (base + lead, bytes - lead);
        // SAFETY: (1), (2), (3) the duties of `new`.
        let run = unsafe {
            Run::new(
                places,
                STEPS,
                os.page_size(),
                &raw const (*state).run,
                &raw const (*state).mood,
            )
        };
        Ok(Dense { run, state })
    }

    fn take(
        &self,
        os: &impl Memory,
        need: SlabNeed,
        was_mapped: &impl Fn(usize, usize) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        self.run.take(os, (need.bytes, need.align), was_mapped).map_err(|why| match why {
            NoUnits::Refused(error) => error,
            NoUnits::UsedUp | NoUnits::Foreign => Error::NoMemory,
        })
    }

    fn grow_ahead(&self) {
        self.mood().set_modest(false);
    }

    fn retract(&self, os: &impl Memory) {
        self.mood().set_modest(true);
        self.run.retract(os);
    }

    fn repair(&self) {
        self.run.repair();
    }

    fn for_each_ahead(&self, mut each: impl FnMut(usize, usize)) {
        let (address, bytes) = self.run.ahead();
        if bytes != 0 {
            each(address, bytes);
        }
    }

    fn mapped_bytes(&self) -> usize {
        self.mood().mapped_bytes()
    }

    fn check(&self) -> bool {
        self.run.check()
    }
}
