//! Builds the peers that come as crates: a throw-away cargo project fetches the crate, a preload
//! library is built out of its sources, and one that survives a trial is kept in a cache outside of
//! this workspace. No part of the default build comes here.

use crate::child::{self, Limits};
use crate::peer_cache::{Building, Cache};
use crate::peers::{FromCrate, Peer, Recipe, recipes};
use crate::progress;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Builds peers into a cache.
pub struct Builder {
    pub cache: Cache,
    /// Programs and their words, each of which has to end well on a library before it is kept.
    pub trials: Vec<Vec<String>>,
    /// Build also what is in the cache.
    pub again: bool,
}

/// A peer that is in the cache.
#[derive(Debug)]
pub struct Built {
    pub version: String,
    pub before: bool,
}

/// Builds the peers called `names`, or all; those in the cache only when `again`. Says for each
/// what became of it.
pub fn build(names: &[String], again: bool) -> Result<(), String> {
    let recipes = recipes();
    let chosen = choose(recipes, names)?;
    let builder = Builder { cache: Cache::of_the_user(), trials: trials()?, again };
    let bar = progress::bar(chosen.len());
    bar.enable_steady_tick(Duration::from_secs(1));
    let failed = builder.build_all(
        &chosen,
        |name| bar.set_message(format!("builds {name}")),
        |line| {
            bar.suspend(|| crate::out::outln!("{line}"));
            bar.inc(1);
        },
    );
    bar.finish_and_clear();
    match failed.as_slice() {
        [] => Ok(()),
        names => Err(format!("not built: {}", names.join(", "))),
    }
}

/// Runs of this program: each of C's ways to allocate, small and large, and threads that free each
/// other's blocks.
fn trials() -> Result<Vec<Vec<String>>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let words = [
        "work pair size=64 ops=10k",
        "work batch entry=1 order=2 blocks=1k size=512 repeat=2",
        "work batch entry=2 order=2 blocks=1k size=16 repeat=2",
        "work batch entry=3 order=2 blocks=1k size=192 repeat=2",
        "work handover threads=2 ops=10k",
        "work large slots=20 low=256ki high=4mi ops=100",
    ];
    let trial = |words: &str| {
        let program = program.to_string_lossy().into_owned();
        std::iter::once(program).chain(words.split(' ').map(str::to_owned)).collect()
    };
    Ok(words.into_iter().map(trial).collect())
}

/// Those of `names`, or all that are built here.
fn choose<'a>(recipes: &'a [Recipe], names: &[String]) -> Result<Vec<&'a Recipe>, String> {
    if names.is_empty() {
        return Ok(recipes.iter().filter(|recipe| recipe.from_crate.is_some()).collect());
    }
    let one = |name: &String| {
        let recipe = recipes.iter().find(|recipe| &recipe.name == name);
        let recipe = recipe.ok_or_else(|| format!("no peer is called {name}"))?;
        if recipe.from_crate.is_none() {
            return Err(format!("{name} is not built here: {}", recipe.how()));
        }
        Ok(recipe)
    };
    names.iter().map(one).collect()
}

impl Builder {
    /// Builds each of these, whatever becomes of the others; returns the names of those that
    /// failed.
    pub fn build_all(
        &self,
        recipes: &[&Recipe],
        begins: impl Fn(&str),
        says: impl Fn(&str),
    ) -> Vec<String> {
        let mut failed = Vec::new();
        for recipe in recipes {
            let name = &recipe.name;
            begins(name);
            let start = Instant::now();
            match self.build_one(recipe) {
                Ok(Built { version, before: true, .. }) => {
                    says(&format!("{name}: {version}, built before"));
                }
                Ok(Built { version, .. }) => {
                    let seconds = start.elapsed().as_secs_f64();
                    says(&format!("{name}: {version}, built in {seconds:.0} s"));
                }
                Err(error) => {
                    says(&format!("{name}: failed: {}", self.in_a_line(name, &error)));
                    failed.push(name.clone());
                }
            }
        }
        failed
    }

