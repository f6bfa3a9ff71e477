//! The idleness of a run of pages: the result of the last scan, and the action of the next one.
//!
//! ```text
//!          first scan, or something       nothing has happened since:
//!          was allocated or freed         pages that were not written to go out
//!   Unseen ----------------------> Seen ---------------------------------> Out
//!                                   ^  ^                                    |
//!                                   |  '---- 1, 3, 7 ... scans later -------'
//!                                   '------- something happened      much of it was read back
//! ```
//!
//! A process cannot see that a page was read. Pages that the program only reads are therefore sent
//! out once. The next scan sees that they are back, and leaves the run alone for some scans: for
//! more scans each time.

/// The largest `level`: a run is left alone for at most 2^7 - 1 scans.
const LEVEL_MOST: u8 = 7;
/// A run is left alone if more than one in this number of the pages sent out is back.
const RETURNED: usize = 8;

/// The most pages that are counted: 64 GiB of 4 KiB pages.
const PAGES_MOST: usize = (1 << 24) - 1;

/// The data about a run of pages. It fits in 64 bits, and zero is a run that was never scanned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idleness {
    /// The number of pages that stayed in memory when some were sent out last. At most
    /// `PAGES_MOST`.
    stayed: u32,
    /// The number of pages that were sent out then. At most `PAGES_MOST`.
    went: u32,
    /// The number of scans for which the run is still left alone.
    rest: u8,
    /// The run was last left alone for 2^`level` - 1 scans.
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

impl Idleness {
    /// Returns the value that `bits` has encoded.
    pub fn from_bits(bits: u64) -> Idleness {
        let field = |shift: u32, bits_wide: u32| (bits >> shift & ((1 << bits_wide) - 1)) as u32;
        let stage = match field(58, 2) {
            0 => Stage::Unseen,
            1 => Stage::Seen,
            _ => Stage::Out,
        };
        let (rest, level) = (field(48, 7) as u8, field(55, 3) as u8);
        Idleness { stayed: field(0, 24), went: field(24, 24), rest, level, stage }
    }

    /// Encodes the value as a number, for an atomic.
    pub fn bits(self) -> u64 {
        let (rest, level) = (u64::from(self.rest), u64::from(self.level));
        let pages = u64::from(self.stayed) | u64::from(self.went) << 24;
        pages | rest << 48 | level << 55 | (self.stage as u64) << 58
    }

    /// Returns the value that `slab_bits` has encoded.
    pub fn from_slab_bits(bits: u32) -> Idleness {
        let bits = u64::from(bits);
        Idleness::from_bits(bits & 0xFF | (bits >> 8 & 0xFF) << 24 | bits >> 16 << 48)
    }

    /// Encodes the value as a number of half the size, for a slab, which has at most 255 pages.
    pub fn slab_bits(self) -> u32 {
        debug_assert!(self.stayed.max(self.went) <= 0xFF);
        let bits = self.bits();
        (bits & 0xFF | (bits >> 24 & 0xFF) << 8 | bits >> 48 << 16) as u32
    }

    /// Notes a scan with `resident` pages in memory. `quiet` is true if nothing was allocated or
    /// freed there since the last scan. Returns true if the pages that were not written since then
    /// are to be sent out. The caller then reports the result by `count_paged_out`.
    pub fn note_scan(&mut self, quiet: bool, resident: usize) -> bool {
        if !quiet || self.stage == Stage::Unseen {
            *self = Idleness { stage: Stage::Seen, level: self.level, ..Idleness::default() };
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

    /// Notes the result of sending pages out: `went` pages went out, and `stayed` pages stayed in
    /// memory.
    pub fn count_paged_out(&mut self, went: usize, stayed: usize) {
        self.stayed = stayed.min(PAGES_MOST) as u32;
        self.went = went.min(PAGES_MOST) as u32;
        self.stage = Stage::Out;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of scans until one returns true, with `resident` pages in memory.
    fn until_out(idleness: &mut Idleness, resident: usize) -> usize {
        (1..1000).find(|_| idleness.note_scan(true, resident)).unwrap()
    }

    #[test]
    fn what_is_quiet_goes_at_the_second_scan() {
        let mut idleness = Idleness::default();
        assert!(!idleness.note_scan(true, 16));
        assert!(idleness.note_scan(true, 16));
    }

    #[test]
    fn what_is_used_never_goes() {
        let mut idleness = Idleness::default();
        for _ in 0..20 {
            assert!(!idleness.note_scan(false, 16));
        }
        assert!(idleness.note_scan(true, 16), "nothing has happened since");
    }

    #[test]
    fn what_comes_back_is_let_be_for_longer_each_time() {
        let mut idleness = Idleness::default();
        assert_eq!(until_out(&mut idleness, 16), 2);
        let mut scans = Vec::new();
        for _ in 0..9 {
            idleness.count_paged_out(16, 0);
            scans.push(until_out(&mut idleness, 16));
        }
        assert_eq!(scans, [2, 4, 8, 16, 32, 64, 128, 128, 128]);
    }

    /// Pages that stayed in memory, because they were written to before the last scan, do not count
    /// as pages that came back.
    #[test]
    fn what_stayed_has_not_come_back() {
        let mut idleness = Idleness::default();
        until_out(&mut idleness, 16);
        idleness.count_paged_out(10, 6);
        assert!(idleness.note_scan(true, 7), "six that stayed, and one that was read");
        idleness.count_paged_out(1, 6);
        assert!(!idleness.note_scan(true, 8));
    }

    #[test]
    fn bits_keep_everything() {
        let all = Idleness { stayed: 77, went: 0xFF_FFFF, rest: 126, level: 7, stage: Stage::Out };
        assert_eq!(Idleness::from_bits(all.bits()), all);
        let slab = Idleness { stayed: 0xFF, went: 128, ..all };
        assert_eq!(Idleness::from_slab_bits(slab.slab_bits()), slab);
        assert_eq!(Idleness::from_bits(0), Idleness::default());
        assert_eq!(Idleness::from_slab_bits(0), Idleness::default());
        assert!((1..=LEVEL_MOST).all(|level| (1u32 << level) - 2 < 128));
    }
}
