//! The details of a report, after its first line: the caller, the block, and where it was allocated
//! and freed.
//!
//! The details are text on stderr, and a line of JSON in the file that `TOFT_REPORT` names.
//! Code is named by file, offset and build-id. `toft explain` turns these into functions and lines.

use super::{frame_json, frame_line, open_report_file, stack_json, stack_lines};
use toft_core::options::Report;
use toft_core::os::process;
use toft_core::os::seccomp::Calls;
use toft_core::process::instance;
use toft_core::report::{Line, Stack, Subject, Writer, process_json, process_line};
use toft_core::watch::reports::BlockFacts;

/// The stacks where a block was allocated and freed, if they are known exactly.
#[derive(Clone, Copy, Debug)]
struct History {
    allocated: Stack,
    /// Empty if the block was not freed.
    freed: Stack,
}

/// Writes what else is known, if requested and available.
#[cold]
#[inline(never)]
pub fn details(line: &Line, stack: Option<&Stack>) {
    let Some(allocator) = instance() else { return };
    let options = allocator.options();
    // A process with another user's rights must not reveal its layout.
    if allocator.hides_addresses() {
        return;
    }
    let in_text = match options.report {
        Report::Auto => !options.warn_only,
        Report::Line => false,
        Report::Full => true,
    };
    if !in_text && options.report_file.is_none() {
        return;
    }
    if !options.warn_only {
        allocator.filter().nothing_follows(allocator.os());
    }
    // With `full` or a file the user states that an inherited filter allows the system calls.
    let trusted = options.report == Report::Full || options.report_file.is_some();
    allocator.filter().probe(allocator.os());
    let Some(_permit) = allocator.filter().permit(allocator.os(), Calls::REPORT, trusted) else {
        return;
    };
    let through = line.subject.companion;
    let stack = stack.copied().unwrap_or_else(|| Stack::of_caller(through));
    let address = line.subject.block.unwrap_or(line.subject.address);
    let block = allocator.reports().facts(address);
    let history = allocator
        .guarded()
        .slot_around(address)
        .map(|slot| History { allocated: slot.allocated(), freed: slot.freed() });
    let history = history.as_ref();
    if in_text {
        write_text(&stack, block.as_ref(), history);
    }
    if let Some(file) = open_report_file(options) {
        write_json(file, line, &stack, block.as_ref(), history);
        process::close(file);
    }
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
    w.text("{\"toft\":").string(toft_core::VERSION.as_bytes());
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
