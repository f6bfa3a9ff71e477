//! What the secure build does to slots, over the fake operating system.

use crate::common::plain::{birth, one_heap, two_heaps, with_slab};
use crate::common::shadow::bytes_of;
use crate::common::world::code_address;
use std::collections::BTreeSet;
use toft_core::Allocator;
use toft_core::keeper::Which;
use toft_core::options::Options;
use toft_core::os::Error;
use toft_core::os::fake::{Fake, Fault, Request};
use toft_core::path::Resized;
use toft_core::report::Call;
use toft_core::slab::{MEDIUM_MAX, SizeClass};
use toft_core::thread::Heap;

const SITE: usize = 3;

fn options() -> Options {
    Options { partitions: 1, warn_only: true, ..Options::DEFAULT }
}

fn take(allocator: &Allocator<Fake>, heap: &Heap, size: usize) -> usize {
    allocator.allocate(heap, size, code_address(SITE)).expect("there is memory")
}

fn place(address: usize) -> &'static mut u8 {
    &mut bytes_of(address, 1)[0]
}

/// The one line that was reported.
fn report(fake: &Fake) -> String {
    let mut reports = fake.take_reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

fn silent(fake: &Fake) {
    assert_eq!(fake.take_reports(), [] as [String; 0]);
}

/// Sizes at both ends of every class.
fn sizes() -> impl Iterator<Item = usize> {
    let ends = |class: SizeClass| [class.size() - 1, class.size()];
    SizeClass::all().flat_map(ends).filter(|&size| size < MEDIUM_MAX)
}

#[test]
fn a_byte_behind_any_block_is_seen_at_its_free() {
    let (fake, allocator, mine, other) = two_heaps(options());
    for size in sizes() {
        for heap in [mine, other] {
            let address = take(&allocator, mine, size);
            bytes_of(address, size).fill(0xAA);
            *place(address + size) ^= 0x5A;
            allocator.free(heap, address, Call::Free);
            let words = format!(
                "toft: heap overflow: free({address:#x}): byte 0 behind this {size}-byte block was"
            );
            assert!(report(&fake).starts_with(&words), "{size}");
            let address = take(&allocator, mine, size);
            bytes_of(address, size).fill(0xAA);
            allocator.free(heap, address, Call::Free);
            silent(&fake);
        }
    }
}

#[test]
fn the_last_byte_of_any_slot_is_seen_from_both_sides() {
    let (fake, allocator, heap) = one_heap(options());
    for class in SizeClass::all().filter(|class| class.size() <= 64 << 10) {
        let size = class.size() - class.size() / 16;
        let mut blocks: Vec<usize> = (0..8).map(|_| take(&allocator, heap, size)).collect();
        blocks.sort_unstable();
        let Some(pair) = blocks.windows(2).position(|two| two[1] - two[0] == class.size()) else {
            continue;
        };
        let (before, after) = (blocks[pair], blocks[pair + 1]);
        let byte = *place(after - 1);
        *place(after - 1) = if byte ^ 0x5A == 0 { 0x33 } else { byte ^ 0x5A };
        allocator.free(heap, after, Call::Free);
        assert!(
            report(&fake).starts_with(&format!("toft: heap underflow: free({after:#x}): the byte"))
        );
        allocator.free(heap, before, Call::Free);
        let words = format!("byte {} behind this {size}-byte block", class.size() - 1 - size);
        assert!(report(&fake).contains(&words));
    }
}

/// A byte of a free slot is written: in quarantine, and when it is free; it is cleared when it has
/// been named.
#[test]
#[cfg_attr(not(feature = "secure"), ignore = "the light build does not clear what is freed")]
fn a_write_after_free_is_named_before_the_slot_is_handed_out() {
    for size in [1, 63, 100, 1000, 5000, 60_000] {
        for trim in [false, true] {
            let (fake, allocator, heap) = one_heap(options());
            let address = take(&allocator, heap, size);
            let neighbour = take(&allocator, heap, size);
            bytes_of(address, size).fill(0xAA);
            allocator.free(heap, address, Call::Free);
            assert!(bytes_of(address, size).iter().all(|&byte| byte == 0), "{size}");
            if trim {
                allocator.sweeper().purge(Some(heap));
            }
            *place(address + size / 2) = 1;
            let (mut reports, mut tries, mut kept) = (Vec::new(), 0, Vec::new());
            loop {
                let again = take(&allocator, heap, size);
                reports.extend(fake.take_reports());
                assert!(bytes_of(again, size).iter().all(|&byte| byte == 0));
                // A few blocks that come and go would serve malloc for ever.
                tries += 1;
                if tries % 100 == 0 && again != address {
                    kept.push(again);
                } else {
                    allocator.free(heap, again, Call::Free);
                }
                reports.extend(fake.take_reports());
                assert!(tries < 100_000, "{size}: it does not come back");
                if again == address {
                    break;
                }
            }
            kept.into_iter().for_each(|block| allocator.free(heap, block, Call::Free));
            // In quarantine a small block is compared when it leaves.
            let call = if trim || size > 100 { "malloc" } else { "free" };
            let words = format!(
                "toft: write after free: {call}({address:#x}): byte {} of this free {size}-byte",
                size / 2
            );
            assert!(reports.len() == 1 && reports[0].starts_with(&words), "{reports:?}");
            allocator.free(heap, neighbour, Call::Free);
            allocator.check().unwrap();
        }
    }
}

/// A byte is written while its block is in quarantine, far from the ends, which are compared when
/// it leaves. Then the pages of everything that is free are to go: by a purge of its owner, by a
/// sweep from elsewhere, and as an empty slab that was kept.
#[test]
#[cfg_attr(not(feature = "secure"), ignore = "the light build does not clear what is freed")]
fn what_was_written_in_quarantine_is_found_although_pages_go() {
    for size in [300, 1000, 5000, 60_000] {
        for way in 0..4 {
            let (fake, allocator, heap, other) = two_heaps(options());
            let count = (256 << 10) / size;
            let mut blocks: Vec<usize> = (0..count).map(|_| take(&allocator, heap, size)).collect();
            blocks.sort_unstable();
            // In the middle, so that whole pages around it are free.
            let address = blocks.remove(count / 2);
            let kept = (way < 2).then(|| blocks.remove(0));
            let freer = if way == 1 { other } else { heap };
            allocator.free(freer, address, Call::Free);
            *place(address + size / 2) = 1;
            blocks.drain(..).for_each(|block| allocator.free(freer, block, Call::Free));
            match way {
                0 | 3 => _ = allocator.sweeper().purge(Some(heap)),
                _ => {
                    // All leaves the quarantines, and nothing else happens.
                    allocator.quarantines().release_quarantine(heap);
                    allocator.quarantines().release_quarantine(other);
                    let which = if way == 1 { Which::Free } else { Which::Idle };
                    (0..4).for_each(|_| _ = allocator.sweeper().sweep(which).unwrap());
                }
            }
            silent(&fake);
            let (mut reports, mut again) = (Vec::new(), 0);
            while again != address {
                again = take(&allocator, heap, size);
                reports.extend(fake.take_reports());
                blocks.push(again);
                assert!(blocks.len() < 9 * count, "{size}, way {way}: it does not come back");
            }
            let words =
                format!("toft: write after free: malloc({address:#x}): byte {} of", size / 2);
            let seen = reports.len() == 1 && reports[0].starts_with(&words);
            assert!(seen, "{size}, way {way}: {reports:?}");
            blocks.drain(..).for_each(|block| allocator.free(heap, block, Call::Free));
            kept.into_iter().for_each(|kept| allocator.free(heap, kept, Call::Free));
            allocator.check().unwrap();
        }
    }
}

/// What other threads have freed goes through their quarantines, too.
#[test]
#[cfg_attr(not(feature = "secure"), ignore = "small blocks do not wait in the light build")]
fn no_path_goes_round_the_quarantine() {
    let (fake, allocator, mine, other) = two_heaps(options());
    let ended = toft_core::thread::EXITED_HEAP.heap();
    for size in [10, 200, 3000] {
        for way in 0..5 {
            let address = take(&allocator, mine, size);
            match way {
                0 => allocator.free(mine, address, Call::Free),
                1 => allocator.free(other, address, Call::Free),
                2 => allocator.free(ended, address, Call::Free),
                3 => {
                    // A signal handler has interrupted a change of the lists.
                    let guard = mine.enter();
                    allocator.free(mine, address, Call::Free);
                    drop(guard);
                }
                _ => {
                    let to = allocator.resize(mine, address, 9 * size + 500, code_address(SITE));
                    assert!(matches!(to, Resized::At(to) if to != address));
                }
            }
            // It is neither free nor marked, whatever is collected.
            for _ in 0..3 {
                take(&allocator, mine, size);
            }
            let (held, live) = with_slab(&allocator, address, |slab, slot| {
                (!slab.states.take_own(slot) && !slab.remote.has(slot), slab.is_live(slot))
            });
            assert!(held && !live, "{size} by way {way}");
            allocator.free(mine, address, Call::Free);
            assert!(report(&fake).starts_with("toft: double free: free("));
        }
    }
}

/// Law 4 and promise 14: where there is no more memory, what is in quarantine serves: the thread's
/// own, an orphan's, and a running thread's.
#[test]
fn what_is_in_quarantine_is_released_before_a_request_is_refused() {
    for whose in 0..3 {
        let (fake, allocator, mine, other) = two_heaps(options());
        let mut blocks: Vec<usize> = (0..64).map(|_| take(&allocator, mine, 4000)).collect();
        fake.set_fault(Some(Fault::from(0).only(Request::Map)));
        while let Some(address) = allocator.allocate(mine, 4000, code_address(SITE)) {
            blocks.push(address);
        }
        let freed: BTreeSet<usize> = blocks.drain(..3).collect();
        for &address in &freed {
            allocator.free([mine, other, other][whose], address, Call::Free);
        }
        if whose == 1 {
            allocator.heaps.orphan(other);
        }
        let again: BTreeSet<usize> = (0..3).map(|_| take(&allocator, mine, 4000)).collect();
        assert_eq!(again, freed);
        assert_eq!(allocator.allocate(mine, 4000, code_address(SITE)), None);
        silent(&fake);
        fake.set_fault(None);
        allocator.check().unwrap();
    }
}

/// A purge empties the quarantines, so that empty slabs go.
#[test]
fn a_purge_leaves_nothing_in_quarantine() {
    let (fake, allocator, mine, other) = two_heaps(options());
    let blocks: Vec<usize> = (0..3000).map(|n| take(&allocator, mine, 1 + n % 3000)).collect();
    for (number, &address) in blocks.iter().enumerate() {
        allocator.free([mine, other][number % 2], address, Call::Free);
    }
    let in_use = || {
        let mut slabs = 0;
        allocator.for_each_slab(|slab| slabs += usize::from(!slab.is_empty()));
        slabs
    };
    assert!(in_use() > 30);
    allocator.sweeper().purge(Some(other));
    allocator.sweeper().purge(Some(mine));
    assert_eq!(in_use(), 0);
    allocator.check().unwrap();
    silent(&fake);
}

/// What waits in the quarantine of another thread, which runs on or has ended, is looked at on
/// demand, whosever the slab is: a byte that was written since is named, and nothing else.
#[test]
#[cfg_attr(not(feature = "secure"), ignore = "the light build does not clear what is freed")]
fn what_waits_with_other_threads_is_seen_on_demand() {
    for size in [15, 64, 1000, 5000, 60_000] {
        for (ended, own) in [(false, false), (false, true), (true, false), (true, true)] {
            let (fake, allocator, mine, other) = two_heaps(options());
            let address = take(&allocator, if own { mine } else { other }, size);
            bytes_of(address, size).fill(0xAA);
            allocator.free(other, address, Call::Free);
            if ended {
                allocator.heaps.orphan(other);
            }
            let waits = |slab: &toft_core::slab::Slab, slot| slab.states.is_quarantined(slot);
            assert!(with_slab(&allocator, address, waits), "{size}: it waits nowhere");
            assert!(allocator.verifier().verify(mine), "{size}");
            silent(&fake);
            *place(address + size - 1) = 1;
            assert!(!allocator.verifier().verify(mine), "{size}, ended {ended}, own {own}");
            let byte = size - 1;
            let words =
                format!("toft: write after free: verify({address:#x}): byte {byte} of this free");
            assert!(report(&fake).starts_with(&words), "{size}");
            *place(address + size - 1) = 0;
            assert!(allocator.verifier().verify(mine), "{size}");
            silent(&fake);
        }
    }
}

/// The child of a fork goes on with what its parent's threads had in quarantine.
#[test]
fn a_fork_in_the_middle_of_a_release_leaves_the_quarantine_open() {
    let (fake, allocator, mine, other) = two_heaps(options());
    let freed = take(&allocator, mine, 4000);
    allocator.free(other, freed, Call::Free);
    // The thread that empties it gets no further than to the barrier.
    let gone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        fake.at_barrier(|| std::panic::resume_unwind(Box::new(())));
        allocator.sweeper().purge(Some(mine));
    }));
    assert!(gone.is_err());
    fake.at_barrier(|| true);
    allocator.after_fork_in_child(mine);
    let adopted = birth(&allocator);
    let address = take(&allocator, adopted, 4000);
    allocator.free(adopted, address, Call::Free);
    assert_eq!(allocator.heaps.count(), 2, "another heap was borrowed for its quarantine");
    allocator.sweeper().purge(Some(mine));
    allocator.heaps.orphan(adopted);
    allocator.sweeper().purge(Some(mine));
    allocator.check().unwrap();
    silent(&fake);
}

