//! Finds the callers of a call: return addresses of the calling thread.
//!
//! The library has no frame pointers. Its unwind tables give the program's call (`exact.rs`). If
//! they do not, the stack is searched. The first word that is a return address into the program is
//! taken for the call. The program's frame pointer is in a register, or where a function of the
//! library has saved it. If the program has frame pointers, they lead on from there. Each must be
//! above the one before, with a return address above it.
//!
//! A return address follows a call instruction. The kernel reads the words of the stack, and
//! refuses what is not there.

use super::call::{called_by, here, is_return, read, registers};
use super::exact::{Callers, OwnFile};
use super::module::{Module, module_of};
use crate::os::process::peek;

/// The most return addresses that are kept.
pub const FRAMES: usize = 12;
/// The number of bytes above the stack pointer that are searched for the program's call.
const REACH: usize = 8192;
/// The number of bytes that are searched if only the library's own frames are in between.
const SITE_REACH: usize = 4096;
/// The largest frame that is believed.
const LARGEST_FRAME: usize = 1 << 20;
/// The most bytes from the start of a function to an instruction that is taken to be its.
const NEAR: usize = 4096;
/// The most return addresses that are guessed, if no frame pointer leads on.
const GUESSES: usize = 6;
/// The number of bytes above the program's call that are searched for guesses.
const GUESS_REACH: usize = 2048;

const WORD: usize = size_of::<usize>();

/// Return addresses, the innermost first, ended by zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Stack {
    frames: [usize; FRAMES],
    /// The number of addresses that are certain. Later ones were on the stack, and may be left from
    /// an earlier call.
    certain: usize,
}

impl Stack {
    /// No frames.
    pub const EMPTY: Stack = Stack { frames: [0; FRAMES], certain: 0 };

