//! The caches of up to 64 processors, one for each thread, without a limit to what they hold.
//!
//! A line is in several caches as long as all of them only read it, and in one alone after a write.
//! A line moves when an access has to wait for another cache:
//!
//! | access | the line moves if |
//! |---|---|
//! | read or write | only another cache has it, which wrote to it |
//! | read or write | this cache had it, until another wrote to it |
//! | write | other caches have it, too, and must drop it |
//!
//! A line that this cache never had and that has not been written to comes from memory. Valgrind
//! prints an atomic instruction as a load and a store. Both move a line that another cache has
//! written to: the load shares it, and the store takes it.

use std::collections::{BTreeSet, HashMap};

/// Bytes of a line, as a power of two.
const LINE: u32 = 6;

/// What is counted.
#[derive(Debug, Default)]
pub struct Caches {
    lines: HashMap<u64, Line>,
    /// Accesses, one for each line that they touch.
    pub accesses: u64,
    pub moves: u64,
    /// The moves that each instruction causes, by its address.
    pub by: HashMap<u64, Moved>,
}

/// What an instruction moves.
#[derive(Debug, Default)]
pub struct Moved {
    pub moves: u64,
    /// The lines that it moves, by number.
    pub lines: BTreeSet<u64>,
}

/// Where a line is. Each set has a bit for each cache.
#[derive(Debug, Default)]
struct Line {
    /// The caches that have it.
    holders: u64,
    /// The caches that have ever had it.
    past: u64,
    /// True if its one holder has written to it.
    written: bool,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub address: u64,
    pub size: u64,
    pub write: bool,
}

impl Caches {
    /// An access by a processor, of an instruction. It changes the caches, and is counted if
    /// `counts` is true.
    pub fn access(&mut self, processor: usize, instruction: u64, access: Access, counts: bool) {
        let last = access.address.saturating_add(access.size.max(1) - 1) >> LINE;
        for number in access.address >> LINE..=last {
            let line = self.lines.entry(number).or_default();
            let moves = line.access(1 << processor, access.write);
            if counts {
                self.accesses += 1;
                if moves {
                    self.moves += 1;
                    let moved = self.by.entry(instruction).or_default();
                    moved.moves += 1;
                    moved.lines.insert(number);
                }
            }
        }
    }
}

impl Line {
    /// Returns true if the line moves.
    fn access(&mut self, cache: u64, write: bool) -> bool {
        let has = self.holders & cache != 0;
        let others = self.holders & !cache != 0;
        let lost = self.past & cache != 0;
        let moves = !has && (lost || self.written) || write && others;
        self.past |= cache;
        if write {
            self.holders = cache;
        } else {
            self.holders |= cache;
        }
        self.written = write || (self.written && has);
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moves of accesses to one line: the number of a processor, and `w` for a write.
    fn moves(accesses: &str) -> String {
        let mut line = Line::default();
        let one = |word: &str| {
            let (processor, write) =
                word.strip_suffix('w').map_or((word, false), |processor| (processor, true));
            let moves = line.access(1 << processor.parse::<u32>().unwrap(), write);
            if moves { '1' } else { '0' }
        };
        accesses.split(' ').map(one).collect()
    }

    #[test]
    fn a_line_of_one_processor_never_moves() {
        assert_eq!(moves("3 3w 3 3w 3w"), "00000");
    }

    #[test]
    fn a_line_that_all_only_read_never_moves() {
        assert_eq!(moves("0 1 2 1 63 0"), "000000");
    }

    #[test]
    fn a_line_that_was_written_comes_from_its_writer_once() {
        assert_eq!(moves("0w 1 1 0 2"), "01000");
        assert_eq!(moves("0w 1w 0w 1w"), "0111");
    }

    #[test]
    fn a_write_takes_the_line_from_all_readers() {
        assert_eq!(moves("0 1 2w 0 1"), "00111");
        // The writer reads it alone at last.
        assert_eq!(moves("0 1 0w 0w"), "0010");
    }

    #[test]
    fn a_line_that_was_dropped_comes_back_from_another_cache() {
        // 1 reads a line that it has never had and that two others share: from memory.
        assert_eq!(moves("0w 2 1"), "010");
        // It had the line until 0 wrote to it, and comes after 2 has read it.
        assert_eq!(moves("1 0w 2 1"), "0111");
    }

    #[test]
    fn an_access_over_the_end_of_a_line_is_two() {
        let mut caches = Caches::default();
        let access = |address, size, write| Access { address, size, write };
        caches.access(0, 0x10, access(0x107c, 8, true), false);
        assert_eq!((caches.accesses, caches.moves), (0, 0));
        caches.access(1, 0x20, access(0x107c, 8, false), true);
        caches.access(1, 0x30, access(0x1040, 0, true), true);
        assert_eq!((caches.accesses, caches.moves), (3, 3));
        assert_eq!((caches.by[&0x20].moves, caches.by[&0x20].lines.len()), (2, 2));
        assert_eq!((caches.by[&0x30].moves, caches.by[&0x30].lines.len()), (1, 1));
        assert!(!caches.by.contains_key(&0x10));
    }
}
