//! The details of a report, after its first line: the caller, the block, and where it was allocated
//! and freed.
//!
//! The details are text on stderr, and a line of JSON in the file that `TOFT_REPORT` names.
//! Code is named by file, offset and build-id. `toft explain` turns these into functions and lines.

use crate::allocator::Found;
use crate::guarded::{Slot, SlotCondition};
use crate::large::BlockState;
use crate::options::Report;
use crate::os::seccomp::Calls;
use crate::os::{Os, process};
use crate::region::{Partition, Site};
use crate::report::{
    Line, Stack, Subject, Writer, frame_json, frame_line, open_report_file, process_json,
    process_line, stack_json, stack_lines,
};
use crate::slab::SlotState;
use crate::watch::reports::Reports;
use crate::watch::reports::misuse::tier;

/// The stacks where a block was allocated and freed, if they are known exactly.
#[derive(Clone, Copy, Debug)]
struct History {
    allocated: Stack,
    /// Empty if the block was not freed.
    freed: Stack,
}

/// A block as a report shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockFacts {
    pub(crate) begin: usize,
    pub(crate) size: usize,
    pub(crate) kind: &'static str,
    pub(crate) slot: usize,
    pub(crate) partition: Partition,
    pub(crate) state: &'static str,
    /// The first call site that drew from the slab, or the block's own.
    pub(crate) site: Site,
}

impl<O: Os> Reports<'_, O> {
    /// Writes what else is known, if requested and available.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_details(self, line: &Line, stack: Option<&Stack>) {
        // A process with another user's rights must not reveal its layout. An allocator that is not
        // the process's own has no details.
        if self.thread_body.is_none() || self.hide_addresses {
            return;
        }
        let in_text = match self.options.report {
            Report::Auto => self.misuses_are_fatal(),
            Report::Line => false,
            Report::Full => true,
        };
        if !in_text && self.options.report_file.is_none() {
            return;
        }
        if self.misuses_are_fatal() {
            self.filter().nothing_follows(&self.os);
        }
        // With `full` or a file the user states that an inherited filter allows the system calls.
        let trusted = self.options.report == Report::Full || self.options.report_file.is_some();
        self.filter().probe(&self.os);
        let Some(_permit) = self.filter().permit(&self.os, Calls::REPORT, trusted) else { return };
        let through = line.subject.companion;
        let stack = stack.copied().unwrap_or_else(|| Stack::of_caller(through));
        let address = line.subject.block.unwrap_or(line.subject.address);
        let block = self.facts(address);
        let history = self
            .guarded
            .slot_around(address)
            .map(|slot| History { allocated: slot.allocated(), freed: slot.freed() });
        let history = history.as_ref();
        if in_text {
            write_text(&stack, block.as_ref(), history);
        }
        if let Some(file) = open_report_file(&self.options) {
            write_json(file, line, &stack, block.as_ref(), history);
            process::close(file);
        }
    }

    /// Returns the block at or around an address.
    pub(crate) fn facts(self, address: usize) -> Option<BlockFacts> {
        let (slab, slot) = match self.find(address) {
            Found::Slot(slab, slot) => (slab, slot),
            Found::InSlab(slab, offset) => (slab, slab.slot_around(offset)?),
            Found::Large(block) | Found::InLarge(block) => {
                let live = block.state() == BlockState::Live;
                return Some(BlockFacts {
                    begin: self.large.placement().address(block),
                    size: block.bytes(),
                    kind: "large",
                    slot: 0,
                    partition: block.partition(),
                    state: if live { "live" } else { "free" },
                    site: block.site(),
                });
            }
            Found::Guarded(slot) => {
                let live = slot.condition() == SlotCondition::Live;
                return Some(BlockFacts {
                    begin: slot.begin(),
                    size: slot.bytes(),
                    kind: "guarded",
                    slot: 0,
                    partition: Partition::default(),
                    state: if live { "live" } else { "free" },
                    site: site_of(slot),
                });
            }
            Found::ZeroSize(_) | Found::Foreign => return None,
        };
        Some(BlockFacts {
            begin: slab.slot_address(slot),
            size: slab.block_bytes(slot),
            kind: tier(slab),
            slot: slot.number(),
            partition: slab.partition(),
            state: match slab.state(slot) {
                SlotState::Live => "live",
                SlotState::Fresh => "never handed out",
                SlotState::Free | SlotState::Remote => "free",
            },
            site: slab.site(),
        })
    }
}

/// Returns the call site that allocated a guarded block.
pub(crate) fn site_of(slot: &Slot) -> Site {
    Site::at(slot.allocated().frames().next().map_or(0, |(address, _)| address))
}

fn write_text(stack: &Stack, block: Option<&BlockFacts>, history: Option<&History>) {
    let mut w: Writer<512> = Writer::new(libc::STDERR_FILENO);
    stack_lines(&mut w, "called from", stack);
    match (history, block) {
        (Some(history), _) => {
            stack_lines(&mut w, "allocated at", &history.allocated);
            stack_lines(&mut w, "freed at", &history.freed);
        }
        (None, Some(block)) => frame_line(&mut w, "call site", block.site.address()),
        (None, None) => {}
    }
    process_line(&mut w, true, ", and what to do");
}

fn write_json(
    file: i32,
    line: &Line,
    stack: &Stack,
    block: Option<&BlockFacts>,
    history: Option<&History>,
) {
    let Subject { what, call, address, .. } = line.subject;
    let mut w: Writer<2048> = Writer::new(file);
    w.text("{\"toft\":").string(crate::VERSION.as_bytes());
    w.word("report", what.as_bytes()).word("call", call.as_bytes()).address("address", address);
    w.word("message", line.so_far());
    process_json(&mut w, true);
    if let Some(block) = block {
        w.text(",\"block\":{\"address\":\"0x").digits(block.begin as u64, 16).text("\"");
        w.field("inside", address.wrapping_sub(block.begin) as u64);
        w.field("size", block.size as u64).word("kind", block.kind.as_bytes());
        w.field("slot", block.slot as u64).field("partition", block.partition.number() as u64);
        w.word("state", block.state.as_bytes()).text("}");
        w.text(",\"site\":");
        frame_json(&mut w, block.site.address(), true);
    }
    stack_json(&mut w, "stack", stack);
    if let Some(history) = history {
        stack_json(&mut w, "allocated", &history.allocated);
        stack_json(&mut w, "freed", &history.freed);
    }
    w.text("}\n");
    w.flush();
}
