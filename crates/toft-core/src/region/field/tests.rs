//! The field on a fake system: growth, refusals, foreign mappings, stopped threads.

use super::*;
use crate::os::fake::{Fake, Fault, Machine, Request};
use crate::sync::AtomicUsize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::vec::Vec;
extern crate std;

/// A descriptor that knows its slab.
#[repr(C)]
#[derive(Debug)]
struct Any {
    base: AtomicUsize,
    bytes: AtomicUsize,
    _rest: [u8; SLAB_BYTES - 16],
}

// SAFETY: (1) numbers; (2) they are atomic.
unsafe impl Descriptor for Any {
    fn is_open(&self) -> bool {
        self.base.load(Acquire) != 0
    }

    fn extent(&self) -> (usize, usize) {
        (self.base.load(Acquire), self.bytes.load(Acquire))
    }
}

/// Bytes of address space for each part of a test.
const ALL: usize = 1 << 40;
const PAGE: usize = 4096;

const PARTITIONS: usize = 200;
/// The descriptors that are mapped before the field is made.
const FIRST: usize = 64;

fn field<M: PageMap, S: Supply>(fake: &Fake, bytes: usize) -> Field<Any, M, S> {
    let base = fake.address_space().start.next_multiple_of(ALL);
    let tables = base + 8 * ALL;
    let table_bytes = Field::<Any, M, S>::table_bytes(bytes, PARTITIONS);
    fake.map(tables, table_bytes.next_multiple_of(PAGE)).unwrap();
    let (first, more) = (base + 4 * ALL, base + 4 * ALL + (1 << 30));
    let places = FieldPlaces {
        data: (base, bytes),
        first_descriptors: (first, FIRST * SLAB_BYTES),
        descriptors: (more, Field::<Any, M, S>::descriptor_space(bytes, more - first)),
        map: base + 6 * ALL,
    };
    fake.map(first, FIRST * SLAB_BYTES).unwrap();
    fake.map(places.map, Field::<Any, M, S>::MAP_FIRST).unwrap();
    // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
    unsafe { Field::new(fake, places, PARTITIONS, tables) }.unwrap()
}

fn dense(fake: &Fake, bytes: usize) -> DenseField<Any> {
    field(fake, bytes)
}

fn plots(fake: &Fake, bytes: usize) -> PlotField<Any> {
    field(fake, bytes)
}

fn need(partition: usize, pages: usize, align: usize) -> SlabNeed {
    SlabNeed { partition: Partition::new(partition), bytes: pages * PAGE, align }
}

/// Takes a slab of a partition and opens it. Returns its first address.
fn take_of<M: PageMap, S: Supply>(
    field: &Field<Any, M, S>,
    fake: &Fake,
    partition: usize,
    pages: usize,
) -> Result<usize, Error> {
    let (slab, base) = field.take(fake, need(partition, pages, 1), |_, _| {})?;
    assert!(!slab.is_open(), "a descriptor is used twice");
    slab.bytes.store(up(pages * PAGE, M::UNIT), Relaxed);
    slab.base.store(base, Release);
    Ok(base)
}

fn take<M: PageMap, S: Supply>(
    field: &Field<Any, M, S>,
    fake: &Fake,
    pages: usize,
) -> Result<usize, Error> {
    take_of(field, fake, 0, pages)
}

/// Takes slabs of different lengths until the system or the field refuses.
fn fill<M: PageMap, S: Supply>(
    field: &Field<Any, M, S>,
    fake: &Fake,
    slabs: &mut BTreeMap<usize, usize>,
) {
    for pages in [1, 3, 16, 64, 2].iter().cycle() {
        match take(field, fake, *pages) {
            Ok(base) => assert_eq!(slabs.insert(base, up(pages * PAGE, M::UNIT)), None),
            Err(_) => return,
        }
    }
}

