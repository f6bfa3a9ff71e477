//! The bill of materials beside each artifact, as CycloneDX by cargo-sbom.
//!
//! cargo-sbom lists the dependencies of all systems in any order, with a random number and the
//! time. What is written here has those that `cargo tree` finds for the artifact's target, in
//! order, and is the same each time.

use super::{name, text, write};
use crate::place;
use crate::tools::Tool;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const CARGO_SBOM: Tool = Tool { program: "cargo-sbom", package: "cargo-sbom", version: "^0.10" };

/// Packages of this repository that are in an artifact, and the target that they are compiled for.
fn contents(artifact: &str) -> (&'static [&'static str], &'static str) {
    let packages: &[&str] = if artifact.starts_with("libtoft") {
        &["toft-preload", "toft-checked"]
    } else if artifact.contains("-linux-glibc") || artifact.ends_with(".rpm") {
        &["toft-cli", "toft-bench", "toft-preload", "toft-record", "toft-checked"]
    } else {
        &["toft-cli", "toft-bench", "toft-preload", "toft-record"]
    };
    let target = if artifact.contains("aarch64") {
        "aarch64-unknown-linux-gnu"
    } else {
        "x86_64-unknown-linux-gnu"
    };
    (packages, target)
}

/// Writes a bill beside each artifact; returns their paths.
pub fn make(artifacts: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut bills = BTreeMap::new();
    artifacts
        .iter()
        .map(|artifact| {
            let file = name(artifact);
            let (packages, target) = contents(&file);
            let mut used = BTreeSet::new();
            for package in packages {
                used.extend(dependencies(package, target)?);
                if !bills.contains_key(package) {
                    bills.insert(*package, bill(package)?);
                }
            }
            let of: Vec<&Value> = packages.iter().map(|package| &bills[package]).collect();
            let path = PathBuf::from(format!("{}.cdx.json", artifact.display()));
            let text = serde_json::to_string_pretty(&merged(&file, &of, &used)?)
                .map_err(|error| error.to_string())?;
            write(&path, text + "\n").map(|()| path)
        })
        .collect()
}

/// What cargo-sbom says of a package.
fn bill(package: &str) -> Result<Value, String> {
    let mut command = CARGO_SBOM.command()?;
    command.args(["--output-format", "cyclone_dx_json_1_6", "--cargo-package", package]);
    let bill = text(command.current_dir(place::root()))?;
    serde_json::from_str(&bill).map_err(|error| format!("cargo-sbom: {error}"))
}

/// The packages that are compiled into another one for a target, as `name@version`.
fn dependencies(package: &str, target: &str) -> Result<BTreeSet<String>, String> {
    let mut tree: Command = place::cargo();
    tree.args(["tree", "--locked", "--package", package, "--target", target]);
    tree.args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]);
    Ok(listed(&text(&mut tree)?))
}

/// Reads lines such as `nix v0.31.3` and `toft v0.1.0 (/home/a/toft/crates/toft)`.
fn listed(tree: &str) -> BTreeSet<String> {
    let line = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some(format!("{name}@{}", rest.split(' ').next()?))
    };
    tree.lines().filter_map(line).collect()
}

/// One bill of several, with what is used, in order.
fn merged(artifact: &str, bills: &[&Value], used: &BTreeSet<String>) -> Result<Value, String> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut components: BTreeMap<String, Value> = BTreeMap::new();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for bill in bills {
        let main = &bill["metadata"]["component"]["components"];
        for component in
            [main, &bill["components"]].into_iter().filter_map(Value::as_array).flatten()
        {
            let id = format!("{}@{}", text(component, "name"), text(component, "version"));
            if used.contains(&id) {
                components.insert(text(component, "bom-ref"), component.clone());
            }
        }
    }
    if components.len() < used.len() {
        return Err(format!("{artifact}: cargo-sbom lists {} of {used:?}", components.len()));
    }
    for edge in bills.iter().filter_map(|bill| bill["dependencies"].as_array()).flatten() {
        let from = text(edge, "ref");
        if components.contains_key(&from) {
            let to = edge["dependsOn"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let to = to.filter(|to| components.contains_key(*to)).map(String::from);
            edges.entry(from).or_default().extend(to);
        }
    }
    let edges = edges.iter().map(|(from, to)| json!({ "ref": from, "dependsOn": to }));
    let tools = bills.first().map(|bill| bill["metadata"]["tools"].clone());
    let file = Path::new(artifact).display().to_string();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": { "type": "file", "bom-ref": file, "name": file },
            "tools": tools,
        },
        "components": components.values().collect::<Vec<_>>(),
        "dependencies": edges.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(main: &str, others: &[&str]) -> Value {
        let component = |name: &str| json!({ "bom-ref": name, "name": name, "version": "1.0" });
        json!({
            "serialNumber": "urn:uuid:random",
            "metadata": { "timestamp": "now", "component": { "components": [component(main)] }, "tools": [] },
            "components": others.iter().map(|name| component(name)).collect::<Vec<_>>(),
            "dependencies": [{ "ref": main, "dependsOn": others }],
        })
    }

    #[test]
    fn the_bill_has_what_is_used_in_order_and_nothing_that_changes() {
        let used = listed("app v1.0 (/home/a)\nb v1.0\na v1.0\nb v1.0 (*)\n");
        assert_eq!(used.len(), 3);
        let one = merged("app.tgz", &[&of("app", &["b", "windows", "a"])], &used).unwrap();
        let two = merged("app.tgz", &[&of("app", &["a", "b", "windows"])], &used).unwrap();
        assert_eq!(one, two);
        let text = one.to_string();
        assert!(!text.contains("random") && !text.contains("now") && !text.contains("windows"));
        assert_eq!(one["dependencies"][0]["dependsOn"], json!(["a", "b"]));
        assert_eq!(one["components"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_package_that_is_used_and_not_listed_is_an_error() {
        let used = listed("app v1.0\nb v1.0\n");
        assert!(merged("app.tgz", &[&of("app", &[])], &used).unwrap_err().contains("b@1.0"));
    }

    #[test]
    fn an_artifact_has_the_packages_that_are_in_it() {
        assert!(contents("libtoft0_0.1.0-1_amd64.deb").0.contains(&"toft-checked"));
        assert!(!contents("libtoft-dev_0.1.0-1_amd64.deb").0.contains(&"toft-cli"));
        assert!(contents("toft_0.1.0-1_amd64.deb").0.contains(&"toft-record"));
        let rpm = contents("toft-0.1.0-1.x86_64.rpm");
        assert_eq!(rpm, contents("toft-0.1.0-x86_64-linux-glibc2.17.tar.gz"));
        assert!(rpm.0.contains(&"toft-cli") && rpm.0.contains(&"toft-checked"));
        assert!(contents("toft-0.1.0-aarch64-linux-glibc2.17.tar.gz").1.starts_with("aarch64"));
    }
}
