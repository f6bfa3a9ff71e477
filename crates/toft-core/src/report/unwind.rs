//! Finds where the frame of a call begins, from the tables that every module has for its unwinder.
//!
//! ```text
//! .eh_frame_hdr   (function, description) by address, to search in
//! .eh_frame       descriptions: a program that says, for each place in a function, how far the frame
//!                 reaches above the stack pointer, or above the frame pointer
//! ```
//!
//! The kernel reads the tables where they are mapped, and refuses what is not there, unless they
//! stay mapped ([`Source`]). Nothing in them is trusted. Only the encodings that compilers write
//! are known; for others there is no result. `unwind/reader.rs` takes numbers out of a description,
//! and `unwind/cfi.rs` runs its program.

mod cfi;
mod reader;

use super::module::Module;
use crate::os::process::peek;
use cfi::State;
use reader::Bytes;
pub use reader::Source;

const EH_FRAME: usize = 0x6474_e550;
/// Version 1, and the encodings of the pointer, the count and the table. All have 32 bits. The
/// pointer counts from its own place, and the table from the start of the header.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// The most bytes of a description that are read.
const MOST: usize = 768;
/// The numbers of the registers that a frame is found by.
const FRAME_POINTER: u64 = 6;
const STACK_POINTER: u64 = 7;
/// The number of entries of the search table that are read at once, at the end of a search.
const AT_ONCE: usize = 32;

/// The frame of a function at a return address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where the frame begins: just above the function's own return address.
    pub base: Base,
    /// Where the caller's frame pointer is.
    pub pointer: Pointer,
}

/// The register that a frame is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The number of bytes above the stack pointer, as it is after the call has returned.
    AboveStack(usize),
    /// The number of bytes above the frame pointer.
    AboveFrame(usize),
}

/// Where a function keeps its caller's frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// In its register: the function does not change it.
    Untouched,
    /// The number of bytes below the frame's beginning.
    Below(usize),
    /// Elsewhere.
    Unknown,
}

/// Returns the address of a module's search table.
pub fn table_of(module: &Module) -> Option<usize> {
    Some(module.segment(EH_FRAME)?.0)
}

/// Returns the frame of the function in `module` that contains the return address `address`.
pub fn frame_of(module: &Module, address: usize) -> Option<Frame> {
    describe(Source::KERNEL, table_of(module)?, address)?.frame
}

/// Returns the frame by the descriptions alone, given by address and bytes. For modules without a
/// search table.
pub fn frame_in(descriptions: (usize, usize), address: usize) -> Option<Frame> {
    let place = address.checked_sub(1)?;
    let (function, description) = look_through(descriptions, place)?;
    describe_at(Source::KERNEL, function, description, place)?.frame
}

/// The description of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The number of bytes of code: of one part, if the compiler has split the function.
    pub bytes: usize,
    /// The frame of the function, at the requested place.
    pub frame: Option<Frame>,
}

/// Returns the description of the function that contains the return address `address`, by a
/// module's search table.
pub fn describe(source: Source, table: usize, address: usize) -> Option<Description> {
    let place = address.checked_sub(1)?;
    let (function, description) = search(source, table, place)?;
    describe_at(source, function, description, place)
}

fn describe_at(
    source: Source,
    function: usize,
    description: usize,
    place: usize,
) -> Option<Description> {
    let mut bytes = [0u8; MOST];
    let mut fde = Bytes::at(source, description, &mut bytes)?;
    let back = fde.word()? as usize;
    if back == 0 {
        return None;
    }
    let common = description.wrapping_add(4).wrapping_sub(back);
    let mut common_bytes = [0u8; 256];
    let cie = Cie::read(Bytes::at(source, common, &mut common_bytes)?)?;
    fde.skip(cie.pointer_bytes)?;
    let length = usize::try_from(fde.number(cie.pointer_bytes)?).ok()?;
    let until = place.wrapping_sub(function);
    (until < length).then(|| Description { bytes: length, frame: frame_at(cie, fde, until as u64) })
}