/// No slab shares a page with another, each is found by its addresses and in the walk, and by no
/// other address.
fn check<M: PageMap, S: Supply>(field: &Field<Any, M, S>, slabs: &BTreeMap<usize, usize>) {
    assert!(field.check());
    let mut end = 0;
    for (&base, &bytes) in slabs {
        assert!(base >= end && base % PAGE == 0, "{base:#x} overlaps the slab before it");
        end = base + bytes;
        for address in [base, base + 1, base + bytes / 2, end - 1] {
            let found = field.slab_at(address).expect("an address of a slab is found");
            assert_eq!(found.extent(), (base, bytes));
        }
        for bit in 48..64 {
            assert!(field.slab_at(base ^ 1 << bit).is_none_or(|slab| !slab.is_open()));
        }
    }
    let mut walked = Vec::new();
    field.for_each(|slab| walked.push(slab.extent()));
    walked.sort_unstable();
    assert_eq!(walked, slabs.iter().map(|(&base, &bytes)| (base, bytes)).collect::<Vec<_>>());
    let first = slabs.first_key_value().map_or(end, |(&base, _)| base);
    for address in [0, 1, PAGE, first.wrapping_sub(1), end, usize::MAX, 1 << 63] {
        assert!(field.slab_at(address).is_none_or(|slab| !slab.is_open()), "{address:#x}");
    }
}

#[test]
fn every_slab_has_its_pages_and_every_page_its_slab() {
    let bytes = 1 << 26;
    let (fake, mut slabs) = (Fake::new(Machine::LARGE), BTreeMap::new());
    let field = dense(&fake, bytes);
    fill_and_walk(&field, &fake, &mut slabs);
    // All of the field was had, but for what is before its first slab, and less than the longest
    // slab.
    assert!(slabs.values().sum::<usize>() > bytes - (2 << 20) - 64 * PAGE);
    let mut ranges = Vec::new();
    field.for_each_range(|slab| slab.extent().1, |start, len| ranges.push((start, len)));
    // What is left at the end is too short for the last request.
    let mut ahead = 0;
    field.supply.for_each_ahead(|_, len| ahead += len);
    let sum = ranges.iter().map(|range| range.1).sum::<usize>() - ahead;
    assert_eq!(sum, slabs.values().sum());
    assert!(ranges.len() < 8, "neighbours are one range");
}

/// One partition gets all plots of a field that has few, also those that others have begun.
#[test]
fn a_partition_gets_all_of_a_field() {
    let bytes = 1 << 27;
    let (fake, mut slabs) = (Fake::new(Machine::LARGE), BTreeMap::new());
    let field = plots(&fake, bytes);
    for partition in 1..20 {
        slabs.insert(take_of(&field, &fake, partition, 2).unwrap(), 2 * PAGE);
    }
    fill_and_walk(&field, &fake, &mut slabs);
    // The rest of each plot is too short for the longest slab.
    assert!(slabs.values().sum::<usize>() > bytes - (bytes >> 22) * 64 * PAGE);
}

fn fill_and_walk<M: PageMap, S: Supply>(
    field: &Field<Any, M, S>,
    fake: &Fake,
    slabs: &mut BTreeMap<usize, usize>,
) {
    check(field, slabs);
    fill(field, fake, slabs);
    check(field, slabs);
    // A step at a time, and from a place on.
    let (mut number, mut walked) = (0, 0);
    while !field.for_each_from(&mut number, |_| false) {
        walked += 1;
    }
    assert_eq!(walked, slabs.len());
}

#[test]
fn slabs_begin_at_multiples_of_what_they_need() {
    let fake = Fake::new(Machine::LARGE);
    let field = dense(&fake, 1 << 30);
    for (number, align) in [1, 64 << 10, 1, 128 << 10, 1 << 20].into_iter().cycle().enumerate() {
        let (_, base) = field.take(&fake, need(0, 1 + number % 7, align), |_, _| {}).unwrap();
        assert!(base.is_multiple_of(align));
        if number == 200 {
            break;
        }
    }
}

/// The page map is mapped for as much as is needed and some more, for large fields as well.
#[test]
fn the_page_map_grows_with_the_field() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (dense(&fake, 1 << 40), BTreeMap::new());
    let limit = field.map.mapped_bytes();
    while slabs.len() < 24 << 10 {
        slabs.insert(take(&field, &fake, 128).unwrap(), 128 * PAGE);
    }
    assert!(field.map.mapped_bytes() > 8 * limit);
    check(&field, &slabs);
}