    /// Builds a peer, unless it is there. One that fails a trial is not kept.
    pub fn build_one(&self, recipe: &Recipe) -> Result<Built, String> {
        let text = |error: io::Error| error.to_string();
        let from = recipe.from_crate.as_ref().ok_or_else(|| recipe.how())?;
        let key = from.key();
        let there = || {
            let (_, version) = self.cache.find(&recipe.name, &key).filter(|_| !self.again)?;
            Some(Built { version, before: true })
        };
        if let Some(built) = there() {
            return Ok(built);
        }
        let building = self.cache.begin(&recipe.name).map_err(text)?;
        // Another process may have built it while this one waited for its turn.
        if let Some(built) = there() {
            return Ok(built);
        }
        let version = make(from, &building)?;
        // The tables have the peer's name before it already.
        let version = version.strip_prefix(&format!("{} ", recipe.name)).unwrap_or(&version);
        if !building.library().exists() {
            return Err("the script wrote no library".to_owned());
        }
        self.try_out(&recipe.name, &building)?;
        building.keep(version, &key).map_err(text)?;
        let _ = fs::remove_file(self.cache.log(&recipe.name));
        Ok(Built { version: version.to_owned(), before: false })
    }

    fn try_out(&self, name: &str, building: &Building) -> Result<(), String> {
        let library = Some(building.library());
        let peer = Peer { name: name.to_owned(), library, version: String::new() };
        for trial in &self.trials {
            let [program, words @ ..] = trial.as_slice() else { continue };
            let mut command = child::on_peer(&peer, program);
            command.args(words);
            child::run(command, Limits { timeout: Duration::from_secs(60), pin: None })
                .map_err(|error| format!("it fails `{}`: {error}", words.join(" ")))?;
        }
        Ok(())
    }

    /// The line that says most, and the file with all of it if there is more.
    fn in_a_line(&self, name: &str, error: &str) -> String {
        let lines = || error.lines().filter(|line| !line.trim().is_empty());
        let telling = |what: &str| lines().find(|line| line.to_lowercase().contains(what));
        let line = telling("error:").or_else(|| telling("error")).or_else(|| lines().next_back());
        let line = line.unwrap_or("for no reason that it gives").trim();
        let log = self.cache.log(name);
        let folder = log.parent().unwrap_or(Path::new("."));
        if lines().count() > 1
            && fs::create_dir_all(folder).and_then(|()| fs::write(&log, error)).is_ok()
        {
            return format!("{line} (all of it: {})", log.display());
        }
        line.to_owned()
    }
}

/// Fetches a crate and builds the library out of it; returns its version.
fn make(from: &FromCrate, building: &Building) -> Result<String, String> {
    let work = building.work();
    let text = |error: io::Error| error.to_string();
    write_project(&work, from).map_err(text)?;
    let metadata =
        |more: &[&str]| run(cargo(&work).args(["metadata", "--format-version", "1"]).args(more));
    // Without a network, what cargo has kept is good enough.
    let output = metadata(&[]).or_else(|error| metadata(&["--offline"]).map_err(|_| error))?;
    let (source, version) = source_in(&output.stdout, &from.name)
        .ok_or_else(|| format!("cargo did not fetch {}", from.name))?;
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("set -e\n{}", from.script)]).current_dir(&work);
    run(shell.env("SRC", source).env("OUT", building.library()))?;
    Ok(version)
}

/// A cargo project that depends on the crate.
fn write_project(work: &Path, from: &FromCrate) -> io::Result<()> {
    let FromCrate { name, version, .. } = from;
    let manifest = format!(
        "[package]\nname = \"peer\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [dependencies]\n{name} = \"{version}\"\n"
    );
    fs::create_dir_all(work.join("src"))?;
    fs::write(work.join("Cargo.toml"), manifest)?;
    fs::write(work.join("src/lib.rs"), "")
}

fn cargo(work: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(work).env_remove("LD_PRELOAD");
    command
}