/// Returns the frame at a place of a function. `fde` is its description, after the length of the
/// code.
fn frame_at(mut cie: Cie<'_>, mut fde: Bytes<'_>, until: u64) -> Option<Frame> {
    if cie.has_data {
        let more = fde.unsigned()?;
        fde.skip(usize::try_from(more).ok()?)?;
    }
    let mut state = State { place: 0, until, frame: None, pointer: Pointer::Untouched };
    let (code, data) = (cie.code_unit, cie.data_unit);
    state.run(&mut cie.program, code, data)?;
    state.run(&mut fde, code, data)?;
    let (register, offset) = state.frame?;
    let offset = usize::try_from(offset).ok().filter(|offset| offset % 8 == 0)?;
    let base = match register {
        STACK_POINTER => Base::AboveStack(offset),
        FRAME_POINTER => Base::AboveFrame(offset),
        _ => return None,
    };
    Some(Frame { base, pointer: state.pointer })
}

/// Returns the last entry of the search table that begins at or before `place`: a function and its
/// description.
fn search(source: Source, table: usize, place: usize) -> Option<(usize, usize)> {
    let mut header = [0u8; 12];
    if source.read(table, &mut header) != header.len() || !header.starts_with(&HEADER) {
        return None;
    }
    let count = u32::from_le_bytes(header.last_chunk().copied()?) as usize;
    let entry = |number: usize| {
        let mut bytes = [0u8; 8];
        let at = table.wrapping_add(12).wrapping_add(number.checked_mul(8)?);
        (source.read(at, &mut bytes) == bytes.len()).then_some(())?;
        let from = |bytes: &[u8; 4]| table.wrapping_add_signed(i32::from_le_bytes(*bytes) as isize);
        Some((from(bytes.first_chunk()?), from(bytes.last_chunk()?)))
    };
    let (mut low, mut high) = (0, count);
    while high - low > AT_ONCE {
        let middle = low + (high - low) / 2;
        if entry(middle)?.0 <= place { low = middle + 1 } else { high = middle }
    }
    // The entry is before the first one that begins after `place`. The rest is read at once.
    let first = low.saturating_sub(1);
    let mut bytes = [0u8; 8 * (AT_ONCE + 1)];
    let wanted = bytes.get_mut(..8 * (high - first))?;
    let got = source.read(table.wrapping_add(12).wrapping_add(first.checked_mul(8)?), wanted);
    let from = |bytes: &[u8; 4]| table.wrapping_add_signed(i32::from_le_bytes(*bytes) as isize);
    let entries = wanted.get(..got)?.chunks_exact(8);
    entries
        .filter_map(|entry| Some((from(entry.first_chunk()?), from(entry.last_chunk()?))))
        .take_while(|&(function, _)| function <= place)
        .last()
}