    /// Returns each return address, with true if it is certain.
    pub fn frames(&self) -> impl Iterator<Item = (usize, bool)> + '_ {
        let known = self.frames.iter().take_while(|&&address| address != 0);
        known.enumerate().map(|(number, &address)| (address, number < self.certain))
    }

    /// Returns true if there are no frames.
    pub fn is_empty(&self) -> bool {
        self.frames().next().is_none()
    }

    fn len(&self) -> usize {
        self.frames().count()
    }

    fn push(&mut self, address: usize, certain: bool) -> bool {
        let len = self.len();
        let Some(place) = self.frames.get_mut(len) else { return false };
        *place = address;
        if certain {
            self.certain = len + 1;
        }
        true
    }

    /// Returns the stack of a call that returns to `site`, a site from the shims. Has only certain
    /// frames.
    #[inline(never)]
    pub fn of_site(site: usize) -> Stack {
        let (pointer, frame) = registers();
        let mut stack = Stack::EMPTY;
        stack.push(site, true);
        // The library's frames may hold the site, too, below the call's own word. The last match
        // counts.
        let (mut slot, mut from) = (None, pointer);
        while let Some(next) =
            find(from, (pointer + SITE_REACH).saturating_sub(from), |word| word == site)
        {
            (slot, from) = (Some(next), next + WORD);
        }
        if let Some(slot) = slot {
            stack.follow(pointer, frame, slot);
        }
        stack
    }

    /// Returns a stack of known return addresses, all of them certain.
    pub fn of_frames(addresses: impl Iterator<Item = usize>) -> Stack {
        let mut stack = Stack::EMPTY;
        for address in addresses.take_while(|&address| address != 0) {
            stack.push(address, true);
        }
        stack
    }

    /// Returns the stack of the program's call that led here, found with fewer system calls than
    /// [`Stack::of_caller`] needs, because `own` is known. Where the tables do not lead out of the
    /// library, the call is a guess.
    #[inline(never)]
    pub fn of_caller_soon(own: &OwnFile) -> Stack {
        let here = here();
        let (_, pointer, _) = here;
        let (start, end) = own.text;
        if start == end {
            return Stack::of_caller(false);
        }
        let mut stack = Stack::EMPTY;
        if let Some((slot, frame)) = own.way_out(here) {
            stack.push(read(slot).unwrap_or(0), true);
            stack.follow(slot, frame, slot);
            return stack;
        }
        let is_programs = |word: usize| !(start..end).contains(&word) && is_return(word);
        if let Some(slot) = find_call(pointer, own.text, is_programs) {
            stack.push(read(slot).unwrap_or(0), false);
        }
        stack
    }

    /// Returns the stack of a signal: the instruction that it interrupted, and the frames by frame
    /// pointers.
    pub fn of_context(instruction: usize, pointer: usize, frame: usize) -> Stack {
        let mut stack = Stack::EMPTY;
        // Stored like a return address, which follows its instruction.
        stack.push(instruction.wrapping_add(1), true);
        // A function without a frame, such as memcpy, or one that calls no other: its caller's
        // address is on top of the stack.
        if let Some(top) = read(pointer).filter(|&word| is_return(word))
            && called_by(top).is_some_and(|to| instruction.wrapping_sub(to) < NEAR)
        {
            stack.push(top, true);
        }
        // A function that calls no other may have its frame where the stack ends.
        stack.follow(pointer, frame, pointer.wrapping_sub(WORD));
        stack
    }

    /// Returns the stack of another thread, which is stopped: its instruction, and guesses of its
    /// callers. Reads what the words of the stack lead to, except addresses for which `allowed`
    /// returns false.
    pub fn of_stopped(
        instruction: usize,
        pointer: usize,
        allowed: impl Fn(usize) -> bool,
    ) -> Stack {
        let mut stack = Stack::EMPTY;
        stack.push(instruction, true);
        let may_be = |word| allowed(word) && is_return(word) && module_of(word).is_some();
        stack.guess(pointer, may_be);
        stack
    }

    /// Adds guesses: words of the stack, from an address on, that may be return addresses.
    fn guess(&mut self, mut from: usize, may_be: impl Fn(usize) -> bool) {
        let end = from.saturating_add(GUESS_REACH);
        while self.len() <= GUESSES
            && let Some(slot) = find(from, end.saturating_sub(from), &may_be)
        {
            self.push(read(slot).unwrap_or(0), false);
            from = slot + WORD;
        }
    }

    /// Returns this library, if it is a separate file.
    pub fn own_file() -> OwnFile {
        let own = module_of(Stack::own_file as *const () as usize).filter(is_library);
        own.map_or(OwnFile::NONE, |module| OwnFile::of(&module))
    }

    /// Returns the stack of the program's call that led here. If no frame pointer leads on, adds
    /// guesses.
    ///
    /// If `companion` is set, the program called a library that belongs to this one, and that
    /// called Toft.
    #[inline(never)]
    pub fn of_caller(companion: bool) -> Stack {
        let here = here();
        let (_, mut pointer, frame) = here;
        let own = module_of(Stack::of_caller as *const () as usize);
        if let Some(part) = own.filter(|own| !is_library(own))
            && let Some(callers) = Callers::walk(&part, here)
        {
            let mut stack = Stack::of_frames(callers.programs());
            // Frame pointers may lead on where the tables end.
            stack.follow(callers.slot, callers.frame, callers.slot);
            if !callers.has_own_frames() {
                stack.certain = 0;
            }
            return stack;
        }
        let own = own.filter(is_library);
        let is_programs = |word: usize| {
            is_return(word)
                && module_of(word).is_some_and(|module| {
                    own.is_none_or(|own| own.base != module.base) && !is_companion(&module)
                })
        };
        let mut stack = Stack::EMPTY;
        let mut code = own.map_or((0, 0), |module| module.text);
        if companion {
            let is_its = |word| {
                is_return(word)
                    && module_of(word).is_some_and(|module| {
                        is_companion(&module) && own.is_none_or(|own| own.base != module.base)
                    })
            };
            if let Some(slot) = find(pointer, REACH, is_its)
                && let Some(module) = read(slot).and_then(module_of)
            {
                (pointer, code) = (slot + WORD, module.text);
            }
        }
        // A search may meet the block's call site first, because the library's own frames contain
        // it.
        let exact = own.filter(|_| !companion).and_then(|own| OwnFile::of(&own).way_out(here));
        let exact = exact.filter(|&(slot, _)| read(slot).is_some_and(is_programs));
        let found = exact.map(|(slot, _)| slot);
        let Some(slot) = found.or_else(|| find_call(pointer, code, is_programs)) else {
            return stack;
        };
        stack.push(read(slot).unwrap_or(0), own.is_some());
        match exact {
            // The tables give the frame pointer of the program's function.
            Some((_, before)) if before != 0 => stack.follow(slot, before, slot),
            _ if own.is_some() => stack.follow(pointer, frame, slot),
            _ => {}
        }
        if stack.len() > 1 {
            return stack;
        }
        stack.guess(slot + WORD, is_programs);
        stack
    }

    /// Follows frame pointers from a call whose return address is at `slot`.
    fn follow(&mut self, pointer: usize, register: usize, slot: usize) {
        let is_frame = |word: usize| {
            let distance = word.wrapping_sub(slot);
            word.is_multiple_of(16)
                && (WORD..LARGEST_FRAME).contains(&distance)
                && read(word + WORD).is_some_and(is_return)
        };
        // The nearest candidate is the frame. Others are frames further out.
        let mut frame = Some(register).filter(|&word| is_frame(word));
        find(pointer, slot.saturating_sub(pointer), |word| {
            if is_frame(word) && frame.is_none_or(|nearest| word < nearest) {
                frame = Some(word);
            }
            false
        });
        while let Some(at) = frame {
            let Some(address) = read(at + WORD).filter(|&address| is_return(address)) else {
                return;
            };
            if !self.push(address, true) {
                return;
            }
            frame = read(at).filter(|&next| {
                next > at && next - at < LARGEST_FRAME && next.is_multiple_of(WORD)
            });
        }
    }
}

