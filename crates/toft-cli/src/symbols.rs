//! Names of call sites: function, file and line, from ELF files and their debug information.
//!
//! Debug information is taken from the file itself or, by build-id, from a separate debug file.
//! Without any, the symbol table has the function.

mod calls;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::read::{Object, ObjectSegment, ObjectSymbol};
use serde_json::{Value, json};
use toft_core::report::program_name;
use toft_profile::{Frame, Frames, Location, Mapping, paths_of_text, read_file, text_of_path};

use crate::debug_files::{self, FILE_MOST, SYSTEM, by_id, hex};
use crate::style;
use crate::vet::resolve::Resolved;

use calls::Code;

pub use calls::Caller;

/// The parts of a file that are mapped: file offset, length, address.
type Segments = Vec<(u64, u64, u64)>;

/// Adds the file and the function of a call site to an object.
pub fn with_place(mut object: Value, location: &Location) -> Value {
    let label = location.label();
    object["module"] = json!(location.module);
    object["offset"] = json!(format!("{:#x}", location.offset.unwrap_or(location.site)));
    object["function"] = json!(label.as_ref().map(|label| &label.function));
    object["file"] = json!(label.as_ref().and_then(|label| label.file.as_ref()));
    object["line"] = json!(label.and_then(|label| label.line));
    object
}

/// Adds up the figures of call sites with the same label. Returns each label with its sums, the
/// largest first. A label of several call sites ends with their number.
pub fn by_place<'a, const N: usize>(
    sites: impl Iterator<Item = (&'a Location, [u64; N])> + Clone,
) -> Vec<(String, [u64; N])> {
    let labels = Location::places(sites.clone().map(|(location, _)| location));
    let mut places: HashMap<String, ([u64; N], HashSet<u64>)> = HashMap::new();
    for ((location, figures), label) in sites.zip(labels) {
        let (sums, known) = places.entry(label).or_insert(([0; N], HashSet::new()));
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
        known.insert(location.site);
    }
    let mut places: Vec<_> = places
        .into_iter()
        .map(|(label, (sums, sites))| match sites.len() {
            1 => (label, sums),
            count => (format!("{label} ({} call sites)", style::count(count as u64)), sums),
        })
        .collect();
    places.sort_by(|(a, sums), (b, others)| others.cmp(sums).then_with(|| a.cmp(b)));
    places
}

/// The files of call sites, loaded when first needed.
pub struct Symbols {
    modules: HashMap<PathBuf, Option<Module>>,
    /// What was found, by the file of the call site.
    named: HashMap<String, Named>,
    /// Folders to search for files that are not at their own paths.
    search: Vec<PathBuf>,
    /// Where files are that were deleted or replaced after a process had mapped them, by the name
    /// of the mapping.
    deleted: HashMap<String, PathBuf>,
    /// The names that programs were started by, by the names of their mappings.
    programs: HashMap<String, String>,
}

/// What the kernel appends to the path of a file that is no longer there.
const DELETED: &str = " (deleted)";

/// Which file was found under the name of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The one that ran, or one without a build-id.
    Same,
    /// One with another build-id.
    Another,
    /// None, or no ELF file.
    Missing,
}

/// What was found of one file.
#[derive(Default)]
struct Named {
    build_id: Option<String>,
    /// By the offset, and whether it is a call site.
    places: HashMap<(u64, bool), (Found, Frames)>,
}

struct Module {
    segments: Segments,
    code: Option<Code>,
    /// Address, length, name; in order.
    functions: Vec<(u64, u64, String)>,
    lines: Option<Loader>,
    build_id: Option<String>,
}

impl Symbols {
    /// Searches these folders first: under the whole path, under its last part, or as
    /// `.build-id/ab/cdef.debug`.
    pub fn new(search: Vec<PathBuf>) -> Symbols {
        Symbols {
            modules: HashMap::new(),
            named: HashMap::new(),
            search,
            deleted: HashMap::new(),
            programs: HashMap::new(),
        }
    }

    /// Finds the program of a running process even if its file was deleted or replaced.
    pub fn look_at_process(&mut self, pid: i32) {
        let link = PathBuf::from(format!("/proc/{pid}/exe"));
        let Ok(program) = fs::read_link(&link) else { return };
        let program = text_of_path(&program);
        if let Some(name) = name_of_process(pid) {
            self.call_program(&program, name);
        }
        if program.ends_with(DELETED) {
            self.deleted.insert(program, link);
        }
    }

    /// Names the file of a target by the name that it is started by.
    pub fn look_at_target(&mut self, target: &Resolved) {
        let file = fs::canonicalize(&target.binary).ok();
        if !target.script
            && let (Some(file), Some(name)) = (file, target.named.file_name())
        {
            self.call_program(&text_of_path(&file), name.to_string_lossy().into_owned());
        }
    }

