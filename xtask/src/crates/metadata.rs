//! What each crate says of itself to a registry, and which files it has there.

use super::PUBLISHED;
use crate::step::text;
use crate::{files, place};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Folders that are for the repository only.
const NOT_PUBLISHED: [&str; 5] = ["golden", "tests", "benches", "corpus", "outside"];

/// The most that the files of a crate may have together.
const MOST: u64 = 4 << 20;

/// The categories of crates.io that the crates use.
const CATEGORIES: [&str; 7] = [
    "command-line-utilities",
    "development-tools::profiling",
    "embedded",
    "encoding",
    "memory-management",
    "no-std::no-alloc",
    "wasm",
];

/// Checks what is cheap to check.
pub fn check() -> Result<(), String> {
    let mut wrong = wrong_metadata(&metadata()?);
    for name in PUBLISHED {
        let mut cargo = place::cargo();
        cargo.args(["package", "--list", "--quiet", "--allow-dirty", "--package", name]);
        let list = text(&mut cargo)?;
        wrong.extend(wrong_files(name, &list));
        wrong.extend(too_large(name, &list));
    }
    wrong.extend(wrong_libraries(&metadata()?)?);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn metadata() -> Result<Value, String> {
    let mut cargo = place::cargo();
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    serde_json::from_str(&text(&mut cargo)?).map_err(|e| format!("cargo metadata: {e}"))
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// What is wrong with the crates' metadata.
fn wrong_metadata(metadata: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages(metadata) {
        let name = package["name"].as_str().unwrap_or_default();
        let published = package["publish"].is_null();
        if published != PUBLISHED.contains(&name) {
            let how = if published { "lacks" } else { "has" };
            wrong.push(format!("{name} {how} `publish = false`"));
        }
        if published {
            wrong.extend(wrong_words(package).into_iter().map(|why| format!("{name}: {why}")));
        }
    }
    for name in PUBLISHED {
        if !packages(metadata).any(|package| package["name"] == name) {
            wrong.push(format!("there is no crate {name}"));
        }
    }
    wrong
}

/// What is wrong with what it says of itself, by the rules of crates.io.
fn wrong_words(package: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for key in ["description", "license", "repository", "readme", "documentation"] {
        if package[key].as_str().is_none_or(str::is_empty) {
            wrong.push(format!("no {key}"));
        }
    }
    for key in ["repository", "documentation"] {
        if package[key].as_str().is_some_and(|text| !text.starts_with("https://")) {
            wrong.push(format!("{key} is no address"));
        }
    }
    let words = |key: &str| -> Vec<&str> {
        package[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let keywords = words("keywords");
    let plain = |word: &&str| {
        word.len() <= 20
            && word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    if keywords.is_empty() || keywords.len() > 5 || !keywords.iter().all(plain) {
        wrong.push(format!("keywords {keywords:?}"));
    }
    let categories = words("categories");
    let known = |category: &&str| CATEGORIES.contains(category);
    if categories.is_empty() || categories.len() > 5 || !categories.iter().all(known) {
        wrong.push(format!("categories {categories:?}"));
    }
    wrong
}

/// What is wrong with the list of files of a crate.
fn wrong_files(name: &str, list: &str) -> Vec<String> {
    let files: BTreeSet<&str> = list.lines().collect();
    let mut wrong = Vec::new();
    for needed in ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        if !files.contains(needed) {
            wrong.push(format!("{name} is packed without {needed}"));
        }
    }
    for file in files {
        // Folders of these names within `src` are modules.
        if NOT_PUBLISHED.contains(&file.split('/').next().unwrap_or_default()) {
            wrong.push(format!("{name} is packed with {file}"));
        }
    }
    wrong
}

fn too_large(name: &str, list: &str) -> Option<String> {
    let folder = place::folder_of(name);
    let sizes = list.lines().filter_map(|file| fs::metadata(folder.join(file)).ok());
    let all: u64 = sizes.map(|file| file.len()).sum();
    (all > MOST).then(|| format!("{name} is packed with {all} bytes, more than {MOST}"))
}

/// What is wrong with the links to the sources of the libraries that the command carries: each
/// crate that they are made of is there, with everything that its build needs.
fn wrong_libraries(metadata: &Value) -> Result<Vec<String>, String> {
    let needed = closure(metadata, ["toft-preload", "toft-record"]);
    let libraries = place::root().join("crates/toft-cli/libraries/crates");
    let there = names(&libraries)?;
    let mut wrong = Vec::new();
    if there != needed {
        wrong.push(format!("libraries has {there:?}, and the libraries are made of {needed:?}"));
    }
    for name in there.intersection(&needed) {
        let folder = place::folder_of(name);
        let mut built = names(&folder)?;
        built.retain(|file| is_built(file));
        let mut links = names(&libraries.join(name))?;
        if links.remove("manifest.toml") {
            links.insert("Cargo.toml".into());
        }
        if links != built {
            wrong.push(format!("libraries has {links:?} of {name}, which is made of {built:?}"));
        }
        for link in names(&libraries.join(name))? {
            let of = if link == "manifest.toml" { "Cargo.toml" } else { &link };
            let leads = |path: &Path| fs::canonicalize(path).ok();
            if leads(&libraries.join(name).join(&link)) != leads(&folder.join(of)) {
                wrong.push(format!("the link {link} of {name} leads elsewhere"));
            }
        }
    }
    Ok(wrong)
}

/// Whether a file or folder of a library crate takes part in its build.
fn is_built(file: &str) -> bool {
    let read = ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "include", "examples"];
    !read.contains(&file) && !NOT_PUBLISHED.contains(&file)
}

/// These crates of the workspace and those that they are built from.
fn closure(metadata: &Value, roots: [&str; 2]) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = BTreeSet::new();
    let mut next: Vec<String> = roots.map(String::from).to_vec();
    while let Some(name) = next.pop() {
        let Some(package) = packages(metadata).find(|package| package["name"] == name.as_str())
        else {
            continue;
        };
        if !all.insert(name) {
            continue;
        }
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let built = dependencies.filter(|dependency| dependency["kind"] != "dev");
        next.extend(built.filter_map(|dependency| dependency["name"].as_str()).map(String::from));
    }
    all
}

fn names(folder: &Path) -> Result<BTreeSet<String>, String> {
    Ok(files::in_folder(folder)?.iter().map(|path| files::name(path)).collect())
}

#[cfg(test)]
mod tests;
