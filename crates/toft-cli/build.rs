//! Builds the preload libraries, the allocator, its hardened build and the recorder, and hands them to `src/library.rs`, so that the one file
//! `toft` is all a user has to copy.
//!
//! The nested builds have target directories of their own: the outer cargo holds the lock of its own while this runs.
//! Packagers who build the libraries in a step of their own name them in `LIBTOFT_PATH`, `LIBTOFT_SECURE_PATH` and
//! `LIBTOFT_RECORD_PATH`, which begin otherwise than the options of the library, so that a program started from that
//! environment is not confused.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(variable("OUT_DIR"));
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    println!("cargo::rerun-if-changed=build.rs");
    let preload = Package { name: "toft-preload", file: "libtoft.so", features: "" };
    let hardened = Package { features: "hardened", ..preload };
    let recorder = Package { name: "toft-record", file: "libtoft_record.so", features: "" };
    for (name, given, package) in [
        ("libtoft", "LIBTOFT_PATH", preload),
        ("libtoft-secure", "LIBTOFT_SECURE_PATH", hardened),
        ("libtoft_record", "LIBTOFT_RECORD_PATH", recorder),
    ] {
        println!("cargo::rerun-if-env-changed={given}");
        let library = match env::var_os(given) {
            Some(path) => {
                let path = PathBuf::from(path);
                println!("cargo::rerun-if-changed={}", path.display());
                path
            }
            None => build_library(&manifest, &out, &package),
        };
        hand_over(&library, &out, name);
    }
}

/// What cargo is to build.
#[derive(Clone, Copy)]
struct Package {
    name: &'static str,
    file: &'static str,
    features: &'static str,
}

/// Puts a library and its digest where `src/library.rs` includes them from.
fn hand_over(library: &Path, out: &Path, name: &str) {
    let bytes = fs::read(library)
        .unwrap_or_else(|e| panic!("cannot read the library {}: {e}", library.display()));
    assert!(bytes.starts_with(b"\x7fELF"), "{} is not an ELF file", library.display());

    // A copy under a fixed name, so that include_bytes! works wherever the library came from.
    fs::write(out.join(format!("{name}.so")), &bytes).expect("cannot write to OUT_DIR");
    // Not through a variable: cargo would set it for what `cargo run` runs, and the library complain about it there.
    fs::write(out.join(format!("{name}.hash")), format!("{:016x}", fnv1a(&bytes)))
        .expect("cannot write to OUT_DIR");
}

/// Runs the same cargo on a library crate of this workspace and returns the shared library.
fn build_library(manifest: &Path, out: &Path, package: &Package) -> PathBuf {
    let root = manifest.join("../..");
    for input in [
        "crates/toft/src",
        "crates/toft/Cargo.toml",
        "crates/toft-preload",
        "crates/toft-trace/src",
        "crates/toft-record",
        "Cargo.toml",
        "Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    assert!(
        root.join("crates/toft-preload/Cargo.toml").is_file(),
        "the library's sources are not beside this crate: build from a checkout of the repository, \
         or name built libraries in LIBTOFT_PATH, LIBTOFT_SECURE_PATH and LIBTOFT_RECORD_PATH"
    );

    let target = variable("TARGET");
    // Builds of one package with other features would overwrite each other.
    let directory = out.join(format!("preload-{}", package.features));
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .current_dir(&root)
        .args(["build", "--release", "--package", package.name])
        .args(["--features", package.features])
        .args(["--target", &target, "--target-dir"])
        .arg(&directory);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|n| !survives(n)) {
            cargo.env_remove(&name);
        }
    }
    // Line tables would triple the size of every copy of `toft`; the symbol table stays for perf and gdb.
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    let status = cargo.status().expect("cannot start cargo");
    assert!(status.success(), "{} does not build: see the messages above", package.name);
    directory.join(&target).join("release").join(package.file)
}

/// Whether a variable of this build may reach the nested one. What the outer cargo set for this package would
/// be taken for settings of the nested build: flags of coverage or sanitizer runs, lint drivers, features, profiles.
fn survives(name: &str) -> bool {
    const KEPT: [&str; 8] = [
        "CARGO_HOME",
        "CARGO_MAKEFLAGS",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
        "CARGO_TARGET_X",
    ];
    if name.starts_with("CARGO_TARGET_X") {
        // CARGO_TARGET_X86_64_..._LINKER and the like describe the machine, _RUSTFLAGS and _RUNNER the run.
        return name.ends_with("_LINKER");
    }
    let cargos =
        ["CARGO_", "RUSTFLAGS", "RUSTC_W", "RUSTDOC", "CLIPPY_", "__CARGO", "TOFT_", "DEP_"];
    KEPT.iter().any(|kept| name.starts_with(kept))
        || !cargos.iter().any(|set| name.starts_with(set))
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"))
}

/// Names the library's content in the file name of its cached copy. Not a proof of anything: the copy is compared whole.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
