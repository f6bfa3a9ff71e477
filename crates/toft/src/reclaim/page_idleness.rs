//! How warm a run of pages is, as far as can be told from outside: what was remembered at the last
//! look, and what is to be done at this one.
//!
//! ```text
//!          first look, or something       nothing has happened since:
//!          was allocated or freed         pages that nobody wrote to go out
//!   Unseen ----------------------> Seen ---------------------------------> Out
//!                                   ^  ^                                    |
//!                                   |  '---- 1, 3, 7 ... looks later -------'
//!                                   '------- something happened      much of it was read back
//! ```
//!
//! Reading leaves no trace that a process may see, so what is only read goes out once. That it
//! comes back is seen, and then it is let be for a while, and for longer each time.

/// Most looks for which something is let be, as a power of two, less one.
const LEVEL_MOST: u8 = 7;
/// The share of what went out that may come back without being let be, as a divisor.
const RETURNED: usize = 8;

/// Most pages that are told apart: 64 GiB.
const PAGES_MOST: usize = (1 << 24) - 1;

/// What is remembered of a run of pages; fits 64 bits, and zero is a run that was never looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warmth {
    /// Pages that stayed in memory when some went out last, and those that went. At most
    /// `PAGES_MOST`.
    stayed: u32,
    went: u32,
    /// Looks for which it is let be.
    rest: u8,
    /// The power of two of the looks for which it was let be last.
    level: u8,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Unseen = 0,
    Seen = 1,
    Out = 2,
}

impl Warmth {
    /// As `bits` has written it.
    pub fn from_bits(bits: u64) -> Warmth {
        let field = |shift: u32, bits_wide: u32| (bits >> shift & ((1 << bits_wide) - 1)) as u32;
        let stage = match field(58, 2) {
            0 => Stage::Unseen,
            1 => Stage::Seen,
            _ => Stage::Out,
        };
        let (rest, level) = (field(48, 7) as u8, field(55, 3) as u8);
        Warmth { stayed: field(0, 24), went: field(24, 24), rest, level, stage }
    }

    /// As a number, to be kept in an atomic.
    pub fn bits(self) -> u64 {
        let (rest, level) = (u64::from(self.rest), u64::from(self.level));
        let pages = u64::from(self.stayed) | u64::from(self.went) << 24;
        pages | rest << 48 | level << 55 | (self.stage as u64) << 58
    }

    /// As `slab_bits` has written it.
    pub fn from_slab_bits(bits: u32) -> Warmth {
        let bits = u64::from(bits);
        Warmth::from_bits(bits & 0xFF | (bits >> 8 & 0xFF) << 24 | bits >> 16 << 48)
    }

    /// As a number of half the size, for a slab, which has at most 255 pages.
    pub fn slab_bits(self) -> u32 {
        debug_assert!(self.stayed.max(self.went) <= 0xFF);
        let bits = self.bits();
        (bits & 0xFF | (bits >> 24 & 0xFF) << 8 | bits >> 48 << 16) as u32
    }

    /// A scan with `resident` pages in memory. `quiet` is true if nothing was allocated or freed
    /// there since the last one. Returns true if the pages that were not written since are to go
    /// out; then `went_out` reports the result.
    pub fn look(&mut self, quiet: bool, resident: usize) -> bool {
        if !quiet || self.stage == Stage::Unseen {
            *self = Warmth { stage: Stage::Seen, level: self.level, ..Warmth::default() };
            return false;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        let returned = resident.saturating_sub(self.stayed as usize);
        if self.stage == Stage::Out && returned > self.went as usize / RETURNED {
            self.level = (self.level + 1).min(LEVEL_MOST);
            self.rest = (1 << self.level) - 2;
            self.stage = Stage::Seen;
            return false;
        }
        true
    }

    /// What could go out has gone: `went` pages, and `stayed` have stayed.
    pub fn went_out(&mut self, went: usize, stayed: usize) {
        self.stayed = stayed.min(PAGES_MOST) as u32;
        self.went = went.min(PAGES_MOST) as u32;
        self.stage = Stage::Out;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of scans until one returns true, with `resident` pages in memory.
    fn until_out(warmth: &mut Warmth, resident: usize) -> usize {
        (1..1000).find(|_| warmth.look(true, resident)).unwrap()
    }

    #[test]
    fn what_is_quiet_goes_at_the_second_look() {
        let mut warmth = Warmth::default();
        assert!(!warmth.look(true, 16));
        assert!(warmth.look(true, 16));
    }

    #[test]
    fn what_is_used_never_goes() {
        let mut warmth = Warmth::default();
        for _ in 0..20 {
            assert!(!warmth.look(false, 16));
        }
        assert!(warmth.look(true, 16), "nothing has happened since");
    }

    #[test]
    fn what_comes_back_is_let_be_for_longer_each_time() {
        let mut warmth = Warmth::default();
        assert_eq!(until_out(&mut warmth, 16), 2);
        let mut looks = Vec::new();
        for _ in 0..9 {
            warmth.went_out(16, 0);
            looks.push(until_out(&mut warmth, 16));
        }
        assert_eq!(looks, [2, 4, 8, 16, 32, 64, 128, 128, 128]);
    }

    /// Pages that were written to at the last look, and not since, are no sign that something came
    /// back.
    #[test]
    fn what_stayed_has_not_come_back() {
        let mut warmth = Warmth::default();
        until_out(&mut warmth, 16);
        warmth.went_out(10, 6);
        assert!(warmth.look(true, 7), "six that stayed, and one that was read");
        warmth.went_out(1, 6);
        assert!(!warmth.look(true, 8));
    }

    #[test]
    fn bits_keep_everything() {
        let all = Warmth { stayed: 77, went: 0xFF_FFFF, rest: 126, level: 7, stage: Stage::Out };
        assert_eq!(Warmth::from_bits(all.bits()), all);
        let slab = Warmth { stayed: 0xFF, went: 128, ..all };
        assert_eq!(Warmth::from_slab_bits(slab.slab_bits()), slab);
        assert_eq!(Warmth::from_bits(0), Warmth::default());
        assert_eq!(Warmth::from_slab_bits(0), Warmth::default());
        assert!((1..=LEVEL_MOST).all(|level| (1u32 << level) - 2 < 128));
    }
}
