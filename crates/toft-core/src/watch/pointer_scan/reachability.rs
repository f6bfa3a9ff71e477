//! Finds the blocks that the program can still reach, by a conservative mark. Any word that could
//! be a pointer to a block, or into it, counts as one.
//!
//! The scan begins with all writable memory of the process that is not the allocator's. That is the
//! data of the program and its libraries, stacks, thread-local storage, and the program's own
//! mappings. Stacks of other threads are scanned as a whole, the calling thread's from the current
//! frame on. Registers are not scanned. Each block that is found is scanned in turn.
//!
//! The scan may find too much: a number that equals an address, or a word that a function left on
//! the stack. It finds too little only if the program keeps a pointer in another form.
//!
//! No thread is stopped, so the scan may miss what other threads do meanwhile. The kernel reads the
//! memory ([`peek`]), because other threads may unmap it.

use crate::allocator::{Allocator, Found};
use crate::large::BlockState;
use crate::os::Os;
use crate::os::process::{Mapping, close, open_pages, peek, read_lines_by, read_pages, scratch};
use crate::os::seccomp::Calls;
use crate::slab::{SlotIndex, SlotState};
use core::ffi::c_int;
use core::ops::Range;

/// The number of bytes read at a time.
pub(crate) const PIECE: usize = 4096;
pub(crate) const WORD: usize = size_of::<usize>();
/// The number of pages of which the kernel's list is read at a time.
const PAGES: usize = 64;
/// A page's entry in that list: set if the page is in memory, or in swap.
const IN_MEMORY: u64 = 1 << 63;
const IN_SWAP: u64 = 1 << 62;
/// The number of descriptor bytes for each word of marks. The descriptor of a large block has one
/// word, and that of a slab has one for each 32 slots.
const UNIT: usize = 64;

/// The marks for all blocks, and the blocks that are still to be scanned.
#[derive(Debug)]
pub(crate) struct Reach {
    /// The address of the marks for the descriptors from `first` to `end`. They are zero at first,
    /// and most are never touched.
    marks: usize,
    first: usize,
    end: usize,
    /// The address of a stack with the beginning and length of blocks. It has room for every block.
    pending: usize,
    room: usize,
    len: usize,
    /// The large block that was found last, because several words often point into one.
    last: (usize, usize),
}

impl Reach {
    /// Marks all blocks that can be reached. Returns `None` if there is no memory for the marks, or
    /// the kernel does not read memory for Toft.
    pub(crate) fn of<O: Os>(allocator: &Allocator<O>) -> Option<Reach> {
        if !can_peek() {
            return None;
        }
        let layout = allocator.layout();
        let mut live = 4096;
        allocator.for_each_slab(|slab| live += slab.live_slots());
        allocator.large().units().for_each(|_| live += 1);
        let (first, end) = (layout.small_slabs, layout.heaps);
        let mark_bytes = (end - first).div_ceil(UNIT).checked_mul(4)?;
        let pending_bytes = live.checked_mul(2 * WORD)?;
        let (marks, pending) = (scratch(mark_bytes)?, scratch(pending_bytes)?);
        let mut reach = Reach { marks, first, end, pending, room: live, len: 0, last: (0, 0) };
        let here = (&raw const reach).addr();
        let own = [(marks, marks + mark_bytes), (pending, pending + pending_bytes)];
        for_each_root(allocator, own, here, |start, end, _| {
            reach.look_at(allocator, start, end);
        });
        while let Some((begin, bytes)) = reach.pop() {
            reach.look_at(allocator, begin, begin.saturating_add(bytes));
        }
        Some(reach)
    }

    /// Returns the word that has the mark of a slot, and the bit in it.
    fn mark_of(&self, descriptor: usize, slot: SlotIndex) -> Option<(*mut u32, u32)> {
        if !(self.first..self.end).contains(&descriptor) {
            return None;
        }
        let word = (descriptor - self.first) / UNIT + slot.number() / 32;
        Some((
            core::ptr::with_exposed_provenance_mut(self.marks + word * 4),
            1 << (slot.number() % 32),
        ))
    }