/// Memory is refused, and granted again: nothing is lost, and what was mapped ahead can be had.
#[test]
fn a_refusal_costs_nothing() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (dense(&fake, 1 << 30), BTreeMap::new());
    slabs.insert(take(&field, &fake, 1).unwrap(), PAGE);
    for _ in 0..20 {
        fake.set_fault(Some(Fault::from(0).only(Request::Map)));
        fill(&field, &fake, &mut slabs);
        let descriptors = field.taken();
        (0..100).for_each(|_| assert!(take(&field, &fake, 64).is_err()));
        assert!(field.taken() <= descriptors + 1, "refusals take descriptors");
        fake.set_fault(None);
        slabs.insert(take(&field, &fake, 64).unwrap(), 64 * PAGE);
        check(&field, &slabs);
    }
    // No address was passed by.
    let (first, last) = (*slabs.first_key_value().unwrap().0, *slabs.last_key_value().unwrap().0);
    let ahead = field.mapped_at_most();
    assert!(last - first < ahead && ahead < 3 * slabs.values().sum::<usize>());
}

/// Threads that are refused again and again, all at the same time, use up neither addresses nor
/// descriptors.
#[test]
fn refusals_of_many_threads_cost_little() {
    let fake = Fake::new(Machine::LARGE);
    let field: &'static DenseField<Any> =
        std::boxed::Box::leak(std::boxed::Box::new(dense(&fake, 1 << 34)));
    take(field, &fake, 1).unwrap();
    field.retract(&fake);
    fake.set_fault(Some(Fault::from(0).only(Request::Map)));
    let before = (field.supply.run.frontier(), field.taken());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (fake, shared) = (fake.clone(), Shared(field));
            scope.spawn(move || {
                let shared = shared;
                for round in 0..5000 {
                    assert!(take(shared.0, &fake, 1 + round % 100).is_err());
                }
            });
        }
    });
    let lost = (field.supply.run.frontier() - before.0) / PAGE;
    assert!(lost < 8 * 32 * 256, "{lost} pages of 2 000 000 that were refused");
    assert!(field.taken() <= before.1 + 8, "one for each thread");
    fake.set_fault(None);
    let mut slabs = BTreeMap::new();
    fill_some(field, &fake, &mut slabs);
}

fn fill_some(field: &DenseField<Any>, fake: &Fake, slabs: &mut BTreeMap<usize, usize>) {
    for _ in 0..1000 {
        assert_eq!(slabs.insert(take(field, fake, 7).unwrap(), 7 * PAGE), None);
    }
}

/// A field that threads share.
struct Shared(&'static DenseField<Any>);

// SAFETY: the pointers in `Field` lead to atomics that live for ever.
unsafe impl Send for Shared {}

/// What was mapped ahead is unmapped when memory runs out, and the same addresses are mapped again.
#[test]
fn what_is_ahead_goes_and_comes_back() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (dense(&fake, 1 << 30), BTreeMap::new());
    for _ in 0..50 {
        let base = take(&field, &fake, 5).unwrap();
        assert!(slabs.last_key_value().is_none_or(|(&last, _)| base == last + 5 * PAGE));
        slabs.insert(base, 5 * PAGE);
        field.retract(&fake);
        assert_eq!(field.mapped_at_most(), slabs.len() * 5 * PAGE);
    }
    check(&field, &slabs);
    field.grow_ahead();
    slabs.insert(take(&field, &fake, 5).unwrap(), 5 * PAGE);
    assert!(field.mapped_at_most() > slabs.len() * 5 * PAGE);
}

