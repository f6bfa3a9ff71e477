//! From a call site in the target to a name: module, function, file and line, read out of process
//! from the ELF files.
//!
//! `stats` asks for the few sites it shows. Debug information is taken from the file itself or, by
//! build-id, from the system's directory of separated debug files; without any, the symbol table
//! gives the function.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::read::{Object, ObjectSegment, ObjectSymbol};
use toft_profile::{Frame, label, read_file};

use crate::debug_files::{self, FILE_MOST, SYSTEM, by_id, hex};
use crate::style::plain;

/// What is known about a code address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The mapped file.
    pub module: Option<PathBuf>,
    /// The address as the file's own tables count.
    pub offset: u64,
    /// The function, readable.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// Its line.
    pub line: Option<u32>,
}

impl Place {
    /// `function at file.c:12`, with less where less is known.
    pub fn words(&self, address: u64) -> String {
        let module = self
            .module
            .as_ref()
            .and_then(|path| path.file_name())
            .map(|name| name.to_string_lossy());
        let mut text = match (&self.function, &module) {
            (Some(function), _) => label::short(function),
            (None, Some(module)) => format!("{module}+{:#x}", self.offset),
            (None, None) => format!("{:#x} (code that is in no file)", address),
        };
        match (&self.file, self.line, &module) {
            (Some(file), Some(line), _) => {
                let name = file.rsplit('/').next().unwrap_or(file);
                let _ = write!(text, " at {name}:{line}");
            }
            (_, _, Some(module)) if self.function.is_some() => {
                let _ = write!(text, " in {module}");
            }
            _ => {}
        }
        plain(&text)
    }
}

/// The modules of one process, loaded when first asked for.
pub struct Symbols {
    regions: Vec<Region>,
    modules: HashMap<PathBuf, Option<Module>>,
    /// Folders that are looked into for files that are not where they were.
    search: Vec<PathBuf>,
}

/// Whether a file is the one that a report names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// As far as can be told.
    Same,
    /// It has another build-id.
    Another,
    /// It is not there, or is no such file.
    Missing,
}

struct Region {
    start: u64,
    end: u64,
    offset: u64,
    path: Option<PathBuf>,
}

struct Module {
    /// File offset, length, address.
    segments: Vec<(u64, u64, u64)>,
    /// Address, length, name; in order.
    functions: Vec<(u64, u64, String)>,
    lines: Option<Loader>,
    build_id: Option<String>,
}

impl Symbols {
    /// From the lines of `/proc/PID/maps`.
    pub fn new(maps: &[String]) -> Symbols {
        Symbols {
            regions: maps.iter().filter_map(|line| region(line)).collect(),
            modules: HashMap::new(),
            search: Vec::new(),
        }
    }

    /// For files that are named, and may be in one of these folders: under the whole name, under
    /// the last part of it, or as `.build-id/ab/cdef.debug`.
    pub fn searching(search: Vec<PathBuf>) -> Symbols {
        Symbols { search, ..Symbols::new(&[]) }
    }

    /// Where the call was that returns to `address`.
    pub fn call_before(&mut self, address: u64) -> Place {
        // The return address may already belong to the next line, or to the next function if the
        // callee never returns.
        let within = address.wrapping_sub(1);
        let Some(region) = self.regions.iter().find(|r| (r.start..r.end).contains(&within)) else {
            return Place { offset: address, ..Place::default() };
        };
        let Some(path) = region.path.clone() else {
            return Place { offset: address, ..Place::default() };
        };
        let in_file = (within - region.start).wrapping_add(region.offset);
        let Some(module) = self.module(&path) else {
            return Place {
                module: Some(path),
                offset: in_file.wrapping_add(1),
                ..Place::default()
            };
        };
        let probe = module.address_of(in_file).unwrap_or(in_file);
        let mut place =
            Place { module: Some(path), offset: probe.wrapping_add(1), ..Place::default() };
        module.describe(probe, &mut place);
        place
    }

    /// Where the call was that returns to `offset`, as the tables of the file count, and whether
    /// the file is the one with that build-id. If it is another, what that says.
    pub fn in_file(&mut self, path: &Path, offset: u64, build_id: Option<&str>) -> (Place, Found) {
        let mut place = Place { module: Some(path.to_owned()), offset, ..Place::default() };
        let Some(module) = self.module(path) else { return (place, Found::Missing) };
        module.describe(offset.wrapping_sub(1), &mut place);
        let same = build_id.is_none_or(|id| module.build_id.as_deref() == Some(id));
        (place, if same { Found::Same } else { Found::Another })
    }

