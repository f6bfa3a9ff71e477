//! The facts of an ELF file that decide whether a preloaded malloc can work in it.
//!
//! Nothing here judges: `vet` does. Only the parts that are needed are read, because targets may be
//! hundreds of megabytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object::elf::{FileHeader64, PT_INTERP};
use object::endian::Endianness;
use object::read::elf::{ElfFile, ProgramHeader};
use object::read::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, ReadCache};

use super::allocator::Symbols;
use toft_core::options::of_c;

/// The shape of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Native,
    /// 32 bits, whatever the machine: i386, arm, and x32 on x86-64.
    Bits32,
    /// 64 bits, another machine, by its ELF number.
    OtherMachine(u16),
}

#[derive(Debug, Default)]
pub struct Facts {
    /// The shape; if it is not native, nothing below was read.
    pub format: Format,
    /// The dynamic loader it asks for; none in a static program.
    pub interpreter: Option<String>,
    /// It is the dynamic loader, which has no interpreter and yet heeds `LD_PRELOAD` for the
    /// program it is given.
    pub is_loader: bool,
    pub go: bool,
    /// The library or symbol that shows a sanitizer.
    pub sanitizer: Option<String>,
    /// It exports `malloc`: the executable comes first in symbol search, before any preloaded
    /// library.
    pub exports_malloc: bool,
    /// What shows that an allocator is linked in.
    pub own_malloc: Option<String>,
    /// It has Rust code with symbols, which allocates by malloc.
    pub rust: bool,
    /// It has a library of C++, shared or linked in.
    pub cxx: bool,
    /// It has or calls a known function of C that allocates for its caller.
    pub c: bool,
    pub needed: Vec<String>,
    /// It calls tcmalloc's `MallocExtension`.
    pub malloc_extension: bool,
    /// It calls `dlmopen`, by which it may have a second C library.
    pub calls_dlmopen: bool,
}

impl Facts {
    /// The languages whose functions allocate for their callers in it, as `TOFT_WRAPPERS` has them.
    pub fn languages(&self) -> Vec<&'static str> {
        let all = [(self.rust, "rust"), (self.cxx, "c++"), (self.c, "c")];
        all.into_iter().filter_map(|(has, name)| has.then_some(name)).collect()
    }
}

#[derive(Debug)]
pub enum Unreadable {
    /// Mode `--x`.
    Denied,
    /// No ELF magic.
    NotElf,
    /// ELF magic and then nonsense.
    Broken(String),
}

/// This machine's number in ELF headers.
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = object::elf::EM_X86_64.0;
/// This machine's number in ELF headers.
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = object::elf::EM_AARCH64.0;

pub fn read(path: &Path) -> Result<Facts, Unreadable> {
    let mut file = File::open(path).map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => Unreadable::Denied,
        _ => Unreadable::Broken(e.to_string()),
    })?;
    let mut ident = [0; 20];
    if file.read_exact(&mut ident).is_err() || !ident.starts_with(b"\x7fELF") {
        return Err(Unreadable::NotElf);
    }
    // The class first: x32 programs have the machine number of x86-64.
    if ident[4] == object::elf::ELFCLASS32.0 {
        return Ok(Facts { format: Format::Bits32, ..Facts::default() });
    }
    let machine = [ident[18], ident[19]];
    let machine = if ident[5] == object::elf::ELFDATA2MSB.0 {
        u16::from_be_bytes(machine)
    } else {
        u16::from_le_bytes(machine)
    };
    if machine != MACHINE {
        return Ok(Facts { format: Format::OtherMachine(machine), ..Facts::default() });
    }
    parse(file).map_err(|e| Unreadable::Broken(e.to_string()))
}

fn parse(file: File) -> object::Result<Facts> {
    let mut facts = Facts::default();
    let cache = ReadCache::new(file);
    let elf: ElfFile<FileHeader64<Endianness>, &ReadCache<File>> = ElfFile::parse(&cache)?;
    let endian = elf.endian();

    for segment in elf.elf_program_headers() {
        if segment.p_type(endian) == PT_INTERP {
            let path = segment.interpreter(endian, &cache)?.unwrap_or_default();
            facts.interpreter = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    // Absent in a static program; a damaged one costs a warning less, not the run.
    if let Ok(table) = elf.elf_dynamic_table() {
        for entry in table.iter() {
            let Ok(text) = table.string(entry) else {
                continue;
            };
            let text = String::from_utf8_lossy(text).into_owned();
            if entry.tag == object::elf::DT_NEEDED {
                facts.needed.push(text);
            } else if entry.tag == object::elf::DT_SONAME
                && (text.starts_with("ld-linux") || text.starts_with("ld64"))
            {
                facts.is_loader = true;
            }
        }
    }
    facts.cxx = facts
        .needed
        .iter()
        .any(|name| name.starts_with("libstdc++.so") || name.starts_with("libc++.so"));
    facts.go = [".note.go.buildid", ".go.buildinfo"]
        .iter()
        .any(|name| elf.section_by_name(name).is_some());
    facts.sanitizer = facts.needed.iter().find(|soname| sanitizer_library(soname)).cloned();

    let mut symbols = Symbols::default();
    for (table, exported) in [(elf.dynamic_symbol_table(), true), (elf.symbol_table(), false)] {
        let Some(table) = table else { continue };
        for symbol in table.symbols() {
            let Ok(name) = symbol.name_bytes() else {
                continue;
            };
            // An instrumented program refers to these even where the runtime is a shared library of
            // another name.
            if facts.sanitizer.is_none() && SANITIZER_SYMBOLS.contains(&name) {
                facts.sanitizer = Some(String::from_utf8_lossy(name).into_owned());
            }
            facts.c |= of_c(name);
            if !symbol.is_definition() {
                symbols.imported(name, symbol.is_weak());
                facts.calls_dlmopen |= name == b"dlmopen";
                continue;
            }
            symbols.defined(name);
            facts.cxx |= name == b"_Znwm";
            if name == b"malloc" {
                facts.exports_malloc |= exported;
            }
        }
    }
    facts.own_malloc = symbols.found();
    facts.rust = symbols.rust_by_malloc();
    facts.malloc_extension = symbols.calls_malloc_extension();
    if facts.own_malloc.is_none()
        && elf.symbol_table().is_none_or(|table| table.symbols().next().is_none())
        && let Some(constants) = elf.section_by_name(".rodata")
    {
        facts.own_malloc = constants.data().ok().and_then(|bytes| symbols.found_in(bytes));
    }
    Ok(facts)
}

/// Returns the function by which a library allocates from a malloc that Toft does not replace, if
/// it also calls one that frees.
pub fn calls_other_malloc(path: &Path) -> Option<String> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let elf: ElfFile<FileHeader64<Endianness>, &ReadCache<File>> = ElfFile::parse(&cache).ok()?;
    let mut symbols = Symbols::default();
    for symbol in elf.dynamic_symbol_table()?.symbols().filter(|it| !it.is_definition()) {
        symbols.imported(symbol.name_bytes().unwrap_or_default(), symbol.is_weak());
    }
    symbols.found()
}

const SANITIZER_SYMBOLS: [&[u8]; 5] =
    [b"__asan_init", b"__tsan_init", b"__msan_init", b"__hwasan_init", b"__lsan_init"];

fn sanitizer_library(soname: &str) -> bool {
    let runtime = soname.strip_prefix("libclang_rt.").or_else(|| soname.strip_prefix("lib"));
    let names = ["asan", "tsan", "msan", "hwasan", "lsan"];
    runtime.is_some_and(|runtime| names.iter().any(|name| runtime.starts_with(name)))
}