/// Foreign mappings of any length are passed by. One where descriptors are to be ends the field.
#[test]
fn foreign_mappings_are_passed_by() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (dense(&fake, 1 << 40), BTreeMap::new());
    for shift in 12..36 {
        slabs.insert(take(&field, &fake, 1).unwrap(), PAGE);
        field.retract(&fake);
        field.grow_ahead();
        let next = field.supply.run.frontier();
        assert!(fake.occupy(next..next + (1 << shift)));
        let base = take(&field, &fake, 1).unwrap();
        assert!(base >= next + (1 << shift) && base < next + (3 << shift) + (4 << 20), "{shift}");
        slabs.insert(base, PAGE);
    }
    let next = field.descriptors_begin() + field.state().descriptors.mapped();
    assert!(fake.occupy(next..next + PAGE));
    while field.taken() * SLAB_BYTES < field.state().descriptors.mapped() {
        slabs.insert(take(&field, &fake, 1).unwrap(), PAGE);
    }
    (0..100).for_each(|_| assert!(take(&field, &fake, 1).is_err()));
    check(&field, &slabs);
}

/// Something foreign fills all of the field. When it is gone, there are slabs again.
#[test]
fn what_was_passed_by_is_tried_again() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (dense(&fake, 1 << 36), BTreeMap::new());
    slabs.insert(take(&field, &fake, 1).unwrap(), PAGE);
    field.retract(&fake);
    let next = field.supply.run.frontier();
    fake.set_fault(Some(Fault::from(0).only(Request::Map).foreign()));
    for _ in 0..200 {
        assert!(take(&field, &fake, 16).is_err());
    }
    fake.set_fault(None);
    for _ in 0..1000 {
        let base = take(&field, &fake, 16).unwrap();
        assert!(base >= next);
        assert_eq!(slabs.insert(base, 16 * PAGE), None);
    }
    check(&field, &slabs);
}

/// A thread that stops for ever while it maps more stops no other one. In the child of a fork the
/// field grows as usual.
#[test]
fn a_stopped_thread_stops_no_other() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (dense(&fake, 1 << 30), BTreeMap::new());
    field.supply.run.stop_growing_for_ever();
    for _ in 0..300 {
        slabs.insert(take(&field, &fake, 40).unwrap(), 40 * PAGE);
    }
    check(&field, &slabs);
    // Others take as many slabs as the stopped thread has had when it began to map descriptors.
    let mapped = field.state().descriptors.mapped();
    field.state().descriptors.begin(PAGE);
    while field.taken() * SLAB_BYTES < mapped {
        slabs.insert(take(&field, &fake, 1).unwrap(), PAGE);
    }
    assert!(take(&field, &fake, 1).is_err());
    assert_eq!(fake.waits(), 0);
    field.repair(&fake);
    let before = field.mapped_at_most();
    slabs.insert(take(&field, &fake, 40).unwrap(), 40 * PAGE);
    assert!(field.mapped_at_most() > before + 40 * PAGE, "it maps ahead again");
    check(&field, &slabs);
}

