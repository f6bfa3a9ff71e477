//! The functions of a profile's call sites, found by file, place and build-id.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toft_profile::Profile;

use crate::symbols::{Found, Symbols};

/// Finds names, and keeps what it has read.
pub struct Names {
    symbols: Symbols,
}

impl Names {
    /// Looks into these folders first.
    pub fn new(folders: Vec<PathBuf>) -> Names {
        Names { symbols: Symbols::searching(folders) }
    }

    /// Names every call site of which the file is there; the others keep the names that they came with. Says what
    /// cannot be named, in the profile's notes.
    pub fn give(&mut self, profile: &mut Profile) {
        let mut strange = BTreeSet::new();
        let mut nameless = BTreeSet::new();
        for row in &mut profile.rows {
            let (Some(module), Some(offset)) = (&row.module, row.offset) else { continue };
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
            let (Some(module), Some(offset)) = (&call.module, call.offset) else { continue };
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
            profile.notes.push(format!(
                "not here, or rebuilt since: {}{more}. --symbols FOLDER searches for the files that ran, by \
                 name and build-id.",
                names.join(", ")
            ));
        }
        if !nameless.is_empty() {
            let (count, sites) = match nameless.len() {
                1 => (1, "call site is in a function"),
                more => (more, "call sites are in functions"),
            };
            profile.notes.push(format!(
                "{count} {sites} without a symbol: debug information (-g, or the distribution's \
                 -dbgsym package) names them."
            ));
        }
    }
}
