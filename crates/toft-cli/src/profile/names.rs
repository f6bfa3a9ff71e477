//! The functions of a profile's call sites, found by file, place and build-id.

use std::cell::{LazyCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::rc::Rc;

use toft_profile::format::units::bytes;
use toft_profile::{Frame, Location, Modules, Profile, SampledStack, paths_of_text};

use super::perf_map::PerfMap;
use crate::runtime::Runtime;
use crate::symbols::{Caller, Found, Symbols};
use crate::vet::elf;
use crate::vet::resolve::Resolved;

/// If libraries have more than one part in this number of the live memory, a note says so.
const SHARED_LEAST: u64 = 20;

/// Finds names, and keeps the files that it has read. Copies share these files.
#[derive(Clone)]
pub struct Names {
    symbols: Rc<RefCell<Symbols>>,
    /// The languages of files, as `TOFT_WRAPPERS` has them.
    languages: Rc<RefCell<HashMap<PathBuf, Vec<&'static str>>>>,
    /// The process that may have generated functions.
    process: Option<i32>,
}

/// Returns the name of a site that is no address of code, but a token of the program.
fn token(site: u64) -> Option<Frame> {
    let token = toft_core::site::Site::at(site as usize).token()?;
    Some(Frame { function: format!("token {token}"), file: None, line: None })
}

impl Names {
    /// Searches these folders first.
    pub fn new(folders: Vec<PathBuf>) -> Names {
        let symbols = Rc::new(RefCell::new(Symbols::new(folders)));
        Names { symbols, languages: Rc::default(), process: None }
    }

    /// Names functions that this process has generated, as well, and those of its program even if
    /// the file was deleted.
    pub fn with_generated(self, pid: i32) -> Names {
        self.symbols.borrow_mut().look_at_process(pid);
        Names { process: Some(pid), ..self }
    }

    /// Names the program as this target names it.
    pub fn of_target(self, target: &Resolved) -> Names {
        self.symbols.borrow_mut().look_at_target(target);
        self
    }

    /// Returns the named call site of a return address.
    pub fn locate(&mut self, modules: &Modules, site: u64) -> Location {
        let mut location = modules.location(site);
        self.symbols.borrow_mut().name(&mut location);
        location
    }

    /// Names the program alone. The functions may get their names later.
    pub fn give_program(&self, profile: &mut Profile) {
        let symbols = self.symbols.borrow();
        profile.locations_mut().for_each(|(_, location)| symbols.name_program(location));
    }

    /// Names every call site of which the file is there; the others keep the names that they came
    /// with. Adds a note about those without a name.
    pub fn give(&mut self, profile: &mut Profile) {
        let with_blocks: BTreeSet<u64> =
            profile.rows.iter().filter(|row| row.bytes > 0).map(|row| row.location.site).collect();
        let mut not_found = BTreeSet::new();
        let mut nameless = BTreeSet::new();
        let process = self.process;
        let mut symbols = self.symbols.borrow_mut();
        if let Some(pid) = process {
            symbols.look_at_process(pid);
        }
        // Generated code moves, so that the map is read for each profile, where there is such code.
        let generated = LazyCell::new(|| process.map(PerfMap::of).unwrap_or_default());
        for (is_site, location) in profile.locations_mut() {
            // The library has copied these names.
            if location.is_of_runtime() {
                continue;
            }
            let (Some(module), Some(offset)) = (location.module.clone(), location.offset) else {
                let frame = token(location.site).or_else(|| generated.frame(location.site));
                if let Some(frame) = frame {
                    location.frames = vec![frame].into();
                }
                continue;
            };
            let found = symbols.name_call(location, is_site);
            if location.frames.is_empty() {
                match found {
                    // The pages have a line for each place, and only for places with live blocks.
                    Found::Same if with_blocks.contains(&location.site) => {
                        nameless.insert((module, offset));
                    }
                    Found::Same => {}
                    Found::Another | Found::Missing => _ = not_found.insert(module),
                }
            }
        }
        let stacks = profile.sampled.iter_mut().flat_map(|sampled| &mut sampled.stacks);
        check_callers(&mut symbols, stacks);
        if !not_found.is_empty() {
            let names: Vec<&str> = not_found.iter().take(3).map(String::as_str).collect();
            let more = if not_found.len() > names.len() { ", ..." } else { "" };
            note(
                profile,
                format!(
                    "not here, or rebuilt since: {}{more}. --symbols FOLDER searches for the files that ran, by \
                 name and build-id.",
                    names.join(", ")
                ),
            );
        }
        let runtime = process.and_then(Runtime::of_process);
        if let Some(Runtime { keeps, remedy, .. }) = runtime {
            note(profile, format!("{keeps}, outside this table: toft run {remedy}."));
        }
        let library = profile.library_bytes();
        if profile.sampled.is_none() && library > profile.bytes / SHARED_LEAST {
            let remedy = remedy(process, runtime, &self.languages_of(profile));
            note(
                profile,
                format!(
                    "{} ({:.0} %) come from functions of libraries or wrappers of malloc, which several callers may share: \
                 {remedy}.",
                    bytes(library),
                    100.0 * library as f64 / profile.bytes as f64
                ),
            );
        }
        if !nameless.is_empty() {
            let text = without_symbols(&nameless);
            note(profile, text);
        }
    }

    /// Returns the languages of the files that have library code in a profile, and of the program.
    fn languages_of(&self, profile: &Profile) -> Vec<&'static str> {
        let rows = profile.rows.iter().filter(|row| row.bytes > 0);
        let files: BTreeSet<PathBuf> = rows
            .filter(|row| row.location.is_library_code())
            .filter_map(|row| row.location.module.as_deref())
            .flat_map(paths_of_text)
            .chain(self.process.map(|pid| format!("/proc/{pid}/exe").into()))
            .collect();
        let mut known = self.languages.borrow_mut();
        let mut of = |file: PathBuf| {
            // A profile may name a pipe, which would never be opened.
            let read = |file: &PathBuf| file.is_file().then(|| elf::read(file).ok())?;
            let languages = |file: &PathBuf| read(file).map_or(Vec::new(), |elf| elf.languages());
            known.entry(file).or_insert_with_key(languages).clone()
        };
        let found: BTreeSet<_> = files.into_iter().flat_map(&mut of).collect();
        ["rust", "c++", "c"].into_iter().filter(|language| found.contains(language)).collect()
    }
}

