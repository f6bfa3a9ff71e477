//! Tests of the fake itself, which must be right before other tests run on it.

use super::PageState::{Foreign, Free, Guarded, Mapped};
use super::*;
use crate::os::release::{Piece, Release};
use crate::os::{Memory, Os};

const PAGE: usize = 4096;

fn fake() -> (Fake, usize) {
    let fake = Fake::new(Machine::SMALL);
    let start = fake.address_space().start + 16 * PAGE;
    (fake, start)
}

fn bytes(addr: usize, len: usize) -> &'static mut [u8] {
    let start: *mut u8 = core::ptr::with_exposed_provenance_mut(addr);
    // SAFETY: tests pass mapped pages, one slice at a time.
    unsafe { core::slice::from_raw_parts_mut(start, len) }
}

#[test]
fn pages_are_zero_whenever_they_come_back() {
    let (fake, at) = fake();
    let all_zero = || bytes(at, 4 * PAGE).iter().all(|&byte| byte == 0);
    fake.map(at, 4 * PAGE).unwrap();
    assert!(all_zero());
    bytes(at, 4 * PAGE).fill(7);
    // SAFETY: (1) nothing else uses this range.
    unsafe { fake.discard(at, 4 * PAGE).unwrap() };
    assert!(all_zero());
    bytes(at, 4 * PAGE).fill(7);
    // SAFETY: (1) nothing else uses this range.
    unsafe { fake.unmap(at, 4 * PAGE).unwrap() };
    assert_eq!((fake.page(at), fake.mapped_bytes()), (Free, 0));
    fake.map(at, 4 * PAGE).unwrap();
    assert!(all_zero());
}

#[test]
fn a_fault_strikes_single_pieces_of_a_batch() {
    let (fake, at) = fake();
    fake.map(at, 8 * PAGE).unwrap();
    bytes(at, 8 * PAGE).fill(7);
    let mut pieces = [0, 2, 4, 6].map(|page| Piece::new(at + page * PAGE, PAGE));
    fake.set_fault(Some(Fault::at(2).only(Request::Discard)));
    // SAFETY: (1) nothing else uses this range.
    unsafe { fake.discard_all(&mut Release::new(), &mut pieces, None) };
    assert_eq!(pieces.map(|piece| piece.done), [true, true, false, true]);
    assert_eq!((fake.calls(Request::Discard), fake.failed()), (4, 1));
    for page in 0..8 {
        let zero = bytes(at + page * PAGE, PAGE).iter().all(|&byte| byte == 0);
        assert_eq!(zero, [0, 2, 6].contains(&page), "{page}");
    }
}

#[test]
fn nothing_is_mapped_over_anything() {
    let (fake, at) = fake();
    fake.map(at, 2 * PAGE).unwrap();
    assert!(fake.occupy(at + 4 * PAGE..at + 5 * PAGE));
    assert!(!fake.occupy(at..at + PAGE));
    for (start, len) in [(0, 1), (1, 1), (1, 2), (3, 2), (4, 1), (0, 8)] {
        let result = fake.map(at + start * PAGE, len * PAGE);
        assert_eq!(result, Err(Error::Occupied), "{start} {len}");
    }
    assert_eq!(fake.map(at + 2 * PAGE, 2 * PAGE), Ok(()));
    assert_eq!((fake.page(at + 4 * PAGE), fake.mappings()), (Foreign, 1));
    let end = fake.address_space().end;
    assert_eq!(fake.map(end, PAGE), Err(Error::NoMemory));
}

#[test]
fn relocation_moves_contents_and_adds_zeros() {
    let (fake, at) = fake();
    let to = at + 64 * PAGE;
    fake.map(at, 2 * PAGE).unwrap();
    bytes(at, 2 * PAGE).fill(9);
    // SAFETY: (1) (2) the test owns both ranges.
    unsafe { fake.relocate(at, 2 * PAGE, to, 4 * PAGE).unwrap() };
    assert!(bytes(to, 2 * PAGE).iter().all(|&byte| byte == 9));
    assert!(bytes(to + 2 * PAGE, 2 * PAGE).iter().all(|&byte| byte == 0));
    assert_eq!((fake.page(at), fake.page(to + 3 * PAGE)), (Free, Mapped));
}

#[test]
fn a_guard_keeps_its_mapping() {
    let (fake, at) = fake();
    fake.map(at, 4 * PAGE).unwrap();
    // SAFETY: (1) nothing else uses this range.
    unsafe { fake.guard(at + PAGE, PAGE).unwrap() };
    assert_eq!((fake.page(at + PAGE), fake.mapped_bytes()), (Guarded, 4 * PAGE));
    assert_eq!(fake.map(at + PAGE, PAGE), Err(Error::Occupied));
    // SAFETY: (1) nothing else uses this range.
    unsafe { fake.unmap(at, 4 * PAGE).unwrap() };
    assert_eq!(fake.mapped_bytes(), 0);
}

#[test]
fn faults_strike_the_calls_they_name() {
    let (fake, at) = fake();
    let map = |n: usize| fake.map(at + n * PAGE, PAGE);
    fake.set_fault(Some(Fault::at(1)));
    assert_eq!((map(0), map(1), map(2)), (Ok(()), Err(Error::NoMemory), Ok(())));
    assert_eq!(fake.failed(), 1);
    fake.set_fault(Some(Fault::from(1).only(Request::Map).with(Error::Occupied)));
    assert!(fake.random().is_ok() && fake.random().is_ok());
    assert_eq!((map(3), map(4), map(5)), (Ok(()), Err(Error::Occupied), Err(Error::Occupied)));
    assert!(fake.random().is_ok());
    fake.set_fault(Some(Fault::at(0).foreign()));
    assert_eq!((map(6), map(7)), (Err(Error::Occupied), Ok(())));
    fake.set_fault(None);
    assert_eq!((map(6), fake.page(at + 6 * PAGE)), (Err(Error::Occupied), Foreign));
    assert_eq!((fake.calls(Request::Map), fake.all_calls()), (9, 12));
    fake.set_limit(fake.mapped_bytes() + PAGE);
    assert_eq!((map(8), map(9)), (Ok(()), Err(Error::NoMemory)));
}

#[test]
fn residency_is_what_was_touched() {
    let (fake, at) = fake();
    fake.map(at, 64 * PAGE).unwrap();
    assert_eq!(fake.resident_bytes(), 0);
    bytes(at, 3 * PAGE).fill(1);
    assert_eq!(fake.resident_bytes(), 3 * PAGE);
    // SAFETY: (1) nothing else uses this range.
    unsafe { fake.discard(at, 2 * PAGE).unwrap() };
    assert_eq!(fake.resident_bytes(), PAGE);
}

#[test]
#[should_panic(expected = "Unmap of what is not mapped")]
fn an_unmap_of_nothing_is_the_allocators_fault() {
    let (fake, at) = fake();
    // SAFETY: (1) broken on purpose: the fake must notice.
    let _ = unsafe { fake.unmap(at, PAGE) };
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let words = |seed| {
        let fake = Fake::new(Machine { seed, ..Machine::SMALL });
        [(); 4].map(|()| fake.random().unwrap())
    };
    assert_eq!(words(5), words(5));
    assert_ne!(words(5), words(6));
}