/// Returns true if this library is a separate file, not a part of the program.
fn is_library(module: &Module) -> bool {
    let path = module.path();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name.windows(3).any(|part| part == b".so")
}

/// Returns true if a file is a library that belongs to this one (`libtoft_checked.so`).
fn is_companion(module: &Module) -> bool {
    let path = module.path();
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path).starts_with(b"libtoft")
}

/// Returns the address of the first word of a range for which `is` returns true.
fn find(from: usize, reach: usize, mut is: impl FnMut(usize) -> bool) -> Option<usize> {
    const PIECE: usize = 256;
    let from = from.next_multiple_of(WORD);
    for at in (from..from.saturating_add(reach)).step_by(PIECE) {
        let mut piece = [0u8; PIECE];
        let wanted = piece.get_mut(..(from + reach - at).min(PIECE))?;
        let got = peek(at, wanted);
        for (number, bytes) in piece.get(..got)?.chunks_exact(WORD).enumerate() {
            let word = usize::from_ne_bytes(bytes.try_into().unwrap_or([0; WORD]));
            if is(word) {
                return Some(at + number * WORD);
            }
        }
        if got < PIECE {
            return None;
        }
    }
    None
}

/// Returns the address of the word with the return address of the program's call. That is the first
/// word after a call into `code`, if its target can be found, or else the first of all.
/// Uninitialized words in this library's frames may hold older return addresses.
fn find_call(
    pointer: usize,
    code: (usize, usize),
    is_programs: impl Fn(usize) -> bool,
) -> Option<usize> {
    let calls = |word| called_by(word).is_some_and(|to| (code.0..code.1).contains(&to));
    find(pointer, REACH, |word| is_programs(word) && calls(word))
        .or_else(|| find(pointer, REACH, is_programs))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Passes on its own return address, as a shim does. Has a frame pointer.
    #[unsafe(naked)]
    extern "C" fn stack_here(_stack: &mut Stack) {
        core::arch::naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "call {}",
            "pop rbp",
            "ret",
            sym stack_of_inner,
        );
    }

    #[unsafe(naked)]
    extern "C" fn stack_of_inner(_stack: &mut Stack) {
        core::arch::naked_asm!("mov rsi, [rsp]", "jmp {}", sym fill);
    }

    extern "C" fn fill(stack: &mut Stack, site: usize) {
        *stack = Stack::of_site(site);
    }

    #[test]
    fn frame_pointers_lead_from_the_site_to_its_caller() {
        let mut stack = Stack::EMPTY;
        stack_here(&mut stack);
        let frames: std::vec::Vec<_> = stack.frames().collect();
        let first = stack_here as *const () as usize;
        assert!(frames.len() >= 2, "{frames:x?}");
        assert!((first..first + 32).contains(&frames[0].0), "{frames:x?} {first:x}");
        let module = module_of(frames[1].0).expect("code of this test");
        assert_eq!(module.base, module_of(first).unwrap().base);
        assert!(frames[1].1 && !(first..first + 32).contains(&frames[1].0));
    }
}