    fn call_program(&mut self, file: &str, name: String) {
        let path = file.strip_suffix(DELETED).unwrap_or(file);
        if Path::new(path).file_name() != Some(name.as_ref()) {
            self.programs.insert(file.to_owned(), name);
        }
    }

    /// Returns the named call site of a return address, by the mappings of its process.
    pub fn locate(&mut self, mappings: &[Mapping], site: u64) -> Location {
        let mut location = Location { site, ..Location::default() };
        let call = site.wrapping_sub(1);
        let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&call));
        if let Some(mapping) = mapping.filter(|mapping| mapping.path.starts_with('/')) {
            let in_file = (site - mapping.start).wrapping_add(mapping.offset);
            let (_, path) = self.file_of(&mapping.path, None);
            let module = path.as_deref().and_then(|path| self.module(path));
            let address = module.and_then(|module| module.address_of(in_file.wrapping_sub(1)));
            location.module = Some(mapping.path.clone());
            location.offset = Some(address.map_or(in_file, |address| address.wrapping_add(1)));
            self.name(&mut location);
        }
        location
    }

    /// Finds the functions of a call site in the file with its name and build-id. Another file with
    /// that name says nothing. The first function is the one that allocates, if that does so by a
    /// jump and has no frame.
    pub fn name(&mut self, location: &mut Location) -> Found {
        self.name_call(location, true)
    }

    /// Gives a call in a program's file the name that the program was started by.
    pub fn name_program(&self, location: &mut Location) {
        let name = location.module.as_ref().and_then(|module| self.programs.get(module));
        if let Some(name) = name {
            location.program = Some(name.clone());
        }
    }

    /// Finds the functions of a call, which need not be one of an allocating function.
    pub fn name_call(&mut self, location: &mut Location, is_site: bool) -> Found {
        self.name_program(location);
        let (Some(module), Some(offset)) = (&location.module, location.offset) else {
            return Found::Missing;
        };
        let place = (offset, is_site);
        let known = self.named.get(module).filter(|named| named.build_id == location.build_id);
        let known = known.and_then(|named| named.places.get(&place)).cloned();
        let (found, frames) = known.unwrap_or_else(|| {
            let new = self.find(module, location.build_id.as_deref(), place);
            let named = self.named.entry(module.clone()).or_default();
            if named.build_id != location.build_id {
                // Another file has taken its place.
                *named = Named { build_id: location.build_id.clone(), ..Named::default() };
            }
            named.places.entry(place).or_insert(new).clone()
        });
        if !frames.is_empty() {
            location.frames = frames;
        }
        found
    }

    fn find(
        &mut self,
        module: &str,
        build_id: Option<&str>,
        (offset, is_site): (u64, bool),
    ) -> (Found, Frames) {
        let (found, path) = self.file_of(module, build_id);
        let module = path.as_deref().and_then(|path| self.module(path));
        let frames = module.map_or(Vec::new(), |module| {
            let by_jump = if is_site { module.tail_caller(offset) } else { None };
            // The return address may already belong to the next line, or to the next function if
            // the callee never returns.
            by_jump.into_iter().chain(module.frames(offset.wrapping_sub(1))).collect()
        });
        (found, frames.into())
    }

    /// Returns the file of a module, if it has this build-id.
    fn file_of(&mut self, module: &str, build_id: Option<&str>) -> (Found, Option<PathBuf>) {
        let mut found = Found::Missing;
        for path in self.candidates(module, build_id) {
            let Some(module) = self.module(&path) else { continue };
            if build_id.is_some() && module.build_id.as_deref() != build_id {
                found = Found::Another;
                continue;
            }
            return (Found::Same, Some(path));
        }
        (found, None)
    }

    /// Returns where a file may be. The folders of the user come first: the user knows that the
    /// other files are not the right ones.
    fn candidates(&self, module: &str, build_id: Option<&str>) -> Vec<PathBuf> {
        // A file may have the kernel's mark in its own name.
        let names = [Some(module), module.strip_suffix(DELETED)];
        let paths: Vec<PathBuf> = names.into_iter().flatten().flat_map(paths_of_text).collect();
        let mut candidates = Vec::new();
        for folder in &self.search {
            for path in &paths {
                candidates.push(folder.join(path.strip_prefix("/").unwrap_or(path)));
                candidates.extend(path.file_name().map(|name| folder.join(name)));
            }
            candidates.extend(build_id.map(|id| by_id(folder, id)));
        }
        candidates.extend(self.deleted.get(module).cloned());
        candidates.extend(paths);
        candidates.extend(build_id.map(|id| by_id(Path::new(SYSTEM), id)));
        candidates
    }

    fn module(&mut self, path: &Path) -> Option<&Module> {
        // Debug information is beside the place where the file was.
        let was_at = self.deleted.iter().find(|(_, file)| *file == path);
        let was_at = was_at.and_then(|(module, _)| module.strip_suffix(DELETED)).map(Path::new);
        let known = self.modules.entry(path.to_owned());
        known.or_insert_with(|| Module::load(path, was_at.unwrap_or(path), &self.search)).as_ref()
    }
}