/// Ends sampled stacks before a call that cannot be part of them, and inserts functions that were
/// called and have no frame: a walk by frame pointers does not see them, or believes words that
/// earlier calls have left.
fn check_callers<'a>(symbols: &mut Symbols, stacks: impl Iterator<Item = &'a mut SampledStack>) {
    let mut known: HashMap<(u64, u64), Caller> = HashMap::new();
    for stack in stacks {
        let has_names = stack.calls.iter().any(Location::is_of_runtime);
        let mut inner: Option<Location> = None;
        let mut calls = Vec::with_capacity(stack.calls.len());
        let mut is_cut = false;
        for call in std::mem::take(&mut stack.calls) {
            // The library has read these from the interpreter.
            if call.is_of_runtime() {
                calls.push(call);
                continue;
            }
            if is_cut {
                continue;
            }
            if let Some(inner) = &inner {
                let caller = known
                    .entry((call.site, inner.site))
                    .or_insert_with(|| symbols.caller(&call, inner));
                match caller {
                    _ if is_toft(call.module_name()) => is_cut = true,
                    Caller::False => is_cut = true,
                    Caller::Through(between) => calls.push(Location::clone(between)),
                    Caller::Next => {}
                }
                if is_cut {
                    stack.truncated |= !has_names;
                    continue;
                }
            }
            inner = Some(call.clone());
            calls.push(call);
        }
        stack.calls = calls;
    }
}

/// Returns true if a file is a library of Toft's. It calls no function of the program.
fn is_toft(file: &str) -> bool {
    let after = file.strip_prefix("libtoft");
    after.is_some_and(|rest| [".so", "-", "_record"].iter().any(|part| rest.starts_with(part)))
}

/// Returns the note about call sites, by file and offset, that have no name: what names them.
fn without_symbols(sites: &BTreeSet<(String, u64)>) -> String {
    let (count, are) = match sites.len() {
        1 => (1, "call site is in a function"),
        more => (more, "call sites are in functions"),
    };
    let files: BTreeSet<&str> = sites.iter().map(|(file, _)| file.as_str()).collect();
    let named: Vec<&str> = files.iter().copied().take(2).collect();
    let more = if files.len() > named.len() { ", ..." } else { "" };
    format!(
        "{count} {are} without a symbol, in {}{more}: debug information (-g, the distribution's \
         -dbgsym package, or DEBUGINFOD_URLS) names them.",
        named.join(", ")
    )
}

/// Returns the variables that a process was started with.
fn environment_of(pid: i32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

/// Returns the advice about functions that several callers share: what shows these callers, and
/// what gives each a call site. It names `toft run`, or variables if the process was started
/// without it.
fn remedy(process: Option<i32>, runtime: Option<&Runtime>, languages: &[&'static str]) -> String {
    let environment = process.map_or(Vec::new(), environment_of);
    let variables = || environment.split(|&byte| byte == 0);
    let is_looked_through = variables().any(|variable| variable.starts_with(b"TOFT_WRAPPERS="));
    let wrappers = if languages.is_empty() || is_looked_through {
        // The names that are known do not suffice.
        "TOFT_WRAPPERS=NAME,... with the names of these functions".to_owned()
    } else {
        format!("TOFT_WRAPPERS={}", languages.join(","))
    };
    // `toft run` sets both.
    let is_run = variables().any(|variable| variable.starts_with(b"TOFT_SCOPE="));
    if is_run || !variables().any(|variable| variable.starts_with(b"LD_PRELOAD=")) {
        let option = runtime.map_or("", |runtime| runtime.option);
        return format!(
            "toft run{option} --sample 512k shows the callers, and toft run{option} --env \
             {wrappers} makes call sites of them"
        );
    }
    let setting = runtime.filter(|runtime| !runtime.option.is_empty());
    let setting = setting.map_or(String::new(), |runtime| format!("{} ", runtime.setting));
    format!(
        "the variables {setting}TOFT_SAMPLE=512k show the callers, and {setting}{wrappers} makes \
         call sites of them"
    )
}

/// Adds a note, unless the profile came with it.
fn note(profile: &mut Profile, text: String) {
    if !profile.notes.contains(&text) {
        profile.notes.push(text);
    }
}