    /// The functions that the call is in that returns to `offset`, innermost first, out of the file
    /// of that name and build-id. Another file of the name says nothing.
    pub fn frames(
        &mut self,
        path: &Path,
        offset: u64,
        build_id: Option<&str>,
    ) -> (Vec<Frame>, Found) {
        let mut seen = Found::Missing;
        for path in self.candidates(path, build_id) {
            let Some(module) = self.module(&path) else { continue };
            if build_id.is_some() && module.build_id.as_deref() != build_id {
                seen = Found::Another;
                continue;
            }
            return (module.frames(offset.wrapping_sub(1)), Found::Same);
        }
        (Vec::new(), seen)
    }

    /// Where a file may be. Those that the user names come first: he knows that the others are not
    /// the right ones.
    fn candidates(&self, path: &Path, build_id: Option<&str>) -> Vec<PathBuf> {
        let mut candidates = Vec::new();
        for folder in &self.search {
            candidates.push(folder.join(path.strip_prefix("/").unwrap_or(path)));
            candidates.extend(path.file_name().map(|name| folder.join(name)));
            candidates.extend(build_id.map(|id| by_id(folder, id)));
        }
        candidates.push(path.to_owned());
        candidates.extend(build_id.map(|id| by_id(Path::new(SYSTEM), id)));
        candidates
    }

    fn module(&mut self, path: &Path) -> Option<&Module> {
        let known = self.modules.entry(path.to_owned());
        known.or_insert_with(|| Module::load(path, &self.search)).as_ref()
    }
}

impl Module {
    fn load(path: &Path, search: &[PathBuf]) -> Option<Module> {
        let bytes = read_file(path, FILE_MOST).ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        let segments =
            elf.segments().map(|s| (s.file_range().0, s.file_range().1, s.address())).collect();
        let build_id = elf.build_id().ok().flatten().map(hex);
        let separate = debug_files::find(path, &elf, search);

        let mut functions = functions(&elf);
        let mut shared = debug_files::shared(path, &elf, search);
        if let Some(path) = &separate
            && let Ok(extra) = read_file(path, FILE_MOST)
            && let Ok(debug) = object::File::parse(&*extra)
        {
            functions.extend(self::functions(&debug));
            shared = debug_files::shared(path, &debug, search);
        }
        functions.sort();
        functions.dedup_by_key(|(address, ..)| *address);
        let lines = lines(separate.as_deref().unwrap_or(path), shared.as_deref());
        Some(Module { segments, functions, lines, build_id })
    }

    fn address_of(&self, in_file: u64) -> Option<u64> {
        let (offset, _, address) = self.segments.iter().find(|(offset, length, _)| {
            in_file.checked_sub(*offset).is_some_and(|d| d < *length)
        })?;
        Some((in_file - offset).wrapping_add(*address))
    }

    /// The functions at an address, innermost first.
    fn frames(&self, probe: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        if let Some(lines) = &self.lines
            && let Ok(mut found) = lines.find_frames(probe)
        {
            while let Ok(Some(frame)) = found.next() {
                let name = frame.function.and_then(|f| f.raw_name().ok().map(|n| demangle(&n)));
                let location = frame.location.as_ref();
                frames.push(Frame {
                    function: name.unwrap_or_default(),
                    file: location.and_then(|l| l.file.map(str::to_owned)),
                    line: location.and_then(|l| l.line),
                });
            }
        }
        // Debug information may have lines without names.
        let outermost = frames.last().is_none_or(|frame| frame.function.is_empty());
        if outermost && let Some(function) = self.function(probe) {
            match frames.last_mut() {
                Some(frame) => frame.function = function,
                None => frames.push(Frame { function, file: None, line: None }),
            }
        }
        frames.retain(|frame| !frame.function.is_empty());
        frames
    }

    /// By the symbol table.
    fn function(&self, probe: u64) -> Option<String> {
        let after = self.functions.partition_point(|(address, ..)| *address <= probe);
        let (address, length, name) = self.functions.get(after.checked_sub(1)?)?;
        // Beyond the symbol's length the address belongs to a function that the table does not
        // have.
        (probe - address < *length).then(|| demangle(name))
    }

