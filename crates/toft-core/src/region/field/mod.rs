//! The field: the address space of all slabs, and the test whether an address is in a slab.
//!
//! ```text
//! field        | slab | slab    | slab |  slab   | next ...    whole pages, in the order of demand
//! page map     | 1    | 2 2 2 2 | 3    | 4 4 4 4 | 0 ...       a number for each page
//! descriptors  | none | 1 | 2 | 3 | 4 | next ...               in the order of demand
//! ```
//!
//! A slab takes the pages that its slots need, and no slab begins on another's page. The *page map*
//! has the number of a descriptor for each page, or zero. Descriptor 0 describes no slab, so that
//! every free of an address that it stands for fails. A walk over all slabs reads the descriptors,
//! in their order, and not the page map.
//!
//! | build | where slabs are ([`Supply`]) | the page map ([`PageMap`]) |
//! |---|---|---|
//! | default | `dense.rs`: all are neighbours, so page tables grow with the data | `flat.rs` |
//! | secure | `plots.rs`: those of different partitions are far apart | `tree.rs` |
//!
//! Invariants: F1 and F2 are those of runs (`run.rs`), F5 is the tree's, P1 and P2 are those of
//! plots.
//! - F3 an entry of the page map that is reached for a slab is mapped. It changes once, from zero
//!   to a number below `taken`.
//! - F4 a descriptor whose number is below `taken` is mapped. One whose slab is not open yet is all
//!   zero and fails every free.

mod dense;
mod flat;
mod plots;
mod tree;

use super::run::{Spares, up};
use super::{Carve, Descriptor, Layout, Partition};
use crate::os::{Error, Memory, Os};
use crate::policy::SLAB_BYTES;
use crate::sync::{AtomicU32, Ordering};
use Ordering::{Acquire, Relaxed, Release};
use core::marker::PhantomData;
use dense::Dense;
use flat::FlatMap;
use plots::Plots;
use tree::TreeMap;

/// A field whose slabs are neighbours, with descriptors `D`.
pub type DenseField<D> = Field<D, FlatMap, Dense>;
/// A field in which slabs of different partitions are far apart.
pub type PlotField<D> = Field<D, TreeMap, Plots>;
/// The slabs of an allocator.
#[cfg(not(feature = "secure-light"))]
pub type Slabs<D> = DenseField<D>;
/// The slabs of an allocator.
#[cfg(feature = "secure-light")]
pub type Slabs<D> = PlotField<D>;

/// An entry of the page map is the distance of a descriptor from the first one, in units of this
/// number of bytes: the largest by which an address can be scaled by the instruction that uses it.
const SCALE: usize = 8;
/// The most descriptors that an entry can name.
const DESCRIPTORS_MOST: usize = (u32::MAX as usize + 1) / (SLAB_BYTES / SCALE);
/// The bytes of descriptors that are mapped at a time. If a thread is stopped while it maps more,
/// others have as many as are in use. After these, their blocks get single pages.
const DESCRIPTOR_STEP: usize = 2048 * SLAB_BYTES;

/// What a new slab needs.
#[derive(Clone, Copy, Debug)]
pub struct SlabNeed {
    /// The partition that gets it.
    pub partition: Partition,
    /// The bytes of its slots.
    pub bytes: usize,
    /// Its first address is a multiple of this number, a power of two.
    pub align: usize,
}

/// Where slabs are.
pub trait Supply: Sized {
    /// An object that contains no address, for use before the allocator starts.
    const NONE: Self;

    /// Returns the number of zeroed bytes of tables that `new` needs for a field of `bytes` bytes.
    fn table_bytes(bytes: usize, partitions: usize) -> usize;

    /// Returns the supply of a field from `base` on.
    ///
    /// # Safety
    /// 1. `tables` is the address of `table_bytes` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. The field is address space for this object alone, and begins with a page.
    unsafe fn new(
        os: &impl Os,
        field: (usize, usize),
        partitions: usize,
        tables: usize,
    ) -> Result<Self, Error>;

    /// Takes addresses that were never taken, all mapped. Its bytes and alignment are whole pages.
    /// If something was mapped for it, calls `was_mapped` with its start and length, before any
    /// thread gets some. `was_mapped` may refuse it by an error.
    fn take(
        &self,
        os: &impl Memory,
        need: SlabNeed,
        was_mapped: &impl Fn(usize, usize) -> Result<(), Error>,
    ) -> Result<usize, Error>;

    /// Maps ahead of need again, as usual. Memory is available again.
    fn grow_ahead(&self);

