//! The field: the address space of all slabs of the default build, and the test whether an address
//! is in a slab.
//!
//! ```text
//! field        | slab | slab    | slab |  slab   | next ...        whole pages, in the order of
//! demand page map     | 1    | 2 2 2 2 | 3    | 4 4 4 4 | 0 ...           a number for each page
//! descriptors  | none | 1 | 2 | 3 | 4 | next ...                           in the order of demand
//! ```
//!
//! A slab takes the pages that its slots need, and no slab begins on another's page. Slabs of all
//! partitions and classes are neighbours, so that page tables and mappings grow with the data and
//! not with the number of call sites. The *page map* has the number of a descriptor for each page
//! of 4 KiB, or zero. Descriptor 0 describes no slab, so that every free of an address that it
//! stands for fails. A walk over all slabs reads the descriptors, in their order, and not the page
//! map, which is long where the field passes by foreign mappings.
//!
//! - F3 an entry of the page map below `limit` is mapped. It changes once, from zero to a number
//!   below `taken`.
//! - F4 a descriptor whose number is below `taken` is mapped. One whose slab is not open yet is all
//!   zero and fails every free.

use super::run::{Run, Spares, State as RunState, up};
use super::{Carve, Descriptor, SlabNeed, SlabPlace};
use crate::os::{Error, Memory};
use crate::policy::SLAB_BYTES;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};
use core::marker::PhantomData;

/// log2 of the bytes for which the page map has an entry: the smallest page of any system.
const PAGE_SHIFT: u32 = 12;
/// The bytes of an entry of the page map.
const ENTRY: usize = size_of::<AtomicU32>();
/// An entry is the distance of a descriptor from the first one, in units of this number of bytes:
/// the largest by which an address can be scaled by the instruction that uses it.
const SCALE: usize = 8;
/// The most descriptors that an entry can name.
const DESCRIPTORS_MOST: usize = (u32::MAX as usize + 1) / (SLAB_BYTES / SCALE);

/// The least and the most bytes of slabs that are mapped at a time.
const DATA_STEPS: (usize, usize) = (1 << 20, 64 << 20);
/// The bytes of descriptors that are mapped at a time.
const DESCRIPTOR_STEP: usize = 128 << 10;
/// The bytes of the page map that are mapped at a time: for slabs of 1 GiB.
const MAP_STEP: usize = 1 << 20;

/// The shared words of the field. In the metadata tables, zero at first.
#[derive(Debug)]
#[repr(C)]
struct State {
    pages: RunState,
    /// The page map as far as it is mapped.
    map: Carve,
    /// The descriptors as far as they are mapped.
    descriptors: Carve,
    /// The number after the last descriptor that a thread has taken. Any thread raises it by one,
    /// after the descriptor is mapped.
    taken: AtomicU32,
    /// Numbers that were given back, because there were no pages for a slab.
    spares: Spares,
}

/// The page map. Its entries follow.
#[derive(Debug)]
#[repr(C, align(64))]
struct Map {
    /// The number of entries that are mapped. Any thread raises it.
    limit: AtomicUsize,
}

/// The page map of no address. A number and not a map, so that it is in memory that cannot be
/// written.
#[repr(C, align(64))]
struct NoPages([usize; size_of::<Map>() / size_of::<usize>()]);
static NO_PAGES: NoPages = NoPages([0; size_of::<Map>() / size_of::<usize>()]);

/// Returns the number of bytes of address space for the page map of a field of `bytes` bytes.
pub const fn map_bytes(bytes: usize) -> usize {
    size_of::<Map>() + (bytes >> PAGE_SHIFT) * ENTRY
}

/// Returns the number of bytes of address space for the descriptors of a field of `bytes` bytes:
/// one for each page.
pub const fn descriptor_space(bytes: usize) -> usize {
    let pages = bytes >> PAGE_SHIFT;
    (if pages < DESCRIPTORS_MOST { pages } else { DESCRIPTORS_MOST }) * SLAB_BYTES
}

/// Where the parts of a field are.
#[derive(Clone, Copy, Debug)]
pub struct FieldPlaces {
    /// The first address of slabs, and the number of bytes for them.
    pub data: (usize, usize),
    /// The first address of the descriptors, and the number of bytes for them.
    pub descriptors: (usize, usize),
    /// The first address of the page map, which has four bytes for each 4 KiB of slabs.
    pub map: usize,
}

