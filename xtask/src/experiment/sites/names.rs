//! Functions of files, by their symbols, or where there are none by their unwind tables; and which
//! of them are wrappers of malloc. How that is decided is on the page, and here:
//!
//! - one with a name: its name, without arguments and what stands in angle brackets, has one of
//!   [`WORDS`] in it;
//! - one without: it is short, and many places of its file call it directly; or none does, so that
//!   it is called through a pointer, and it calls malloc or one of its kind itself.

use object::elf::PT_GNU_EH_FRAME;
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationTarget,
    SymbolKind,
};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use toft_profile::Mapping;

/// What the names of functions that only hand memory on have in them.
const WORDS: [&str; 9] = [
    "alloc",
    "operator new",
    "strdup",
    "strndup",
    "memdup",
    "obstack",
    "raw_vec",
    "finish_grow",
    "pymem_",
];
/// And what has such a word in it, and gives back.
const OTHERS: [&str; 1] = ["dealloc"];

/// What a wrapper calls in the end.
const MALLOC: [&str; 8] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "_Znwm",
];

/// A function without a name is a wrapper if it has at most this number of bytes,
const SHORT: u64 = 256;
/// and this number of places call it.
const CALLERS: u32 = 8;

/// What a call site is of.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The function, or where it is.
    pub name: String,
    /// Whether that is a name.
    pub has_name: bool,
    /// Whether it is a wrapper.
    pub is_wrapper: bool,
}

/// The files that were read so far.
#[derive(Default)]
pub struct Names {
    files: BTreeMap<String, Option<Rc<File>>>,
}

impl Names {
    /// What the call site at an address is of.
    pub fn verdict(&mut self, files: &[Mapping], site: u64) -> Verdict {
        let nowhere = || Verdict { name: format!("{site:#x}"), has_name: false, is_wrapper: false };
        let Some(mapping) = files.iter().find(|m| (m.start..m.end).contains(&site)) else {
            return nowhere();
        };
        let path = mapping.path.clone();
        let known =
            self.files.entry(path).or_insert_with(|| File::read(&mapping.path).map(Rc::new));
        match known {
            // A return address may be that of the next function.
            Some(file) => file.verdict(&mapping.path, site - 1 - mapping.start + mapping.offset),
            None => nowhere(),
        }
    }
}

/// A file's functions.
struct File {
    /// Offset in the file, address, bytes.
    segments: Vec<(u64, u64, u64)>,
    /// Address, the one behind the last, name.
    symbols: Vec<(u64, u64, String)>,
    /// Address, the one behind the last, how many places call it.
    functions: Vec<(u64, u64, u32)>,
    /// Where calls of malloc and its kind return to.
    outward: BTreeSet<u64>,
}

impl File {
    fn read(path: &str) -> Option<File> {
        let bytes = std::fs::read(path).ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        let segments: Vec<_> = elf
            .segments()
            .map(|segment| (segment.file_range().0, segment.address(), segment.file_range().1))
            .collect();
        let mut symbols: Vec<_> = elf
            .symbols()
            .chain(elf.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .map(|symbol| {
                let name = readable(symbol.name().unwrap_or(""));
                (symbol.address(), symbol.address() + symbol.size(), name)
            })
            .collect();
        symbols.sort();
        let stubs = stubs(&elf);
        let outward = BTreeSet::new();
        let mut file = File { segments, symbols, functions: Vec::new(), outward };
        file.functions = file.unwound(&bytes).unwrap_or_default();
        file.count_calls(&bytes, &stubs);
        Some(file)
    }

    fn address(&self, offset: u64) -> Option<u64> {
        let of = |&&(start, _, bytes): &&(u64, u64, u64)| (start..start + bytes).contains(&offset);
        self.segments.iter().find(of).map(|(start, address, _)| offset - start + address)
    }

    fn offset(&self, address: u64) -> Option<u64> {
        let of = |&&(_, first, bytes): &&(u64, u64, u64)| (first..first + bytes).contains(&address);
        self.segments.iter().find(of).map(|(start, first, _)| address - first + start)
    }

    /// The functions that the search table of `.eh_frame` lists, in the form that linkers give it.
    fn unwound(&self, bytes: &[u8]) -> Option<Vec<(u64, u64, u32)>> {
        let word = |at: u64| {
            let at = usize::try_from(at).ok()?;
            Some(i64::from(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)))
        };
        let at = program_header(bytes, PT_GNU_EH_FRAME)?;
        let header = self.address(at)?;
        if bytes.get(usize::try_from(at).ok()?..)?.first_chunk()? != &[1, 0x1b, 0x03, 0x3b] {
            return None;
        }
        let count = u64::try_from(word(at + 8)?).ok()?;
        let mut functions = Vec::new();
        for number in 0..count {
            let start = header.wrapping_add_signed(word(at + 12 + 8 * number)?);
            let description = header.wrapping_add_signed(word(at + 16 + 8 * number)?);
            // Length, common part, start, bytes of code.
            let length = word(self.offset(description)? + 12)?;
            functions.push((start, start + u64::try_from(length).ok()?, 0));
        }
        Some(functions)
    }

