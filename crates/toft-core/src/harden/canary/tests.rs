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

/// A zero that is written over any byte that is compared is found: the first byte after the block,
/// and in particular that byte.
#[test]
fn no_byte_is_zero() {
    for size in 0..SLOT {
        for word in [0, 1, u64::MAX, 0x0011_2233_4455_6677, 0xFF00_0000_FF00_0000, 1 << 32 | 1] {
            let (mut slot, canary) = slot(size, word);
            let compared = (size..SLOT).filter(|&at| at < size + 8 || at >= SLOT - 8);
            for at in compared {
                let byte = core::mem::replace(&mut slot.0[at], 0);
                assert_ne!(byte, 0, "byte {at} of {size}");
                assert_eq!(damage(&mut slot, canary, size), Some(at - size));
                slot.0[at] = byte;
            }
            assert_eq!(slot.0[SLOT - 1], canary.last());
        }
    }
}

/// Both ways to replace zero bytes agree.
#[test]
fn zero_bytes_are_replaced_alike_with_and_without_vectors() {
    let mut word = 1u64;
    for round in 0..20_000u32 {
        word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // Some of the bytes become zero, and some are 1 or 0x80 or larger.
        let kept =
            (0..8).filter(|at| round >> at & 1 != 0).fold(0, |all, at| all | 0xFF << (8 * at));
        for word in [word & kept, word & kept & (ONES * 0x81), word | !kept] {
            let wanted = word.to_le_bytes().map(|byte| byte.max(1));
            assert_eq!(without_zeros(word).to_le_bytes(), wanted, "{word:#x}");
            assert_eq!(without_zeros_by_words(word).to_le_bytes(), wanted, "{word:#x}");
        }
    }
}

/// Promise 7: each byte of a slack has 8 random bits, up to 8 bytes.
#[test]
fn the_number_of_random_bits_grows_with_the_slack() {
    let random_bits = |slack: usize| {
        // The upper half of the second word is the complement, and so is each byte of the canary.
        let slots = [0x0123_4567_89AB_CDEF_u64, 0xFEDC_BA98_89AB_CDEF].map(|word| {
            let (slot, _) = slot(SLOT - slack, word);
            slot.0
        });
        let differ = (SLOT - slack..SLOT).map(|n| (slots[0][n] ^ slots[1][n]).count_ones());
        differ.sum::<u32>() as usize
    };
    for slack in 1..8 {
        assert_eq!(random_bits(slack), 8 * slack, "slack {slack}");
    }
    for slack in 8..SLOT {
        assert!(random_bits(slack) >= 64, "slack {slack}");
    }
}

/// The branchless check and the exact check agree for every slack and every changed byte.
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
                let whole = unsafe { Canary::is_whole(word, end, SLOT - size) };
                assert_eq!(whole, wrong.is_none(), "byte {place} of {size}");
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
        let (mut slot, _) = slot(size, u64::MAX);
        // SAFETY: (1) our own memory.
        unsafe { Canary::disarm(slot.0.as_mut_ptr().expose_provenance(), size, SLOT) };
        assert!(slot.0[..size].iter().all(|&byte| byte == 0xAA), "{size}");
        assert!(slot.0[size..].iter().all(|&byte| byte == 0), "{size}");
    }
}

#[test]
fn the_thread_that_frees_the_next_slot_finds_a_changed_last_byte() {
    let word = 0x1122_3344_5566_7788;
    let (mut slot, _) = slot(SLOT - 1, word);
    let start = slot.0.as_mut_ptr();
    let end = start.expose_provenance() + SLOT;
    // A zero byte fits, because the slot may be free.
    for (byte, fits) in [(0x12, false), (0, true), (0x11, true), (0x91, false)] {
        // SAFETY: (1) our own memory.
        unsafe {
            start.add(SLOT - 1).write(byte);
            assert_eq!(Canary::last_byte(end), byte);
            assert_eq!(Canary::last_byte_differs(word, 0, end) == 0, fits);
            // In a free slot nothing but a zero fits.
            assert_eq!(Canary::last_byte_differs(word, 1, end) == 0, byte == 0);
            assert_eq!(Canary::last_byte_differs(word, 0x20, end) == 0, byte == 0);
        }
    }
}