impl Module {
    /// Reads a file that is, or was, at `place`.
    fn load(path: &Path, place: &Path, search: &[PathBuf]) -> Option<Module> {
        let bytes = read_file(path, FILE_MOST).ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        let segments =
            elf.segments().map(|s| (s.file_range().0, s.file_range().1, s.address())).collect();
        let code = Code::of(path, &elf, &segments);
        let build_id = elf.build_id().ok().flatten().map(hex);
        let separate = debug_files::find(place, &elf, search);

        let mut functions = functions(&elf);
        if let Some(inside) = debug_files::compressed(&elf)
            && let Ok(symbols) = object::File::parse(&*inside)
        {
            functions.extend(self::functions(&symbols));
        }
        let mut shared = debug_files::shared(place, &elf, search);
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
        Some(Module { segments, code, functions, lines, build_id })
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

    fn function(&self, probe: u64) -> Option<String> {
        self.symbol(probe).map(|(.., name)| demangle(name))
    }

    /// The symbol of the function at an address.
    fn symbol(&self, probe: u64) -> Option<&(u64, u64, String)> {
        let after = self.functions.partition_point(|(address, ..)| *address <= probe);
        // Beyond the symbol's length the address belongs to a function that the table does not
        // have.
        self.functions
            .get(after.checked_sub(1)?)
            .filter(|(address, length, _)| probe - address < *length)
    }
}

/// Returns the name of a process, if its command has that name, too.
fn name_of_process(pid: i32) -> Option<String> {
    let name = toft_profile::read(pid, "comm").ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = command.split(|&byte| byte == 0).next()?;
    let name = program_name(name.trim_end_matches('\n').as_bytes(), command)?;
    Some(String::from_utf8_lossy(name).into_owned())
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

    /// This test's own process, whose debug information names this very file.
    #[test]
    fn a_function_of_this_process_is_found() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mappings: Vec<Mapping> = maps.lines().filter_map(Mapping::of_line).collect();
        let here = a_function_of_this_process_is_found as fn() as usize as u64;
        let label = Symbols::new(Vec::new()).locate(&mappings, here + 2).label().unwrap();
        assert!(label.function.contains("a_function_of_this_process_is_found"));
        assert!(label.file.unwrap().ends_with("symbols.rs"));
        assert!(label.line.unwrap() > 1);
    }

    /// What is known of a file is known of that build only.
    #[test]
    fn a_file_that_was_built_again_is_searched_again() {
        let file = std::env::current_exe().unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mappings: Vec<Mapping> = maps.lines().filter_map(Mapping::of_line).collect();
        let here = a_file_that_was_built_again_is_searched_again as fn() as usize as u64;
        let mut symbols = Symbols::new(Vec::new());
        let plain = symbols.locate(&mappings, here + 2);
        assert_eq!(plain.module.as_deref(), file.to_str());
        for _ in 0..2 {
            let mut same = Location { frames: Frames::default(), ..plain.clone() };
            assert_eq!((symbols.name(&mut same), &same.frames), (Found::Same, &plain.frames));
            let mut other = Location { build_id: Some("0f".into()), ..same };
            other.frames = Frames::default();
            assert_eq!((symbols.name(&mut other), other.frames.len()), (Found::Another, 0));
        }
    }

    #[test]
    fn a_file_without_an_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let name = |path: &Path, offset| {
            let module = Some(path.to_str().unwrap().to_owned());
            let mut location = Location { module, offset: Some(offset), ..Location::default() };
            (Symbols::new(Vec::new()).name(&mut location), location.frames.len())
        };
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            assert_eq!(name(path, 8), (Found::Missing, 0));
        }
        // Nor is one beside a file that is well.
        let program = folder.path().join("program.so");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        nix::unistd::mkfifo(&folder.path().join("program.so.dwp"), nix::sys::stat::Mode::S_IRWXU)
            .unwrap();
        assert_eq!(name(&program, u64::MAX), (Found::Same, 0));
    }

    #[test]
    fn an_address_nowhere_stays_a_number() {
        let location = Symbols::new(Vec::new()).locate(&[], 0x1234);
        assert_eq!(location, Location { site: 0x1234, ..Location::default() });
    }
}