#[test]
fn sizes_that_were_not_requested_are_named_and_others_are_not() {
    let (fake, allocator, heap) = one_heap(options());
    for size in sizes() {
        for align in [1, 16, 64, 4096] {
            let asked = allocator.allocate_aligned(heap, size, align, code_address(SITE)).unwrap();
            let fits =
                |given| allocator.requests().layout_fits(asked, given, align, Call::FreeSized);
            assert!(fits(size), "{size} at {align}");
            silent(&fake);
            for given in [size.wrapping_sub(1), size + 1, size / 2 + 7, 2 * size + 8192] {
                if given == size {
                    continue;
                }
                assert!(!fits(given), "{given} for {size} at {align}");
                assert!(report(&fake).contains(&format!("block is not one of {given} bytes (")));
            }
            allocator.free(heap, asked, Call::Free);
        }
    }
}

#[test]
fn a_resized_block_has_the_size_it_was_resized_to() {
    let (fake, allocator, heap) = one_heap(options());
    for (before, after) in
        [(100, 90), (100, 300), (1000, 600), (100_000, 60_000), (400_000, 300_000)]
    {
        let block = take(&allocator, heap, before);
        let Resized::At(block) = allocator.resize(heap, block, after, code_address(SITE)) else {
            panic!("there is memory");
        };
        let fits = |given| allocator.requests().layout_fits(block, given, 1, Call::FreeSized);
        assert!(fits(after), "{before} to {after}");
        assert!(allocator.requests().layout_fits(block, after, 16, Call::Free), "Rust's dealloc");
        silent(&fake);
        assert!(!fits(before) && !fits(after - 1) && !fits(after + 1), "{before} to {after}");
        fake.take_reports();
        allocator.free(heap, block, Call::Free);
    }
}

