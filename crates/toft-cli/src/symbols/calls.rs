//! Calls and jumps in the machine code of a file (x86-64): which function a call goes to, and which
//! functions a function jumps to.
//!
//! A compiler makes a jump of a call that is the last act of a function. The function then has no
//! frame, and its caller's return address is on the stack in its place:
//!
//! ```text
//! caller:  call make_node      the return address is here
//! make_node:  jmp malloc       the function that allocates
//! ```
//!
//! So the call before a return address has to go to the function that the next frame is in. If it
//! goes to another one, that one has left by a jump, or it is hidden in a walk by frame pointers
//! because functions that it calls have none. If neither can be, the return address is no part of
//! the stack.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::read::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable};
use object::{Architecture, RelocationTarget};
use toft_profile::{Frame, Location, label, open_file};

use super::{Module, Segments, Symbols, demangle};

/// The most bytes of a function that are searched for jumps.
const FUNCTION_MOST: u64 = 64 << 10;
/// The most functions that a row of jumps may have.
const JUMPS_MOST: usize = 4;
/// The bytes at the start of a function in which it sets up a frame pointer.
const PROLOGUE: u64 = 32;
/// `push rbp; mov rbp, rsp`
const MAKES_FRAME: [u8; 4] = [0x55, 0x48, 0x89, 0xE5];

/// Where a call or a jump goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The function of this file that begins at this address.
    Function(u64),
    /// A function of another file.
    Import(String),
}

/// A call or a jump out of a function.
#[derive(Debug, PartialEq, Eq)]
enum Exit {
    Call(Target),
    Jump(Target),
    /// A jump to an address that is only known when it runs.
    Unknown,
}

/// What a call on a sampled stack says of the next frame outwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Nothing speaks against the frame.
    Next,
    /// Another function was called there, and is between the two.
    Through(Box<Location>),
    /// The frame is no part of the stack.
    False,
}

/// The machine code of a file.
pub struct Code {
    file: File,
    segments: Segments,
    /// The words by which code calls functions that the loader finds, by address.
    slots: HashMap<u64, Target>,
}

impl Code {
    /// Returns the code of a file for x86-64.
    pub fn of(path: &Path, elf: &object::File<'_>, segments: &Segments) -> Option<Code> {
        if elf.architecture() != Architecture::X86_64 {
            return None;
        }
        let file = open_file(path).ok()?;
        Some(Code { file, segments: segments.clone(), slots: slots(elf) })
    }

    /// Returns up to this many bytes from an address.
    fn read(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        let within = |&&(_, length, start): &&(u64, u64, u64)| {
            address.checked_sub(start).is_some_and(|distance| distance < length)
        };
        let (offset, in_file, start) = *self.segments.iter().find(within)?;
        let distance = address - start;
        let mut bytes = vec![0; usize::try_from(length.min(in_file - distance)).ok()?];
        self.file.read_exact_at(&mut bytes, offset.checked_add(distance)?).ok()?;
        Some(bytes)
    }

    /// Returns where a call or a jump to an address goes: to a function that begins there, or
    /// through a linker's stub.
    fn target(&self, address: u64, is_function: &impl Fn(u64) -> bool) -> Option<Target> {
        if is_function(address) {
            return Some(Target::Function(address));
        }
        let stub = self.read(address, 12)?;
        // endbr64 and a prefix may be before the jump.
        [0, 1, 4, 5].into_iter().find_map(|at: usize| match stub.get(at..at + 6)? {
            [0xFF, 0x25, distance @ ..] => self.by_slot(from(address, at + 6, distance)),
            _ => None,
        })
    }

    fn by_slot(&self, slot: Option<u64>) -> Option<Target> {
        self.slots.get(&slot?).cloned()
    }

    /// Returns the target of the call before a return address, if it is a direct one or by a word
    /// that the loader fills.
    fn called_before(&self, address: u64, is_function: &impl Fn(u64) -> bool) -> Option<Target> {
        let before = self.read(address.checked_sub(6)?, 6)?;
        match before[..] {
            [0xFF, 0x15, ref distance @ ..] => self.by_slot(from(address, 0, distance)),
            [_, 0xE8, ref distance @ ..] => self.target(from(address, 0, distance)?, is_function),
            _ => None,
        }
    }

