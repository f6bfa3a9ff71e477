//! The allocators that are compared. Each is a file in `peers/`; this module reads the files and
//! finds the libraries.

use crate::mount::{LIGHT, SECURE};
use crate::peer_cache::Cache;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const FILES: &[&str] = &[
    include_str!("../peers/toft.toml"),
    include_str!("../peers/glibc.toml"),
    include_str!("../peers/jemalloc.toml"),
    include_str!("../peers/jemalloc53.toml"),
    include_str!("../peers/tcmalloc.toml"),
    include_str!("../peers/mimalloc2.toml"),
    include_str!("../peers/mimalloc3.toml"),
    include_str!("../peers/snmalloc.toml"),
    include_str!("../peers/rpmalloc.toml"),
    include_str!("../peers/snmalloc-checks.toml"),
    include_str!("../peers/mimalloc3-secure.toml"),
    include_str!("../peers/tbbmalloc.toml"),
    include_str!("../peers/scudo.toml"),
    include_str!("../peers/hardened_malloc.toml"),
    include_str!("../peers/isoalloc.toml"),
    include_str!("../peers/toft-secure.toml"),
    include_str!("../peers/toft-secure-light.toml"),
    include_str!("../peers/toft-calls.toml"),
    include_str!("../peers/toft-off.toml"),
    include_str!("../peers/jemalloc-bg.toml"),
    include_str!("../peers/glibc-no-cache.toml"),
    include_str!("../peers/glibc-no-trim.toml"),
];

/// A peer's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    /// What the tables call it.
    pub name: String,
    /// Its licence, as SPDX writes it.
    pub licence: String,
    /// Only compared when it is asked for by name.
    #[serde(default)]
    pub extra: bool,
    /// Made to stop misuse.
    #[serde(default)]
    pub secure: bool,
    /// As fast as they come: what others are held against.
    #[serde(default)]
    pub fast: bool,
    /// The later version of the same, in whose presence a quick run leaves this one out.
    pub later: Option<String>,
    /// The peer whose library it is, run with other variables.
    pub of: Option<String>,
    /// Variables that are set where it runs; see [`Peer::settings`].
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The system's own malloc.
    #[serde(default)]
    pub system: bool,
    /// A library of this workspace.
    pub built: Option<String>,
    /// A library of the distribution.
    pub library: Option<Packaged>,
    /// A library built from a crate's sources.
    #[serde(rename = "crate")]
    pub from_crate: Option<FromCrate>,
}

/// Where a distribution's package puts the library.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packaged {
    /// The Debian package.
    pub package: String,
    /// Where it may lie; `{arch}` is the processor's name.
    pub paths: Vec<String>,
}

/// How to build the library out of a crate.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FromCrate {
    /// The crate.
    pub name: String,
    /// Its version requirement.
    pub version: String,
    /// A shell script that reads `$SRC` (the crate's sources) and writes `$OUT` (the library).
    pub script: String,
}

/// An allocator that processes can be started on.
#[derive(Clone, Debug)]
pub struct Peer {
    /// What the tables call it.
    pub name: String,
    /// The library to preload; `None` is the system's malloc.
    pub library: Option<PathBuf>,
    /// Its version, as far as it is known.
    pub version: String,
}

impl Peer {
    /// A peer that runs on the system's malloc, or of which only the name and version are known.
    #[must_use]
    pub fn without_library(name: &str, version: &str) -> Self {
        Self { name: name.to_owned(), library: None, version: version.to_owned() }
    }
}

/// All recipes, in the order of the tables.
pub(crate) fn recipes() -> &'static [Recipe] {
    static READ: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
        let parsed = |text: &&str| toml::from_str(text).expect("a peer's file does not parse");
        FILES.iter().map(parsed).collect()
    });
    &READ
}

pub(crate) fn recipe(name: &str) -> Option<&'static Recipe> {
    recipes().iter().find(|recipe| recipe.name == name)
}

/// Whether a peer is as fast as they come.
pub(crate) fn is_fast(name: &str) -> bool {
    recipe(name).is_some_and(|recipe| recipe.fast)
}

