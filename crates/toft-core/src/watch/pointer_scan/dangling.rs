//! Finds dangling pointers on demand: words that point into freed blocks. `toft_dangling`,
//! `TOFT_DANGLING`.
//!
//! The scan covers all memory that the program can write to: its data, stacks, other mappings, and
//! every live block. It reports a word that points into a freed large block, a freed guarded block,
//! or a slot that was freed and not handed out again. The report names the block or the mapping
//! that holds the word.
//!
//! A reported word need not be wrong: the program may never use it again. It need not be a pointer
//! either. It may be a number, or a value that an earlier call left on a stack or an earlier owner
//! left in a block. One kind of harmless word is recognized: the end of a live block, which is
//! where the next one begins.
//!
//! No thread is stopped, nothing is recorded, and nothing ends the process. The kernel reads the
//! memory ([`peek`]).

use crate::allocator::Found;
use crate::guarded::SlotCondition;
use crate::large::BlockState;
use crate::options::Report;
use crate::os::seccomp::Calls;
use crate::os::{Os, process};
use crate::report::{
    Call, Line, Writer, frame_json, frame_line, head, open_report_file, process_json, process_line,
    stack_lines,
};
use crate::slab::{SlotIndex, SlotState};
use crate::watch::pointer_scan::PointerScan;
use crate::watch::pointer_scan::reachability::{PIECE, WORD, can_peek, for_each_root};
use crate::watch::reports::detail::BlockFacts;
use process::peek;

const WORDS: usize = PIECE / WORD;
/// The most words that one scan reports on stderr. The file of reports has all of them.
const NAMED: usize = 32;
/// The largest distance in words from a pointer to a block's end to a pointer into that block.
const NEAR: usize = 2;

/// The holder of the words that are being scanned.
#[derive(Clone, Copy)]
enum Holder<'a> {
    /// A live block.
    Block,
    /// A mapping, by its name in the kernel's list.
    Mapping(&'a [u8]),
}

/// The state of one scan.
struct DanglingScan {
    found: usize,
    /// The descriptor of the file of reports, if there is one.
    file: Option<i32>,
    /// True if stderr gets more than one line for each word.
    in_text: bool,
}