    /// Counts the places that call each function: whatever looks like such a call of its first
    /// byte; and notes those that call one of the linker's `stubs`.
    fn count_calls(&mut self, bytes: &[u8], stubs: &BTreeSet<u64>) {
        for &(start, address, size) in &self.segments {
            let Some(code) = bytes.get(start as usize..(start + size) as usize) else { continue };
            for (at, call) in code.windows(5).enumerate().filter(|(_, call)| call[0] == 0xe8) {
                let distance = i32::from_le_bytes([call[1], call[2], call[3], call[4]]);
                let to = (address + at as u64 + 5).wrapping_add_signed(i64::from(distance));
                if stubs.contains(&to) {
                    self.outward.insert(address + at as u64 + 5);
                } else if let Ok(place) =
                    self.functions.binary_search_by_key(&to, |function| function.0)
                {
                    self.functions[place].2 += 1;
                }
            }
        }
    }

    fn verdict(&self, path: &str, offset: u64) -> Verdict {
        let address = self.address(offset).unwrap_or(offset);
        let before = self.symbols.partition_point(|symbol| symbol.0 <= address);
        // Some symbols lie within others.
        let named = self.symbols[..before].iter().rev().take(8).find(|symbol| address < symbol.1);
        if let Some((.., name)) = named {
            return Verdict { name: name.clone(), has_name: true, is_wrapper: wraps(name) };
        }
        let (short, called) = ((1..=SHORT), |callers| callers >= CALLERS);
        let goes_out = self.outward.contains(&(address + 1));
        let before = self.functions.partition_point(|function| function.0 <= address);
        let function = self.functions[..before].last().filter(|function| address < function.1);
        let file = path.rsplit('/').next().unwrap_or(path);
        let (start, bytes, callers) = function
            .map_or((address, 0, 0), |&(start, end, callers)| (start, end - start, callers));
        Verdict {
            name: format!("{file}+{start:#x}, {bytes} bytes, called from {callers} places"),
            has_name: false,
            is_wrapper: short.contains(&bytes) && (called(callers) || callers == 0 && goes_out),
        }
    }
}