impl Recipe {
    /// Finds the library on this machine, or says how to get it.
    pub(crate) fn find(&self) -> Result<Peer, String> {
        if let Some(base) = self.base() {
            return Ok(Peer { name: self.name.clone(), ..base.find()? });
        }
        let peer = |library, version| Peer { name: self.name.clone(), library, version };
        if self.system {
            return Ok(peer(None, libc_version()));
        }
        if let Some(file) = &self.built {
            let library = built_here(file).ok_or_else(|| self.how())?;
            return Ok(peer(Some(library), env!("CARGO_PKG_VERSION").to_owned()));
        }
        if let Some(packaged) = &self.library {
            let library = packaged
                .paths
                .iter()
                .map(|path| PathBuf::from(path.replace("{arch}", std::env::consts::ARCH)))
                .find(|path| path.exists())
                .ok_or_else(|| self.how())?;
            return Ok(peer(Some(library), package_version(&packaged.package)));
        }
        let (library, version) = self
            .from_crate
            .as_ref()
            .and_then(|from| Cache::of_the_user().find(&self.name, &from.key()))
            .ok_or_else(|| self.how())?;
        Ok(peer(Some(library), version))
    }

    /// The recipe of the peer whose library this one is, too.
    fn base(&self) -> Option<&'static Self> {
        recipe(self.of.as_ref()?)
    }

    /// Where it comes from, in a word.
    pub(crate) fn kind(&self) -> &'static str {
        if let Some(base) = self.base() {
            return base.kind();
        }
        match self {
            Self { system: true, .. } => "system",
            Self { built: Some(_), .. } => "workspace",
            Self { library: Some(_), .. } => "package",
            _ => "crate",
        }
    }

    pub(crate) fn how(&self) -> String {
        if let Some(base) = self.base() {
            return base.how();
        }
        match (self.kind(), &self.library) {
            ("system", _) => "part of the system".to_owned(),
            ("workspace", _) if [SECURE, LIGHT].contains(&&*self.name) => {
                "cargo xtask secure".to_owned()
            }
            ("workspace", _) => "cargo build --release -p toft-preload".to_owned(),
            (_, Some(packaged)) => format!("apt-get install {}", packaged.package),
            _ => format!("toft bench build-peers {}", self.name),
        }
    }
}

impl FromCrate {
    /// All that the library depends on, as text: one built from another key is out of date.
    pub(crate) fn key(&self) -> String {
        serde_json::to_string_pretty(self).expect("strings alone")
    }
}

/// The peers called `names` (`name`, or `name=/path/of/a/library.so`, and behind either name
/// `@VARIABLE:VALUE` for a variable that is set where it runs), or every one that is there
/// and not extra when no names are given.
///
/// # Errors
/// Names the first that is unknown or not there, and how to get it.
pub fn choose(names: &[String]) -> Result<Vec<Peer>, String> {
    if names.is_empty() {
        return Ok(found().map(|(_, peer)| peer).collect());
    }
    names.iter().map(|name| choose_one(name)).collect()
}

fn found() -> impl Iterator<Item = (&'static Recipe, Peer)> {
    let wanted = recipes().iter().filter(|recipe| !recipe.extra);
    wanted.filter_map(|recipe| Some((recipe, recipe.find().ok()?)))
}

/// Of the peers that are there, those that a quick run needs: our own, the system's, and the fast
/// ones in their latest version. The second list says which are left out, and why.
pub(crate) fn choose_quick() -> (Vec<Peer>, Vec<String>) {
    quick(found().collect())
}

fn quick(found: Vec<(&Recipe, Peer)>) -> (Vec<Peer>, Vec<String>) {
    let names: Vec<String> = found.iter().map(|(recipe, _)| recipe.name.clone()).collect();
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    for (recipe, peer) in found {
        let later = recipe.later.as_ref().filter(|later| names.contains(later));
        if let Some(later) = later {
            left_out.push(format!("{} (an earlier {later})", recipe.name));
        } else if recipe.system || recipe.built.is_some() || recipe.fast {
            chosen.push(peer);
        } else {
            left_out.push(format!("{} (not among the fastest)", recipe.name));
        }
    }
    (chosen, left_out)
}

fn choose_one(name: &str) -> Result<Peer, String> {
    let called = name.split('=').next().unwrap_or(name);
    if let Some(wrong) = called.split('@').skip(1).find(|setting| !setting.contains(':')) {
        return Err(format!("{called}: {wrong} is not VARIABLE:VALUE"));
    }
    if let Some((name, path)) = name.split_once('=') {
        let library = Path::new(path)
            .canonicalize()
            .map_err(|error| format!("the library of peer {name}, {path}: {error}"))?;
        return Ok(Peer { name: name.to_owned(), library: Some(library), version: String::new() });
    }
    if let Some((plain, _)) = name.split_once('@') {
        return Ok(Peer { name: name.to_owned(), ..choose_one(plain)? });
    }
    let recipe = recipe(name).ok_or_else(|| {
        let known: Vec<&str> = recipes().iter().map(|recipe| recipe.name.as_str()).collect();
        format!("no peer is called {name}; there are {}", known.join(", "))
    })?;
    recipe.find().map_err(|how| format!("peer {name} is not there: {how}"))
}

