//! Tables and pages joined, on a process that is made up: every byte of its pages is known, its
//! descriptors have their fields in another order than any library's, and it may say anything.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use toft_core::stats::Root;
use toft_profile::{Account, Error, Mapping, Memory, Run, Site, Split, Tables, account};

const PAGE: u64 = 4096;
const DATA: u64 = 0x1000_0000;
const SPAN: u64 = 1 << 20;
const TABLES: u64 = 0x7000_0000;
const SLABS: u64 = TABLES + 0x10_0000;
const FIRST_HEAP: u64 = TABLES + 0x8_0000;
const PAGE_MAP: u64 = TABLES + 0x20_0000;
const MORE_SLABS: u64 = TABLES + 0x28_0000;
const METADATA: u64 = TABLES - 0x10_0000;
const FIRST_COUNTS: u64 = TABLES + 0x4_0000;
const SITES: u64 = TABLES + 0x38_0000;
const HEAPS: u64 = TABLES + 0x40_0000;
const END: u64 = TABLES + 0x50_0000;
const LARGE: u64 = DATA + SPAN;
/// Where the kernel has put a chunk of descriptors, and blocks.
const OUTSIDE: u64 = 0x5000_0000;

const LIVE: u8 = 1;
const NO_SLOT: u8 = 3;
const DIRTY: u8 = 2;
const LENT: u8 = 0x41;
/// Set in LIVE where a probe was told.
const SAMPLED: u8 = 0x80;
/// What a later library may write: held while its pages are given back.
const UNHEARD_OF: u8 = 9;

fn root() -> Root {
    Root {
        ready: 1,
        page_size: PAGE,
        partitions: 4,
        data: DATA,
        span: SPAN,
        large_span: SPAN,
        metadata: METADATA,
        tables: TABLES,
        first_heap: FIRST_HEAP,
        slabs: SLABS,
        page_map: PAGE_MAP,
        more_slabs: MORE_SLABS,
        more_slabs_span: SITES - MORE_SLABS,
        large_blocks_end: TABLES,
        heaps: HEAPS,
        end: END,
        slab_most: 1 << 18,
        small_most: 1024,
        unit: 1 << 16,
        heap_stride: 2 * PAGE,
        heap_states: TABLES + 128,
        heap_first_states: 64,
        heap_other_states: TABLES + 128,
        heap_live: 1,
        heap_shared: 5,
        heap_count: TABLES + 64,
        heap_thread_block: 24,
        slab_bytes: 512,
        slab_states: 64,
        slab_remote: 384,
        slab_base: 0,
        slab_slots: 8,
        slab_owner: 16,
        slab_size: 24,
        slab_partition: 28,
        slab_site: 32,
        slab_claim: 416,
        slab_claim_states: 424,
        slot_live: LIVE.into(),
        owner_flag: 3,
        block_bytes: 64,
        block_state: 4,
        block_partition: 0,
        block_usable: 8,
        block_mapped: 16,
        block_extent: 24,
        block_site: 32,
        block_none: 0,
        block_live: 1,
        control: TABLES + 256,
        control_word: 0,
        control_thread: 4,
        control_asked: 8,
        control_answered: 16,
        control_given: 24,
        slot_lent: LENT.into(),
        sites: SITES,
        site_bytes: 16,
        sites_mapped: TABLES + 512,
        site_partition_bits: 16,
        site_first_own: 3,
        site_first_code: 0x8000,
        slot_sampled: SAMPLED.into(),
        ..Root::NONE
    }
}

/// A process of pages that are there, each with its bytes.
#[derive(Default)]
struct Image {
    pages: BTreeMap<u64, Vec<u8>>,
    exited: bool,
}