/// The descriptor of its slot keeps no more than 65 535 bytes after the block. So the block has
/// more bytes than it was given.
#[test]
fn a_block_that_has_become_smaller_for_want_of_memory_stays_at_its_usable_size() {
    let (fake, allocator, heap) = one_heap(options());
    let block = take(&allocator, heap, 65_700);
    fake.set_limit(fake.mapped_bytes());
    let resize = |size| allocator.resize(heap, block, size, code_address(SITE));
    // What others have left of this size is used up first.
    while allocator.allocate(heap, 100, code_address(SITE)).is_some() {}
    assert_eq!(resize(100), Resized::At(block));
    let usable = allocator.requests().usable_size(block, Call::Realloc).unwrap();
    assert!(usable > 100 && usable < 4096, "{usable}");
    fake.set_limit(usize::MAX);
    assert_eq!(resize(usable), Resized::At(block));
}

/// An alignment that was not requested is named where the address or the class does not have it.
#[test]
fn alignments_that_were_not_requested_are_named_and_others_are_not() {
    let (fake, allocator, heap) = one_heap(options());
    let mut missed = 0;
    let aligns = [1, 16, 32, 64, 256, 4096, 64 << 10, 1 << 20];
    for size in [0, 1, 40, 64, 100, 128, 500, 1000, 5000, 70_000, 131_072, 300_000] {
        for align in aligns {
            let block = allocator.allocate_aligned(heap, size, align, code_address(SITE)).unwrap();
            // A slot is not used if its slack is above 64 KiB.
            let class = |align| {
                SizeClass::of_aligned(size + 1, align)
                    .filter(|class| class.size() - size < usize::from(u16::MAX))
            };
            for given in aligns {
                let fits = allocator.requests().layout_fits(block, size, given, Call::Delete);
                let same = align.max(16) == given.max(16);
                let seems = block.is_multiple_of(given)
                    && if size == 0 { align > 16 } else { class(align) == class(given) };
                assert_eq!(fits, same || seems, "{size} at {align}, not {given}");
                missed += usize::from(fits && !same);
                if fits {
                    silent(&fake);
                } else {
                    assert!(report(&fake).contains("toft: alignment mismatch: operator delete("));
                }
            }
            // What has no alignment to name may have been resized: only the size counts.
            for call in [Call::Free, Call::FreeSized] {
                assert!(allocator.requests().layout_fits(block, size, 1, call));
            }
            silent(&fake);
            allocator.free(heap, block, Call::Free);
        }
    }
    assert!(missed < 200, "{missed} of 672 were missed");
}