/// A library of this workspace: beside this program, or where cargo puts release builds.
pub(crate) fn built_here(file: &str) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.parent()?.join(file);
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let in_tree = Path::new(crate::FOLDER).join("../../target/release").join(file);
    [beside, target.join("release").join(file), in_tree]
        .into_iter()
        .filter_map(|path| Some((std::fs::metadata(&path).ok()?.modified().ok()?, path)))
        .max_by_key(|(modified, _)| *modified)
        .and_then(|(_, path)| path.canonicalize().ok())
}

fn package_version(package: &str) -> String {
    let output = Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => String::new(),
    }
}

/// The version of the system's glibc; empty if it has none. The command itself may be static, with
/// another C library.
pub(crate) fn libc_version() -> String {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    said.trim().strip_prefix("glibc ").unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_recipe_with_exactly_one_source() {
        let names: Vec<&str> = recipes()
            .iter()
            .map(|recipe| {
                let sources = usize::from(recipe.system)
                    + usize::from(recipe.built.is_some())
                    + usize::from(recipe.library.is_some())
                    + usize::from(recipe.from_crate.is_some())
                    + usize::from(recipe.of.is_some());
                assert_eq!(sources, 1, "{}", recipe.name);
                // Of one that is there for itself, and with what makes it another.
                let base = recipe.base();
                assert_eq!(base.is_some(), recipe.of.is_some(), "{}", recipe.name);
                let system = recipe.system || base.as_ref().is_some_and(|base| base.system);
                assert!(
                    base.is_none_or(|base| base.of.is_none() && base.licence == recipe.licence)
                );
                assert_eq!(recipe.of.is_some(), !recipe.environment.is_empty());
                assert!(!recipe.licence.is_empty(), "{}", recipe.name);
                // The system's own libc is there anyway; nothing else may be a copyleft's.
                assert!(system || !recipe.licence.contains("GPL"), "{}", recipe.name);
                recipe.name.as_str()
            })
            .collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert!(
                names.contains(&&*stem) || stem == "releases",
                "{stem} is not in FILES, or its name differs"
            );
        }
    }

    #[test]
    fn whoever_is_slow_or_secure_is_left_out_unless_named() {
        let extra = |name: &str| recipe(name).unwrap().extra;
        assert!(
            ["scudo", "hardened_malloc", "isoalloc", "toft-secure", "toft-secure-light"]
                .map(extra)
                .iter()
                .all(|&e| e)
        );
        assert!(!["glibc", "tbbmalloc", "rpmalloc"].map(extra).iter().any(|&e| e));
        let names: Vec<String> = choose(&[]).unwrap().into_iter().map(|peer| peer.name).collect();
        assert!(names.iter().all(|name| !extra(name)), "{names:?}");
    }

    #[test]
    fn a_quick_run_leaves_out_earlier_versions_and_the_slow_and_says_so() {
        let recipes = recipes();
        let chosen = |names: &[&str]| {
            let there = recipes.iter().filter(|recipe| names.contains(&recipe.name.as_str()));
            let (chosen, left_out) =
                quick(there.map(|r| (r, Peer::without_library(&r.name, ""))).collect());
            (chosen.into_iter().map(|peer| peer.name).collect::<Vec<_>>().join(" "), left_out)
        };
        let all = ["toft", "glibc", "jemalloc", "jemalloc53", "tcmalloc", "tbbmalloc"];
        let (names, left_out) = chosen(&all);
        assert_eq!(names, "toft glibc jemalloc53 tcmalloc");
        assert_eq!(
            left_out,
            ["jemalloc (an earlier jemalloc53)", "tbbmalloc (not among the fastest)"]
        );
        // Where there is no later version, the earlier one stands for it.
        assert_eq!(chosen(&["glibc", "jemalloc"]), ("glibc jemalloc".to_owned(), Vec::new()));
        // All that can be there are few enough for a quick run.
        let every: Vec<&str> =
            recipes.iter().filter(|r| !r.extra).map(|r| r.name.as_str()).collect();
        assert_eq!(chosen(&every).0.split(' ').count(), 7);
        for one in recipes {
            let known = |later: &String| recipe(later).is_some();
            assert!(one.later.as_ref().is_none_or(known), "{}", one.name);
        }
    }

    #[test]
    fn glibc_is_always_there() {
        let chosen = choose(&["glibc".to_owned()]).unwrap();
        assert!(chosen[0].library.is_none() && !chosen[0].version.is_empty());
    }
}
