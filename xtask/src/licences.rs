//! Which licences dependencies may have: permissive ones only, so that Toft can be linked into
//! anything.

use crate::place;
use crate::step::text;
use serde_json::Value;
use spdx::{Expression, ParseMode};

const ALLOWED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
];

/// What this workspace's own packages are under.
const OURS: &str = "MIT OR Apache-2.0";

/// What runs inside malloc may depend on: the thinnest system-call layer and nothing else.
const CORE: &[(&str, &[&str])] = &[
    ("toft", &["toft-core", "toft-watch", "toft-zone"]),
    ("toft-core", &["libc"]),
    ("toft-watch", &["libc", "toft-core"]),
    ("toft-zone", &["libc", "toft-core"]),
    ("toft-preload", &["libc", "toft-core", "toft-watch", "toft-zone"]),
];

/// Checks every package that any target or feature of this workspace, or of those beside it,
/// depends on; returns the number of packages.
pub fn check() -> Result<usize, String> {
    let mut count = 0;
    for manifest in [
        "Cargo.toml",
        "fuzz/Cargo.toml",
        "crates/toft-arena/size/Cargo.toml",
        "packaging/container/server/Cargo.toml",
    ] {
        if place::root().join(manifest).is_file() {
            count += check_metadata(&metadata(manifest)?)?;
        }
    }
    Ok(count)
}

fn metadata(manifest: &str) -> Result<Value, String> {
    let mut cargo = place::cargo();
    cargo.args([
        "metadata",
        "--format-version",
        "1",
        "--all-features",
        "--manifest-path",
        manifest,
    ]);
    serde_json::from_str(&text(&mut cargo)?).map_err(|e| format!("cargo metadata: {e}"))
}

fn check_metadata(metadata: &Value) -> Result<usize, String> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let wrong: Vec<_> = packages.iter().filter_map(wrong_with).collect();
    if wrong.is_empty() { Ok(packages.len()) } else { Err(wrong.join("\n")) }
}

fn wrong_with(package: &Value) -> Option<String> {
    let name = package["name"].as_str()?;
    let licence = package["license"].as_str().unwrap_or("no licence");
    if package["source"].is_null() {
        if licence != OURS {
            return Some(format!("{name} is ours and is under {licence}, not {OURS}"));
        }
        return wrong_dependency(name, package);
    }
    let allowed = is_allowed(licence);
    (!allowed).then(|| format!("{name} is under {licence}, which is not allowed"))
}

fn wrong_dependency(name: &str, package: &Value) -> Option<String> {
    let (_, allowed) = CORE.iter().find(|(core, _)| *core == name)?;
    let dependencies = package["dependencies"].as_array()?;
    // A dependency of one configuration only (loom) or of tests does not run inside malloc.
    let runs = |dependency: &&Value| dependency["kind"].is_null() && dependency["target"].is_null();
    let names =
        dependencies.iter().filter(runs).filter_map(|dependency| dependency["name"].as_str());
    let wrong: Vec<_> = names.filter(|dependency| !allowed.contains(dependency)).collect();
    (!wrong.is_empty())
        .then(|| format!("{name} runs inside malloc and depends on {}", wrong.join(", ")))
}

fn is_allowed(licence: &str) -> bool {
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else { return false };
    expression.evaluate(|requirement| {
        requirement.license.id().is_some_and(|id| ALLOWED.contains(&id.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn permissive_licences_are_allowed_and_copyleft_is_not() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "GPL-3.0-only OR MIT",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "GPL-3.0-only",
            "GPL-2.0",
            "LGPL-2.1-or-later",
            "AGPL-3.0-only",
            "MPL-2.0",
            "MIT AND GPL-3.0-only",
            "no licence",
            "",
            "Proprietary",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    #[test]
    fn a_planted_dependency_is_found() {
        let package = |licence| json!({"name": "p", "license": licence, "source": "registry"});
        let of = |licence| json!({"packages": [package("MIT"), package(licence)]});
        assert_eq!(check_metadata(&of("Apache-2.0")), Ok(2));
        assert!(check_metadata(&of("GPL-3.0-or-later")).unwrap_err().contains("GPL"));
    }

    #[test]
    fn the_core_may_not_grow_dependencies() {
        let core = |dependency| {
            json!({"packages": [{"name": "toft-core", "license": OURS, "source": null, "dependencies": [
                {"name": "libc", "kind": null, "target": null},
                {"name": "loom", "kind": null, "target": "cfg(loom)"},
                {"name": "proptest", "kind": "dev", "target": null},
                {"name": dependency, "kind": null, "target": null},
            ]}]})
        };
        assert_eq!(check_metadata(&core("libc")), Ok(1));
        assert!(check_metadata(&core("parking_lot")).unwrap_err().contains("parking_lot"));
    }

    #[test]
    fn every_dependency_of_this_workspace_is_allowed() {
        assert!(check().unwrap() > 20);
    }
}