/// The size of a block is known to the byte however large its alignment is, so that the first byte
/// after it is checked: where a slot's descriptor could not keep the slack, the block is large.
#[test]
fn the_size_of_a_small_block_at_a_large_alignment_is_kept() {
    let (fake, allocator, heap) = one_heap(options());
    for align in [32 << 10, 64 << 10, 128 << 10, 1 << 20] {
        for size in [
            1,
            100,
            40_000,
            (64 << 10) - 1,
            64 << 10,
            (64 << 10) + 1,
            (64 << 10) + 2,
            100_000,
            131_071,
        ] {
            let take =
                || allocator.allocate_aligned(heap, size, align, code_address(SITE)).unwrap();
            let block = take();
            assert_eq!(allocator.requests().usable_size(block, Call::UsableSize), Some(size));
            let fits = |given| allocator.requests().layout_fits(block, given, align, Call::Delete);
            assert!(fits(size), "{size} at {align}");
            silent(&fake);
            assert!(!fits(size - 1) && report(&fake).contains("size mismatch"), "{size}");
            *place(block + size - 1) = 0;
            allocator.free(heap, block, Call::Free);
            silent(&fake);
            // A large block may end where a page that is not mapped begins.
            let block = take();
            if (block + size) % 4096 != 0 {
                *place(block + size) = 0;
                allocator.free(heap, block, Call::Free);
                assert!(report(&fake).contains("heap overflow"), "{size} at {align}");
            }
        }
    }
    allocator.check().unwrap();
}

