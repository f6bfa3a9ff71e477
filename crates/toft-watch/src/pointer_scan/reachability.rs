//! Finds the blocks that the program can still reach, by a conservative mark. Any word that could
//! be a pointer to a block, or into it, counts as one.
//!
//! The scan begins with all writable memory of the process that is not the allocator's. That is the
//! data of the program and its libraries, stacks, thread-local storage, and the program's own
//! mappings. Stacks of other threads are scanned as a whole, the calling thread's from the current
//! frame on. Registers are not scanned. Each block that is found is scanned in turn.
//!
//! If a block would be lost, a second scan reads a word at every byte, because a packed structure
//! may hold the pointer.
//!
//! The scan may find too much: a number that equals an address, or a word that a function left on
//! the stack. It finds too little only if the program keeps a pointer in another form.
//!
//! No thread is stopped, so the scan may miss what other threads do meanwhile. The kernel reads the
//! memory ([`peek`]), because other threads may unmap it.

use core::ffi::c_int;
use core::ops::Range;
use toft_core::allocator::{Allocator, Found};
use toft_core::large::BlockState;
use toft_core::os::process::{
    Mapping, close, open_pages, peek, read_lines_by, read_pages, scratch,
};
use toft_core::os::seccomp::Calls;
use toft_core::os::{Linux, Memory};
use toft_core::slab::{Slab, SlotIndex, SlotState};

/// The number of bytes read at a time.
pub(super) const PIECE: usize = 4096;
pub(super) const WORD: usize = size_of::<usize>();
/// The number of pages of which the kernel's list is read at a time.
const PAGES: usize = 64;
/// A page's entry in that list: set if the page is in memory, or in swap.
const IN_MEMORY: u64 = 1 << 63;
const IN_SWAP: u64 = 1 << 62;
/// The number of descriptor bytes for each word of marks. The descriptor of a large block has one
/// word, and that of a slab has one for each 32 slots.
const UNIT: usize = 64;

/// A live block that a word points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The address of its descriptor, or one that stands for it.
    pub(super) descriptor: usize,
    /// Its slot, or 0 if it is large.
    pub(super) slot: SlotIndex,
    pub(super) begin: usize,
    pub(super) bytes: usize,
}

/// The bytes at which a scan reads words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offsets {
    /// Multiples of a word's size.
    Aligned,
    /// Every byte: a packed structure may hold its pointers there.
    Every,
}

/// A bit for each block, in memory mapped for it. Zero at first, and mostly never touched.
#[derive(Debug)]
pub(super) struct Marks {
    address: usize,
    /// The descriptors that have bits.
    first: usize,
    end: usize,
}

impl Marks {
    pub(super) fn new(allocator: &Allocator<Linux>) -> Option<Marks> {
        let (first, end) = (allocator.large().units().lowest_mark(), allocator.layout().heaps);
        let mut marks = Marks { address: 0, first, end };
        marks.address = scratch(marks.bytes()?)?;
        Some(marks)
    }

    fn bytes(&self) -> Option<usize> {
        (self.end - self.first).div_ceil(UNIT).checked_mul(4)
    }

    fn range(&self) -> (usize, usize) {
        (self.address, self.address + self.bytes().unwrap_or(0))
    }

    /// Returns the word that has the bit of a slot, and the bit in it.
    fn bit_of(&self, descriptor: usize, slot: SlotIndex) -> Option<(*mut u32, u32)> {
        if !(self.first..self.end).contains(&descriptor) {
            return None;
        }
        let word = (descriptor - self.first) / UNIT + slot.number() / 32;
        Some((
            core::ptr::with_exposed_provenance_mut(self.address + word * 4),
            1 << (slot.number() % 32),
        ))
    }

    pub(super) fn has(&self, descriptor: usize, slot: SlotIndex) -> bool {
        let Some((word, bit)) = self.bit_of(descriptor, slot) else { return false };
        // SAFETY: a word for each unit of the range is mapped. A slab has eight, and a slot's
        // number is below 256. No other thread writes them.
        unsafe { *word & bit != 0 }
    }

    /// Sets or clears the bit of a block. Returns true if that changed it.
    pub(super) fn set(&mut self, block: Block, to: bool) -> bool {
        if self.has(block.descriptor, block.slot) == to {
            return false;
        }
        let Some((word, bit)) = self.bit_of(block.descriptor, block.slot) else { return false };
        // SAFETY: as in `has`; `self` is borrowed for writing.
        unsafe { *word ^= bit };
        true
    }
}

/// A stack of blocks that are still to be scanned.
#[derive(Debug)]
pub(super) struct Pending {
    address: usize,
    room: usize,
    len: usize,
}