fn source_in(metadata: &[u8], name: &str) -> Option<(PathBuf, String)> {
    let json: serde_json::Value = serde_json::from_slice(metadata).ok()?;
    let package = json["packages"].as_array()?.iter().find(|package| package["name"] == name)?;
    let folder = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
    let version = package["version"].as_str()?;
    // Some crates append the revision of their upstream, which is longer than all the rest.
    let version = version.split_once("-0-g").map_or(version, |(short, _)| short);
    Some((folder, format!("{name} {version}")))
}

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(if said.is_empty() { output.status.to_string() } else { said })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Stage;
    use std::cell::RefCell;

    /// A separate builder, whose trial is `true`. Every peer below is made from the sources of
    /// libc's crate, which are there because this program is built with them.
    fn builder() -> (Builder, Stage) {
        let stage = Stage::new().unwrap();
        let trials = vec![vec!["true".to_owned()]];
        (Builder { cache: Cache(stage.path("cache")), trials, again: false }, stage)
    }

    fn recipe(name: &str, script: &str) -> Recipe {
        toml::from_str(&format!(
            "name = \"{name}\"\nlicence = \"MIT\"\n[crate]\nname = \"libc\"\nversion = \"0.2\"\n\
             script = '''\n{script}\n'''"
        ))
        .unwrap()
    }

    fn c_library(body: &str) -> String {
        format!("echo '{body}' > a.c\n${{CC:-cc}} -shared -fPIC a.c -o \"$OUT\"")
    }

    #[test]
    fn one_that_fails_is_reported_in_a_line_leaves_nothing_and_stops_no_other() {
        let (builder, stage) = builder();
        let bad =
            recipe("bad", "echo first >&2\necho the error is here >&2\necho last >&2\nexit 3");
        let none = recipe("none", "true");
        let good = recipe("good", &c_library("int nothing;"));
        let lines = RefCell::new(Vec::new());
        let says = |line: &str| lines.borrow_mut().push(line.to_owned());
        let failed = builder.build_all(&[&bad, &none, &good], |_| {}, says);
        assert_eq!(failed, ["bad", "none"]);
        let lines = lines.into_inner();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("bad: failed: the error is here"), "{lines:?}");
        assert!(lines[1].contains("wrote no library"), "{lines:?}");
        assert!(lines[2].starts_with("good: libc 0.2."), "{lines:?}");
        assert!(!stage.path("cache/bad").exists() && !stage.path("cache/none").exists());
        let log = fs::read_to_string(builder.cache.log("bad")).unwrap();
        assert!(log.contains("first") && log.contains("last"), "{log}");
    }

    #[test]
    fn one_that_crashes_or_cannot_be_loaded_is_refused() {
        let (builder, stage) = builder();
        let body = "#include <stdlib.h>\nvoid __attribute__((constructor)) f(void) { abort(); }";
        let crashes = recipe("crashes", &c_library(body));
        let error = builder.build_one(&crashes).unwrap_err();
        assert!(error.contains("signal: 6"), "{error}");
        let text = recipe("text", "echo no library > \"$OUT\"");
        let error = builder.build_one(&text).unwrap_err();
        assert!(error.contains("cannot be preloaded"), "{error}");
        assert!(!stage.path("cache/crashes").exists() && !stage.path("cache/text").exists());
    }

    #[test]
    fn one_that_is_there_is_not_built_again_unless_asked_or_changed() {
        let (mut builder, stage) = builder();
        let count = stage.path("count");
        let script = |more: &str| {
            format!("echo {more} >> '{}'\n{}", count.display(), c_library("int nothing;"))
        };
        let builds = || fs::read_to_string(&count).unwrap().lines().count();
        assert!(!builder.build_one(&recipe("peer", &script("a"))).unwrap().before);
        assert!(builder.build_one(&recipe("peer", &script("a"))).unwrap().before);
        assert_eq!(builds(), 1);
        assert!(!builder.build_one(&recipe("peer", &script("b"))).unwrap().before);
        builder.again = true;
        assert!(!builder.build_one(&recipe("peer", &script("b"))).unwrap().before);
        assert_eq!(builds(), 3);
        // A change that does not build leaves what was there.
        builder.again = false;
        assert!(builder.build_one(&recipe("peer", "exit 1")).is_err());
        assert!(builder.build_one(&recipe("peer", &script("b"))).unwrap().before);
    }

    #[test]
    fn the_sources_of_a_fetched_crate_are_found_in_cargos_metadata() {
        let json = br#"{"packages":[{"name":"other","version":"1.0.0","manifest_path":"/c/other/Cargo.toml"},
            {"name":"some-sys","version":"0.7.6","manifest_path":"/c/some-sys-0.7.6/Cargo.toml"}]}"#;
        let (folder, version) = source_in(json, "some-sys").unwrap();
        assert_eq!(folder, Path::new("/c/some-sys-0.7.6"));
        assert_eq!(version, "some-sys 0.7.6");
        assert!(source_in(json, "absent").is_none());
    }
}