/// The C++ library's `operator new` rounds the request up, where a new-handler has helped. In a
/// process that never calls it, the exact size alone fits.
#[test]
fn only_delete_accepts_a_size_that_the_cpp_library_has_rounded() {
    let (fake, allocator, heap) = one_heap(options());
    for size in [1usize, 100, 1000, 70_000, 300_000] {
        let rounded = size.next_multiple_of(64);
        let asked = allocator.allocate_aligned(heap, rounded, 64, code_address(SITE)).unwrap();
        let fits = |given| allocator.requests().layout_fits(asked, given, 64, Call::Delete);
        assert!(fits(rounded), "{size}");
        silent(&fake);
        assert!(!fits(size) && !fits(rounded - 1), "{size}");
        fake.take_reports();
        allocator.free(heap, asked, Call::Free);
    }
    let one = take(&allocator, heap, 1);
    assert!(!allocator.requests().layout_fits(one, 0, 1, Call::Delete));
    fake.take_reports();
    allocator.note_rounded_sizes();
    for size in [1usize, 100, 1000, 70_000, 300_000] {
        let rounded = size.next_multiple_of(64);
        let asked = allocator.allocate_aligned(heap, rounded, 64, code_address(SITE)).unwrap();
        let fits = |given, call| allocator.requests().layout_fits(asked, given, 64, call);
        assert!(fits(size, Call::Delete) && fits(rounded - 63, Call::Delete), "{size}");
        silent(&fake);
        assert!(!fits(rounded - 64, Call::Delete) || rounded == 64, "{size}");
        assert!(!fits(rounded + 1, Call::Delete) && !fits(size, Call::FreeSized), "{size}");
        fake.take_reports();
        allocator.free(heap, asked, Call::Free);
    }
    assert!(allocator.requests().layout_fits(one, 0, 1, Call::Delete));
    silent(&fake);
    assert!(!allocator.requests().layout_fits(one, 0, 1, Call::FreeSized));
    assert!(report(&fake).contains("size mismatch"));
}