    /// Unmaps what was mapped ahead of need, because memory has run out. Little is mapped ahead
    /// until [`grow_ahead`](Self::grow_ahead).
    fn retract(&self, os: &impl Memory);

    /// Repairs the supply in the child of a fork. What a thread of the parent had begun to map
    /// stays unused.
    fn repair(&self);

    /// Calls `each` with the address and length of what is mapped and was never taken.
    fn for_each_ahead(&self, each: impl FnMut(usize, usize));

    /// Returns the number of mapped bytes.
    fn mapped_bytes(&self) -> usize;

    /// Verifies the invariants.
    fn check(&self) -> bool;
}

/// The number of a descriptor for each page of the field.
pub trait PageMap: Sized {
    /// An object that contains no address, for use before the allocator starts.
    const NONE: Self;
    /// The bytes for which there is an entry. Slabs begin with one, and have whole ones.
    const UNIT: usize;
    /// The number of bytes that the caller of `new` maps.
    const FIRST: usize;

    /// Returns the number of bytes of address space for a field of `bytes` bytes.
    fn space(bytes: usize) -> usize;

    /// Returns the number of zeroed bytes of tables that `new` needs.
    fn table_bytes(bytes: usize) -> usize;

    /// Returns the map of a field from `base` on.
    ///
    /// # Safety
    /// 1. `tables` is the address of `table_bytes` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. From `space` on there are [`space`](Self::space) bytes for this object alone. The first
    ///    [`FIRST`](Self::FIRST) are mapped, and zero.
    unsafe fn new(
        os: &impl Memory,
        field: (usize, usize),
        space: usize,
        tables: usize,
    ) -> Result<Self, Error>;

    /// Returns the entry of any address, or `None` if it is not in the field.
    fn get(&self, address: usize) -> Option<u32>;

    /// Sets the entries of a slab.
    ///
    /// # Safety
    /// 1. `reach` was called for these addresses.
    unsafe fn set(&self, address: usize, bytes: usize, entry: u32);

    /// Maps the entries of addresses of the field.
    fn reach(&self, os: &impl Memory, address: usize, bytes: usize) -> Result<(), Error>;

    /// Finishes, in the child of a fork, what a thread of the parent had begun to map.
    fn repair(&self, os: &impl Memory);

    /// Returns the number of mapped bytes.
    fn mapped_bytes(&self) -> usize;

    /// Returns the bytes that may have pages, if `slabs` bytes of slabs are mapped.
    fn bytes_for(&self, slabs: usize) -> usize;

    /// Returns true if the entries of addresses of the field are mapped.
    fn is_mapped(&self, address: usize, bytes: usize) -> bool;
}

/// The shared words of the field. In the metadata tables, zero at first.
#[derive(Debug)]
#[repr(C, align(64))]
struct State {
    /// The descriptors as far as they are mapped.
    descriptors: Carve,
    /// The number after the last descriptor that a thread has taken. Any thread raises it by one,
    /// after the descriptor is mapped.
    taken: AtomicU32,
    /// Numbers that were given back, because there were no pages for a slab.
    spares: Spares,
}

/// Where the parts of a field are: for each its first address and the number of bytes.
#[derive(Clone, Copy, Debug)]
pub struct FieldPlaces {
    /// Slabs.
    pub data: (usize, usize),
    /// The first descriptors.
    pub first_descriptors: (usize, usize),
    /// The other descriptors, above the first.
    pub descriptors: (usize, usize),
    /// The first address of the page map.
    pub map: usize,
}

/// The field.
#[derive(Debug)]
pub struct Field<D, M, S> {
    /// Every free reads this and the next.
    map: M,
    /// Descriptor 0.
    zero: *const u8,
    supply: S,
    /// The number of the first descriptors, and the number of descriptors that would have room
    /// between them and the others.
    first: usize,
    between: usize,
    /// The number of bytes of address space for descriptors.
    descriptor_space: usize,
    page_size: usize,
    state: *const State,
    types: PhantomData<D>,
}

impl<D, M: PageMap, S> Field<D, M, S> {
    /// The number of bytes of the page map that the caller of `new` maps.
    pub const MAP_FIRST: usize = M::FIRST;

    /// Returns the number of bytes of address space for the descriptors of a field of `bytes` bytes
    /// that are not among the first: one for each unit of the page map. They begin `distance` bytes
    /// after the first one.
    pub fn descriptor_space(bytes: usize, distance: usize) -> usize {
        let most = DESCRIPTORS_MOST.saturating_sub(distance / SLAB_BYTES);
        (bytes / M::UNIT).min(most) * SLAB_BYTES
    }