/// Other threads take slabs while one maps more for all.
#[test]
fn slabs_of_many_threads_are_apart() {
    let fake = Fake::new(Machine::LARGE);
    let field: &'static DenseField<Any> =
        std::boxed::Box::leak(std::boxed::Box::new(dense(&fake, 1 << 32)));
    let all = Arc::new(Mutex::new(BTreeMap::new()));
    let threads: Vec<_> = (1..9usize)
        .map(|pages| {
            let (fake, all, shared) = (fake.clone(), all.clone(), Shared(field));
            std::thread::spawn(move || {
                let shared = shared;
                let mine: Vec<_> =
                    (0..400).map(|_| take(shared.0, &fake, pages).unwrap()).collect();
                let mut all = all.lock().unwrap();
                mine.iter().for_each(|&base| assert_eq!(all.insert(base, pages * PAGE), None));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    check(field, &all.lock().unwrap());
}

/// While the system locks pages when they are mapped, the field maps little ahead of need, and what
/// was mapped ahead before goes.
#[test]
fn locked_pages_are_not_mapped_ahead() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (dense(&fake, 1 << 34), BTreeMap::new());
    while field.mapped_at_most() < 64 << 20 {
        slabs.insert(take(&field, &fake, 64).unwrap(), 64 * PAGE);
    }
    // A locked page cannot be discarded.
    fake.set_fault(Some(Fault::from(0).only(Request::Discard)));
    while slabs.values().sum::<usize>() < 256 << 20 {
        slabs.insert(take(&field, &fake, 64).unwrap(), 64 * PAGE);
        let had = slabs.values().sum::<usize>();
        if had > 128 << 20 {
            let ahead = field.mapped_at_most() - had;
            assert!(ahead <= had / 8 + (1 << 20), "{} MiB ahead of {}", ahead >> 20, had >> 20);
        }
    }
    fake.set_fault(None);
    let mut ahead = 0;
    for _ in 0..1000 {
        slabs.insert(take(&field, &fake, 64).unwrap(), 64 * PAGE);
        ahead = ahead.max(field.mapped_at_most() - slabs.values().sum::<usize>());
    }
    assert!(ahead >= 60 << 20, "{ahead}");
    check(&field, &slabs);
}

/// Many partitions that are small map no more than they need while the system locks pages, and
/// more again afterwards. Tests for locked pages are few.
#[test]
fn locked_partitions_map_what_they_need() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (plots(&fake, 1 << 42), BTreeMap::new());
    let take_one = |slabs: &mut BTreeMap<usize, usize>, round: usize| {
        let base = take_of(&field, &fake, round % PARTITIONS, 16).unwrap();
        assert_eq!(slabs.insert(base, 16 * PAGE), None);
    };
    let ahead =
        |slabs: &BTreeMap<usize, usize>| field.mapped_at_most() - slabs.values().sum::<usize>();
    // A locked page cannot be discarded.
    fake.set_fault(Some(Fault::from(0).only(Request::Discard)));
    for round in 0..8 * PARTITIONS {
        take_one(&mut slabs, round);
        if slabs.len() >= 32 {
            let (had, ahead) = (slabs.values().sum::<usize>(), ahead(&slabs));
            assert!(ahead <= had / 8, "{} KiB ahead of {}", ahead >> 10, had >> 10);
        }
    }
    let tests = fake.calls(Request::Discard);
    assert!(tests < 64, "{tests} tests for {} steps", slabs.len());
    fake.set_fault(None);
    for round in 0..4 * PARTITIONS {
        take_one(&mut slabs, round);
    }
    assert!(ahead(&slabs) > PARTITIONS * 16 * PAGE, "it maps ahead again");
    check(&field, &slabs);
}

/// Slabs of one partition are neighbours, and those of two are far apart at random distances.
#[test]
fn partitions_are_far_apart() {
    let mut varying = 0;
    let mut first_distance = 0;
    for seed in 0..40 {
        let fake = Fake::new(Machine { seed, ..Machine::LARGE });
        let (field, mut slabs) = (plots(&fake, 1 << 42), BTreeMap::new());
        let bases = [0, 1].map(|partition| take_of(&field, &fake, partition, 16).unwrap());
        bases.iter().for_each(|&base| assert_eq!(slabs.insert(base, 16 * PAGE), None));
        for partition in [0, 1] {
            let next = take_of(&field, &fake, partition, 16).unwrap();
            assert_eq!(next, bases[partition] + 16 * PAGE);
            slabs.insert(next, 16 * PAGE);
        }
        let distance = bases[1].wrapping_sub(bases[0]);
        assert!(distance.wrapping_add(1 << 20) > 2 << 20, "{distance:#x}");
        first_distance = if seed == 0 { distance } else { first_distance };
        varying |= distance ^ first_distance;
        check(&field, &slabs);
    }
    // All bits from a page of the map up to the near plots.
    assert_eq!(varying >> 13 & ((1 << 21) - 1), (1 << 21) - 1, "{varying:#x}");
}

/// A partition has two near plots and then far ones. All are its own.
#[test]
fn partitions_that_grow_get_far_plots() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (plots(&fake, 1 << 42), BTreeMap::new());
    let mut owners = BTreeMap::new();
    for round in 0..400 {
        for partition in [0, 1, 2] {
            let base = take_of(&field, &fake, partition, 128).unwrap();
            slabs.insert(base, 128 * PAGE);
            let owner = owners.entry(base >> 22).or_insert(partition);
            assert_eq!(*owner, partition, "round {round}: two partitions share 4 MiB");
        }
    }
    check(&field, &slabs);
    let far = slabs.keys().filter(|&&base| base - slabs.keys().next().unwrap() > 1 << 35).count();
    assert!(far > 1000 && slabs.len() - far > 10, "{far} of {} are far", slabs.len());
}

/// The order of plots is a permutation, for any number of them.
#[test]
fn each_plot_is_given_once() {
    let fake = Fake::new(Machine::LARGE);
    let field = plots(&fake, 1 << 42);
    for count in [1, 2, 8, 512, 4096] {
        let mut all: Vec<_> = (0..count).map(|n| field.supply.nth(n, count)).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..count));
    }
}