impl<O: Os> PointerScan<'_, O> {
    /// Reports words that point into freed blocks, and returns their number. The calling thread's
    /// stack counts from `here`, where the library's own frames end. At the program's end there is
    /// no `here`, and that stack does not count.
    #[cold]
    #[inline(never)]
    pub fn sweep_for_dangling(self, here: Option<usize>) -> usize {
        // By requesting this the user states that an inherited filter allows the system calls.
        let Some(_permit) = self.filter().permit(&self.os, Calls::REPORT, true) else { return 0 };
        if !can_peek() {
            self.os.report(b"toft: dangling pointers: this process may not read its own memory\n");
            return 0;
        }
        let file = if self.hide_addresses { None } else { open_report_file(&self.options) };
        let in_text = self.options.report != Report::Line && !self.hide_addresses;
        let mut scan = DanglingScan { found: 0, file, in_text };
        let from = here.unwrap_or((&raw const scan).addr());
        for_each_root(&self, [(0, 0); 2], from, |start, end, name| {
            if start != from || here.is_some() {
                self.scan_range(&mut scan, start, end, Holder::Mapping(name));
            }
        });
        self.for_each_slab(|slab| {
            let end = slab.base() + slab.slots() * slab.size();
            let mut at = slab.base();
            while at < end && !slab.is_dormant() {
                // Adjacent live slots are scanned together.
                let slot = (at - slab.base()) / slab.size();
                let live = |slot: &SlotIndex| slab.state(*slot) == SlotState::Live;
                let slots = SlotIndex::range(slot..slab.slots());
                let last = slots.take_while(live).count() + slot;
                let stop = slab.base() + last * slab.size();
                self.scan_range(&mut scan, at, stop, Holder::Block);
                at = stop + slab.size();
            }
        });
        self.large.units().for_each(|block| {
            if block.state() == BlockState::Live {
                let begin = self.large.placement().address(block);
                self.scan_range(&mut scan, begin, begin + block.bytes(), Holder::Block);
            }
        });
        if let Some(file) = scan.file {
            process::close(file);
        }
        if scan.found > NAMED {
            let mut line = Line::new(self.hide_addresses);
            line.text("toft: dangling pointers: ").number((scan.found - NAMED) as u64);
            self.os.report(line.text(" more were found").end());
        }
        scan.found
    }

    /// Scans every word of a range, and reports those that point into freed blocks.
    fn scan_range(self, scan: &mut DanglingScan, start: usize, end: usize, holder: Holder) {
        let mut at = start.next_multiple_of(WORD);
        while at + WORD <= end {
            let (mut bytes, mut words) = ([0u8; PIECE], [0usize; WORDS]);
            let wanted = (end - at).min(PIECE);
            let got = peek(at, bytes.get_mut(..wanted).unwrap_or(&mut []));
            let whole = bytes.get(..got).unwrap_or(&[]).chunks_exact(WORD);
            for (place, word) in words.iter_mut().zip(whole) {
                *place = usize::from_ne_bytes(word.try_into().unwrap_or([0; WORD]));
            }
            for number in 0..got / WORD {
                if let Some(freed) = self.freed_block(&words, number) {
                    self.name_dangling(scan, at + number * WORD, &freed, &words, number, holder);
                }
            }
            // A page that cannot be read is skipped.
            at += if got < WORD { wanted.next_multiple_of(WORD) } else { got / WORD * WORD };
        }
    }

    /// Returns the freed block that the word with this number points into, if it does.
    fn freed_block(self, words: &[usize; WORDS], number: usize) -> Option<BlockFacts> {
        let word = *words.get(number)?;
        if !self.may_be_block(word) && !self.guarded.contains(word) {
            return None;
        }
        let freed = match self.find(word) {
            Found::Slot(slab, slot) => {
                was_freed(slab.state(slot)) && !self.is_an_end(words, number, slab.size())
            }
            Found::InSlab(slab, offset) => {
                slab.slot_around(offset).is_some_and(|slot| was_freed(slab.state(slot)))
            }
            Found::Large(block) | Found::InLarge(block) => block.state() == BlockState::Free,
            Found::Guarded(slot) => slot.condition() == SlotCondition::Freed,
            Found::ZeroSize(_) | Found::Foreign => false,
        };
        let facts = if freed { self.reports().facts(word)? } else { return None };
        (word.wrapping_sub(facts.begin) < facts.size).then_some(facts)
    }

    /// Returns true if a word that points to the start of a slot is rather the end of the live
    /// block before it. A word nearby then points into that block.
    fn is_an_end(self, words: &[usize; WORDS], number: usize, size: usize) -> bool {
        let Some(&end) = words.get(number) else { return false };
        let begin = end.wrapping_sub(size);
        let is_live = matches!(self.find(begin), Found::Slot(slab, slot) if slab.is_in_use(slot));
        let near = number.saturating_sub(NEAR)..=number + NEAR;
        is_live && near.filter_map(|near| words.get(near)).any(|word| (begin..end).contains(word))
    }

    fn name_dangling(
        self,
        scan: &mut DanglingScan,
        address: usize,
        freed: &BlockFacts,
        words: &[usize; WORDS],
        number: usize,
        holder: Holder,
    ) {
        scan.found += 1;
        let named = scan.found <= NAMED;
        if !named && scan.file.is_none() {
            return;
        }
        let inside = words.get(number).map_or(0, |word| word.wrapping_sub(freed.begin));
        let mut line = Line::new(self.hide_addresses);
        head(&mut line, "dangling pointer", Call::Look, address);
        let owner = match holder {
            Holder::Block => self.reports().facts(address),
            Holder::Mapping(_) => {
                self.reports().facts(address).filter(|block| block.kind == "guarded")
            }
        };
        match (&owner, holder) {
            (Some(block), _) => {
                line.text("byte ").number((address - block.begin) as u64).text(" of the live ");
                line.number(block.size as u64).text("-byte block at ").address(block.begin);
            }
            (None, Holder::Mapping(name)) => {
                let unnamed = b"a mapping without a name (data, or a thread's stack)";
                line.text("a word of ").raw(if name.is_empty() { unnamed } else { name });
            }
            (None, Holder::Block) => {
                line.text("a word of the heap");
            }
        }
        line.text(" leads to byte ").number(inside as u64).text(" of the freed ");
        line.number(freed.size as u64).text("-byte block at ").address(freed.begin).text(" (");
        line.text(freed.kind).text(", slot ").number(freed.slot as u64);
        line.text(", partition ").number(freed.partition.number() as u64);
        line.text("; call site ").address(freed.site.address()).text(")");
        let history = self.guarded.slot_around(freed.begin);
        if named {
            self.os.report(line.end());
            if scan.in_text {
                let mut w: Writer<512> = Writer::new(libc::STDERR_FILENO);
                if let Some(block) = &owner {
                    frame_line(&mut w, "held by", block.site.address());
                }
                match history {
                    Some(slot) => {
                        stack_lines(&mut w, "allocated at", &slot.allocated());
                        stack_lines(&mut w, "freed at", &slot.freed());
                    }
                    None => frame_line(&mut w, "call site", freed.site.address()),
                }
                process_line(&mut w, true, "");
            }
        }
        if let Some(file) = scan.file {
            write_json(file, &line, address, owner.as_ref(), freed, inside);
        }
    }

    /// Scans if `looked_at`, the number of checked allocations, is a multiple of the number that
    /// the user chose.
    pub(crate) fn dangling_now_and_then(self, looked_at: usize) {
        let every = self.options.dangling;
        if every > 1 && looked_at.is_multiple_of(every) {
            let mark = 0u8;
            self.sweep_for_dangling(Some((&raw const mark).addr()));
        }
    }
}

/// Returns true if the program once had the slot, and has it no more.
fn was_freed(state: SlotState) -> bool {
    matches!(state, SlotState::Free | SlotState::Remote)
}

fn write_json(
    file: i32,
    line: &Line,
    address: usize,
    owner: Option<&BlockFacts>,
    freed: &BlockFacts,
    inside: usize,
) {
    let mut w: Writer<2048> = Writer::new(file);
    w.text("{\"toft\":").string(crate::VERSION.as_bytes()).word("report", b"dangling pointer");
    w.word("call", b"look").address("address", address).word("message", line.so_far());
    process_json(&mut w, true);
    for (name, block, at) in [
        ("holder", owner, owner.map_or(0, |block| address - block.begin)),
        ("block", Some(freed), inside),
    ] {
        let Some(block) = block else { continue };
        w.text(",\"").text(name).text("\":{\"address\":\"0x").digits(block.begin as u64, 16);
        w.text("\"").field("inside", at as u64).field("size", block.size as u64);
        w.word("kind", block.kind.as_bytes()).field("slot", block.slot as u64);
        w.field("partition", block.partition.number() as u64).word("state", block.state.as_bytes());
        w.text(",\"site\":");
        frame_json(&mut w, block.site.address(), true);
        w.text("}");
    }
    w.text(",\"site\":");
    frame_json(&mut w, freed.site.address(), true);
    w.text("}\n");
    w.flush();
}