impl Pending {
    /// A stack with room for every block.
    pub(super) fn new(allocator: &Allocator<Linux>) -> Option<Pending> {
        let mut room = 4096;
        allocator.for_each_slab(|slab| room += slab.live_slots());
        allocator.large().units().for_each(|_| room += 1);
        Some(Pending { address: scratch(room.checked_mul(2 * WORD)?)?, room, len: 0 })
    }

    pub(super) fn push(&mut self, block: Block) {
        if self.len < self.room {
            let place = self.address + self.len * 2 * WORD;
            let place: *mut [usize; 2] = core::ptr::with_exposed_provenance_mut(place);
            // SAFETY: there is room for this pair, and no other thread writes.
            unsafe { *place = [block.begin, block.bytes] };
            self.len += 1;
        }
    }

    /// Takes the range of a block from the stack.
    pub(super) fn pop(&mut self) -> Option<Range<usize>> {
        self.len = self.len.checked_sub(1)?;
        let place: *const [usize; 2] =
            core::ptr::with_exposed_provenance(self.address + self.len * 2 * WORD);
        // SAFETY: written by `push`.
        let [begin, bytes] = unsafe { *place };
        Some(begin..begin.saturating_add(bytes))
    }
}

/// The marks of all blocks that can be reached.
#[derive(Debug)]
pub(super) struct Reach {
    marks: Marks,
    pending: Pending,
    /// The large block that was found last, because several words often point into one.
    last: Range<usize>,
}

impl Reach {
    /// Marks all blocks that can be reached. Returns `None` if there is no memory for the marks, or
    /// the kernel does not read memory for Toft.
    ///
    /// Words at every byte are read only if a block would be lost without them.
    pub(super) fn of(allocator: &Allocator<Linux>) -> Option<Reach> {
        if !can_peek() {
            return None;
        }
        let (marks, pending) = (Marks::new(allocator)?, Pending::new(allocator)?);
        let mut reach = Reach { marks, pending, last: 0..0 };
        let here = (&raw const reach).addr();
        let stack = (reach.pending.address, reach.pending.address + reach.pending.room * 2 * WORD);
        let own = [reach.marks.range(), stack];
        for offsets in [Offsets::Aligned, Offsets::Every] {
            for_each_root(allocator, own, here, |start, end, _| {
                reach.scan(allocator, start..end, offsets);
            });
            reach.scan_pending(allocator, offsets);
            if offsets == Offsets::Aligned && !reach.is_any_lost(allocator) {
                break;
            }
        }
        // Those that were found first have been scanned for aligned words only.
        if reach.is_any_lost(allocator) {
            for_each_live(allocator, |block| {
                if reach.is_marked(block.descriptor, block.slot) {
                    let range = block.begin..block.begin.saturating_add(block.bytes);
                    reach.scan(allocator, range, Offsets::Every);
                    reach.scan_pending(allocator, Offsets::Every);
                }
            });
        }
        Some(reach)
    }

    /// Returns true if a block can be reached. `descriptor` is the address of its descriptor.
    /// `slot` is its slot, or 0 if it is large.
    pub(super) fn is_marked(&self, descriptor: usize, slot: SlotIndex) -> bool {
        self.marks.has(descriptor, slot)
    }

    fn is_any_lost(&self, allocator: &Allocator<Linux>) -> bool {
        let mut any = false;
        for_each_live(allocator, |block| any |= !self.is_marked(block.descriptor, block.slot));
        any
    }

    fn scan_pending(&mut self, allocator: &Allocator<Linux>, offsets: Offsets) {
        while let Some(range) = self.pending.pop() {
            self.scan(allocator, range, offsets);
        }
    }

    /// Marks the blocks to which the words of a range may point.
    fn scan(&mut self, allocator: &Allocator<Linux>, range: Range<usize>, offsets: Offsets) {
        for_each_word(range, offsets, |word| {
            if allocator.may_be_block(word)
                && !self.last.contains(&word)
                && let Some(block) = pointed_to(allocator, word)
            {
                if block.bytes > PIECE {
                    self.last = block.begin..block.begin.saturating_add(block.bytes);
                }
                if self.marks.set(block, true) {
                    self.pending.push(block);
                }
            }
        });
    }
}

