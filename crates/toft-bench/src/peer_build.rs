//! Builds the peers that come as crates: a throw-away cargo project fetches the crate, the peer's
//! script builds a preload library out of its sources, and the library is kept in a cache outside
//! of this workspace. No part of the default build comes here.

use crate::peers::{FromCrate, Recipe, recipes};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the built libraries: `TOFT_BENCH_CACHE`, or below the user's cache folder.
#[must_use]
pub fn cache() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = variable("TOFT_BENCH_CACHE") {
        return folder.into();
    }
    let user = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&variable("HOME")?).join(".cache")));
    user.unwrap_or_else(std::env::temp_dir).join("toft-bench")
}

fn library(name: &str) -> PathBuf {
    cache().join(name).join(format!("lib{name}.so"))
}

/// The library of a peer that was built before, and its version.
#[must_use]
pub fn cached(name: &str) -> Option<(PathBuf, String)> {
    let path = library(name);
    let version = fs::read_to_string(path.with_extension("version")).ok()?;
    path.exists().then(|| (path, version.trim().to_owned()))
}

/// Builds the peers called `names`, or all; those in the cache only when `again`.
///
/// # Errors
/// Names the peer that did not build, and the end of what its script said.
pub fn build(names: &[String], again: bool) -> Result<(), String> {
    for recipe in recipes() {
        let wanted = names.is_empty() || names.contains(&recipe.name);
        let Some(from) = recipe.from_crate.as_ref().filter(|_| wanted) else {
            continue;
        };
        if let Some((path, version)) = cached(&recipe.name).filter(|_| !again) {
            println!("{}: {version}, {} (built before)", recipe.name, path.display());
            continue;
        }
        let (path, version) =
            build_one(&recipe, from).map_err(|error| format!("{}: {error}", recipe.name))?;
        println!("{}: {version}, {}", recipe.name, path.display());
    }
    Ok(())
}

fn build_one(recipe: &Recipe, from: &FromCrate) -> Result<(PathBuf, String), String> {
    let folder = cache().join(&recipe.name);
    let work = folder.join("work");
    let failed = |error: io::Error| error.to_string();
    if work.exists() {
        fs::remove_dir_all(&work).map_err(failed)?;
    }
    fs::create_dir_all(work.join("src")).map_err(failed)?;
    let (source, version) = fetch(&work, from)?;

    let out = library(&recipe.name);
    let script = format!("set -e\n{}", from.script);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(&work).env("SRC", &source).env("OUT", &out);
    run(&mut shell)?;
    if !out.exists() {
        return Err("the script wrote no library".to_owned());
    }
    fs::write(out.with_extension("version"), &version).map_err(failed)?;
    fs::remove_dir_all(&work).map_err(failed)?;
    Ok((out, version))
}

/// Fetches a crate; returns the folder of its sources, and its version.
fn fetch(work: &Path, from: &FromCrate) -> Result<(PathBuf, String), String> {
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [dependencies]\n{} = \"{}\"\n",
        from.name, from.version
    );
    let failed = |error: io::Error| error.to_string();
    fs::write(work.join("Cargo.toml"), manifest).map_err(failed)?;
    fs::write(work.join("src/lib.rs"), "").map_err(failed)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--format-version", "1"]).current_dir(work);
    let output = run(&mut metadata)?;
    source_in(&output.stdout, &from.name)
        .ok_or_else(|| format!("cargo did not fetch {}", from.name))
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
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    Err(lines[lines.len().saturating_sub(15)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_a_fetched_crate_are_found_in_cargos_metadata() {
        let json = br#"{"packages":[{"name":"other","version":"1.0.0","manifest_path":"/c/other/Cargo.toml"},
            {"name":"some-sys","version":"0.7.6","manifest_path":"/c/some-sys-0.7.6/Cargo.toml"}]}"#;
        let (folder, version) = source_in(json, "some-sys").unwrap();
        assert_eq!(folder, Path::new("/c/some-sys-0.7.6"));
        assert_eq!(version, "some-sys 0.7.6");
        assert!(source_in(json, "absent").is_none());
    }

    #[test]
    fn a_failing_script_is_quoted() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo the reason >&2; exit 3"]);
        assert_eq!(run(&mut shell).unwrap_err(), "the reason");
    }
}