/// In a full address space each request costs a few calls, and few plots are used up. When the
/// foreign mappings are gone, each partition goes on.
#[test]
fn foreign_mappings_use_up_few_plots() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (plots(&fake, 1 << 42), BTreeMap::new());
    for partition in 0..8 {
        slabs.insert(take_of(&field, &fake, partition, 16).unwrap(), 16 * PAGE);
    }
    field.retract(&fake);
    fake.set_fault(Some(Fault::from(0).only(Request::Map).with(Error::Occupied)));
    for round in 0..2000 {
        let before = fake.calls(Request::Map);
        assert!(take_of(&field, &fake, round % 8, 16).is_err());
        let calls = fake.calls(Request::Map) - before;
        assert!(calls < if round < 100 { 600 } else { 40 }, "round {round}: {calls} calls");
    }
    assert!(field.supply.begun() < 100, "{} plots", field.supply.begun());
    fake.set_fault(None);
    field.grow_ahead();
    for round in 0..100 {
        slabs.insert(take_of(&field, &fake, round % 8, 16).unwrap(), 16 * PAGE);
    }
    check(&field, &slabs);
}

/// Threads that stop for ever while they grow plots stop no other, and use up no plots.
#[test]
fn a_stopped_thread_in_each_plot_stops_no_other() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (plots(&fake, 1 << 42), BTreeMap::new());
    for partition in 0..PARTITIONS {
        slabs.insert(take_of(&field, &fake, partition, 16).unwrap(), 16 * PAGE);
    }
    field.supply.for_each_run(|run| run.stop_growing_for_ever());
    for round in 0..600 {
        let base = take_of(&field, &fake, round % PARTITIONS, 16).unwrap();
        assert_eq!(slabs.insert(base, 16 * PAGE), None);
    }
    assert_eq!(fake.waits(), 0);
    assert!(field.supply.begun() <= 2 * PARTITIONS, "{} plots", field.supply.begun());
    field.repair(&fake);
    check(&field, &slabs);
}

/// Refusals use up nothing, and threads that begin plots at the same time lose none.
#[test]
fn plots_of_many_threads_are_apart() {
    let fake = Fake::new(Machine::LARGE);
    let field: &'static PlotField<Any> =
        std::boxed::Box::leak(std::boxed::Box::new(plots(&fake, 1 << 42)));
    let all = Arc::new(Mutex::new(BTreeMap::new()));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (fake, all, shared) = (fake.clone(), all.clone(), SharedPlots(field));
            std::thread::spawn(move || {
                let shared = shared;
                // Another thread may be interrupted while it maps metadata.
                let take = |partition| loop {
                    match take_of(shared.0, &fake, partition, 16) {
                        Err(Error::Busy) => std::thread::yield_now(),
                        got => break got.unwrap(),
                    }
                };
                let mine: Vec<_> =
                    (0..2 * PARTITIONS).map(|round| take(round % PARTITIONS)).collect();
                let mut all = all.lock().unwrap();
                mine.iter().for_each(|&base| assert_eq!(all.insert(base, 16 * PAGE), None));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    check(field, &all.lock().unwrap());
    let begun = field.supply.begun();
    assert!((PARTITIONS..PARTITIONS + 16).contains(&begun), "{begun} plots");
}

/// A field that threads share.
struct SharedPlots(&'static PlotField<Any>);

// SAFETY: the pointers in `Field` lead to atomics that live for ever.
unsafe impl Send for SharedPlots {}