/// Passes every word of a range to `each`.
pub(super) fn for_each_word(range: Range<usize>, offsets: Offsets, mut each: impl FnMut(usize)) {
    let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().unwrap_or([0; WORD]));
    // The last bytes of the piece before come first.
    let mut piece = [0u8; WORD + PIECE];
    let mut is_joined = false;
    let mut at = range.start.next_multiple_of(WORD);
    while at < range.end {
        let wanted = (range.end - at).min(PIECE);
        let got = peek(at, piece.get_mut(WORD..WORD + wanted).unwrap_or(&mut []));
        match offsets {
            Offsets::Aligned => {
                let bytes = piece.get(WORD..WORD + got).unwrap_or(&[]);
                bytes.chunks_exact(WORD).for_each(|bytes| each(word(bytes)));
            }
            Offsets::Every => {
                let begin = if is_joined { 1 } else { WORD };
                let bytes = piece.get(begin..WORD + got).unwrap_or(&[]);
                bytes.windows(WORD).for_each(|bytes| each(word(bytes)));
            }
        }
        let last: Option<[u8; WORD]> =
            piece.get(got..got + WORD).and_then(|bytes| bytes.try_into().ok());
        is_joined = got >= WORD && got.is_multiple_of(WORD);
        if let (Some(last), Some(first)) = (last, piece.first_chunk_mut()) {
            *first = last;
        }
        // A page that cannot be read is skipped.
        at += if got == 0 { wanted } else { got.next_multiple_of(WORD) };
    }
}

/// Returns the live block that a word points to, or into.
pub(super) fn pointed_to(allocator: &Allocator<Linux>, word: usize) -> Option<Block> {
    let (slab, slot) = match allocator.find(word) {
        Found::Slot(slab, slot) => (slab, Some(slot)),
        Found::InSlab(slab, offset) => (slab, slab.slot_around(offset)),
        Found::Large(block) | Found::InLarge(block) => {
            // A pointer to the end of a block still counts as a pointer to it.
            return live_large(allocator, block)
                .filter(|block| word.wrapping_sub(block.begin) <= block.bytes);
        }
        // The slots of guarded blocks are roots, and freed ones cannot be read. Zero-size
        // blocks have no contents.
        Found::Guarded(_) | Found::ZeroSize(_) | Found::Foreign => return None,
    };
    let slot = slot.filter(|&slot| slab.state(slot) == SlotState::Live)?;
    let descriptor = (&raw const *slab).addr();
    Some(Block { descriptor, slot, begin: slab.slot_address(slot), bytes: slab.size() })
}

/// The live blocks of a slab.
pub(super) fn live_slots(slab: &Slab) -> impl Iterator<Item = Block> + '_ {
    let descriptor = (&raw const *slab).addr();
    let is_live = |&slot: &SlotIndex| slab.state(slot) == SlotState::Live;
    slab.all_slots().filter(is_live).map(move |slot| Block {
        descriptor,
        slot,
        begin: slab.slot_address(slot),
        bytes: slab.size(),
    })
}

/// Returns a large block if it is live.
pub(super) fn live_large(
    allocator: &Allocator<Linux>,
    block: &toft_core::large::Block,
) -> Option<Block> {
    (block.state() == BlockState::Live).then(|| Block {
        descriptor: allocator.large().units().mark_address(block),
        slot: SlotIndex::new(0),
        begin: allocator.large().placement().address(block),
        bytes: block.bytes(),
    })
}

/// Passes every live block to `each`.
pub(super) fn for_each_live(allocator: &Allocator<Linux>, mut each: impl FnMut(Block)) {
    allocator.for_each_slab(|slab| live_slots(slab).for_each(&mut each));
    allocator.large().units().for_each(|block| {
        live_large(allocator, block).into_iter().for_each(&mut each);
    });
}

/// Returns true if the kernel reads memory for Toft. If it does not, a scan would find nothing.
pub(super) fn can_peek() -> bool {
    let (known, mut seen) = ([0x70u8; WORD], [0u8; WORD]);
    peek(known.as_ptr().expose_provenance(), &mut seen) == WORD && seen == known
}

/// Passes every writable mapping to `each`, with its name in the kernel's list. Leaves out the
/// allocator's windows, large blocks outside them, the tables of guarded blocks and the ranges
/// `but`, and pages of private mappings without a file that were never touched. A page that a
/// program would fill in at the first touch (userfaultfd) was not. The calling thread's stack
/// begins at `here`, because the memory below is left from calls that have returned.
pub(super) fn for_each_root(
    allocator: &Allocator<Linux>,
    but: [(usize, usize); 2],
    here: usize,
    mut each: impl FnMut(usize, usize, &[u8]),
) {
    let layout = allocator.layout();
    let windows = layout.windows;
    let data_end = windows.data + windows.data_bytes();
    let ours = [(windows.data, data_end), (windows.metadata(), layout.end)];
    let [first, second] = but;
    let but = [first, second, allocator.guarded().tables()];
    let permit = allocator.filter().permit(allocator.os(), Calls::PAGES, false);
    let page = allocator.os().page_size();
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
            let outside = allocator.large().units().outside_ranges();
            let ours = but.into_iter().chain(outside.map(|range| (range.start, range.end)));
            let next = ours.filter(|&(first, last)| first < end && at < last).min();
            let (first, last) = next.unwrap_or((end, end));
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