    /// Returns true if a block can be reached. `descriptor` is the address of its descriptor.
    /// `slot` is its slot, or 0 if it is large.
    pub(crate) fn is_marked(&self, descriptor: usize, slot: SlotIndex) -> bool {
        let Some((word, bit)) = self.mark_of(descriptor, slot) else { return false };
        // SAFETY: a word for each unit of the range is mapped. A slab has eight, and a slot's
        // number is below 256. No other thread writes them.
        unsafe { *word & bit != 0 }
    }

    fn mark(&mut self, descriptor: usize, slot: SlotIndex, begin: usize, bytes: usize) {
        let Some((word, bit)) = self.mark_of(descriptor, slot) else { return };
        // SAFETY: as in `is_marked`.
        unsafe {
            if *word & bit != 0 {
                return;
            }
            *word |= bit;
        }
        if self.len < self.room {
            let place = self.pending + self.len * 2 * WORD;
            let place: *mut [usize; 2] = core::ptr::with_exposed_provenance_mut(place);
            // SAFETY: there is room for this pair, and no other thread writes.
            unsafe { *place = [begin, bytes] };
            self.len += 1;
        }
    }

    fn pop(&mut self) -> Option<(usize, usize)> {
        self.len = self.len.checked_sub(1)?;
        let place: *const [usize; 2] =
            core::ptr::with_exposed_provenance(self.pending + self.len * 2 * WORD);
        // SAFETY: written by `mark`.
        let [begin, bytes] = unsafe { *place };
        Some((begin, bytes))
    }

    /// Scans every word of a range.
    fn look_at<O: Os>(&mut self, allocator: &Allocator<O>, start: usize, end: usize) {
        let mut piece = [0u8; PIECE];
        let mut at = start.next_multiple_of(WORD);
        while at < end {
            let wanted = (end - at).min(PIECE);
            let got = peek(at, piece.get_mut(..wanted).unwrap_or(&mut []));
            for bytes in piece.get(..got).unwrap_or(&[]).chunks_exact(WORD) {
                self.meet(allocator, usize::from_ne_bytes(bytes.try_into().unwrap_or([0; WORD])));
            }
            // A page that cannot be read is skipped.
            at += if got == 0 { wanted } else { got.next_multiple_of(WORD) };
        }
    }

    /// Marks the block that a word may point to.
    fn meet<O: Os>(&mut self, allocator: &Allocator<O>, word: usize) {
        if !allocator.may_be_block(word) || (self.last.0..self.last.1).contains(&word) {
            return;
        }
        let (slab, slot) = match allocator.find(word) {
            Found::Slot(slab, slot) => (slab, Some(slot)),
            Found::InSlab(slab, offset) => (slab, slab.slot_around(offset)),
            Found::Large(block) | Found::InLarge(block) => {
                if block.state() == BlockState::Live {
                    let (begin, bytes) =
                        (allocator.large().placement().address(block), block.bytes());
                    // A pointer to the end of a block still counts as a pointer to it.
                    if word.wrapping_sub(begin) <= bytes {
                        self.last = (begin, begin + bytes);
                        self.mark((&raw const *block).addr(), SlotIndex::new(0), begin, bytes);
                    }
                }
                return;
            }
            // The slots of guarded blocks are roots, and freed ones cannot be read. Zero-size
            // blocks have no contents.
            Found::Guarded(_) | Found::ZeroSize(_) | Found::Foreign => return,
        };
        if let Some(slot) = slot.filter(|&slot| slab.state(slot) == SlotState::Live) {
            let begin = slab.slot_address(slot);
            self.mark((&raw const *slab).addr(), slot, begin, slab.size());
        }
    }
}

/// Returns true if the kernel reads memory for Toft. If it does not, a scan would find nothing.
pub(crate) fn can_peek() -> bool {
    let (known, mut seen) = ([0x70u8; WORD], [0u8; WORD]);
    peek(known.as_ptr().expose_provenance(), &mut seen) == WORD && seen == known
}