    /// Names a place by the function that labels it.
    fn describe(&self, probe: u64, place: &mut Place) {
        let frames = self.frames(probe);
        if let Some(label) = label::label(&frames) {
            place.function = Some(label.function.clone());
            (place.file, place.line) = (label.file.clone(), label.line);
        }
    }
}

/// The lines of a file. The loader opens the package of debug information that lies beside it, too,
/// whatever that is.
fn lines(path: &Path, shared: Option<&Path>) -> Option<Loader> {
    let mut package = path.as_os_str().to_owned();
    package.push(".dwp");
    if fs::metadata(package).is_ok_and(|about| !about.is_file()) {
        return None;
    }
    Loader::new_with_sup(path, shared).ok()
}

fn functions(elf: &object::File<'_>) -> Vec<(u64, u64, String)> {
    elf.symbols()
        .chain(elf.dynamic_symbols())
        .filter(|s| s.is_definition() && s.size() > 0 && s.kind() == object::SymbolKind::Text)
        .filter_map(|s| Some((s.address(), s.size(), s.name().ok()?.to_owned())))
        .collect()
}

fn region(line: &str) -> Option<Region> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let offset = hex(fields.nth(1)?)?;
    let path = fields.nth(2).map(str::trim).filter(|path| path.starts_with('/'));
    Some(Region { start: hex(start)?, end: hex(end)?, offset, path: path.map(PathBuf::from) })
}

/// Rust and C++ names as people write them; others unchanged.
pub fn demangle(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash that tells instances apart.
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled() {
        assert_eq!(
            demangle("_ZN4core3fmt5Write9write_str17h0123456789abcdefE"),
            "core::fmt::Write::write_str"
        );
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(
            demangle("_ZNSt6vectorIiSaIiEE9push_backEOi"),
            "std::vector<int, std::allocator<int> >::push_back(int&&)"
        );
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Zero"), "_Zero");
    }

    #[test]
    fn maps_lines_are_read() {
        let line =
            "7f00-7f80 r-xp 00001000 fe:00 12345                      /usr/lib/with space.so";
        let region = region(line).unwrap();
        assert_eq!((region.start, region.end, region.offset), (0x7f00, 0x7f80, 0x1000));
        assert_eq!(region.path.unwrap(), Path::new("/usr/lib/with space.so"));
        assert!(self::region("7f00-7f80 r-xp 00000000 00:00 0 [vdso]").unwrap().path.is_none());
        assert!(self::region("nonsense").is_none());
    }

    /// This test's own process, whose debug information names this very file.
    #[test]
    fn a_function_of_this_process_is_found() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let maps: Vec<String> =
            maps.lines().filter(|line| line.contains("x")).map(str::to_owned).collect();
        let here = a_function_of_this_process_is_found as fn() as usize as u64;
        let place = Symbols::new(&maps).call_before(here + 2);
        assert!(place.function.unwrap().contains("a_function_of_this_process_is_found"));
        assert!(place.file.unwrap().ends_with("symbols.rs"));
        assert!(place.line.unwrap() > 1);
    }

    #[test]
    fn no_name_steers_the_terminal() {
        let place = Place { function: Some("f\x1b[2J\ng".into()), ..Place::default() };
        assert_eq!(place.words(8), "f\u{fffd}[2J\u{fffd}g");
        let place = Place { module: Some("/a\x1b[2J".into()), ..Place::default() };
        assert_eq!(place.words(8), "a\u{fffd}[2J+0x0");
    }

    #[test]
    fn a_file_without_an_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut symbols = Symbols::searching(Vec::new());
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            assert_eq!(symbols.frames(path, 8, None), (Vec::new(), Found::Missing));
        }
        // Nor is one beside a file that is well.
        let program = folder.path().join("program.so");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        nix::unistd::mkfifo(&folder.path().join("program.so.dwp"), nix::sys::stat::Mode::S_IRWXU)
            .unwrap();
        assert_eq!(symbols.frames(&program, u64::MAX, None), (Vec::new(), Found::Same));
    }

    #[test]
    fn an_address_nowhere_stays_a_number() {
        assert_eq!(
            Symbols::new(&[]).call_before(0x1234),
            Place { offset: 0x1234, ..Place::default() }
        );
    }
}