    /// Returns the number of bytes of address space for the page map of a field of `bytes` bytes.
    pub fn map_space(bytes: usize) -> usize {
        M::space(bytes)
    }
}

impl<D: Descriptor, M: PageMap, S: Supply> Field<D, M, S> {
    const BYTES: usize = size_of::<D>();

    /// Returns the number of zeroed bytes of tables that `new` needs for a field of `bytes` bytes.
    pub fn table_bytes(bytes: usize, partitions: usize) -> usize {
        let map = M::table_bytes(bytes).next_multiple_of(64);
        size_of::<State>() + map + S::table_bytes(bytes, partitions)
    }

    /// Returns an object that contains no address, for use before the allocator starts.
    pub const fn none() -> Self {
        Field {
            map: M::NONE,
            zero: core::ptr::null(),
            supply: S::NONE,
            first: 0,
            between: 0,
            descriptor_space: 0,
            page_size: 4096,
            state: core::ptr::null(),
            types: PhantomData,
        }
    }

    /// Returns the field of a layout.
    ///
    /// # Safety
    /// 1. As for [`Field::new`].
    /// 2. The layout's places for slabs are for this object alone.
    pub unsafe fn at(
        os: &impl Os,
        layout: &Layout,
        partitions: usize,
        tables: usize,
    ) -> Result<Self, Error> {
        let span = layout.windows.span;
        let places = FieldPlaces {
            data: (layout.windows.data, span),
            first_descriptors: (layout.slabs, Layout::SLABS_FIRST),
            descriptors: (layout.more_slabs, layout.more_slabs_span),
            map: layout.page_map,
        };
        // SAFETY: (1) duty 1; (2) duty 2.
        unsafe { Field::new(os, places, partitions, tables) }
    }

