//! The functions of a Python program on the stack of a thread: CPython keeps a chain of frames, and
//! each leads to a code object, which has the names.
//!
//! ```text
//! _PyRuntime --> main interpreter --> thread states --> the calling thread's --> frame --> frame ...
//!                                                                                  |
//!                 names, table of lines <-- code object, and the running instruction
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the interpreter, and the walk along the frames of the calling thread |
//! | `found.rs` | the interpreter, once it was found |
//! | `layout.rs` | offsets, by version |
//! | `lines.rs` | the line of an instruction |
//! | `text.rs` | strings |
//!
//! The walk runs inside malloc. The kernel reads all words for it, and nothing that is read is
//! believed: a thread state must have the calling thread's handle, and a code object the type of
//! code objects. A walk that meets anything else ends there.

mod found;
mod layout;
mod lines;
mod text;

pub(super) use found::Found;

use super::named::{self, Names};
use super::walk::DEPTH;
use super::words::Words;
use crate::os::process::{peek, thread_handle};
use crate::report::{for_each_code, for_each_symbol, module_of};
use core::ops::Range;
use layout::{BYTES, ITEMS, LAYOUTS, Layout, OWNER_INTERPRETER, REFERENCE, TYPE};

/// The most thread states that are searched for the calling thread's.
const THREADS_MOST: usize = 512;
/// The most marks of the interpreter between frames, and the most bytes of a table of lines.
const MARKS_MOST: usize = 1024;
const LINES_MOST: usize = 1 << 16;
/// The bytes of an instruction.
const INSTRUCTION: usize = 2;

/// An interpreter in this process.
#[derive(Clone, Copy, Debug)]
pub struct Python {
    layout: &'static Layout,
    runtime: usize,
    /// The type of code objects.
    code_type: usize,
    /// The function that runs Python code, if it has a symbol.
    run: (usize, usize),
}

/// A running function.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Code {
    /// The key of its named frame.
    pub key: u64,
    first_line: u32,
    /// The running instruction, if it is one of the function's.
    instruction: Option<usize>,
    name: usize,
    file: usize,
    lines: usize,
}

impl Python {
    /// Finds CPython among the files that code was mapped from: the program, or `libpython3`.
    /// Returns `None` if there is none of a known version. Makes unusual system calls: the caller
    /// holds a permit.
    #[cold]
    #[inline(never)]
    pub fn find() -> Option<Python> {
        // On other processors the offsets are not known.
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let mut candidates = [0; 4];
        let mut count = 0;
        for_each_code(|path, start| {
            let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
            let file = file.strip_prefix(b"lib").unwrap_or(file);
            if file.starts_with(b"python")
                && let Some(place) = candidates.get_mut(count)
            {
                *place = start;
                count += 1;
            }
        });
        candidates.iter().take(count).find_map(|&code| Python::in_file(code))
    }

    /// Returns the interpreter in the file whose code is at `code`.
    fn in_file(code: usize) -> Option<Python> {
        let (mut version, mut runtime, mut code_type, mut run) = (0, 0, 0, (0, 0));
        for_each_symbol(&module_of(code)?, |name, start, end| match name {
            b"Py_Version" => version = start,
            b"_PyRuntime" => runtime = start,
            b"PyCode_Type" => code_type = start,
            b"_PyEval_EvalFrameDefault" => run = (start, end),
            _ => {}
        });
        let mut number = [0; size_of::<usize>()];
        if runtime == 0 || code_type == 0 || peek(version, &mut number) != number.len() {
            return None;
        }
        let number = (usize::from_ne_bytes(number) >> 16) as u32;
        let layout = LAYOUTS.iter().find(|layout| layout.version == number)?;
        Some(Python { layout, runtime, code_type, run })
    }

    /// Returns the code of the function that runs Python code.
    pub(super) fn run(&self) -> Range<usize> {
        self.run.0 + 1..self.run.1 + 1
    }

