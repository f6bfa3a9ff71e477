//! The command's build script: cargo runs it again only after a change.
//!
//! The script is compiled as it is, and a stand-in for cargo builds the libraries.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A `cargo` that writes an empty library to where the build script looks for it.
const CARGO: &str = r#"#!/bin/sh
set -eu
[ "$1" = build ] || exit 0
while [ $# -gt 0 ]; do
    case $1 in
        --package) package=$2 ;;
        --target) target=$2 ;;
        --target-dir) folder=$2 ;;
    esac
    shift
done
case $package in
    toft-preload) file=libtoft.so ;;
    toft-record) file=libtoft_record.so ;;
esac
mkdir -p "$folder/$target/release"
printf '\177ELF' > "$folder/$target/release/$file"
"#;

/// Cargo takes a file that is not there for a change, each time.
#[test]
fn all_that_cargo_is_to_watch_exists() {
    let scratch = tempfile::tempdir().unwrap();
    let [script, cargo, out] = ["script", "cargo", "out"].map(|name| scratch.path().join(name));
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "-o"]).arg(&script).arg(package.join("build.rs"));
    assert!(rustc.status().unwrap().success());
    fs::write(&cargo, CARGO).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(&out).unwrap();

    let mut run = Command::new(&script);
    for variable in ["PATH", "SECURE_PATH", "SECURE_LIGHT_PATH", "RECORD_PATH"] {
        run.env_remove(format!("LIBTOFT_{variable}"));
    }
    run.env("CARGO", &cargo).env("CARGO_MANIFEST_DIR", package).env("OUT_DIR", &out);
    run.env("TARGET", "x86_64-unknown-linux-gnu").current_dir(package);
    let output = run.output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let printed = String::from_utf8(output.stdout).unwrap();
    let watched: Vec<&str> =
        printed.lines().filter_map(|line| line.strip_prefix("cargo::rerun-if-changed=")).collect();
    assert!(watched.len() >= 3, "{printed}");
    let missing: Vec<_> = watched.iter().filter(|path| !package.join(path).exists()).collect();
    assert!(missing.is_empty(), "cargo runs the script each time: {missing:?} do not exist");
}