impl Image {
    fn touch(&mut self, start: u64, end: u64) {
        for at in (start..end).step_by(PAGE as usize) {
            self.pages.entry(at).or_insert_with(|| vec![0; PAGE as usize]);
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        for (i, &byte) in bytes.iter().enumerate() {
            let at = at + i as u64;
            self.touch(at & !(PAGE - 1), at + 1);
            self.pages.get_mut(&(at & !(PAGE - 1))).unwrap()[(at % PAGE) as usize] = byte;
        }
    }

    fn word(&mut self, at: u64, word: u64) {
        self.write(at, &word.to_le_bytes());
    }

    fn half(&mut self, at: u64, word: u32) {
        self.write(at, &word.to_le_bytes());
    }

    /// Heaps 0, of a thread, and 1, of none.
    fn heaps(&mut self) {
        self.half(TABLES + 64, 2);
        self.write(TABLES + 128, &[1, 2]);
        self.word(FIRST_HEAP + 24, 0x1234);
    }

    /// A slab of small slots, and where its descriptor is.
    fn slab(&mut self, index: u64, size: u32, states: &[u8], owner: u64) -> u64 {
        // The descriptors of two are among the first.
        let at = match index {
            0 | 1 => SLABS + index * 512,
            _ => MORE_SLABS + (index - 2) * 512,
        };
        self.slab_at(at, index, size, states, owner)
    }

    fn slab_at(&mut self, at: u64, index: u64, size: u32, states: &[u8], owner: u64) -> u64 {
        self.word(at, DATA + (index << 16));
        self.word(at + 8, states.len() as u64);
        self.word(at + 16, owner);
        self.half(at + 24, size);
        self.half(at + 28, 3);
        self.word(at + 32, 0x5555_0000 + index);
        self.write(at + 64, &[NO_SLOT; 256]);
        self.write(at + 64, states);
        at
    }
}

impl Memory for Image {
    fn pid(&self) -> i32 {
        7
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Error> {
        if self.exited {
            return Err(Error::Ended(7));
        }
        let line =
            |start, end| Mapping::of_line(&format!("{start:x}-{end:x} rw-p 0 0:0 0")).unwrap();
        Ok(vec![line(DATA, DATA + 2 * SPAN), line(OUTSIDE, OUTSIDE + SPAN), line(METADATA, END)])
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        for (i, byte) in into.iter_mut().enumerate() {
            let at = address + i as u64;
            let Some(page) = self.pages.get(&(at & !(PAGE - 1))) else { return i };
            *byte = page[(at % PAGE) as usize];
        }
        into.len()
    }

    fn pages(&self, start: u64, end: u64) -> Result<Vec<Run>, Error> {
        let there = self.pages.range(start..end);
        Ok(there.map(|(&at, _)| Run { start: at, end: at + PAGE }).collect())
    }
}

fn explain(image: &Image) -> Account {
    explain_by(image, root())
}

fn explain_by(image: &Image, root: Root) -> Account {
    account(image, &Tables { root }).unwrap()
}

/// A process in which something happens whenever its pages are asked for: a block is freed.
struct Restless {
    image: RefCell<Image>,
    states: u64,
    freed: Cell<u64>,
}

impl Memory for Restless {
    fn pid(&self) -> i32 {
        7
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Error> {
        self.image.borrow().mappings()
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.image.borrow().read(address, into)
    }

    fn pages(&self, start: u64, end: u64) -> Result<Vec<Run>, Error> {
        let pages = self.image.borrow().pages(start, end);
        if start < DATA + SPAN {
            self.image.borrow_mut().write(self.states + self.freed.get(), &[DIRTY]);
            self.freed.set(self.freed.get() + 1);
        }
        pages
    }
}

/// What is another when it is read again is taken as it is then, and told; what is not is not.
#[test]
fn changes_during_a_reading_are_counted() {
    let mut image = Image::default();
    // Neighbours, of which the pages are asked for at once.
    image.slab(0, 1024, &[LIVE; 64], FIRST_HEAP);
    let at = image.slab(1, 1024, &[LIVE; 4], FIRST_HEAP);
    let quiet = explain(&image);
    assert_eq!((quiet.doubts.read, quiet.doubts.changed, quiet.live_blocks), (2, 0, 68));
    let restless = Restless { image: RefCell::new(image), states: at + 64, freed: Cell::new(0) };
    let account = account(&restless, &Tables { root: root() }).unwrap();
    assert_eq!((account.doubts.read, account.doubts.changed), (2, 1));
    assert_eq!((restless.freed.get(), account.live_blocks), (1, 67));
}

/// The program has a block of which a probe was told as it has any other; freed by another thread
/// it is freed.
#[test]
fn what_was_sampled_is_live() {
    let mut image = Image::default();
    let at =
        image.slab(0, 1024, &[LIVE, LIVE | SAMPLED, LIVE | SAMPLED, DIRTY | SAMPLED], FIRST_HEAP);
    image.word(at + 384, 0b100);
    let account = explain(&image);
    assert_eq!((account.live_blocks, account.uncollected_bytes), (2, 1024));
    let (tables, mut live) = (Tables { root: root() }, 0);
    let mappings = image.mappings().unwrap();
    tables.for_each_descriptor(&image, &mappings, |slab| live += slab.live()).unwrap();
    assert_eq!(live, 2);
}

/// A thread has freed slots and not published that: they are freed, if its batch is still of the
/// slab.
#[test]
fn what_waits_in_a_batch_is_not_live() {
    let root = Root { slab_batch: 432, batch_slab: 8, batch_marks: 16, ..root() };
    let mut image = Image::default();
    let at = image.slab(0, 16, &[LIVE; 200], FIRST_HEAP);
    let batch = FIRST_HEAP + 2048;
    image.word(at + 384, 0b1);
    image.word(at + 432, batch);
    image.word(batch + 8, at);
    image.word(batch + 16, 0b110);
    image.word(batch + 16 + 24, 1 << 7);
    let tables = Tables { root };
    let mappings = image.mappings().unwrap();
    let live = |image: &Image| {
        let mut live = 0;
        tables.for_each_descriptor(image, &mappings, |slab| live += slab.live()).unwrap();
        live
    };
    assert_eq!(live(&image), 196);
    let account = explain_by(&image, root);
    assert_eq!((account.live_blocks, account.uncollected_bytes), (196, 4 * 16));
    assert_eq!(account.doubts.changed, 0);
    // Of another slab meanwhile, and not there.
    image.word(batch + 8, at + 512);
    assert_eq!(live(&image), 199);
    image.word(at + 432, u64::MAX - 4);
    assert_eq!(live(&image), 199);
}

/// Four slots a page, three pages: what a page's free bytes are depends on whether one of its slots
/// is live, and on nothing else.
#[test]
fn every_byte_of_a_page_is_what_its_slot_is() {
    let mut image = Image::default();
    image.heaps();
    let states = [
        // Page 0: two live, one freed by another thread, one free: free bytes are pinned.
        LIVE, LIVE, LIVE,
        DIRTY, // Page 1: one claimed, the rest free, one of them in an unknown state.
        DIRTY, UNHEARD_OF, DIRTY, DIRTY, // Pages 2 and 3 are not resident.
        LIVE, DIRTY, DIRTY, DIRTY, LIVE, DIRTY, DIRTY, DIRTY,
    ];
    // With the flag that the address of an owner may carry.
    let at = image.slab(2, 1024, &states, FIRST_HEAP + 1);
    image.word(at + 384, 0b100);
    image.word(at + 416, 1 << 4);
    image.word(at + 424, at + 64);
    let base = DATA + (2 << 16);
    image.touch(base, base + 2 * PAGE);

    let account = explain(&image);
    let split = Split {
        live: 2048,
        uncollected: 1024,
        free_pinned: 1024,
        claimed: 1024,
        free_dirty: 3072,
        ..Split::default()
    };
    assert_eq!(account.slabs, split);
    assert_eq!(account.empty_slabs, 0);
    assert_eq!((account.live_blocks, account.live_bytes), (4, 4096));
    assert_eq!((account.claimed_bytes, account.uncollected_bytes), (1024, 1024));
    assert_eq!(account.free_bytes, 11 * 1024);
    assert_eq!(account.doubts.senseless, 0);
    // The slab's page of descriptors, the tables' and a heap's.
    assert_eq!((account.descriptors, account.tables, account.heaps), (PAGE, PAGE, PAGE));
    let [pin] = account.pins.as_slice() else { panic!("{:?}", account.pins) };
    assert_eq!((pin.site, pin.partition, pin.pinned, pin.pages), (0x5555_0002, 3, 1024, 1));
    assert_eq!((pin.live_bytes, pin.live_blocks, pin.resident), (4096, 4, 2 * PAGE));
    let [mine, orphan] = account.threads.as_slice() else { panic!("{:?}", account.threads) };
    assert_eq!(
        (mine.running, mine.thread_block, mine.slabs, mine.resident),
        (true, 0x1234, 1, split)
    );
    assert_eq!((orphan.running, orphan.slabs), (false, 0));
    assert_eq!(account.resident(), 5 * PAGE);
}

/// What only other threads have freed keeps nothing: its owner will collect it.
#[test]
fn a_page_without_a_live_slot_is_not_pinned() {
    let mut image = Image::default();
    let at = image.slab(0, 1024, &[LIVE, DIRTY, DIRTY, DIRTY], FIRST_HEAP);
    image.word(at + 384, 1);
    image.touch(DATA, DATA + PAGE);
    let split = Split { uncollected: 1024, free_dirty: 3072, ..Split::default() };
    assert_eq!(explain(&image).slabs, split);
}

/// Where slabs share a page, what another has of it is neither this one's nor free, and nothing
/// else on it can be returned.
#[test]
fn lent_slots_are_counted_separately() {
    let mut image = Image::default();
    image.slab(0, 1024, &[LIVE, LENT, LENT | DIRTY, DIRTY, LENT, LENT, DIRTY, DIRTY], FIRST_HEAP);
    image.touch(DATA, DATA + 2 * PAGE);
    let account = explain(&image);
    let split = Split { live: 1024, lent: 4096, free_pinned: 3072, ..Split::default() };
    assert_eq!(account.slabs, split);
    assert_eq!((account.lent_slots, account.lent_bytes, account.free_bytes), (4, 4096, 3072));
    // A library that lends nothing says nothing about it.
    let root = Root { slot_lent: 0, ..root() };
    let account = explain_by(&image, root);
    assert_eq!((account.lent_slots, account.slabs.free_pinned), (0, 3072));
}

/// A slot of three pages: its pages are its own, and the bytes behind the last slot are free.
#[test]
fn slots_may_be_longer_than_pages_and_end_before_their_slab() {
    let mut image = Image::default();
    image.heaps();
    let states = [LIVE, DIRTY, DIRTY, DIRTY, LIVE];
    image.slab(0, 12 << 10, &states, HEAPS + 2 * PAGE);
    image.touch(DATA, DATA + (1 << 16));
    let account = explain(&image);
    assert_eq!((account.slabs.live, account.slabs.free_pinned), (24 << 10, 0));
    assert_eq!(account.slabs.free_dirty, 36 << 10);
    assert_eq!(account.threads[1].resident.sum(), 5 * (12 << 10));
    // Slots of 1.5 pages: a page in the middle belongs to two.
    let mut image = Image::default();
    image.slab(0, 6 << 10, &[LIVE, DIRTY, DIRTY], FIRST_HEAP);
    image.touch(DATA, DATA + 3 * PAGE);
    let account = explain(&image);
    assert_eq!(
        (account.slabs.live, account.slabs.free_pinned, account.slabs.free_dirty),
        (6144, 2048, 4096)
    );
}

#[test]
fn an_unowned_empty_slab_is_kept_and_pins_nothing() {
    let mut image = Image::default();
    image.slab(5, 4096, &[DIRTY; 16], 0);
    image.touch(DATA + (5 << 16), DATA + (5 << 16) + 4 * PAGE);
    let account = explain(&image);
    assert_eq!((account.empty_slabs, account.empty_slab_count), (4 * PAGE, 1));
    assert_eq!((account.slabs.sum(), account.slab_count, account.free_bytes), (0, 0, 0));
    assert_eq!(account.pins[0].pinned, 0);
}

fn block(image: &mut Image, unit: u64, state: u32, usable: u64, mapped: u64, extent: u64) {
    let at = TABLES - (unit + 1) * 64;
    image.half(at, 2);
    image.half(at + 4, state);
    for (i, word) in [usable, mapped, extent, 0x7777_0000 + unit].into_iter().enumerate() {
        image.word(at + 8 + 8 * i as u64, word);
    }
}

#[test]
fn large_blocks_are_live_behind_what_was_asked_for_and_kept() {
    let mut image = Image::default();
    let unit = 1 << 16;
    block(&mut image, 0, 1, 3 * PAGE, 5 * PAGE, 2 * unit);
    block(&mut image, 2, 2, 9 * PAGE, 9 * PAGE, unit);
    image.touch(LARGE, LARGE + 2 * PAGE);
    image.touch(LARGE + 4 * PAGE, LARGE + 5 * PAGE);
    image.touch(LARGE + 2 * unit, LARGE + 2 * unit + PAGE);
    let account = explain(&image);
    assert_eq!(
        (account.large_live, account.large_slack, account.large_kept),
        (2 * PAGE, PAGE, PAGE)
    );
    assert_eq!((account.live_bytes, account.live_blocks), (3 * PAGE, 1));
    assert_eq!((account.large_count, account.large_kept_count), (1, 1));
    assert_eq!(account.guards, 2 * unit - 5 * PAGE + unit - 9 * PAGE);
    let [pin] = account.pins.as_slice() else { panic!("{:?}", account.pins) };
    assert_eq!((pin.site, pin.partition, pin.resident, pin.pinned), (0x7777_0000, 2, 3 * PAGE, 0));
}

#[test]
fn large_blocks_outside_the_windows_count() {
    let mut image = Image::default();
    let (chunk, first, second) = (OUTSIDE, OUTSIDE + 0x2_0000, OUTSIDE + 0x4_0000);
    image.word(TABLES + 1024, chunk);
    for (descriptor, base, state) in [(0, first, 1), (1, second, 2), (2, second, 0)] {
        let at = chunk + descriptor * 128;
        image.half(at, 2);
        image.half(at + 4, state);
        for (offset, word) in [(8, 3 * PAGE), (16, 4 * PAGE), (24, 4 * PAGE), (32, 0x7777_0000)] {
            image.word(at + offset, word);
        }
        image.word(at + 64, base);
    }
    image.touch(first, first + 2 * PAGE);
    image.touch(second, second + PAGE);
    let root = Root {
        outside: TABLES + 1024,
        outside_chunks: 8,
        outside_chunk_bytes: PAGE,
        outside_bytes: 128,
        outside_at: 64,
        ..root()
    };
    let account = explain_by(&image, root);
    assert_eq!((account.large_live, account.large_slack, account.large_kept), (2 * PAGE, 0, PAGE));
    assert_eq!((account.live_bytes, account.live_blocks), (3 * PAGE, 1));
    assert_eq!((account.large_count, account.large_kept_count), (1, 1));
    // One that ends after all addresses is not believed.
    image.word(chunk + 64, u64::MAX - PAGE);
    let account = explain_by(&image, root);
    assert_eq!((account.large_count, account.doubts.senseless), (0, 1));
}

#[test]
fn call_sites_and_their_partitions_are_read() {
    let mut image = Image::default();
    assert!(Tables { root: Root { sites: 0, ..root() } }.sites(&image).unwrap().is_empty());
    // The page that says how much is mapped, and two of entries.
    image.touch(TABLES, TABLES + PAGE);
    image.touch(SITES, SITES + 2 * PAGE);
    image.word(TABLES + 512, 2 * PAGE);
    for (entry, site, partition) in [
        (3, 0x5555_1234, 7u64),
        (300, 0x7fff_ffff_ffff, 3),
        (301, 0x5555_9999, 0x8004),
        (511, 0, 2),
    ] {
        image.word(SITES + 16 * entry, site << 16 | partition);
    }
    let tables = Tables { root: root() };
    let of = |partition, address, own| Site { partition, address, own };
    let expected = [of(2, 0, false), of(3, 0x7fff_ffff_ffff, true), of(7, 0x5555_1234, true)];
    assert_eq!(tables.sites(&image).unwrap(), expected);
    // What cannot be is not believed.
    for mapped in [HEAPS, u64::MAX, 4 * PAGE] {
        image.word(TABLES + 512, mapped);
        assert!(matches!(tables.sites(&image), Err(Error::Nonsense(..))), "{mapped}");
    }
}

/// The first counts are apart from the others, and there may be no others.
#[test]
fn counts_of_large_blocks_are_read_in_both_places() {
    const OTHERS: u64 = SITES + 0x2_0000;
    let mut image = Image::default();
    let root = Root {
        tally: OTHERS,
        tally_first: FIRST_COUNTS,
        tally_first_bytes: 2 * PAGE,
        tally_bytes: 32,
        tally_mapped: TABLES + 512,
        tally_site: 8,
        tally_blocks: 16,
        tally_allocated: 24,
        tally_partition_bits: 16,
        tally_missed: TABLES + 520,
        ..root()
    };
    let tables = Tables { root };
    image.touch(TABLES, TABLES + PAGE);
    image.touch(FIRST_COUNTS, FIRST_COUNTS + 2 * PAGE);
    let at =
        [FIRST_COUNTS, FIRST_COUNTS + 2 * PAGE - 32, OTHERS + 2 * PAGE, OTHERS + 3 * PAGE - 32];
    for (number, at) in (1..).zip(at) {
        for (word, value) in
            [0x5555_0000 << 16 | number, 0x5555_0000, number, 8192].iter().enumerate()
        {
            image.word(at + 8 * word as u64, *value);
        }
    }
    for (mapped, sites) in [(2, 2), (3, 4)] {
        image.word(TABLES + 512, mapped * PAGE);
        let made = tables.tally(&image).unwrap().made;
        assert_eq!(
            made.iter().map(|made| made.blocks).collect::<Vec<_>>(),
            (1..=sites).collect::<Vec<_>>()
        );
    }
}

/// Nothing of an exited process can be read, which says nothing about its tables.
#[test]
fn an_exited_process_is_not_one_whose_tables_make_no_sense() {
    let tables = Tables { root: root() };
    let errors = |image: &Image| [tables.sites(image).err(), tables.filter(image).err()];
    let mut image = Image::default();
    assert!(errors(&image).iter().all(|error| matches!(error, Some(Error::Nonsense(7, _)))));
    image.exited = true;
    assert_eq!(errors(&image), [Some(Error::Ended(7)), Some(Error::Ended(7))]);
}

/// Descriptors are in the order of demand. Only they say where their slabs are.
#[test]
fn slabs_are_where_their_descriptors_say() {
    let mut image = Image::default();
    // Two neighbours, and one whose address is lower.
    let bad = image.slab_at(SLABS, 9, 1024, &[LIVE], FIRST_HEAP);
    image.slab_at(SLABS + 512, 10, 1024, &[LIVE, LIVE], FIRST_HEAP);
    image.slab_at(SLABS + 2 * PAGE, 3, 1024, &[LIVE, DIRTY, DIRTY], FIRST_HEAP);
    for (slab, pages) in [(9, 1), (10, 1), (3, 1)] {
        let base = DATA + (slab << 16);
        image.touch(base, base + pages * PAGE);
    }
    let account = explain(&image);
    assert_eq!((account.live_blocks, account.doubts.senseless), (4, 0));
    // All pages are counted.
    assert_eq!(account.slabs.live, 4 * 1024);
    assert_eq!(account.slabs.free_pinned, 3 * PAGE - 4 * 1024);
    // Not a slab's first address, and outside the field.
    for base in [DATA + 16, DATA + SPAN, DATA - PAGE] {
        image.word(bad, base);
        let account = explain(&image);
        assert_eq!((account.live_blocks, account.doubts.senseless), (3, 1), "{base:#x}");
    }
}

/// Planted nonsense, one field at a time: it is counted, and its neighbour is not hurt.
#[test]
fn what_makes_no_sense_is_counted_and_left_out() {
    for (offset, word) in [(0, 0), (0, DATA + 16), (8, 257), (8, u64::MAX), (24, 0), (24, u64::MAX)]
    {
        let mut image = Image::default();
        let good = image.slab(0, 1024, &[LIVE], FIRST_HEAP);
        let bad = image.slab(1, 1024, &[LIVE, LIVE], FIRST_HEAP);
        image.touch(DATA, DATA + (2 << 16));
        image.word(bad + offset, word);
        assert_eq!(good + 512, bad);
        let account = explain(&image);
        assert_eq!((account.doubts.senseless, account.live_blocks), (1, 1), "{offset} {word:#x}");
    }
    for (usable, mapped, extent) in [(9, 0, 8), (0, 9, 8), (0, 0, u64::MAX), (0, 0, 2 << 20)] {
        let mut image = Image::default();
        block(&mut image, 1, 1, usable, mapped, extent);
        block(&mut image, 15, 1, PAGE, PAGE, 1 << 16);
        let account = explain(&image);
        assert_eq!((account.doubts.senseless, account.live_blocks), (1, 1), "{extent:#x}");
    }
    // A block within another.
    let mut image = Image::default();
    block(&mut image, 1, 1, PAGE, PAGE, 4 << 16);
    block(&mut image, 2, 1, PAGE, PAGE, 1 << 16);
    assert_eq!(explain(&image).doubts.senseless, 1);
}

/// Tables of random bytes: no end that is not an end.
#[test]
fn random_tables_do_no_harm() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut senseless = 0;
    for round in 0..200 {
        let mut image = Image::default();
        for start in [TABLES - PAGE, TABLES, SLABS, PAGE_MAP, HEAPS] {
            let sparse = round % 4 != 0;
            for at in (start..start + PAGE).step_by(8) {
                let word = random();
                image.word(at, if sparse { word >> (word % 64) } else { word });
            }
        }
        image.touch(DATA, DATA + 8 * PAGE);
        let account = explain(&image);
        senseless += account.doubts.senseless;
        assert!(account.slabs.sum() + account.empty_slabs <= 16 * PAGE);
    }
    assert!(senseless > 0);
}