/// The field.
#[derive(Debug)]
pub struct Field<D> {
    /// The first address of slabs. Every free reads this and the next two.
    base: usize,
    /// The page map.
    map: *const Map,
    /// Descriptor 0.
    zero: *const u8,
    /// The number of bytes of address space for descriptors.
    descriptor_space: usize,
    pages: Run,
    page_size: usize,
    state: *const State,
    types: PhantomData<D>,
}

impl<D: Descriptor> Field<D> {
    const BYTES: usize = size_of::<D>();

    /// The number of zeroed bytes of tables that `new` needs.
    pub const TABLE_BYTES: usize = size_of::<State>();

    /// Returns an object that contains no address, for use before the allocator starts.
    pub const fn none() -> Self {
        Field {
            base: 0,
            map: (&raw const NO_PAGES).cast(),
            zero: core::ptr::null(),
            descriptor_space: 0,
            pages: Run::none(),
            page_size: 4096,
            state: core::ptr::null(),
            types: PhantomData,
        }
    }

    /// Returns a field at these places. Maps the first descriptors and the first part of the page
    /// map.
    ///
    /// # Safety
    /// 1. `tables` is the address of `TABLE_BYTES` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. The places are address space for this object alone, and begin with a page.
    pub unsafe fn new(os: &impl Memory, places: FieldPlaces, tables: usize) -> Result<Self, Error> {
        let page_size = os.page_size();
        let (base, bytes) = places.data;
        let (zero, descriptor_bytes) = places.descriptors;
        let state = tables + core::mem::offset_of!(State, pages);
        // SAFETY: (1) the tables' first part; (2) duty 2.
        let pages = unsafe { Run::new((base, bytes, PAGE_SHIFT), DATA_STEPS, page_size, state) };
        let field = Field {
            base,
            map: core::ptr::with_exposed_provenance(places.map),
            zero: core::ptr::with_exposed_provenance(zero),
            descriptor_space: descriptor_bytes,
            pages,
            page_size,
            state: core::ptr::with_exposed_provenance(tables),
            types: PhantomData,
        };
        field.reach_entries(os, 1)?;
        // Descriptor 0 is of no slab.
        match field.take_number(os)? {
            0 => Ok(field),
            _ => Err(Error::Occupied),
        }
    }

    fn state(&self) -> &State {
        // SAFETY: `new` duty 1; all-zero is a `State`.
        unsafe { &*self.state }
    }

    /// Returns the number of entries of the page map that are mapped.
    fn limit(&self) -> usize {
        // SAFETY: `new` maps it, or it is `NO_PAGES`.
        unsafe { &(*self.map).limit }.load(Acquire)
    }

    /// Returns the entry of a page.
    ///
    /// # Safety
    /// 1. The page is below the limit.
    #[inline(always)]
    unsafe fn entry(&self, page: usize) -> &AtomicU32 {
        // SAFETY: F3, by duty 1: it is mapped.
        unsafe { &*self.map.add(1).cast::<AtomicU32>().add(page) }
    }

    /// Returns the descriptor of the slab that contains an address. An address that is in no slab
    /// has none, or one that is not open.
    ///
    /// It has 4 loads, a shift and a comparison, and accesses only the page map.
    #[inline(always)]
    pub fn slab_at(&self, address: usize) -> Option<&D> {
        let page = address.wrapping_sub(self.base) >> PAGE_SHIFT;
        // SAFETY: `new` maps it, or it is `NO_PAGES`.
        if page >= unsafe { &(*self.map).limit }.load(Relaxed) {
            return None;
        }
        // SAFETY: (1) compared above.
        Some(self.named(unsafe { self.entry(page) }.load(Relaxed)))
    }

