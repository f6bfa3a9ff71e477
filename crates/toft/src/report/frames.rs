//! Places in code and stacks, as lines for a person and as JSON.

use super::{Desk, Stack, Writer, module_of};

/// What every line of a report but the first begins with.
pub const DETAIL: &str = "toft:   ";

/// `what  /path/of/file+0x1169 build-id 0123...`: what `toft explain` finds function and line by.
#[inline(never)]
pub fn frame_line<const BYTES: usize>(w: &mut Writer<BYTES>, what: &str, address: usize) {
    w.text(DETAIL).text(what);
    for _ in what.len()..14 {
        w.text(" ");
    }
    place_text(w, address);
    w.text("\n");
}

/// `/path/of/file+0x1169 build-id 0123...`.
#[inline(never)]
pub fn place_text<const BYTES: usize>(w: &mut Writer<BYTES>, address: usize) {
    match module_of(address) {
        Some(module) => {
            w.bytes(module.path()).text("+0x").digits(module.offset as u64, 16);
            if !module.build_id().is_empty() {
                w.text(" build-id ");
                hex(w, module.build_id());
            }
        }
        None => {
            w.text("0x").digits(address as u64, 16).text(" in no file");
        }
    }
}

/// A line for each frame: the first begins with `what`.
pub fn stack_lines<const BYTES: usize>(w: &mut Writer<BYTES>, what: &str, stack: &Stack) {
    for (number, (address, certain)) in stack.frames().enumerate() {
        let what = match (number, certain) {
            (0, _) => what,
            (_, true) => "then",
            (_, false) => "perhaps",
        };
        frame_line(w, what, address);
    }
}

/// Writes a frame as a JSON object.
#[inline(never)]
pub fn frame_json<const BYTES: usize>(w: &mut Writer<BYTES>, address: usize, certain: bool) {
    w.text("{\"address\":\"0x").digits(address as u64, 16).text("\"");
    place_json(w, address);
    w.text(if certain { "}" } else { ",\"certain\":false}" });
}

/// Fields behind others: the file, the place in it and its build-id, as far as there are any.
#[inline(never)]
pub fn place_json<const BYTES: usize>(w: &mut Writer<BYTES>, address: usize) {
    place_json_by(w, &mut Desk::empty(), address);
}

/// As [`place_json`], with its buffers handed in, for where the stack may be short.
#[inline(never)]
pub fn place_json_by<const BYTES: usize>(w: &mut Writer<BYTES>, desk: &mut Desk, address: usize) {
    if let Some(module) = desk.module_of(address) {
        w.word("module", module.path()).address("offset", module.offset);
        if !module.build_id().is_empty() {
            w.text(",\"build_id\":\"");
            hex(w, module.build_id());
            w.text("\"");
        }
    }
}

/// A field with an array of frames.
pub fn stack_json<const BYTES: usize>(w: &mut Writer<BYTES>, name: &str, stack: &Stack) {
    w.text(",\"").text(name).text("\":[");
    for (number, (address, certain)) in stack.frames().enumerate() {
        w.text(if number == 0 { "" } else { "," });
        frame_json(w, address, certain);
    }
    w.text("]");
}

fn hex<const BYTES: usize>(w: &mut Writer<BYTES>, bytes: &[u8]) {
    for &byte in bytes {
        w.digits(u64::from(byte >> 4), 16).digits(u64::from(byte & 15), 16);
    }
}