/// Searches all descriptions for the function around `place`, and returns it with its description.
/// Finds only addresses that are written as compilers do: in 32 bits, from their own place.
fn look_through((start, bytes): (usize, usize), place: usize) -> Option<(usize, usize)> {
    let end = start.checked_add(bytes)?;
    let mut piece = [0u8; 1024];
    let (mut at, mut from, mut got) = (start, start, 0);
    while at < end {
        let inside = at.checked_sub(from).filter(|inside| inside + 16 <= got);
        let Some(inside) = inside else {
            (from, got) = (at, peek(at, &mut piece));
            if got < 16 {
                return None;
            }
            continue;
        };
        let word = |number: usize| {
            let bytes = piece.get(inside + 4 * number..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let (length, back) = (word(0)? as usize, word(1)?);
        if length >= 0xffff_fff0 {
            return None;
        }
        // A length of zero ends the descriptions of one input of the linker. A description with
        // zero for `back` is common to many functions.
        if length > 0 && back != 0 {
            let function = (at + 8).wrapping_add_signed(word(2)?.cast_signed() as isize);
            if place.wrapping_sub(function) < word(3)? as usize {
                return Some((function, at));
            }
        }
        at = at.checked_add(4 + length)?;
    }
    None
}

/// The common part of the descriptions of many functions.
struct Cie<'a> {
    code_unit: u64,
    data_unit: i64,
    /// The number of bytes of a description's pointers to code.
    pointer_bytes: usize,
    /// True if descriptions have data of another kind.
    has_data: bool,
    program: Bytes<'a>,
}

impl Cie<'_> {
    fn read(mut bytes: Bytes<'_>) -> Option<Cie<'_>> {
        let (mark, version) = (bytes.word()?, bytes.byte()?);
        if mark != 0 || !matches!(version, 1 | 3) {
            return None;
        }
        let end = bytes.rest.iter().position(|&byte| byte == 0)?;
        let extras = bytes.rest.get(..end)?;
        bytes.skip(end + 1)?;
        let (code_unit, data_unit) = (bytes.unsigned()?, bytes.signed()?);
        if version == 1 {
            bytes.byte()?;
        } else {
            bytes.unsigned()?;
        }
        let mut pointer_bytes = 8;
        let has_data = extras.first() == Some(&b'z');
        if has_data {
            let length = usize::try_from(bytes.unsigned()?).ok()?;
            let mut data = Bytes { rest: bytes.rest.get(..length)?, cut_off: false };
            bytes.skip(length)?;
            for &extra in extras.get(1..)? {
                match extra {
                    b'R' => pointer_bytes = size_of_encoded(data.byte()?)?,
                    b'L' => data.skip(1)?,
                    b'P' => {
                        let encoding = data.byte()?;
                        data.skip(size_of_encoded(encoding)?)?;
                    }
                    b'B' => {}
                    // Frames of signals, and unknown letters.
                    _ => return None,
                }
            }
        } else if !extras.is_empty() {
            return None;
        }
        Some(Cie { code_unit, data_unit, pointer_bytes, has_data, program: bytes })
    }
}

/// Returns the number of bytes of a pointer in an encoding.
fn size_of_encoded(encoding: u8) -> Option<usize> {
    match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => Some(8),
        0x03 | 0x0b => Some(4),
        0x02 | 0x0a => Some(2),
        _ => None,
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::module::module_of;
    use super::*;

    core::arch::global_asm!(
        ".text",
        // By the stack pointer, after an early return that has another frame.
        "unwind_test_stack:",
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbx, -16",
        "sub rsp, 0x140",
        ".cfi_adjust_cfa_offset 0x140",
        "test edi, edi",
        "jnz 2f",
        ".cfi_remember_state",
        "add rsp, 0x140",
        ".cfi_adjust_cfa_offset -0x140",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        "2:",
        ".cfi_restore_state",
        "call unwind_test_frame",
        "unwind_test_stack_site:",
        "add rsp, 0x140",
        ".cfi_adjust_cfa_offset -0x140",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        // By the frame pointer.
        "unwind_test_frame:",
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, rdi",
        "call unwind_test_none",
        "unwind_test_frame_site:",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        // By the stack pointer. The frame pointer has another use.
        "unwind_test_saves:",
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -16",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call unwind_test_none",
        "unwind_test_saves_site:",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbp",
        "ret",
        ".cfi_endproc",
        // A function without a description.
        "unwind_test_none:",
        "call unwind_test_none",
        "unwind_test_none_site:",
        "ret",
    );

    unsafe extern "C" {
        safe static unwind_test_stack_site: u8;
        safe static unwind_test_frame_site: u8;
        safe static unwind_test_saves_site: u8;
        safe static unwind_test_none_site: u8;
    }

    fn frame_at(site: &u8) -> Option<Frame> {
        let address = (&raw const *site).addr();
        frame_of(&module_of(address).unwrap(), address)
    }

    #[test]
    fn frames_are_found_by_what_the_assembler_was_told() {
        let of = |base, pointer| Some(Frame { base, pointer });
        let stack = of(Base::AboveStack(0x140 + 16), Pointer::Untouched);
        assert_eq!(frame_at(&unwind_test_stack_site), stack);
        let saves = of(Base::AboveStack(24), Pointer::Below(16));
        assert_eq!(frame_at(&unwind_test_saves_site), saves);
        let frame = of(Base::AboveFrame(16), Pointer::Below(16));
        assert_eq!(frame_at(&unwind_test_frame_site), frame);
        assert_eq!(frame_at(&unwind_test_none_site), None);
        let extent = |site: &u8| {
            let address = (&raw const *site).addr();
            describe(Source::KERNEL, table_of(&module_of(address).unwrap()).unwrap(), address)
                .map(|it| it.bytes)
        };
        // The code is push rbp; push rax; call; pop rax; pop rbp; ret. A return address belongs to
        // the call before it.
        assert_eq!(extent(&unwind_test_saves_site), Some(1 + 1 + 5 + 1 + 1 + 1));
        assert!(extent(&unwind_test_stack_site).is_some_and(|bytes| bytes > 20));
        assert_eq!(extent(&unwind_test_none_site), None);
    }
}
