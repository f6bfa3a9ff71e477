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
fn any_byte_of_a_short_slack_is_seen_and_named() {
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
fn both_ends_of_a_long_slack_are_seen() {
    let (mut slot, canary) = slot(10, 0x1122_3344_5566_7788);
    for place in (10..18).chain(SLOT - 8..SLOT) {
        slot.0[place] ^= 1;
        assert_eq!(damage(&mut slot, canary, 10), Some(place - 10));
        slot.0[place] ^= 1;
    }
    // What lies between absorbs.
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

/// Promise 7: 8 bits where there is one byte, 56 where there is room.
#[test]
fn as_many_bits_are_random_as_there_is_room_for() {
    let random = |slack: usize| {
        let slots = [0x0123_4567_89AB_CDEF_u64, !0x0123_4567_89AB_CDEF].map(|word| {
            let (slot, _) = slot(SLOT - slack, word);
            slot.0
        });
        let differ = (SLOT - slack..SLOT).map(|n| (slots[0][n] ^ slots[1][n]).count_ones());
        differ.sum::<u32>() as usize
    };
    for slack in 1..8 {
        assert_eq!(random(slack), 8 * (slack - 1).max(1), "slack {slack}");
    }
    assert_eq!(random(8), 56);
    for slack in 9..SLOT {
        assert!(random(slack) >= 56, "slack {slack}");
    }
}

/// What is quick says the same as what is exact, of every slack and every byte; of a long slack and
/// a word that no canary is, it says no.
#[test]
fn the_branchless_forms_agree_with_the_others() {
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
                // SAFETY: (1) as above.
                let whole = |word| unsafe { Canary::is_surely_whole(word, end, SLOT - size) };
                assert_eq!(whole(canary.word), wrong.is_none(), "byte {place} of {size}");
                let may = size < SLOT - 16 && word >> LAST == 0;
                assert_eq!(whole(word), wrong.is_none() && !may, "byte {place} of {size}");
                quick.0[place] ^= 0x10;
            }
        }
    }
}

/// What is read byte by byte says the same, of every slack and every byte, but where there is no
/// last byte.
#[test]
fn reading_from_outside_says_the_same() {
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
            slot.0[SLOT - 1] = 0;
            let read = |place| slot.0.get(size + place).copied();
            assert_eq!(canary.damage_read(SLOT - size, read), None, "{size} is not armed");
        }
    }
}

#[test]
fn disarming_leaves_zeros_behind_and_nothing_else_changed() {
    for size in 0..SLOT {
        let (mut slot, canary) = slot(size, u64::MAX);
        // SAFETY: (1) our own memory.
        unsafe { canary.disarm(slot.0.as_mut_ptr().expose_provenance(), size, SLOT) };
        assert!(slot.0[..size].iter().all(|&byte| byte == 0xAA), "{size}");
        assert!(slot.0[size..].iter().all(|&byte| byte == 0), "{size}");
    }
}

#[test]
fn a_written_last_byte_is_seen_from_behind() {
    let (mut slot, canary) = slot(SLOT - 1, 0x1122_3344_5566_7788);
    let start = slot.0.as_mut_ptr();
    // Zero: it may be free.
    for (byte, fits) in [(0x12, false), (0, true), (0x11, true), (0x91, false)] {
        // SAFETY: (1) our own memory.
        unsafe {
            start.add(SLOT - 1).write(byte);
            assert_eq!(canary.fits_last_byte(start.expose_provenance() + SLOT), fits);
        }
    }
}