/// Passes every writable mapping to `each`, with its name in the kernel's list. Leaves out the
/// allocator's windows, the tables of guarded blocks and the ranges `but`, and pages of private
/// mappings without a file that were never touched. A page that a program would fill in at the
/// first touch (userfaultfd) was not. The calling thread's stack begins at `here`, because the
/// memory below is left from calls that have returned.
pub(crate) fn for_each_root<O: Os>(
    allocator: &Allocator<O>,
    but: [(usize, usize); 2],
    here: usize,
    mut each: impl FnMut(usize, usize, &[u8]),
) {
    let layout = allocator.layout();
    let windows = layout.windows;
    let data_end = windows.data + 2 * windows.span + windows.large_span;
    let ours = [(windows.data, data_end), (windows.metadata, layout.end)];
    let [first, second] = but;
    let but = [first, second, allocator.guarded.tables()];
    let permit = allocator.filter().permit(&allocator.os, Calls::PAGES, false);
    let page = allocator.os.page_size();
    // Opened after the list of mappings, which is needed more if there is one descriptor left.
    let mut pages = None;
    read_lines_by::<1024>(c"/proc/self/maps", |line| {
        let Some(mapping) = Mapping::parse(line).filter(Mapping::is_writable) else { return };
        let Mapping { start, end, name, .. } = mapping;
        if ours.iter().any(|&(first, last)| start < last && first < end) {
            return;
        }
        let mut at = if (start..end).contains(&here) { here } else { start };
        // Adjacent mappings of a kind are one line. The allocator's memory may be in the middle of
        // it.
        while at < end {
            let ours = but.iter().filter(|&&(first, last)| first < end && at < last).min();
            let &(first, last) = ours.unwrap_or(&(end, end));
            if at < first {
                let may_be_untouched = mapping.is_anonymous() && !(start..end).contains(&here);
                if permit.is_some() && may_be_untouched {
                    let pages = *pages.get_or_insert_with(|| open_pages().unwrap_or(-1));
                    for_each_touched(pages, page, at..first, |part| {
                        each(part.start, part.end, name);
                    });
                } else {
                    each(at, first, name);
                }
            }
            at = last;
        }
    });
    if let Some(pages) = pages.filter(|&pages| pages >= 0) {
        close(pages);
    }
}

/// Passes the parts of a range that have pages, in memory or in swap, to `each`. A program may have
/// reserved far more than it has touched. Passes all that the kernel does not tell about.
fn for_each_touched(
    pages: c_int,
    page: usize,
    range: Range<usize>,
    mut each: impl FnMut(Range<usize>),
) {
    // A division by a number that may be zero could panic.
    let page = page.max(1);
    let mut entries = [0u64; PAGES];
    let mut begin = None;
    let mut at = range.start & !(page - 1);
    while at < range.end {
        let wanted = (range.end - at).div_ceil(page).min(PAGES);
        let got = read_pages(pages, at / page, entries.get_mut(..wanted).unwrap_or_default());
        if got == 0 {
            begin.get_or_insert(at);
            break;
        }
        for entry in entries.iter().take(got) {
            if entry & (IN_MEMORY | IN_SWAP) != 0 {
                begin.get_or_insert(at);
            } else if let Some(begin) = begin.take() {
                each(range.start.max(begin)..at);
            }
            at += page;
        }
    }
    if let Some(begin) = begin {
        each(range.start.max(begin)..range.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 600 pages the first, some in the middle, and the last are touched.
    #[test]
    fn parts_that_were_touched_are_found() {
        const PAGE: usize = 4096;
        let start = scratch(600 * PAGE).unwrap();
        let page = |number: usize| start + number * PAGE;
        for number in [0, 255, 256, 300, 599] {
            let word: *mut u8 = core::ptr::with_exposed_provenance_mut(page(number));
            // SAFETY: a byte of the mapping, which is this test's.
            unsafe { word.write_volatile(1) };
        }
        let pages = open_pages().unwrap();
        let found = |pages, range| {
            let mut found = std::vec::Vec::new();
            for_each_touched(pages, PAGE, range, |part| found.push(part));
            found
        };
        let parts = [page(0)..page(1), page(255)..page(257), page(300)..page(301)];
        let last = page(599)..page(600);
        let all = [&parts[..], core::slice::from_ref(&last)].concat();
        assert_eq!(found(pages, page(0)..page(600)), all);
        assert_eq!(
            found(pages, page(255) + 8..page(300) + 16),
            [page(255) + 8..page(257), page(300)..page(300) + 16]
        );
        assert_eq!(found(pages, page(1)..page(255)), []);
        close(pages);
        let whole = page(0)..page(600);
        assert_eq!(found(-1, whole.clone()), core::slice::from_ref(&whole));
    }
}