    /// Returns a slab that was never used: its descriptor, still zero, and its address. If slabs
    /// were mapped for it, calls `mapped` with their start and length.
    pub fn take(
        &self,
        os: &impl Memory,
        need: SlabNeed,
        mapped: impl Fn(usize, usize),
    ) -> Result<(&D, usize), Error> {
        let bytes = up(need.bytes, self.page_size);
        let align = need.align.max(self.page_size);
        let number = self.take_number(os)?;
        let was_mapped = |address: usize, len: usize| {
            self.reach_entries(os, (address - self.base + len) >> PAGE_SHIFT)?;
            mapped(address, len);
            Ok(())
        };
        let size = (bytes >> PAGE_SHIFT, align >> PAGE_SHIFT);
        let first = self.pages.take(os, size, &was_mapped).inspect_err(|_| {
            self.state().spares.put(number, 1);
        })?;
        for page in first..first + size.0 {
            // A free has its address from a thread that has got a block here.
            // SAFETY: (1) `reach_entries` was called for these pages.
            unsafe { self.entry(page) }.store(entry_of(number), Relaxed);
        }
        Ok((self.named(entry_of(number)), self.pages.address(first)))
    }

    /// Returns the number of a descriptor that no slab has, mapped.
    fn take_number(&self, os: &impl Memory) -> Result<usize, Error> {
        let state = self.state();
        if let Some((number, _)) = state.spares.take(1) {
            return Ok(number);
        }
        loop {
            let number = state.taken.load(Relaxed);
            let bytes = (number as usize + 1) * Self::BYTES;
            let space = (self.zero.expose_provenance(), self.descriptor_space);
            self.reach(os, &state.descriptors, space, bytes, DESCRIPTOR_STEP)?;
            // publish number: pairs with the walk.
            if state.taken.compare_exchange(number, number + 1, Release, Relaxed).is_ok() {
                return Ok(number as usize);
            }
        }
    }

    /// Returns the number of descriptors that were taken. All below it are mapped.
    fn taken(&self) -> usize {
        // Pairs: publish number.
        self.state().taken.load(Acquire) as usize
    }

    /// Returns the descriptor that an entry names.
    #[inline(always)]
    fn named(&self, entry: u32) -> &D {
        // SAFETY: F3, F4: it is mapped, so it is not at zero. Without this, free compares. `Descriptor`
        // promises that zero bytes are a descriptor (1), and that shared references are enough for
        // all threads (2).
        unsafe {
            core::hint::assert_unchecked(!self.zero.is_null());
            &*self.zero.add(entry as usize * SCALE).cast()
        }
    }

    /// Maps the entries of the pages below `end`, and makes them visible.
    fn reach_entries(&self, os: &impl Memory, end: usize) -> Result<(), Error> {
        let state = self.state();
        let space = (self.map.expose_provenance(), map_bytes(self.pages.bytes()));
        self.reach(os, &state.map, space, size_of::<Map>() + end * ENTRY, MAP_STEP)?;
        let mapped = (state.map.mapped() - size_of::<Map>()) / ENTRY;
        // SAFETY: mapped above. A thread that sees the limit finds zeros or numbers.
        unsafe { &(*self.map).limit }.fetch_max(mapped, Release);
        Ok(())
    }

    /// Maps the first `bytes` bytes of a run of metadata, and twice as many if possible: a thread
    /// that is stopped while it maps more is then in the way of another only after as many slabs
    /// again.
    fn reach(
        &self,
        os: &impl Memory,
        run: &Carve,
        (start, space): (usize, usize),
        bytes: usize,
        step: usize,
    ) -> Result<(), Error> {
        let space = up(space, self.page_size);
        if bytes > space {
            return Err(Error::NoMemory);
        }
        if 2 * bytes <= run.mapped() {
            return Ok(());
        }
        let ahead = (2 * bytes).next_multiple_of(step).min(space);
        let to = |bytes| run.reach(os, start, start + bytes, self.page_size);
        match to(ahead) {
            Err(_) if bytes <= run.mapped() => Ok(()),
            Err(Error::NoMemory) => to(bytes),
            Err(Error::Occupied) => Err(Error::NoMemory),
            done => done,
        }
    }

    /// Maps ahead of need again, as usual. Memory is available again.
    pub fn grow_ahead(&self) {
        self.pages.grow_ahead();
    }

    /// Unmaps what was mapped ahead of need, because memory has run out. The field maps little
    /// ahead until [`grow_ahead`](Self::grow_ahead).
    pub fn retract(&self, os: &impl Memory) {
        self.pages.retract(os);
    }

