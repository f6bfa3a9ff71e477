//! The functions of a profile's call sites, found by file, place and build-id.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toft_profile::format::units::bytes;
use toft_profile::{Frame, Profile};

use super::perf_map::PerfMap;
use crate::symbols::{Found, Symbols};

/// If libraries have more than one part in this number of the live memory, a note says so.
const SHARED_LEAST: u64 = 20;

/// Finds names, and keeps what it has read.
pub struct Names {
    symbols: Symbols,
    /// The process that may have generated functions.
    process: Option<i32>,
}

/// The name of a site that is no place in code, but a token of the program.
fn token(site: u64) -> Option<Frame> {
    let token = toft_core::site::token_of_site(site as usize)?;
    Some(Frame { function: format!("token {token}"), file: None, line: None })
}

impl Names {
    /// Looks into these folders first.
    pub fn new(folders: Vec<PathBuf>) -> Names {
        Names { symbols: Symbols::searching(folders), process: None }
    }

    /// Names functions that this process has generated, as well.
    pub fn with_generated(self, pid: i32) -> Names {
        Names { process: Some(pid), ..self }
    }

    /// Names every call site of which the file is there; the others keep the names that they came
    /// with. Says what cannot be named, in the profile's notes.
    pub fn give(&mut self, profile: &mut Profile) {
        let mut strange = BTreeSet::new();
        let mut nameless = BTreeSet::new();
        let process = self.process;
        // Generated code moves, so that the map is read for each profile, where there is such code.
        let generated = LazyCell::new(|| process.map(PerfMap::of).unwrap_or_default());
        for row in &mut profile.rows {
            let (Some(module), Some(offset)) = (&row.module, row.offset) else {
                if let Some(frame) = token(row.site).or_else(|| generated.frame(row.site)) {
                    row.frames = vec![frame];
                }
                continue;
            };
            let path = module.strip_suffix(" (deleted)").unwrap_or(module);
            let (frames, found) =
                self.symbols.frames(Path::new(path), offset, row.build_id.as_deref());
            if !frames.is_empty() {
                row.frames = frames;
            } else if row.frames.is_empty() {
                match found {
                    // The pages have a line for each place, and only for places with live blocks.
                    Found::Same if row.bytes > 0 => _ = nameless.insert((module.clone(), offset)),
                    Found::Same => {}
                    Found::Another | Found::Missing => _ = strange.insert(module.clone()),
                }
            }
        }
        for call in
            profile.sampled.iter_mut().flat_map(|s| &mut s.stacks).flat_map(|s| &mut s.calls)
        {
            let (Some(module), Some(offset)) = (&call.module, call.offset) else {
                if let Some(frame) = generated.frame(call.site) {
                    call.frames = vec![frame];
                }
                continue;
            };
            let path = module.strip_suffix(" (deleted)").unwrap_or(module);
            let build_id = call.build_id.as_deref();
            let (frames, found) = self.symbols.frames(Path::new(path), offset, build_id);
            if !frames.is_empty() {
                call.frames = frames;
            } else if call.frames.is_empty() && found != Found::Same {
                strange.insert(module.clone());
            }
        }
        if !strange.is_empty() {
            let names: Vec<&str> = strange.iter().take(3).map(String::as_str).collect();
            let more = if strange.len() > names.len() { ", ..." } else { "" };
            note(
                profile,
                format!(
                    "not here, or rebuilt since: {}{more}. --symbols FOLDER searches for the files that ran, by \
                 name and build-id.",
                    names.join(", ")
                ),
            );
        }
        let library = profile.library_bytes();
        if profile.sampled.is_none() && library > profile.bytes / SHARED_LEAST {
            note(
                profile,
                format!(
                    "{} ({:.0} %) come from functions of libraries or wrappers of malloc, which several callers may share: \
                 toft run --sample 512k shows the callers, and --env TOFT_WRAPPERS=auto makes call sites of them.",
                    bytes(library),
                    100.0 * library as f64 / profile.bytes as f64
                ),
            );
        }
        if !nameless.is_empty() {
            let (count, sites) = match nameless.len() {
                1 => (1, "call site is in a function"),
                more => (more, "call sites are in functions"),
            };
            note(
                profile,
                format!(
                    "{count} {sites} without a symbol: debug information (-g, or the distribution's \
                 -dbgsym package) names them."
                ),
            );
        }
    }
}

/// Adds a note, unless the profile came with it.
fn note(profile: &mut Profile, text: String) {
    if !profile.notes.contains(&text) {
        profile.notes.push(text);
    }
}
