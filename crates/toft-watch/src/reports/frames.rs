//! Writes places in code, and stacks, as lines of text and as JSON.

use toft_core::report::{DETAIL, Desk, Stack, Writer, module_of};

/// Writes `what  /path/of/file+0x1169 build-id 0123...`. `toft explain` finds function and line by
/// it.
#[inline(never)]
pub fn frame_line<const BYTES: usize>(w: &mut Writer<BYTES>, what: &str, address: usize) {
    w.text(DETAIL).text(what);
    for _ in what.len()..14 {
        w.text(" ");
    }
    place_text(w, address);
    w.text("\n");
}

/// Writes `/path/of/file+0x1169 build-id 0123...`.
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

/// Writes a line for each frame. The first line begins with `what`.
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

/// Writes the file of a place, its offset there and its build-id as further fields, as far as
/// known.
#[inline(never)]
pub fn place_json<const BYTES: usize>(w: &mut Writer<BYTES>, address: usize) {
    place_json_by(w, &mut Desk::empty(), address);
}

/// Does what [`place_json`] does, with the caller's buffers. For callers with a short stack.
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

/// Writes a field with an array of frames.
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
