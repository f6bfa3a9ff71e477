//! Private zones over the fake system: any sequence of calls, failures of the system, what is left
//! behind. `cargo test -p toft-zone --features fake-os --test properties`.

#[path = "../../toft-core/tests/properties/cases.rs"]
mod cases;

use cases::cases;
use proptest::collection::vec;
use proptest::prelude::*;
use toft_core::Allocator;
use toft_core::hook::Hook;
use toft_core::options::Options;
use toft_core::os::Memory;
use toft_core::os::fake::{Fake, Fault, Machine, PageState};
use toft_zone::{Handle, LOT_BYTES, Name, PrivateZones, Refusal, SLOT_MAX, Tagged, Terms, Zones};

fn terms(object: usize, tagged: bool) -> Terms {
    Terms { name: Name::new(b"test"), object, tagged }
}

/// Tables for zones, and no function: those of `toft_zone::with` are about the process's allocator.
static TABLES: usize = Zones::TABLE_BYTES;
static HOOK: Hook = Hook { tables: &TABLES, ..Hook::NONE };
toft_core::hook!(HOOK);

/// An allocator over the fake system, and zones that keep clear of it.
struct Heap {
    allocator: Allocator<Fake>,
    zones: Zones,
}

impl Heap {
    fn zones(&self) -> PrivateZones<'_, Fake> {
        PrivateZones { zones: self.zones, allocator: &self.allocator }
    }

    fn check(&self) {
        self.allocator.check().unwrap();
        self.zones.check().unwrap();
    }
}

fn heap(machine: Machine) -> (Fake, Heap) {
    heap_on(Fake::new(machine))
}

fn heap_on(fake: Fake) -> (Fake, Heap) {
    let options = Options { partitions: 4, warn_only: true, ..Options::DEFAULT };
    let allocator = Allocator::with_hook(&HOOK, fake.clone(), options, false).unwrap();
    // SAFETY: (1) tables for this alone; the fake system never unmaps them.
    let zones = unsafe { Zones::at_tables(allocator.hook_tables(&TABLES)) };
    (fake, Heap { allocator, zones })
}

/// What a test believes of a zone.
struct Shadow {
    handle: Handle,
    object: usize,
    blocks: Vec<(usize, usize, u8)>,
    tagged: bool,
}

fn bytes(address: usize, len: usize) -> &'static mut [u8] {
    // SAFETY: callers name their own live blocks.
    unsafe { core::slice::from_raw_parts_mut(address as *mut u8, len) }
}

#[derive(Clone, Debug)]
enum Op {
    Create { object: usize, tagged: bool },
    Allocate { zone: usize, size: usize, align: u32, zeroed: bool },
    Free { zone: usize, block: usize },
    FreeToOther { zone: usize, block: usize, other: usize },
    FreeInside { zone: usize, block: usize, offset: usize },
    FreeAgain { which: usize },
    Destroy { zone: usize },
    Stale { which: usize },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let sizes = prop_oneof![0usize..300, 0usize..SLOT_MAX + 100, 0usize..500_000];
    let object = prop_oneof![3 => Just(0usize), 1 => 1usize..5000, 1 => 16_000usize..40_000];
    let op = prop_oneof![
        2 => (object, any::<bool>()).prop_map(|(object, tagged)| Op::Create { object, tagged }),
        20 => (any::<usize>(), sizes, 0u32..18, any::<bool>())
            .prop_map(|(zone, size, align, zeroed)| Op::Allocate { zone, size, align, zeroed }),
        10 => any::<(usize, usize)>().prop_map(|(zone, block)| Op::Free { zone, block }),
        1 => any::<(usize, usize, usize)>()
            .prop_map(|(zone, block, other)| Op::FreeToOther { zone, block, other }),
        1 => any::<(usize, usize, usize)>()
            .prop_map(|(zone, block, offset)| Op::FreeInside { zone, block, offset }),
        1 => any::<usize>().prop_map(|which| Op::FreeAgain { which }),
        1 => any::<usize>().prop_map(|zone| Op::Destroy { zone }),
        1 => any::<usize>().prop_map(|which| Op::Stale { which }),
    ];
    vec(op, 1..120)
}

struct World {
    fake: Fake,
    heap: Heap,
    zones: Vec<Shadow>,
    gone: Vec<Handle>,
    /// Blocks that were freed, whose address was not handed out since.
    freed: Vec<(Handle, usize)>,
    /// Where blocks of zones were that are no more.
    dead: Vec<usize>,
    may_fail: bool,
}

