use super::*;

#[repr(align(16))]
struct Slot([u8; 96]);

const SLOT: usize = 96;

fn slot(size: usize, word: u64) -> (Slot, Canary) {
    let mut slot = Slot([0; SLOT]);
    slot.0[..size].fill(0xAA);
    let canary = Canary::new(word);
    // SAFETY: (1) our own memory.
    unsafe { canary.arm(slot.0.as_mut_ptr().expose_provenance(), size, SLOT) };
    (slot, canary)
}

fn damage(slot: &mut Slot, canary: Canary, size: usize) -> Option<usize> {
    // SAFETY: (1) our own memory.
    unsafe { canary.damage(slot.0.as_mut_ptr().expose_provenance(), size, SLOT) }
}

#[test]
fn a_change_of_any_byte_of_a_short_slack_is_found() {
    for size in 80..SLOT {
        let (mut slot, canary) = slot(size, 0x1122_3344_5566_7788);
        assert!(slot.0[..size].iter().all(|&byte| byte == 0xAA), "{size}");
        assert_eq!(damage(&mut slot, canary, size), None);
        for place in size..SLOT {
            slot.0[place] ^= 0x40;
            assert_eq!(damage(&mut slot, canary, size), Some(place - size), "of {size}");
            slot.0[place] ^= 0x40;
        }
    }
}

#[test]
fn a_change_at_either_end_of_a_long_slack_is_found() {
    let (mut slot, canary) = slot(10, 0x1122_3344_5566_7788);
    for place in (10..18).chain(SLOT - 8..SLOT) {
        slot.0[place] ^= 1;
        assert_eq!(damage(&mut slot, canary, 10), Some(place - 10));
        slot.0[place] ^= 1;
    }
    // A change between both ends is not found.
    slot.0[40] = 1;
    assert_eq!(damage(&mut slot, canary, 10), None);
}

#[test]
fn the_first_byte_is_zero_and_the_last_is_not() {
    for size in 0..SLOT {
        for word in [0, 1, u64::MAX, 0x0011_2233_4455_6677, 0xFF00_0000_0000_0000] {
            let (slot, canary) = slot(size, word);
            assert!(size == SLOT - 1 || slot.0[size] == 0, "{size}");
            assert_ne!(slot.0[SLOT - 1], 0, "{size}");
            let end = slot.0.as_ptr().expose_provenance() + SLOT;
            // SAFETY: (1) our own memory.
            assert!(unsafe { canary.fits_last_byte(end) });
        }
    }
}

/// Promise 7: a slack of one byte has 8 random bits, and one of 8 bytes or more has 56 at least.
#[test]
fn the_number_of_random_bits_grows_with_the_slack() {
    let random_bits = |slack: usize| {
        let slots = [0x0123_4567_89AB_CDEF_u64, !0x0123_4567_89AB_CDEF].map(|word| {
            let (slot, _) = slot(SLOT - slack, word);
            slot.0
        });
        let differ = (SLOT - slack..SLOT).map(|n| (slots[0][n] ^ slots[1][n]).count_ones());
        differ.sum::<u32>() as usize
    };
    for slack in 1..8 {
        assert_eq!(random_bits(slack), 8 * (slack - 1).max(1), "slack {slack}");
    }
    assert_eq!(random_bits(8), 56);
    for slack in 9..SLOT {
        assert!(random_bits(slack) >= 56, "slack {slack}");
    }
}

/// The branchless check and the exact check agree for every slack and every changed byte. The
/// branchless check rejects a long slack with a word whose last byte is zero.
#[test]
fn branchless_and_exact_checks_agree() {
    for size in 0..SLOT {
        for word in [0, 0x1122_3344_5566_7788, u64::MAX] {
            let mut quick = Slot([0; SLOT]);
            let end = quick.0.as_mut_ptr().expose_provenance() + SLOT;
            let canary = Canary::new(word);
            // SAFETY: (1) our own memory, zero.
            unsafe { Canary::arm_zeroed(word, end, SLOT - size) };
            let (mut exact, _) = slot(size, word);
            exact.0[..size].fill(0);
            assert_eq!(quick.0, exact.0, "{size}");
            for place in 0..SLOT {
                quick.0[place] ^= 0x10;
                let wrong = damage(&mut quick, canary, size);
                // SAFETY: (1) our own memory.
                let whole = |word| unsafe { Canary::is_surely_whole(word, end, SLOT - size) };
                assert_eq!(whole(canary.word), wrong.is_none(), "byte {place} of {size}");
                let rejected = size < SLOT - 16 && word >> LAST == 0;
                assert_eq!(whole(word), wrong.is_none() && !rejected, "byte {place} of {size}");
                quick.0[place] ^= 0x10;
            }
        }
    }
}

/// The check that reads byte by byte agrees with the exact check for every slack and every changed
/// byte, and finds a canary that was overwritten by zeros.
#[test]
fn the_byte_by_byte_check_agrees() {
    for size in 0..SLOT {
        for word in [0, 0x1122_3344_5566_7788, u64::MAX] {
            let (mut slot, canary) = slot(size, word);
            for place in 0..SLOT {
                slot.0[place] ^= 0x10;
                let wrong = damage(&mut slot, canary, size);
                let read = |place| slot.0.get(size + place).copied();
                assert_eq!(canary.damage_read(SLOT - size, read), wrong, "byte {place} of {size}");
                assert_eq!(canary.damage_read(SLOT - size, |_| None), None);
                slot.0[place] ^= 0x10;
            }
            slot.0[size..].fill(0);
            let wrong = damage(&mut slot, canary, size);
            let read = |place| slot.0.get(size + place).copied();
            assert_eq!(canary.damage_read(SLOT - size, read), wrong, "zeros after {size}");
            assert!(wrong.is_some(), "zeros after {size}");
        }
    }
}

#[test]
fn disarming_zeros_the_slack_and_changes_no_other_byte() {
    for size in 0..SLOT {
        let (mut slot, canary) = slot(size, u64::MAX);
        // SAFETY: (1) our own memory.
        unsafe { canary.disarm(slot.0.as_mut_ptr().expose_provenance(), size, SLOT) };
        assert!(slot.0[..size].iter().all(|&byte| byte == 0xAA), "{size}");
        assert!(slot.0[size..].iter().all(|&byte| byte == 0), "{size}");
    }
}

#[test]
fn the_thread_that_frees_the_next_slot_finds_a_changed_last_byte() {
    let (mut slot, canary) = slot(SLOT - 1, 0x1122_3344_5566_7788);
    let start = slot.0.as_mut_ptr();
    // A zero byte fits, because the slot may be free.
    for (byte, fits) in [(0x12, false), (0, true), (0x11, true), (0x91, false)] {
        // SAFETY: (1) our own memory.
        unsafe {
            start.add(SLOT - 1).write(byte);
            assert_eq!(canary.fits_last_byte(start.expose_provenance() + SLOT), fits);
        }
    }
}