/// A zero just after the block is named for each size, as any other byte is: where it is all of the
/// slack, and where it is not.
#[test]
fn a_zero_behind_any_block_is_named() {
    let (fake, allocator, heap) = one_heap(options());
    for size in (1..1100).chain(sizes()) {
        let address = take(&allocator, heap, size);
        *place(address + size - 1) = 0;
        assert_ne!(*place(address + size), 0, "{size}");
        *place(address + size) = 0;
        allocator.free(heap, address, Call::Free);
        let words = format!(
            "toft: heap overflow: free({address:#x}): byte 0 behind this {size}-byte block was"
        );
        assert!(report(&fake).starts_with(&words), "{size}");
    }
}

/// A block that realloc makes smaller or larger in its place has a canary just after its new end.
#[test]
fn a_zero_behind_a_resized_block_is_named() {
    let (fake, allocator, heap) = one_heap(options());
    for size in sizes().filter(|&size| size > 16) {
        for to in
            [size - 1, size - size / 3, size / 2 + 1, size / 2, (size + 1).min(MEDIUM_MAX - 1)]
        {
            let block = take(&allocator, heap, size);
            let Resized::At(block) = allocator.resize(heap, block, to, code_address(SITE)) else {
                panic!("there is memory");
            };
            silent(&fake);
            assert_ne!(*place(block + to), 0, "{size} to {to}");
            *place(block + to) = 0;
            allocator.free(heap, block, Call::Free);
            assert!(report(&fake).contains("byte 0 behind this"), "{size} to {to}");
        }
    }
}

