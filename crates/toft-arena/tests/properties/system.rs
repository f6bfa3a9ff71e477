//! Pages of the system: that what is freed leaves the process, and what happens where the system
//! refuses it.

use crate::common::contract::layout;
use crate::common::words::is_full_of;
use toft_arena::source::{Pages, Reserved, SystemPages};
use toft_arena::{Anywhere, Arena, Checked};

const SIZE: usize = 100 << 20;

/// How much of the memory behind an address is there. Of these addresses only: other tests run at
/// the same time.
fn resident(start: *mut u8, size: usize) -> usize {
    let start = start.map_addr(|address| address.next_multiple_of(4096));
    let mut pages = vec![0_u8; size / 4096 - 1];
    // SAFETY: asks about pages that are mapped, and has room for the answer.
    let done = unsafe { libc::mincore(start.cast(), size - 4096, pages.as_mut_ptr()) };
    assert_eq!(done, 0);
    pages.iter().filter(|&&page| page & 1 != 0).count() * 4096
}

#[test]
fn pages_of_the_system_are_not_resident_after_they_have_gone_back() {
    let mut arena = Arena::<Checked, _>::new(Anywhere, Reserved::new(SystemPages, 1 << 28));
    let block = arena.allocate(layout(SIZE, 8)).unwrap();
    assert_eq!(resident(block.as_ptr(), SIZE), 0);
    // SAFETY: a live block.
    unsafe { block.as_ptr().write_bytes(1, SIZE) };
    assert_eq!(resident(block.as_ptr(), SIZE), SIZE - 4096);
    // SAFETY: a live block.
    unsafe { arena.deallocate(block) };
    // An eighth of what was committed is kept.
    let kept = resident(block.as_ptr(), SIZE);
    assert!(kept < SIZE / 8 + (1 << 20), "{kept}");
    let again = arena.allocate_zeroed(layout(50 << 20, 8)).unwrap();
    // SAFETY: a live block.
    assert!(unsafe { is_full_of(0, again, 50 << 20) });
}

/// Makes the system refuse to take these pages back, until they are unlocked or unmapped.
fn lock(start: *mut u8, size: usize) {
    // SAFETY: the pages are mapped; nothing is written.
    let done = unsafe { libc::mlock(start.cast(), size) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn what_the_system_refuses_to_take_is_said_to_have_kept_its_content() {
    const PAGE: usize = SystemPages::PAGE;
    for locked in [false, true] {
        let mut pages = SystemPages;
        let start = pages.reserve(4 * PAGE).unwrap();
        // SAFETY: reserved here, committed before it is used, and released once.
        unsafe {
            assert!(pages.commit(start, 4 * PAGE));
            start.write_bytes(7, 4 * PAGE);
            if locked {
                lock(start.add(2 * PAGE), PAGE);
            }
            assert_eq!(pages.decommit(start, 4 * PAGE), !locked);
            // The addresses stay usable after another commit, whatever they hold.
            assert!(pages.commit(start, 4 * PAGE));
            assert_eq!(start.add(2 * PAGE).read(), if locked { 7 } else { 0 });
            assert_eq!(start.read(), 0, "what could be taken was not");
            start.write_bytes(8, 4 * PAGE);
            pages.release(start, 4 * PAGE);
        }
    }
}

/// The arena fills such memory itself when zeros are asked for.
#[test]
fn zeros_are_zeros_where_the_system_has_refused() {
    const LARGE: usize = 16 << 20;
    let mut arena = Arena::<Checked, _>::new(Anywhere, Reserved::new(SystemPages, 1 << 28));
    let block = arena.allocate(layout(LARGE, 4096)).unwrap();
    // SAFETY: a live block; what is locked is in the part that is given back.
    unsafe {
        block.as_ptr().write_bytes(0xFF, LARGE);
        lock(block.as_ptr().add(LARGE / 2), SystemPages::PAGE);
        let before = arena.source().committed();
        arena.deallocate(block);
        assert!(arena.source().committed() < before / 2, "nothing was given back");
    }
    let again = arena.allocate_zeroed(layout(LARGE, 4096)).unwrap();
    assert_eq!(again, block);
    // SAFETY: a live block.
    assert!(unsafe { is_full_of(0, again, LARGE) });
    arena.check().unwrap();
}