    /// Returns a field at these places.
    ///
    /// # Safety
    /// 1. `tables` is the address of `table_bytes` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. The places are address space for this object alone, and begin with a page. The first
    ///    descriptors, and the first `MAP_FIRST` bytes of the page map, are mapped and zero.
    pub unsafe fn new(
        os: &impl Os,
        places: FieldPlaces,
        partitions: usize,
        tables: usize,
    ) -> Result<Self, Error> {
        let (zero, first_bytes) = places.first_descriptors;
        let (more, more_bytes) = places.descriptors;
        let map = tables + size_of::<State>();
        let supply = map + M::table_bytes(places.data.1).next_multiple_of(64);
        // SAFETY: (1) each has its own part of the tables; (2) duty 2.
        let field = unsafe {
            Field {
                map: M::new(os, places.data, places.map, map)?,
                zero: core::ptr::with_exposed_provenance(zero),
                supply: S::new(os, places.data, partitions, supply)?,
                first: first_bytes / Self::BYTES,
                between: (more - zero - first_bytes) / Self::BYTES,
                descriptor_space: first_bytes + more_bytes,
                page_size: os.page_size(),
                state: core::ptr::with_exposed_provenance(tables),
                types: PhantomData,
            }
        };
        field.state().descriptors.begin_with(first_bytes);
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

    /// Returns the descriptor of the slab that contains an address. An address that is in no slab
    /// has none, or one that is not open.
    #[inline(always)]
    pub fn slab_at(&self, address: usize) -> Option<&D> {
        Some(self.named(self.map.get(address)?))
    }

    /// Returns a slab that was never used: its descriptor, still zero, and its address. If slabs
    /// were mapped for it, calls `mapped` with their start and length.
    pub fn take(
        &self,
        os: &impl Memory,
        need: SlabNeed,
        mapped: impl Fn(usize, usize),
    ) -> Result<(&D, usize), Error> {
        let unit = self.page_size.max(M::UNIT);
        let bytes = up(need.bytes, unit);
        let need = SlabNeed { bytes, align: need.align.max(unit), ..need };
        let number = self.take_number(os)?;
        let was_mapped = |address: usize, len: usize| {
            self.map.reach(os, address, len)?;
            mapped(address, len);
            Ok(())
        };
        let address = self.supply.take(os, need, &was_mapped).inspect_err(|_| {
            self.state().spares.put(number, 1);
        })?;
        // A free has its address from a thread that has got a block here.
        // SAFETY: (1) `reach` was called when these pages were mapped.
        unsafe { self.map.set(address, bytes, self.entry_of(number)) };
        Ok((self.named(self.entry_of(number)), address))
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
            let space = (self.descriptors_begin(), self.descriptor_space);
            state.descriptors.reach_ahead(os, space, bytes, DESCRIPTOR_STEP, self.page_size)?;
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

    /// Returns the address at which the descriptors would begin if none were apart from the others.
    /// Nothing is mapped by it where the first ones would be then.
    fn descriptors_begin(&self) -> usize {
        self.first_descriptor() + self.between * Self::BYTES
    }

    /// Returns the address of descriptor 0.
    pub fn first_descriptor(&self) -> usize {
        self.zero.expose_provenance()
    }

    /// Returns the entry that names a descriptor.
    fn entry_of(&self, number: usize) -> u32 {
        let between = if number < self.first { 0 } else { self.between };
        ((number + between) * (SLAB_BYTES / SCALE)) as u32
    }

    /// Returns the descriptor that an entry names.
    #[inline(always)]
    fn named(&self, entry: u32) -> &D {
        // SAFETY: F3, F4: it is mapped, so it is not at zero. Without this, free compares.
        // `Descriptor`
        // promises that zero bytes are a descriptor (1), and that shared references are enough for
        // all threads (2).
        unsafe {
            core::hint::assert_unchecked(!self.zero.is_null());
            &*self.zero.add(entry as usize * SCALE).cast()
        }
    }

    /// Maps ahead of need again, as usual. Memory is available again.
    pub fn grow_ahead(&self) {
        self.supply.grow_ahead();
    }

    /// Unmaps what was mapped ahead of need, because memory has run out. The field maps little
    /// ahead until [`grow_ahead`](Self::grow_ahead).
    pub fn retract(&self, os: &impl Memory) {
        self.supply.retract(os);
    }

    /// Repairs the field in the child of a fork. What a thread of the parent had begun to map stays
    /// unused.
    pub fn repair(&self, os: &impl Memory) {
        self.supply.repair();
        self.map.repair(os);
        self.state().descriptors.repair(os, self.descriptors_begin());
    }

    /// Returns true if there is no slab from a number on.
    pub fn is_end(&self, number: usize) -> bool {
        number >= self.taken()
    }

    /// Returns the slab of a number that is not the end, if it is open.
    pub fn nth(&self, number: usize) -> Option<&D> {
        if self.is_end(number) {
            return None;
        }
        Some(self.named(self.entry_of(number))).filter(|slab| slab.is_open())
    }

    /// Calls `each` with every slab that was handed out, in the order of demand.
    pub fn for_each(&self, mut each: impl FnMut(&D)) {
        self.for_each_from(&mut 0, |slab| {
            each(slab);
            true
        });
    }

    /// Calls `each` with every slab from a number on, until `each` returns false. Moves the number
    /// on. Returns false if `each` has ended it.
    pub fn for_each_from(&self, number: &mut usize, mut each: impl FnMut(&D) -> bool) -> bool {
        let mut goes_on = true;
        while goes_on && !self.is_end(*number) {
            if let Some(slab) = self.nth(*number) {
                goes_on = each(slab);
            }
            *number += 1;
        }
        goes_on
    }

    /// Calls `each` with the start and length of the addresses of slabs: of each slab the bytes
    /// from its start that `mapped_bytes` returns. Neighbours that were taken one after the other
    /// are in one range. The last ranges are what is mapped ahead.
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
        self.supply.for_each_ahead(each);
    }

    /// Returns the bytes of descriptors, and of the page map, that may have pages.
    pub fn descriptor_bytes(&self) -> usize {
        let map = self.map.bytes_for(self.supply.mapped_bytes());
        up(self.taken() * Self::BYTES, self.page_size) + up(map, self.page_size)
    }

    /// Returns the bytes of slabs that are mapped.
    pub fn mapped_at_most(&self) -> usize {
        self.supply.mapped_bytes()
    }

    /// Returns the bytes of mapped slabs, and of their mapped metadata.
    pub fn mapped_bytes(&self) -> (usize, usize) {
        let metadata = self.state().descriptors.mapped() + self.map.mapped_bytes();
        (self.supply.mapped_bytes(), metadata)
    }

    /// Verifies F1 to F4: each page of each slab names the slab's descriptor.
    pub fn check(&self) -> bool {
        let mut sound = self.taken() * Self::BYTES <= self.state().descriptors.mapped();
        self.for_each(|slab| {
            let number = ((&raw const *slab).addr() - self.zero.addr()) / Self::BYTES;
            let number = if number < self.first { number } else { number - self.between };
            let (begin, bytes) = slab.extent();
            let mut units = (begin..begin + bytes).step_by(M::UNIT);
            let names = |address| self.map.get(address) == Some(self.entry_of(number));
            sound = sound && self.map.is_mapped(begin, bytes) && units.all(names);
        });
        sound && self.supply.check()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
