//! The page map of the default build: one table with an entry for each page of the field.
//!
//! ```text
//! limit | 1 | 2 | 2 | 2 | 3 | 0 ...        mapped from its start on, as far as slabs are mapped
//! ```
//!
//! The field has few holes, so the table has few pages that hold nothing.

use super::PageMap;
use crate::os::{Error, Memory};
use crate::region::Carve;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// log2 of the bytes for which there is an entry: the smallest page of any system.
const PAGE_SHIFT: u32 = 12;
/// The bytes of an entry.
const ENTRY: usize = size_of::<AtomicU32>();
/// The bytes of the table that are mapped at a time: for slabs of 1 GiB.
const STEP: usize = 1 << 20;

/// What precedes the entries.
#[derive(Debug)]
#[repr(C, align(64))]
struct Head {
    /// The number of entries that are mapped. Any thread raises it.
    limit: AtomicUsize,
}

/// The table of no address. A number and not a head, so that it is in memory that cannot be
/// written.
#[repr(C, align(64))]
struct NoPages([usize; size_of::<Head>() / size_of::<usize>()]);
static NO_PAGES: NoPages = NoPages([0; size_of::<Head>() / size_of::<usize>()]);

/// The table.
#[derive(Debug)]
pub struct FlatMap {
    /// The first address of the field. Every free reads this and the next.
    base: usize,
    head: *const Head,
    /// The bytes of address space for the table.
    space: usize,
    page_size: usize,
    /// The table as far as it is mapped.
    carve: *const Carve,
}

impl FlatMap {
    /// Returns the number of entries in the first `bytes` bytes of the map.
    fn entries_in(bytes: usize) -> usize {
        (bytes - size_of::<Head>()) / ENTRY
    }

    /// Returns the number of entries that are mapped.
    fn limit(&self) -> usize {
        // SAFETY: `new` maps it, or it is `NO_PAGES`.
        unsafe { &(*self.head).limit }.load(Acquire)
    }

    /// Returns the entry of a page.
    ///
    /// # Safety
    /// 1. The page is below the limit.
    #[inline(always)]
    unsafe fn entry(&self, page: usize) -> &AtomicU32 {
        // SAFETY: by duty 1 it is mapped.
        unsafe { &*self.head.add(1).cast::<AtomicU32>().add(page) }
    }

    fn carve(&self) -> &Carve {
        // SAFETY: `new` duty 1; all-zero is a `Carve`.
        unsafe { &*self.carve }
    }
}

impl PageMap for FlatMap {
    const NONE: Self = FlatMap {
        base: 0,
        head: (&raw const NO_PAGES).cast(),
        space: 0,
        page_size: 4096,
        carve: core::ptr::null(),
    };
    const UNIT: usize = 1 << PAGE_SHIFT;
    const FIRST: usize = STEP;

    fn space(bytes: usize) -> usize {
        size_of::<Head>() + (bytes >> PAGE_SHIFT) * ENTRY
    }

    fn table_bytes(_bytes: usize) -> usize {
        size_of::<Carve>()
    }

    unsafe fn new(
        os: &impl Memory,
        (base, bytes): (usize, usize),
        space: usize,
        tables: usize,
    ) -> Result<Self, Error> {
        let map = FlatMap {
            base,
            head: core::ptr::with_exposed_provenance(space),
            space: Self::space(bytes),
            page_size: os.page_size(),
            carve: core::ptr::with_exposed_provenance(tables),
        };
        map.carve().begin_with(Self::FIRST);
        // SAFETY: the first piece is mapped. A plain store, because a page that is read first costs
        // two faults.
        unsafe { &(*map.head).limit }.store(Self::entries_in(Self::FIRST), Release);
        Ok(map)
    }

    /// It has 2 loads, a shift and a comparison.
    #[inline(always)]
    fn get(&self, address: usize) -> Option<u32> {
        let page = address.wrapping_sub(self.base) >> PAGE_SHIFT;
        // SAFETY: `new` maps it, or it is `NO_PAGES`.
        if page >= unsafe { &(*self.head).limit }.load(Relaxed) {
            return None;
        }
        // SAFETY: (1) compared above.
        Some(unsafe { self.entry(page) }.load(Relaxed))
    }

    unsafe fn set(&self, address: usize, bytes: usize, entry: u32) {
        let first = (address - self.base) >> PAGE_SHIFT;
        for page in first..first + (bytes >> PAGE_SHIFT) {
            // SAFETY: (1) the caller's duty.
            unsafe { self.entry(page) }.store(entry, Relaxed);
        }
    }

    fn reach(&self, os: &impl Memory, address: usize, bytes: usize) -> Result<(), Error> {
        let (head, carve) = (self.head.expose_provenance(), self.carve());
        let end = (address + bytes - self.base) >> PAGE_SHIFT;
        let size = size_of::<Head>() + end * ENTRY;
        carve.reach_ahead(os, (head, self.space), size, STEP, self.page_size)?;
        // SAFETY: mapped above. A thread that sees the limit finds zeros or numbers.
        unsafe { &(*self.head).limit }.fetch_max(Self::entries_in(carve.mapped()), Release);
        Ok(())
    }

    fn repair(&self, os: &impl Memory) {
        self.carve().repair(os, self.head.expose_provenance());
    }

    fn mapped_bytes(&self) -> usize {
        self.carve().mapped()
    }

    fn bytes_for(&self, slabs: usize) -> usize {
        (slabs >> PAGE_SHIFT) * ENTRY
    }

    fn is_mapped(&self, address: usize, bytes: usize) -> bool {
        (address + bytes - self.base) >> PAGE_SHIFT <= self.limit()
    }
}