    /// Passes the calling thread's running functions to `each`, the innermost first. Returns true
    /// if there are no more. Makes unusual system calls: the caller holds a permit.
    pub(super) fn walk(&self, mut each: impl FnMut(&mut Words, &Code) -> Option<()>) -> bool {
        // Frames are near each other, and code objects are elsewhere.
        let (mut frames, mut codes) = (Words::new(), Words::new());
        let mut next = self.current_frame(&mut frames);
        let (mut functions, mut marks) = (0, 0);
        while let Some(frame) = next {
            if frame == 0 {
                return true;
            }
            if functions == DEPTH || marks == MARKS_MOST {
                return false;
            }
            match frames.byte(frame.wrapping_add(self.layout.owner)) {
                Some(OWNER_INTERPRETER..) => marks += 1,
                _ => {
                    let code = self.code(&mut frames, frame, &mut codes);
                    if code.and_then(|code| each(&mut codes, &code)).is_none() {
                        return false;
                    }
                    functions += 1;
                }
            }
            next = frames.at(frame.wrapping_add(self.layout.previous));
        }
        false
    }

    /// Returns the calling thread's current frame, or zero if it has none.
    fn current_frame(&self, words: &mut Words) -> Option<usize> {
        let Layout { interpreter, threads, next_thread, thread, frame, record, .. } = self.layout;
        let interpreter = words.at(self.runtime.wrapping_add(*interpreter))?;
        let mut state = words.at(interpreter.wrapping_add(*threads))?;
        let own = thread_handle();
        for _ in 0..THREADS_MOST {
            if state == 0 {
                return None;
            }
            if words.at(state.wrapping_add(*thread))? == own {
                let frame = words.at(state.wrapping_add(*frame))?;
                return record.map_or(Some(frame), |at| words.at(frame.wrapping_add(at)));
            }
            state = words.at(state.wrapping_add(*next_thread))?;
        }
        None
    }

    /// Returns the function of a frame, or `None` if the frame has none.
    fn code(&self, frames: &mut Words, frame: usize, codes: &mut Words) -> Option<Code> {
        let layout = self.layout;
        let code = frames.at(frame.wrapping_add(layout.code))? & !REFERENCE;
        let instruction = frames.at(frame.wrapping_add(layout.instruction))?;
        let mut word = |at: usize| codes.at(code.wrapping_add(at));
        if word(TYPE)? != self.code_type {
            return None;
        }
        let (count, name, file, lines) =
            (word(ITEMS)?, word(layout.name)?, word(layout.file)?, word(layout.lines)?);
        let first_line = codes.half(code.wrapping_add(layout.first_line))?;
        // A function that has not begun is one instruction before its first.
        let distance = instruction.wrapping_sub(code.wrapping_add(layout.instructions));
        let number = if distance == 0_usize.wrapping_sub(INSTRUCTION) { 0 } else { distance / 2 };
        let numbers = [code, name, file, lines, first_line as usize, number];
        Some(Code {
            key: named::key(&numbers),
            first_line,
            instruction: Some(number).filter(|&number| number < count),
            name,
            file,
            lines,
        })
    }

