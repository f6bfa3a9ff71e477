//! The field on a fake system: growth, refusals, foreign mappings, stopped threads.

use super::*;
use crate::os::fake::{Fake, Fault, Machine, Request};
use crate::region::Partition;
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

fn field(fake: &Fake, bytes: usize) -> Field<Any> {
    let base = fake.address_space().start.next_multiple_of(ALL);
    let tables = base + 8 * ALL;
    fake.map(tables, Field::<Any>::TABLE_BYTES.next_multiple_of(PAGE)).unwrap();
    let places = FieldPlaces {
        data: (base, bytes),
        descriptors: (base + 4 * ALL, descriptor_space(bytes)),
        map: base + 6 * ALL,
    };
    // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
    unsafe { Field::new(fake, places, tables) }.unwrap()
}

fn need(pages: usize, align: usize) -> SlabNeed {
    SlabNeed { partition: Partition::new(0), small: true, bytes: pages * PAGE, align }
}

/// Takes a slab and opens it. Returns its first address.
fn take(field: &Field<Any>, fake: &Fake, pages: usize) -> Result<usize, Error> {
    let (slab, base) = field.take(fake, need(pages, 1), |_, _| {})?;
    assert!(!slab.is_open(), "a descriptor is used twice");
    slab.bytes.store(pages * PAGE, Relaxed);
    slab.base.store(base, Release);
    Ok(base)
}

/// Takes slabs of different lengths until the system or the field refuses.
fn fill(field: &Field<Any>, fake: &Fake, slabs: &mut BTreeMap<usize, usize>) {
    for pages in [1, 3, 16, 64, 2].iter().cycle() {
        match take(field, fake, *pages) {
            Ok(base) => assert_eq!(slabs.insert(base, pages * PAGE), None),
            Err(_) => return,
        }
    }
}

/// No slab shares a page with another, each is found by its addresses and in the walk, and by no
/// other address.
fn check(field: &Field<Any>, slabs: &BTreeMap<usize, usize>) {
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
    for address in [0, 1, PAGE, field.base - 1, end, usize::MAX, 1 << 63] {
        assert!(field.slab_at(address).is_none_or(|slab| !slab.is_open()), "{address:#x}");
    }
}

#[test]
fn every_slab_has_its_pages_and_every_page_its_slab() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (field(&fake, 1 << 26), BTreeMap::new());
    check(&field, &slabs);
    fill(&field, &fake, &mut slabs);
    check(&field, &slabs);
    // All of the field was had, but for less than the longest slab.
    assert!(slabs.values().sum::<usize>() > (1 << 26) - 64 * PAGE);
    // A step at a time, and from a place on.
    let [mut number, mut other] = [0, 0];
    let mut walked = 0;
    while !field.for_each_from([&mut number, &mut other], |_| false) {
        walked += 1;
    }
    assert_eq!(walked, slabs.len());
    let mut ranges = Vec::new();
    field.for_each_range(|slab| slab.extent().1, |start, len| ranges.push((start, len)));
    // What is left at the end is too short for the last request.
    let sum = ranges.iter().map(|range| range.1).sum::<usize>() - field.pages.ahead().1;
    assert_eq!(sum, slabs.values().sum());
    assert!(ranges.len() < 8, "neighbours are one range");
}

#[test]
fn slabs_begin_at_multiples_of_what_they_need() {
    let fake = Fake::new(Machine::LARGE);
    let field = field(&fake, 1 << 30);
    for (number, align) in [1, 64 << 10, 1, 128 << 10, 1 << 20].into_iter().cycle().enumerate() {
        let (_, base) = field.take(&fake, need(1 + number % 7, align), |_, _| {}).unwrap();
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
    let (field, mut slabs) = (field(&fake, 1 << 40), BTreeMap::new());
    let limit = field.limit();
    while slabs.len() < 24 << 10 {
        slabs.insert(take(&field, &fake, 128).unwrap(), 128 * PAGE);
    }
    assert!(field.limit() > 8 * limit);
    check(&field, &slabs);
}

/// Memory is refused, and granted again: nothing is lost, and what was mapped ahead can be had.
#[test]
fn a_refusal_costs_nothing() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (field(&fake, 1 << 30), BTreeMap::new());
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
    let field: &'static Field<Any> =
        std::boxed::Box::leak(std::boxed::Box::new(field(&fake, 1 << 34)));
    take(field, &fake, 1).unwrap();
    field.retract(&fake);
    fake.set_fault(Some(Fault::from(0).only(Request::Map)));
    let before = (field.pages.frontier(), field.taken());
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
    let lost = field.pages.frontier() - before.0;
    assert!(lost < 8 * 32 * 256, "{lost} pages of 2 000 000 that were refused");
    assert!(field.taken() <= before.1 + 8, "one for each thread");
    fake.set_fault(None);
    let mut slabs = BTreeMap::new();
    fill_some(field, &fake, &mut slabs);
}

fn fill_some(field: &Field<Any>, fake: &Fake, slabs: &mut BTreeMap<usize, usize>) {
    for _ in 0..1000 {
        assert_eq!(slabs.insert(take(field, fake, 7).unwrap(), 7 * PAGE), None);
    }
}

/// A field that threads share.
struct Shared(&'static Field<Any>);

// SAFETY: the pointers in `Field` lead to atomics that live for ever.
unsafe impl Send for Shared {}

/// What was mapped ahead is unmapped when memory runs out, and the same addresses are mapped again.
#[test]
fn what_is_ahead_goes_and_comes_back() {
    let fake = Fake::new(Machine::LARGE);
    let (field, mut slabs) = (field(&fake, 1 << 30), BTreeMap::new());
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
    let (field, mut slabs) = (field(&fake, 1 << 40), BTreeMap::new());
    for shift in 12..36 {
        slabs.insert(take(&field, &fake, 1).unwrap(), PAGE);
        field.retract(&fake);
        field.grow_ahead();
        let next = field.pages.address(field.pages.frontier());
        assert!(fake.occupy(next..next + (1 << shift)));
        let base = take(&field, &fake, 1).unwrap();
        assert!(base >= next + (1 << shift) && base < next + (3 << shift) + (4 << 20), "{shift}");
        slabs.insert(base, PAGE);
    }
    let zero = field.zero.addr();
    let next = zero + field.state().descriptors.mapped();
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
    let (field, mut slabs) = (field(&fake, 1 << 36), BTreeMap::new());
    slabs.insert(take(&field, &fake, 1).unwrap(), PAGE);
    field.retract(&fake);
    let next = field.pages.address(field.pages.frontier());
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
    let (field, mut slabs) = (field(&fake, 1 << 30), BTreeMap::new());
    field.pages.stop_growing_for_ever();
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
    field.repair(&fake, 1);
    let before = field.mapped_at_most();
    slabs.insert(take(&field, &fake, 40).unwrap(), 40 * PAGE);
    assert!(field.mapped_at_most() > before + 40 * PAGE, "it maps ahead again");
    check(&field, &slabs);
}

/// Other threads take slabs while one maps more for all.
#[test]
fn slabs_of_many_threads_are_apart() {
    let fake = Fake::new(Machine::LARGE);
    let field: &'static Field<Any> =
        std::boxed::Box::leak(std::boxed::Box::new(field(&fake, 1 << 32)));
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
    let (field, mut slabs) = (field(&fake, 1 << 34), BTreeMap::new());
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