/// The last byte before a block is written, wherever the block is and whatever is before it. Each
/// value but the one that is there is named by the free, or by the reserved slot, and before that
/// by a verification.
#[test]
fn a_byte_before_any_block_is_named() {
    use toft_core::slab::{SlotIndex, SlotState};
    let mut seen = std::collections::BTreeMap::new();
    for size in [15, 39, 63, 100, 255, 1000, 1500, 4095, 4096, 5000, 8191, 12_000, 30_000] {
        for freed in [0, 1] {
            let (fake, allocator, heap) = one_heap(options());
            let blocks: Vec<usize> = (0..40).map(|_| take(&allocator, heap, size)).collect();
            for pair in blocks.chunks(3) {
                // Blocks beside holes of free slots, and of slots never handed out.
                (0..freed).for_each(|n| allocator.free(heap, pair[n], Call::Free));
            }
            for &block in blocks.chunks(3).flat_map(|pair| &pair[freed.min(pair.len())..]) {
                let before = with_slab(&allocator, block, |slab, slot| {
                    let before = slot.number().checked_sub(1)?;
                    let quiet = slab.states.is_quarantined(SlotIndex::new(before));
                    let kind = match slab.state(SlotIndex::new(before)) {
                        _ if quiet => "quarantined",
                        SlotState::Fresh => "fresh",
                        SlotState::Live => "live",
                        _ => "free",
                    };
                    let at_page = slab.slot_address(slot).is_multiple_of(4096);
                    Some((kind, at_page))
                });
                let Some(before) = before else { continue };
                *seen.entry(before).or_insert(0) += 1;
                let byte = *place(block - 1);
                for value in [1, 0x5A, 0x80, 0xFF] {
                    *place(block - 1) = byte ^ value;
                    // Zero before a live block is the state of a free slot. In quarantine a slot
                    // may have its canary for a moment.
                    if before.0 == "fresh" {
                        assert!(!allocator.verifier().verify(heap), "{size} {before:?}");
                        let reports = fake.take_reports().concat();
                        assert!(
                            reports.contains("heap underflow: verify(")
                                || reports.contains("wild write: verify("),
                            "{size} {before:?}: {reports}"
                        );
                    }
                }
                *place(block - 1) = if byte == 0x5A { 0x33 } else { byte ^ 0x5A };
                allocator.free(heap, block, Call::Free);
                let reports = fake.take_reports().concat();
                let named = format!("heap underflow: free({block:#x}): the byte before this");
                let in_canary = before.0 == "quarantined" && reports.is_empty();
                assert!(
                    reports.contains(&named) || reports.contains("wild write: free(") || in_canary,
                    "{size} {before:?}: {reports:?}"
                );
                *place(block - 1) = byte;
            }
            fake.take_reports();
        }
    }
    for wanted in [("fresh", true), ("fresh", false), ("live", false), ("live", true)] {
        assert!(seen.contains_key(&wanted), "{seen:?}");
    }
}

/// No entropy is an error.
#[test]
fn without_random_numbers_there_is_no_allocator() {
    let fake = Fake::new(toft_core::os::fake::Machine::LARGE);
    fake.set_fault(Some(Fault::from(0).only(Request::Random)));
    assert!(Allocator::new(fake.clone(), options(), false).is_err());
}

/// The bits of zero-size blocks cannot be mapped, because another thread was stopped while it maps
/// them. Requests for no bytes are served all the same, and use the bits once they are there.
#[test]
fn requests_for_no_bytes_do_not_depend_on_another_thread() {
    let (fake, allocator, heap) = one_heap(options());
    fake.set_fault(Some(Fault::at(0).only(Request::Map).with(Error::Occupied)));
    let first = take(&allocator, heap, 0);
    fake.set_fault(None);
    let second = take(&allocator, heap, 0);
    for block in [first, second] {
        allocator.free(heap, block, Call::Free);
        silent(&fake);
        allocator.free(heap, block, Call::Free);
        assert!(report(&fake).contains("double free"));
    }
    allocator.check().unwrap();
}