impl World {
    fn new(machine: Machine) -> World {
        let (fake, heap) = heap(machine);
        let zones = Vec::new();
        let (gone, freed, dead) = (Vec::new(), Vec::new(), Vec::new());
        World { fake, heap, zones, gone, freed, dead, may_fail: false }
    }

    fn reports(&self, words: &str) {
        let reports = self.fake.take_reports();
        assert!(reports.len() == 1 && reports[0].contains(words), "{words}: {reports:?}");
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Create { object, tagged } => {
                match self.heap.zones().create(&terms(object, tagged)) {
                    Ok(handle) => {
                        assert!(!self.gone.contains(&handle), "a handle came back");
                        self.zones.push(Shadow { handle, object, blocks: Vec::new(), tagged });
                    }
                    Err(refusal) => assert!(self.may_fail && refusal == Refusal::NoMemory),
                }
            }
            Op::Allocate { zone, size, align, zeroed } => {
                self.allocate(zone, size, 1 << align, zeroed)
            }
            Op::Free { zone, block } => {
                let Some((at, zone)) = self.pick(zone, block) else { return };
                let (address, size, mark) = self.zones[zone].blocks.swap_remove(at);
                assert!(bytes(address, size).iter().all(|&byte| byte == mark), "content");
                let (handle, tagged) = (self.zones[zone].handle, self.zones[zone].tagged);
                let word = tagged.then(|| self.heap.zones().tag(address).unwrap());
                self.heap.zones().free(handle, address).unwrap();
                self.freed.push((handle, address));
                if let Some(word) = word {
                    assert!(self.heap.zones().resolve(word).is_err(), "a stale tag");
                    self.reports("use after free");
                }
            }
            Op::FreeToOther { zone, block, other } => {
                let Some((at, zone)) = self.pick(zone, block) else { return };
                let other = other % self.zones.len();
                if other != zone {
                    let (address, ..) = self.zones[zone].blocks[at];
                    assert!(self.heap.zones().free(self.zones[other].handle, address).is_err());
                    self.reports("not of the one that was named");
                }
            }
            Op::FreeInside { zone, block, offset } => {
                let Some((at, zone)) = self.pick(zone, block) else { return };
                let (address, size, _) = self.zones[zone].blocks[at];
                if size > 1 {
                    let address = address + 1 + offset % (size - 1);
                    assert!(self.heap.zones().free(self.zones[zone].handle, address).is_err());
                    self.reports("bytes inside the");
                }
            }
            Op::FreeAgain { which } => {
                if !self.freed.is_empty() {
                    let (handle, address) = self.freed[which % self.freed.len()];
                    assert!(self.heap.zones().free(handle, address).is_err());
                    assert_eq!(self.fake.take_reports().len(), 1);
                }
            }
            Op::Destroy { zone } => {
                if !self.zones.is_empty() {
                    let zone = self.zones.swap_remove(zone % self.zones.len());
                    self.heap.zones().destroy(zone.handle).unwrap();
                    self.gone.push(zone.handle);
                    self.freed.retain(|&(handle, _)| handle != zone.handle);
                    for (address, ..) in zone.blocks {
                        self.dead.push(address);
                    }
                }
            }
            Op::Stale { which } => {
                if !self.gone.is_empty() {
                    let handle = self.gone[which % self.gone.len()];
                    let result = self.heap.zones().allocate(handle, 8, 1, false);
                    assert_eq!(result, Err(Refusal::Destroyed));
                    self.reports("the zone of this handle was destroyed");
                }
            }
        }
    }

    fn pick(&self, zone: usize, block: usize) -> Option<(usize, usize)> {
        let zone = zone.checked_rem(self.zones.len())?;
        Some((block.checked_rem(self.zones[zone].blocks.len())?, zone))
    }

    fn allocate(&mut self, zone: usize, size: usize, align: usize, zeroed: bool) {
        let Some(zone) = zone.checked_rem(self.zones.len()) else { return };
        let number = zone;
        let zone = &self.zones[zone];
        match self.heap.zones().allocate(zone.handle, size, align, zeroed) {
            Ok(address) => {
                assert!(address.is_multiple_of(align.max(16)) || zone.object != 0);
                let usable = self.heap.zones().usable_size(zone.handle, address).unwrap();
                assert!(usable >= size.max(zone.object));
                let content = bytes(address, usable);
                assert!(!zeroed || content.iter().all(|&byte| byte == 0), "not zero");
                for (other, len, _) in self.zones.iter().flat_map(|zone| &zone.blocks) {
                    assert!(address + usable <= *other || other + len <= address, "an overlap");
                }
                assert!(!self.dead.contains(&address), "an address of a zone that is no more");
                self.freed.retain(|&(_, freed)| freed != address);
                let mark = (address >> 4) as u8 | 1;
                content.fill(mark);
                assert_eq!(self.zone_of(address), zone.handle);
                self.zones[number].blocks.push((address, usable, mark));
            }
            Err(Refusal::DoesNotFit) => assert!(zone.object != 0),
            Err(refusal) => assert!(self.may_fail && refusal == Refusal::NoMemory, "{refusal:?}"),
        }
    }

    /// The zone that takes an address for its own.
    fn zone_of(&self, address: usize) -> Handle {
        let own = |zone: &&Shadow| {
            let is_own = self.heap.zones().usable_size(zone.handle, address).is_ok();
            self.fake.take_reports();
            is_own
        };
        self.zones.iter().find(own).unwrap().handle
    }

    fn check(&self) {
        self.heap.check();
        for zone in &self.zones {
            let (_, figures) = self.heap.zones().figures(zone.handle).unwrap();
            assert_eq!(figures.live_blocks, zone.blocks.len() as u64);
            let bytes: usize = zone.blocks.iter().map(|&(_, size, _)| size).sum();
            assert_eq!(figures.live_bytes, bytes as u64);
            assert_eq!(self.heap.zones().verify(zone.handle), Ok(true));
        }
        for &address in &self.dead {
            assert_eq!(self.fake.page(address & !4095), PageState::Free);
        }
    }

    fn end(mut self) {
        for zone in core::mem::take(&mut self.zones) {
            self.heap.zones().destroy(zone.handle).unwrap();
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn any_sequence_of_calls(ops in ops()) {
        let mut world = World::new(Machine::LARGE);
        ops.iter().for_each(|op| world.run(op));
        world.check();
        world.end();
    }

    #[test]
    fn any_sequence_with_a_failure(ops in ops(), call in 0u64..120, for_good: bool) {
        let mut world = World::new(Machine::LARGE);
        let fault = if for_good { Fault::from(call) } else { Fault::at(call) };
        world.may_fail = true;
        world.fake.set_fault(Some(fault));
        let (first, last) = ops.split_at(ops.len() / 2);
        first.iter().for_each(|op| world.run(op));
        world.fake.set_fault(None);
        world.heap.check();
        last.iter().for_each(|op| world.run(op));
        world.may_fail = false;
        // Once nothing fails any more, there is memory again.
        world.run(&Op::Create { object: 0, tagged: false });
        world.run(&Op::Allocate { zone: world.zones.len() - 1, size: 100_000, align: 0, zeroed: true });
        world.heap.check();
    }
}

#[test]
fn small_systems_have_zones_too() {
    let (fake, heap) = heap(Machine::SMALL);
    // The window is small: many times round it, and no address is one that a zone still has.
    let stays = heap.zones().create(&terms(0, false)).unwrap();
    let kept: Vec<usize> =
        (0..20).map(|_| heap.zones().allocate(stays, 70_000, 1, false).unwrap()).collect();
    let mapped = fake.mapped_bytes();
    for round in 0..5000 {
        let zone = heap.zones().create(&terms(0, false)).unwrap();
        let block = heap.zones().allocate(zone, 100 + round % 3 * 40_000, 1, false).unwrap();
        assert!(
            kept.iter().all(|&kept| block.abs_diff(kept) >= 2 * LOT_BYTES - 70_000 % LOT_BYTES)
        );
        heap.zones().destroy(zone).unwrap();
    }
    heap.check();
    assert!(fake.mapped_bytes() <= mapped + (1 << 20), "{}", fake.mapped_bytes());
    assert!(fake.mappings() < 100, "{}", fake.mappings());
    assert!(fake.take_reports().is_empty());
}

/// The kernel or the processor maps below some address only: 39 bits instead of 48, say.
#[test]
fn a_system_with_fewer_bits_of_addresses_has_zones_too() {
    for bits in 1..=9 {
        let fake = Fake::new(Machine::LARGE);
        let all = fake.address_space();
        assert!(fake.occupy(all.start + (all.len() >> bits)..all.end));
        let (_, heap) = heap_on(fake);
        let zone = heap.zones().create(&terms(0, false)).unwrap();
        let block = heap.zones().allocate(zone, 100_000, 1, false).unwrap();
        bytes(block, 100_000).fill(1);
        heap.zones().destroy(zone).unwrap();
        heap.check();
    }
}

#[test]
fn what_is_in_the_way_is_passed_by() {
    let (fake, heap) = heap(Machine::LARGE);
    let zone = heap.zones().create(&terms(0, false)).unwrap();
    let first = heap.zones().allocate(zone, 100_000, 1, false).unwrap();
    // Other code maps where the next block would be, and the one after that.
    let wall = (first & !(LOT_BYTES - 1)) + 2 * LOT_BYTES;
    assert!(fake.occupy(wall..wall + 64 * LOT_BYTES));
    for _ in 0..10 {
        let block = heap.zones().allocate(zone, 100_000, 1, false).unwrap();
        assert!(block >= wall + 64 * LOT_BYTES || block + 100_000 <= wall);
    }
    heap.zones().destroy(zone).unwrap();
    assert_eq!(fake.page(wall), PageState::Foreign);
    heap.check();
}

#[test]
fn memory_goes_back() {
    let (fake, heap) = heap(Machine::LARGE);
    let zone = heap.zones().create(&terms(0, false)).unwrap();
    let blocks: Vec<usize> = (0..20_000)
        .map(|_| {
            let block = heap.zones().allocate(zone, 1000, 1, false).unwrap();
            bytes(block, 1000).fill(1);
            block
        })
        .collect();
    let full = fake.resident_bytes();
    blocks.iter().for_each(|&block| heap.zones().free(zone, block).unwrap());
    let empty = fake.resident_bytes();
    assert!(full - empty > 19_000_000, "{full} {empty}");
    assert!(heap.zones().figures(zone).unwrap().1.mapped_bytes > 20_000_000);
    heap.zones().destroy(zone).unwrap();
    heap.check();
}

#[test]
fn a_thousand_zones_at_a_time() {
    let (fake, heap) = heap(Machine::LARGE);
    let zones: Vec<Handle> =
        (0..5000).map(|_| heap.zones().create(&terms(64, false)).unwrap()).collect();
    for &zone in &zones {
        assert_eq!(heap.zones().allocate(zone, 64, 1, false).unwrap() % 16, 0);
    }
    heap.check();
    zones.iter().for_each(|&zone| heap.zones().destroy(zone).unwrap());
    let tables = fake.mapped_bytes();
    for _ in 0..5000 {
        let zone = heap.zones().create(&terms(64, false)).unwrap();
        heap.zones().allocate(zone, 64, 1, false).unwrap();
    }
    let grown = fake.mapped_bytes() - tables;
    assert!(
        grown <= 5000 * LOT_BYTES + (1 << 20),
        "records and descriptors are used again: {grown}"
    );
}

#[test]
fn tags_are_of_the_block_and_its_life() {
    let (fake, heap) = heap(Machine::LARGE);
    let zone = heap.zones().create(&terms(4096, true)).unwrap();
    let block = heap.zones().allocate(zone, 4096, 1, false).unwrap();
    let mut seen = Vec::new();
    for life in 0..600 {
        let word = heap.zones().tag(block).unwrap();
        assert!(word.tag() != 0 && word.address() == block);
        assert_eq!(heap.zones().resolve(word), Ok(block));
        assert_eq!(heap.zones().resolve(Tagged(word.0 + 4095)), Ok(block + 4095));
        for &old in seen.iter().rev().take(254) {
            assert!(heap.zones().resolve(old).is_err(), "life {life}");
            fake.take_reports();
        }
        seen.push(word);
        heap.zones().free(zone, block).unwrap();
        // That place again.
        while heap.zones().allocate(zone, 4096, 1, false).unwrap() != block {}
    }
    let plain = heap.zones().create(&terms(0, false)).unwrap();
    let block = heap.zones().allocate(plain, 64, 1, false).unwrap();
    assert!(heap.zones().tag(block).is_err() && heap.zones().tag(0x1000).is_err());
}

#[test]
fn a_full_page_size_is_no_hindrance_but_to_tags() {
    let machine = Machine { page_size: 16 << 10, ..Machine::LARGE };
    let (_, heap) = heap(machine);
    assert_eq!(heap.zones().create(&terms(0, true)), Err(Refusal::Unsupported));
    let zone = heap.zones().create(&terms(0, false)).unwrap();
    for size in [1, 1000, 16_384, 16_385, 100_000] {
        let block = heap.zones().allocate(zone, size, 1, false).unwrap();
        bytes(block, size).fill(1);
        heap.zones().free(zone, block).unwrap();
    }
    heap.zones().destroy(zone).unwrap();
    heap.check();
}