    /// Returns the calls and jumps out of a function, and perhaps some that are none: bytes that
    /// look like an instruction and lead to the start of a function. Returns `None` if it is long.
    fn exits(
        &self,
        (start, length): (u64, u64),
        is_function: &impl Fn(u64) -> bool,
    ) -> Option<Vec<Exit>> {
        if length > FUNCTION_MOST {
            return None;
        }
        let bytes = self.read(start, length)?;
        let outside = |address: Option<u64>| {
            let address = address?;
            let is_inside = address.checked_sub(start).is_some_and(|place| place < length);
            if is_inside { None } else { self.target(address, is_function) }
        };
        let exit = |at: usize| {
            let notrack = at > 0 && bytes.get(at - 1) == Some(&0x3E);
            let near = |to: &[u8]| from(start, at + 5, to.get(..4)?);
            match *bytes.get(at..bytes.len().min(at + 6))? {
                [0xE8, ref to @ ..] => outside(near(to)).map(Exit::Call),
                [0xE9, ref to @ ..] => outside(near(to)).map(Exit::Jump),
                [0x0F, 0x80..=0x8F, ref to @ ..] => {
                    outside(from(start, at + 6, to)).map(Exit::Jump)
                }
                [0x70..=0x7F | 0xEB, to, ..] => {
                    let after = start.wrapping_add(at as u64 + 2);
                    outside(Some(after.wrapping_add_signed((to as i8).into()))).map(Exit::Jump)
                }
                [0xFF, 0x15, ref to @ ..] => self.by_slot(from(start, at + 6, to)).map(Exit::Call),
                [0xFF, 0x25, ref to @ ..] => {
                    Some(self.by_slot(from(start, at + 6, to)).map_or(Exit::Unknown, Exit::Jump))
                }
                // Those with the prefix are of a `switch`.
                [0xFF, mode, ..] if mode >> 3 & 7 == 4 && !notrack => Some(Exit::Unknown),
                _ => None,
            }
        };
        Some((0..bytes.len()).filter_map(exit).collect())
    }

    /// Returns true if a function sets up a frame pointer at its start.
    fn makes_frame(&self, (start, length): (u64, u64)) -> bool {
        let bytes = self.read(start, length.min(PROLOGUE)).unwrap_or_default();
        bytes.windows(MAKES_FRAME.len()).any(|four| four == MAKES_FRAME)
    }
}

/// The address that is `distance`, four bytes, from the one `at` bytes after `start`.
fn from(start: u64, at: usize, distance: &[u8]) -> Option<u64> {
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    Some(start.wrapping_add(at as u64).wrapping_add_signed(distance.into()))
}

/// The words of a file's global offset table that the loader fills with the address of a function.
fn slots(elf: &object::File<'_>) -> HashMap<u64, Target> {
    let tables: Vec<_> = elf
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".got")))
        .map(|section| section.address()..section.address().saturating_add(section.size()))
        .collect();
    let symbols = elf.dynamic_symbol_table();
    let all = elf.dynamic_relocations().into_iter().flatten();
    let all = all.filter(|(slot, _)| tables.iter().any(|table| table.contains(slot)));
    all.filter_map(|(slot, relocation)| {
        let target = match relocation.target() {
            RelocationTarget::Symbol(index) => {
                let symbol = symbols.as_ref()?.symbol_by_index(index).ok()?;
                match symbol.address() {
                    0 => Target::Import(symbol.name().ok()?.to_owned()),
                    address => Target::Function(address),
                }
            }
            _ => Target::Function(u64::try_from(relocation.addend()).ok()?),
        };
        Some((slot, target))
    })
    .collect()
}

impl Module {
    fn is_function(&self, address: u64) -> bool {
        self.functions.binary_search_by_key(&address, |(start, ..)| *start).is_ok()
    }

    /// Returns the first address and the length of the function that begins at an address.
    fn extent(&self, address: u64) -> Option<(u64, u64)> {
        let at = self.functions.binary_search_by_key(&address, |(start, ..)| *start).ok()?;
        self.functions.get(at).map(|(start, length, _)| (*start, *length))
    }

    /// Returns the function that the call before a return address goes to.
    fn called_before(&self, offset: u64) -> Option<u64> {
        let code = self.code.as_ref()?;
        match code.called_before(offset, &|address| self.is_function(address))? {
            Target::Function(start) => self.is_function(start).then_some(start),
            Target::Import(_) => None,
        }
    }

    fn exits(&self, function: u64) -> Option<Vec<Exit>> {
        let code = self.code.as_ref()?;
        code.exits(self.extent(function)?, &|address| self.is_function(address))
    }

    /// Returns the function that begins at an address, with the line where it begins.
    fn function_from(&self, start: u64) -> Option<Frame> {
        self.frames(start).pop()
    }

