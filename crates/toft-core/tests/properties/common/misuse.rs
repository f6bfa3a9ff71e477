//! Bad calls: each is reported exactly once, in the right words, and changes nothing.

use super::ops::{BadCall, BadPointer};
use super::shadow::Tier;
use super::world::{World, code_address};
use toft_core::os::fake::PageState;
use toft_core::path::Resized;
use toft_core::report::Call;
use toft_core::slab::SLOTS_MAX;
use toft_core::stats::snapshot;

/// A bad pointer and what must be said about it.
struct Bad {
    address: usize,
    /// The line's beginning, up to the name of the call.
    head: &'static str,
    /// What follows the address.
    words: String,
}

fn words_of(tier: Tier) -> &'static str {
    match tier {
        Tier::Small => "small slab, ",
        Tier::Medium => "medium slab, ",
        Tier::Large => "large block, ",
        Tier::ZeroSize => "of no bytes",
    }
}

fn find(world: &World, pointer: BadPointer, which: usize, offset: usize) -> Option<Bad> {
    match pointer {
        BadPointer::Freed => {
            let freed = world.shadow.pick_freed(which)?;
            let usable = freed.usable;
            // In the secure build a request that was refused in the end may have moved a free
            // one.
            if freed.tier == Tier::Large {
                world.allocator.large().units().block_at(freed.address)?;
            }
            let words =
                format!("this {usable}-byte block is already free ({}", words_of(freed.tier));
            Some(Bad { address: freed.address, head: "double free", words })
        }
        BadPointer::Inside => {
            let block = world.shadow.pick(which)?;
            Some(inside(block.address, block.usable, block.room, offset))
        }
        BadPointer::InsideFreed => {
            let freed = world.shadow.pick_freed(which)?;
            if freed.tier == Tier::Large {
                world.allocator.large().units().block_at(freed.address)?;
            }
            Some(inside(freed.address, freed.usable, freed.room, offset))
        }
        BadPointer::NeverHandedOut => {
            let block = world.shadow.pick(which)?;
            if matches!(block.tier, Tier::Large | Tier::ZeroSize) {
                return None;
            }
            let (slab, end) = block.home;
            let slots = ((end - slab) / block.room).min(SLOTS_MAX);
            let number = offset % slots;
            let address = slab + number * block.room;
            if world.shadow.was_handed_out(address) {
                return None;
            }
            let words = format!(
                "never handed out ({}{}-byte slot {number}, ",
                words_of(block.tier),
                block.room
            );
            Some(Bad { address, head: "invalid free", words })
        }
        BadPointer::Foreign => {
            let space = toft_core::os::Memory::address_space(&world.fake);
            let local = &raw const offset as usize;
            let choices = [
                1,
                8,
                4096,
                local,
                space.start,
                space.end - 16,
                space.end,
                1 << 63,
                usize::MAX - 15,
            ];
            let address = choices[which % choices.len()];
            // The first and the last addresses may be blocks' too.
            if !matches!(world.fake.page(address), PageState::Free | PageState::Foreign) {
                return None;
            }
            let words = String::from("not a block of this allocator\n");
            Some(Bad { address, head: "invalid free", words })
        }
    }
}

fn inside(begin: usize, usable: usize, room: usize, offset: usize) -> Bad {
    let offset = 1 + offset % (room - 1);
    let words = format!("{offset} bytes inside the {usable}-byte block at {begin:#x} (");
    Bad { address: begin + offset, head: "invalid free", words }
}

/// Makes one bad call.
pub fn carry_out(
    world: &mut World,
    who: usize,
    call: BadCall,
    pointer: BadPointer,
    which: usize,
    offset: usize,
) {
    let heap = world.heap(who);
    // The call above may have had to make a heap.
    assert!(world.fake.take_reports().is_empty());
    let Some(bad) = find(world, pointer, which, offset) else { return };
    let before = snapshot(&world.allocator);
    let allocator = &world.allocator;
    let name = match call {
        BadCall::Free => {
            allocator.free(heap, bad.address, Call::Free);
            "free"
        }
        BadCall::Delete => {
            allocator.free(heap, bad.address, Call::Delete);
            "operator delete"
        }
        BadCall::FreeSized => {
            allocator.free(heap, bad.address, Call::FreeSized);
            "free_sized"
        }
        BadCall::Realloc => {
            let answer = allocator.resize(heap, bad.address, 1 + offset, code_address(0));
            assert_eq!(answer, Resized::Misused);
            "realloc"
        }
        BadCall::UsableSize => {
            assert_eq!(allocator.requests().usable_size(bad.address, Call::UsableSize), None);
            "malloc_usable_size"
        }
    };
    let reports = world.fake.take_reports();
    let expected = format!("toft: {}: {name}({:#x}): {}", bad.head, bad.address, bad.words);
    assert!(
        reports.len() == 1 && reports[0].starts_with(&expected) && reports[0].ends_with('\n'),
        "expected {expected:?}, got {reports:?}"
    );
    let after = snapshot(allocator);
    assert_eq!(after.misuses, before.misuses + 1);
    let after = toft_core::stats::Snapshot { misuses: before.misuses, ..after };
    assert_eq!(after, before, "a bad call has changed something");
}