    /// Returns the names of a running function, or `None` if they cannot be read.
    #[cold]
    #[inline(never)]
    pub(super) fn names(&self, words: &mut Words, code: &Code) -> Option<Names> {
        let mut names = Names::empty();
        let (function, file) = names.places();
        text::copy(words, self.layout, code.name, function)?;
        text::copy(words, self.layout, code.file, file)?;
        let len = words.at(code.lines.wrapping_add(ITEMS)).unwrap_or(0).min(LINES_MOST);
        let table = code.lines.wrapping_add(BYTES);
        let line = code.instruction.and_then(|instruction| {
            let byte = |at| words.byte(table.wrapping_add(at));
            lines::line_of(code.first_line, instruction, len, byte)
        });
        names.line = line.unwrap_or(0);
        Some(names)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::layout::{LENGTH, STATE};
    use super::*;
    use std::vec::Vec;

    const WORD: usize = size_of::<usize>();
    /// Where a made-up interpreter has its parts, in words of one piece of memory. Each is larger
    /// than the offsets that are read there.
    const RUNTIME: usize = 0;
    const INTERPRETER: usize = 100;
    const THREADS: usize = 200;
    const RECORD: usize = 300;
    const FRAMES: usize = 400;
    const FRAME: usize = 20;
    const CODE: usize = 900;
    const NAME: usize = 950;
    const FILE: usize = 1000;
    const LINES: usize = 1050;
    const END: usize = 1100;

    /// An interpreter of version 3.11 whose calling thread runs `depth` functions.
    fn made_up(depth: usize) -> (Vec<usize>, Python) {
        let layout = &LAYOUTS[0];
        let mut memory = std::vec![0usize; END];
        let base = memory.as_ptr().addr();
        let at = |word: usize| base + word * WORD;
        let mut put =
            |word: usize, offset: usize, value: usize| memory[word + offset / WORD] = value;
        put(RUNTIME, layout.interpreter, at(INTERPRETER));
        // The calling thread's is the second state.
        put(INTERPRETER, layout.threads, at(THREADS));
        put(THREADS, layout.thread, 1);
        put(THREADS, layout.next_thread, at(THREADS + 50));
        put(THREADS + 50, layout.thread, thread_handle());
        put(THREADS + 50, layout.frame, at(RECORD));
        let first = if depth == 0 { 0 } else { at(FRAMES) };
        put(RECORD, layout.record.unwrap(), first);
        for frame in 0..depth {
            let here = FRAMES + frame * FRAME;
            put(here, layout.code, at(CODE));
            put(here, layout.instruction, at(CODE) + layout.instructions + 2 * frame);
            put(here, layout.previous, if frame + 1 == depth { 0 } else { at(here + FRAME) });
        }
        put(CODE, TYPE, 77);
        put(CODE, ITEMS, 12);
        put(CODE, layout.first_line, 5);
        put(CODE, layout.name, at(NAME));
        put(CODE, layout.file, at(FILE));
        put(CODE, layout.lines, at(LINES));
        for (string, text) in [(NAME, &b"A.run\0\0\0"[..]), (FILE, b"/srv/app.py\0\0\0\0\0")] {
            put(string, LENGTH, text.split(|&byte| byte == 0).next().unwrap().len());
            put(string, STATE, 1 << 2 | 1 << 5 | 1 << 6);
            for (number, word) in text.chunks_exact(WORD).enumerate() {
                let word = usize::from_ne_bytes(word.try_into().unwrap());
                put(string, layout.characters[0] + number * WORD, word);
            }
        }
        // Each instruction is in the next line.
        put(LINES, ITEMS, 16);
        for number in 0..4 {
            let entries = [0x80 | 11 << 3, 0, 0, 0x80 | 11 << 3, 0, 0, 0x80 | 11 << 3, 0];
            put(LINES, BYTES + number * WORD, usize::from_ne_bytes(entries));
        }
        let python = Python { layout, runtime: base, code_type: 77, run: (0, 0) };
        (memory, python)
    }

    /// Returns the names and lines that a walk finds, and whether it has reached the end.
    fn walk(python: &Python) -> (Vec<std::string::String>, bool) {
        let mut found = Vec::new();
        let whole = python.walk(|words, code| {
            let names = python.names(words, code)?;
            let text = |bytes: &[u8]| std::string::String::from_utf8(bytes.to_vec()).unwrap();
            let (function, file) = (text(names.function()), text(names.file()));
            found.push(std::format!("{function} at {file}:{}", names.line));
            Some(())
        });
        (found, whole)
    }

    #[test]
    fn the_calling_thread_s_functions_are_walked_with_their_lines() {
        let (_memory, python) = made_up(3);
        let lines = [6, 7, 8].map(|line| std::format!("A.run at /srv/app.py:{line}"));
        assert_eq!(walk(&python), (lines.to_vec(), true));
        let (_memory, python) = made_up(0);
        assert_eq!(walk(&python), (Vec::new(), true), "no function runs");
    }

    #[test]
    fn an_instruction_outside_its_function_has_no_line() {
        let (mut memory, python) = made_up(1);
        let at = FRAMES + LAYOUTS[0].instruction / WORD;
        let first = memory[at];
        for (instruction, line) in [(first - 2, 6), (first - 4, 0), (first + 24, 0), (0, 0)] {
            memory[at] = instruction;
            assert_eq!(walk(&python).0, [std::format!("A.run at /srv/app.py:{line}")]);
        }
    }

    #[test]
    fn bits_that_count_references_belong_to_no_address() {
        let (mut memory, python) = made_up(1);
        for bits in 1..=REFERENCE {
            memory[FRAMES + LAYOUTS[0].code / WORD] = (memory.as_ptr().addr() + CODE * WORD) | bits;
            assert_eq!(walk(&python).0, ["A.run at /srv/app.py:6"]);
        }
    }

    /// Changes each word that is read to anything. The walk ends, and it never goes on behind a
    /// frame that it does not understand.
    #[test]
    fn garbage_ends_the_walk() {
        let (mut memory, python) = made_up(6);
        let layout = &LAYOUTS[0];
        let own = THREADS + 50;
        let words = [
            (RUNTIME, layout.interpreter, 0),
            (INTERPRETER, layout.threads, 0),
            (THREADS, layout.next_thread, 0),
            (own, layout.thread, 0),
            (own, layout.frame, 0),
            (RECORD, layout.record.unwrap(), 0),
            (FRAMES + 2 * FRAME, layout.previous, 3),
            (FRAMES + 3 * FRAME, layout.code, 3),
            (CODE, TYPE, 0),
            (CODE, layout.name, 0),
            (CODE, layout.file, 0),
        ];
        for (part, offset, whole) in words {
            for garbage in [8, 3, usize::MAX - 7, 0xdead_beef_dead_bee8, 1 << 47, NOT_EVEN] {
                let kept = std::mem::replace(&mut memory[part + offset / WORD], garbage);
                let (found, done) = walk(&python);
                assert_eq!((found.len(), done), (whole, false), "{part} {offset} {garbage:#x}");
                memory[part + offset / WORD] = kept;
            }
        }
        for (offset, garbage) in
            [(LENGTH, usize::MAX), (LENGTH, 1 << 40), (STATE, 0), (STATE, 3 << 2)]
        {
            let kept = std::mem::replace(&mut memory[NAME + offset / WORD], garbage);
            assert_eq!(walk(&python), (Vec::new(), false), "{offset} {garbage:#x}");
            memory[NAME + offset / WORD] = kept;
        }
        assert_eq!(walk(&python).0.len(), 6);
    }

    const NOT_EVEN: usize = 0x5555_5555_5555;

    #[test]
    fn a_chain_without_an_end_is_left() {
        let (mut memory, python) = made_up(2);
        memory[FRAMES + FRAME + LAYOUTS[0].previous / WORD] = memory[RECORD + 1];
        assert_eq!((walk(&python).0.len(), walk(&python).1), (DEPTH, false));
        // Marks of the interpreter that follow each other.
        for frame in [FRAMES, FRAMES + FRAME] {
            memory[frame + 8] = usize::from(OWNER_INTERPRETER) << 40;
        }
        assert_eq!(walk(&python), (Vec::new(), false));
    }

    #[test]
    fn strings_are_utf_8_and_only_their_end_is_kept() {
        let layout = &LAYOUTS[0];
        let (mut memory, _) = made_up(0);
        let string = memory.as_ptr().addr() + NAME * WORD;
        let mut put = |kind: usize, characters: &[u8]| {
            memory[NAME + LENGTH / WORD] = characters.len() / kind;
            memory[NAME + STATE / WORD] = kind << 2 | 1 << 5;
            for (number, word) in characters.chunks(WORD).enumerate() {
                let mut bytes = [0; WORD];
                bytes[..word.len()].copy_from_slice(word);
                memory[NAME + layout.characters[1] / WORD + number] = usize::from_ne_bytes(bytes);
            }
        };
        let text = |room: usize| {
            let mut to = std::vec![0; room];
            text::copy(&mut Words::new(), layout, string, &mut to).unwrap();
            std::string::String::from_utf8(to).unwrap().trim_end_matches('\0').to_owned()
        };
        put(1, &[b'a', 0xfc, 0]);
        assert_eq!(text(20), "a\u{fc}?");
        assert_eq!(text(5), "\u{fc}?");
        put(2, &[0x61, 0, 0xac, 0x20]);
        assert_eq!(text(20), "a\u{20ac}");
        put(4, &[0x61, 0, 0, 0, 0, 0xf6, 1, 0, 0, 0, 0x11, 0]);
        assert_eq!(text(20), "a\u{1f600}?");
        assert_eq!(text(3), "");
    }

    #[test]
    fn there_is_no_interpreter_in_this_program() {
        assert!(Python::find().is_none());
    }
}