    /// Returns the function that allocates at a call site if it is not the one that the site is in:
    /// the function that is called there, and that allocates by a jump. Only functions outside
    /// libraries count, and no function that `TOFT_WRAPPERS` may stand for.
    pub(super) fn tail_caller(&self, offset: u64) -> Option<Frame> {
        let function = self.called_before(offset)?;
        let (start, length) = self.extent(function)?;
        // The function that calls itself names the site in either case.
        if offset.checked_sub(start).is_some_and(|place| place < length) {
            return None;
        }
        let frame = self.function_from(function).filter(label::is_own)?;
        let exits = self.exits(function)?;
        // Its own return address would be the site, unless it is looked through.
        let is_call = |exit: &Exit| matches!(exit, Exit::Call(to) if self.is_malloc(to));
        if exits.iter().any(is_call) {
            return None;
        }
        self.jumps_to_allocation(&exits, JUMPS_MOST).then_some(frame)
    }

    /// Returns true if a function stands for malloc.
    fn is_malloc(&self, target: &Target) -> bool {
        self.name_of(target).is_some_and(|frame| label::stands_for_malloc(&frame.function))
    }

    fn name_of(&self, target: &Target) -> Option<Frame> {
        match target {
            Target::Function(start) => self.function_from(*start),
            Target::Import(name) => Some(Frame { function: demangle(name), ..Frame::default() }),
        }
    }

    fn jumps_to_allocation(&self, exits: &[Exit], most: usize) -> bool {
        exits.iter().any(|exit| match exit {
            Exit::Jump(to) if self.name_of(to).is_some_and(|frame| !label::is_own(&frame)) => true,
            Exit::Jump(Target::Function(start)) if most > 0 => {
                self.exits(*start).is_some_and(|exits| self.jumps_to_allocation(&exits, most - 1))
            }
            _ => false,
        })
    }

    /// Returns true if a function may have jumped to the one that begins at `to`, which is in
    /// another file if that is `None`.
    fn may_jump(&self, function: u64, to: Option<u64>, most: usize) -> bool {
        let Some(exits) = self.exits(function) else { return true };
        exits.iter().any(|exit| match exit {
            Exit::Call(_) => false,
            Exit::Unknown => true,
            Exit::Jump(Target::Import(_)) => to.is_none(),
            Exit::Jump(Target::Function(start)) => {
                to == Some(*start) || most > 0 && self.may_jump(*start, to, most - 1)
            }
        })
    }

    /// Returns what the call before a return address says of it, if `inner` is the function that
    /// the next frame inwards is in: its start, or `None` if it is in another file.
    fn caller(&self, offset: u64, inner: Option<u64>) -> Caller {
        let Some(function) = self.called_before(offset) else { return Caller::Next };
        if inner.is_some_and(|inner| self.is_same(function, inner)) {
            return Caller::Next;
        }
        let code = self.code.as_ref().zip(self.extent(function));
        let makes_frame = code.is_some_and(|(code, extent)| code.makes_frame(extent));
        if !makes_frame && !self.may_jump(function, inner, JUMPS_MOST) {
            return Caller::False;
        }
        let frame = self.function_from(function);
        frame.map_or(Caller::Next, |frame| {
            // The address that a call at the function's first byte would return to.
            let offset = Some(function.wrapping_add(1));
            let frames = vec![frame].into();
            Caller::Through(Box::new(Location { offset, frames, ..Location::default() }))
        })
    }

    /// Returns true if two addresses begin the same function, of which a part may be elsewhere.
    fn is_same(&self, function: u64, part: u64) -> bool {
        let name = |start: u64| {
            let at = self.functions.binary_search_by_key(&start, |(start, ..)| *start).ok()?;
            self.functions.get(at).map(|(.., name)| name.strip_suffix(".cold").unwrap_or(name))
        };
        function == part || name(function).is_some() && name(function) == name(part)
    }
}

impl Symbols {
    /// Returns what the call of `outer` on a stack says of it: the function that it calls has to
    /// lead to `inner`, the next frame inwards.
    pub fn caller(&mut self, outer: &Location, inner: &Location) -> Caller {
        self.caller_by_code(outer, inner).unwrap_or(Caller::Next)
    }

    fn caller_by_code(&mut self, outer: &Location, inner: &Location) -> Option<Caller> {
        let (offset, inner_offset) = (outer.offset?, inner.offset?);
        let inner_path = self.file_of(inner.module.as_ref()?, inner.build_id.as_deref()).1?;
        let (inner_start, ..) = *self.module(&inner_path)?.symbol(inner_offset.wrapping_sub(1))?;
        let path = self.file_of(outer.module.as_ref()?, outer.build_id.as_deref()).1?;
        let start = (path == inner_path).then_some(inner_start);
        Some(match self.module(&path)?.caller(offset, start) {
            Caller::Through(between) => {
                let distance = between.offset?.wrapping_sub(offset);
                let Location { module, build_id, .. } = outer.clone();
                let site = outer.site.wrapping_add(distance);
                Caller::Through(Box::new(Location { site, module, build_id, ..*between }))
            }
            other => other,
        })
    }
}