/// The linker's stubs through which a file calls malloc and its kind: each jumps to where a word of
/// memory says, and the loader writes a function there, by its name.
fn stubs(elf: &object::File<'_>) -> BTreeSet<u64> {
    let mut words = BTreeSet::new();
    let (symbols, relocations) = (elf.dynamic_symbol_table(), elf.dynamic_relocations());
    for (place, relocation) in relocations.into_iter().flatten() {
        if let (RelocationTarget::Symbol(index), Some(symbols)) = (relocation.target(), &symbols)
            && let Ok(symbol) = symbols.symbol_by_index(index)
            && MALLOC.contains(&symbol.name().unwrap_or(""))
        {
            words.insert(place);
        }
    }
    let mut stubs = BTreeSet::new();
    for section in elf.sections() {
        if !section.name().is_ok_and(|name| name.starts_with(".plt")) {
            continue;
        }
        for (number, stub) in section.data().unwrap_or(&[]).chunks(16).enumerate() {
            let at = section.address() + 16 * number as u64;
            // `endbr64` and a prefix may stand before `jmp [rip + distance]`; half of a stub is a
            // stub in `.plt.got`.
            for (place, jump) in stub.windows(6).enumerate().filter(|(_, j)| j[..2] == [0xff, 0x25])
            {
                let distance = i32::from_le_bytes([jump[2], jump[3], jump[4], jump[5]]);
                let word = (at + place as u64 + 6).wrapping_add_signed(i64::from(distance));
                if words.contains(&word) {
                    stubs.insert(if place >= 8 { at + 8 } else { at });
                }
            }
        }
    }
    stubs
}

/// Where in a file the segment of a kind begins.
fn program_header(bytes: &[u8], kind: object::elf::ProgramType) -> Option<u64> {
    let number = |at: usize, count: usize| {
        let mut word = [0; 8];
        word[..count].copy_from_slice(bytes.get(at..at + count)?);
        Some(u64::from_le_bytes(word))
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut entries = (0..count).map(|entry| (table + entry * size) as usize);
    let found = entries.find(|&at| number(at, 4) == Some(u64::from(kind.0)))?;
    number(found + 8, 8)
}

/// A name as people write it, without what Rust and C++ put around it.
fn readable(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    match cpp_demangle::Symbol::new(name) {
        Ok(symbol) => symbol.demangle().unwrap_or_else(|_| name.to_owned()),
        Err(_) => name.to_owned(),
    }
}

/// Whether a function of this name only hands on what malloc gives it.
fn wraps(name: &str) -> bool {
    let mut plain = String::new();
    let mut depth = 0;
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            // The arguments.
            '(' if depth == 0 && !plain.is_empty() => break,
            _ if depth == 0 => plain.push(letter.to_ascii_lowercase()),
            _ => {}
        }
    }
    WORDS.iter().any(|word| plain.contains(word)) && !OTHERS.iter().any(|word| plain.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_told_by_their_names() {
        for name in ["xmalloc", "g_malloc0", "PyMem_RawMalloc", "_obstack_newchunk", "__rust_alloc"]
        {
            assert!(wraps(name), "{name}");
        }
        assert!(wraps("alloc::raw_vec::finish_grow") && wraps("operator new(unsigned long)"));
        assert!(wraps("sqlite3DbMallocRawNN") && wraps("xstrdup") && wraps("zmalloc"));
        for name in ["PyUnicode_New", "main", "inflateInit2_", "xdealloc", "new_keys_object"] {
            assert!(!wraps(name), "{name}");
        }
        assert!(!wraps("hash_table<a, false, xcallocator>::hash_table(unsigned long, alloc)"));
    }

    #[test]
    fn functions_are_found_by_symbol_and_by_unwind_table() {
        let own = std::env::current_exe().unwrap();
        let file = File::read(own.to_str().unwrap()).unwrap();
        assert!(file.symbols.len() > 1000 && file.functions.len() > 1000);
        let wrapper = file.symbols.iter().find(|symbol| symbol.2.ends_with("finish_grow")).unwrap();
        let offset = file.offset(wrapper.0 + 1).unwrap();
        let verdict = file.verdict("/a/b", offset);
        assert!(verdict.has_name && verdict.is_wrapper, "{verdict:?}");
        // That program without its symbols: many call it, and it is not short in a debug build.
        let stripped = File { symbols: Vec::new(), ..file };
        let verdict = stripped.verdict("/a/b", offset);
        assert!(!verdict.has_name && verdict.name.starts_with("b+0x"), "{verdict:?}");
        let called = stripped.functions.iter().filter(|function| function.2 >= CALLERS);
        assert!(called.count() > 100);
    }
}
