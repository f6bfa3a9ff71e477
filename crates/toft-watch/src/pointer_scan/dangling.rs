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

use super::reachability::{PIECE, WORD, can_peek, for_each_root};
use crate::reports::{frame_json, frame_line, open_report_file, stack_lines};
use process::peek;
use toft_core::allocator::{Allocator, Found};
use toft_core::guarded::SlotCondition;
use toft_core::large::BlockState;
use toft_core::options::Report;
use toft_core::os::seccomp::Calls;
use toft_core::os::{Linux, Os, process};
use toft_core::process::{inside, instance};
use toft_core::report::{Call, Line, Writer, head, process_json, process_line};
use toft_core::slab::{SlotIndex, SlotState};
use toft_core::watch::reports::BlockFacts;

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

/// One scan.
struct Scan<'a> {
    allocator: &'a Allocator<Linux>,
    found: usize,
    /// The descriptor of the file of reports, if there is one.
    file: Option<i32>,
    /// True if stderr gets more than one line for each word.
    in_text: bool,
}

/// Reports words that point into freed blocks of the process's allocator, and returns their number.
pub fn dangling() -> usize {
    let mark = 0u8;
    let here = (&raw const mark).addr();
    let sweep = || instance().map_or(0, |allocator| sweep_for_dangling(allocator, Some(here)));
    inside(sweep)
}

/// Scans if `looked_at`, the number of checked allocations, is a multiple of the number that the
/// user chose.
pub fn dangling_now_and_then(looked_at: usize) {
    let Some(allocator) = instance() else { return };
    let every = allocator.options().dangling;
    if every > 1 && looked_at.is_multiple_of(every) {
        let mark = 0u8;
        sweep_for_dangling(allocator, Some((&raw const mark).addr()));
    }
}

/// Reports words that point into freed blocks, and returns their number. The calling thread's
/// stack counts from `here`, where the library's own frames end. At the program's end there is
/// no `here`, and that stack does not count.
#[cold]
#[inline(never)]
pub fn sweep_for_dangling(allocator: &Allocator<Linux>, here: Option<usize>) -> usize {
    // By requesting this the user states that an inherited filter allows the system calls.
    let Some(_permit) = allocator.filter().permit(allocator.os(), Calls::REPORT, true) else {
        return 0;
    };
    if !can_peek() {
        allocator
            .os()
            .report(b"toft: dangling pointers: this process may not read its own memory\n");
        return 0;
    }
    let (options, hides) = (allocator.options(), allocator.hides_addresses());
    let file = if hides { None } else { open_report_file(options) };
    let in_text = options.report != Report::Line && !hides;
    let mut scan = Scan { allocator, found: 0, file, in_text };
    let from = here.unwrap_or((&raw const scan).addr());
    for_each_root(allocator, [(0, 0); 2], from, |start, end, name| {
        if start != from || here.is_some() {
            scan.range(start, end, Holder::Mapping(name));
        }
    });
    allocator.for_each_slab(|slab| {
        let end = slab.base() + slab.slots() * slab.size();
        let mut at = slab.base();
        while at < end && !slab.is_dormant() {
            // Adjacent live slots are scanned together.
            let slot = (at - slab.base()) / slab.size();
            let live = |slot: &SlotIndex| slab.state(*slot) == SlotState::Live;
            let slots = SlotIndex::range(slot..slab.slots());
            let last = slots.take_while(live).count() + slot;
            let stop = slab.base() + last * slab.size();
            scan.range(at, stop, Holder::Block);
            at = stop + slab.size();
        }
    });
    allocator.large().units().for_each(|block| {
        if block.state() == BlockState::Live {
            let begin = allocator.large().placement().address(block);
            scan.range(begin, begin + block.bytes(), Holder::Block);
        }
    });
    if let Some(file) = scan.file {
        process::close(file);
    }
    if scan.found > NAMED {
        let mut line = Line::new(hides);
        line.text("toft: dangling pointers: ").number((scan.found - NAMED) as u64);
        allocator.os().report(line.text(" more were found").end());
    }
    scan.found
}

impl Scan<'_> {
    /// Scans every word of a range, and reports those that point into freed blocks.
    fn range(&mut self, start: usize, end: usize, holder: Holder) {
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
                    self.name_dangling(at + number * WORD, &freed, &words, number, holder);
                }
            }
            // A page that cannot be read is skipped.
            at += if got < WORD { wanted.next_multiple_of(WORD) } else { got / WORD * WORD };
        }
    }

    /// Returns the freed block that the word with this number points into, if it does.
    fn freed_block(&self, words: &[usize; WORDS], number: usize) -> Option<BlockFacts> {
        let word = *words.get(number)?;
        if !self.allocator.may_be_block(word) && !self.allocator.guarded().contains(word) {
            return None;
        }
        let freed = match self.allocator.find(word) {
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
        let facts = if freed { self.allocator.reports().facts(word)? } else { return None };
        (word.wrapping_sub(facts.begin) < facts.size).then_some(facts)
    }

    /// Returns true if a word that points to the start of a slot is rather the end of the live
    /// block before it. A word nearby then points into that block.
    fn is_an_end(&self, words: &[usize; WORDS], number: usize, size: usize) -> bool {
        let Some(&end) = words.get(number) else { return false };
        let begin = end.wrapping_sub(size);
        let is_live =
            matches!(self.allocator.find(begin), Found::Slot(slab, slot) if slab.is_in_use(slot));
        let near = number.saturating_sub(NEAR)..=number + NEAR;
        is_live && near.filter_map(|near| words.get(near)).any(|word| (begin..end).contains(word))
    }

    fn name_dangling(
        &mut self,
        address: usize,
        freed: &BlockFacts,
        words: &[usize; WORDS],
        number: usize,
        holder: Holder,
    ) {
        let allocator = self.allocator;
        self.found += 1;
        let named = self.found <= NAMED;
        if !named && self.file.is_none() {
            return;
        }
        let inside = words.get(number).map_or(0, |word| word.wrapping_sub(freed.begin));
        let mut line = Line::new(allocator.hides_addresses());
        head(&mut line, "dangling pointer", Call::Look, address);
        let owner = match holder {
            Holder::Block => allocator.reports().facts(address),
            Holder::Mapping(_) => {
                allocator.reports().facts(address).filter(|block| block.kind == "guarded")
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
        let history = allocator.guarded().slot_around(freed.begin);
        if named {
            allocator.os().report(line.end());
            if self.in_text {
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
        if let Some(file) = self.file {
            write_json(file, &line, address, owner.as_ref(), freed, inside);
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
    w.text("{\"toft\":").string(toft_core::VERSION.as_bytes()).word("report", b"dangling pointer");
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