    /// Repairs the field in the child of a fork. What a thread of the parent had begun to map stays
    /// unused.
    pub fn repair(&self, os: &impl Memory, _partitions: usize) {
        self.pages.repair();
        self.state().map.repair(os, self.map.expose_provenance());
        self.state().descriptors.repair(os, self.zero.expose_provenance());
    }

    /// Returns true if a place is after the last slab.
    pub fn is_end(&self, at: SlabPlace) -> bool {
        at.place.slab >= self.taken()
    }

    /// Returns the slab at a place that is not the end, and moves the place on. Returns `None` if
    /// it is not open.
    pub fn step(&self, at: &mut SlabPlace) -> Option<&D> {
        if self.is_end(*at) {
            return None;
        }
        let slab = self.named(entry_of(at.place.slab));
        at.place.slab += 1;
        slab.is_open().then_some(slab)
    }

    /// Calls `each` with every slab that was handed out, in the order of demand.
    pub fn for_each(&self, mut each: impl FnMut(&D)) {
        self.for_each_from([&mut 0, &mut 0], |slab| {
            each(slab);
            true
        });
    }

    /// Calls `each` with every slab from a place on, until `each` returns false. Moves the place
    /// on: the number of a slab, and one that is not used. Returns false if `each` has ended it.
    pub fn for_each_from(
        &self,
        [number, _]: [&mut usize; 2],
        mut each: impl FnMut(&D) -> bool,
    ) -> bool {
        let mut at = SlabPlace::default();
        at.place.slab = *number;
        let mut goes_on = true;
        while goes_on && !self.is_end(at) {
            if let Some(slab) = self.step(&mut at) {
                goes_on = each(slab);
            }
        }
        *number = at.place.slab;
        goes_on
    }

    /// Calls `each` with the start and length of the addresses of slabs: of each slab the bytes
    /// from its start that `mapped_bytes` returns. Neighbours that were taken one after the other
    /// are in one range. The last range is what is mapped ahead.
    pub fn for_each_range(
        &self,
        mapped_bytes: impl Fn(&D) -> usize,
        mut each: impl FnMut(usize, usize),
    ) {
        let (mut start, mut end) = (0, 0);
        self.for_each(|slab| {
            let (begin, _) = slab.extent();
            if begin != end {
                if end > start {
                    each(start, end - start);
                }
                start = begin;
            }
            end = begin + mapped_bytes(slab);
        });
        if end > start {
            each(start, end - start);
        }
        let (address, bytes) = self.pages.ahead();
        if bytes != 0 {
            each(address, bytes);
        }
    }

    /// Returns the bytes of descriptors, and of the page map, that may have pages.
    pub fn descriptor_bytes(&self) -> usize {
        let page = self.page_size;
        let entries = (self.pages.mapped_bytes() >> PAGE_SHIFT) * ENTRY;
        up(self.taken() * Self::BYTES, page) + up(entries, page)
    }

    /// Returns the bytes of slabs that are mapped.
    pub fn mapped_at_most(&self) -> usize {
        self.pages.mapped_bytes()
    }

    /// Returns the bytes of mapped slabs, and of their mapped metadata.
    pub fn mapped_bytes(&self) -> (usize, usize) {
        let metadata = self.state().descriptors.mapped() + self.state().map.mapped();
        (self.pages.mapped_bytes(), metadata)
    }

    /// Verifies F1 to F4: each page of each slab names the slab's descriptor.
    pub fn check(&self) -> bool {
        let mut sound = self.taken() * Self::BYTES <= self.state().descriptors.mapped();
        self.for_each(|slab| {
            let number = ((&raw const *slab).addr() - self.zero.addr()) / Self::BYTES;
            let (begin, bytes) = slab.extent();
            let first = (begin - self.base) >> PAGE_SHIFT;
            let mut pages = first..first + (bytes >> PAGE_SHIFT);
            sound &= pages.end <= self.limit();
            // SAFETY: (1) compared.
            let names = |page| unsafe { self.entry(page) }.load(Relaxed) == entry_of(number);
            sound = sound && pages.all(names);
        });
        sound && self.pages.check()
    }
}

/// Returns the entry that names a descriptor.
fn entry_of(number: usize) -> u32 {
    (number * (SLAB_BYTES / SCALE)) as u32
}

#[cfg(all(test, not(loom)))]
mod tests;
