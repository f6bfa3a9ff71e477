//! `TOFT_MAPPINGS`: what is asked of the system for what is mapped, and what is said where it
//! refuses.

use crate::common::plain::{allocator, birth};
use crate::common::world::code_address;
use toft_core::options::{Options, Reclaim};
use toft_core::os::Error;
use toft_core::os::fake::{Fake, Fault, Request};

const OPTIONS: Options =
    Options { partitions: 4, reclaim: Reclaim::Off, prefault: false, ..Options::DEFAULT };
const LARGE: usize = 1 << 20;

/// A program with small, medium and large blocks, on a system that may refuse.
fn run(options: Options, fault: Option<Fault>) -> (Fake, Vec<(usize, usize)>) {
    let (fake, allocator) = allocator(options);
    fake.set_fault(fault);
    let heap = birth(&allocator);
    let sizes = [100, 100, 5000, LARGE, LARGE, 1000, 60_000];
    let block = |size: &usize| (allocator.allocate(heap, *size, code_address(1)).unwrap(), *size);
    let blocks = sizes.iter().map(block).collect();
    allocator.check().unwrap();
    (fake, blocks)
}

fn covers(ranges: &[(usize, usize)], block: (usize, usize)) -> bool {
    let within = |at: usize| ranges.iter().any(|&(start, len)| at >= start && at < start + len);
    within(block.0) && within(block.0 + block.1 - 1)
}

#[test]
fn nothing_is_asked_for_by_default() {
    let (fake, _) = run(OPTIONS, None);
    for request in [Request::Lock, Request::Name, Request::Populate] {
        assert_eq!(fake.calls(request), 0, "{request:?}");
    }
}

#[test]
fn what_blocks_lie_on_is_locked() {
    let (fake, blocks) = run(Options { mlock: true, ..OPTIONS }, None);
    assert!(blocks.iter().all(|&block| covers(&fake.locked(), block)));
    assert_eq!(fake.calls(Request::Populate), 0);
    assert!(fake.take_reports().is_empty());
}

#[test]
fn what_is_mapped_has_its_pages() {
    let options = Options { prepopulate: true, ..OPTIONS };
    let (fake, blocks) = run(options, None);
    let bytes: usize = blocks.iter().map(|&(_, size)| size).sum();
    assert!(fake.populated_bytes() >= bytes);
    let (other, _) = run(OPTIONS, None);
    // Not the metadata, of which little is ever used.
    assert!(fake.resident_bytes() >= other.resident_bytes() + bytes);
    assert!(fake.resident_bytes() <= other.resident_bytes() + 2 * LARGE + (4 << 20));
}

#[test]
fn what_is_mapped_has_a_name() {
    let (fake, blocks) = run(Options { names: true, ..OPTIONS }, None);
    let names = fake.names();
    let named = |block, what: &str| {
        let of_name = names.iter().filter(|name| name.2 == what);
        covers(&of_name.map(|name| (name.0, name.1)).collect::<Vec<_>>(), block)
    };
    for &(address, size) in &blocks {
        let what = match size {
            LARGE => "toft large block",
            _ => "toft slabs",
        };
        for other in ["toft slabs", "toft large block", "toft metadata"] {
            assert_eq!(named((address, size), other), what == other, "{size} {other}");
        }
    }
    assert!(names.iter().any(|name| name.2 == "toft metadata"));
}

#[test]
fn a_refusal_is_said_once_and_changes_nothing() {
    let all = Options { mlock: true, names: true, prepopulate: true, ..OPTIONS };
    for (request, error, said) in [
        (Request::Lock, Error::NoMemory, "toft: TOFT_MAPPINGS=lock: "),
        (Request::Name, Error::Unsupported, "toft: TOFT_MAPPINGS=names: "),
        (Request::Populate, Error::Unsupported, "toft: TOFT_MAPPINGS=populate: "),
    ] {
        let (fake, blocks) = run(all, Some(Fault::from(0).only(request).with(error)));
        assert_eq!(blocks.len(), 7);
        let reports = fake.take_reports();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].starts_with(said) && reports[0].ends_with("; going on without it\n"));
    }
}

#[test]
fn under_a_filter_nothing_is_asked_for() {
    let all = Options { mlock: true, names: true, prepopulate: true, ..OPTIONS };
    let (fake, allocator) = allocator(all);
    allocator.filter().about_to_install(&fake);
    let heap = birth(&allocator);
    assert!(allocator.allocate(heap, 100, code_address(1)).is_some());
    assert!(allocator.allocate(heap, LARGE, code_address(1)).is_some());
    for request in [Request::Lock, Request::Name, Request::Populate] {
        assert_eq!(fake.calls(request), 0, "{request:?}");
    }
}
