//! Builds the libraries that the command carries, the allocator, its secure builds and the
//! recorder, and hands them to `src/library.rs`, so that the one file `toft` is all a user has to
//! copy.
//!
//! The folder `libraries` has their sources. In a checkout it is links; `cargo package` puts the
//! files that they lead to into the crate, so that `cargo install toft-cli` builds the same. A
//! workspace of these sources is laid out below OUT_DIR, and the same cargo builds it in separate
//! target folders: the outer cargo holds the lock of its target folder meanwhile.
//!
//! Packagers who build the libraries in a separate step name them in `LIBTOFT_PATH`,
//! `LIBTOFT_SECURE_PATH`, `LIBTOFT_SECURE_LIGHT_PATH` and `LIBTOFT_RECORD_PATH`. These names differ
//! from the options of the library, so that a program started from that environment is not
//! confused.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(variable("OUT_DIR"));
    println!("cargo::rerun-if-changed=build.rs");
    let preload = Package { name: "toft-preload", file: "libtoft.so", features: "" };
    let secure = Package { features: "secure", ..preload };
    let light = Package { features: "secure-light", ..preload };
    let recorder = Package { name: "toft-record", file: "libtoft_record.so", features: "" };
    let mut workspace = None;
    for (name, given, package) in [
        ("libtoft", "LIBTOFT_PATH", preload),
        ("libtoft-secure", "LIBTOFT_SECURE_PATH", secure),
        ("libtoft-secure-light", "LIBTOFT_SECURE_LIGHT_PATH", light),
        ("libtoft_record", "LIBTOFT_RECORD_PATH", recorder),
    ] {
        println!("cargo::rerun-if-env-changed={given}");
        let library = match env::var_os(given) {
            Some(path) => {
                let path = PathBuf::from(path);
                println!("cargo::rerun-if-changed={}", path.display());
                path
            }
            None => workspace.get_or_insert_with(|| Workspace::lay_out(&out)).build(&package),
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
    // Not through a variable: cargo would set it for what `cargo run` runs, and the library
    // complain about it there.
    fs::write(out.join(format!("{name}.hash")), format!("{:016x}", fnv1a(&bytes)))
        .expect("cannot write to OUT_DIR");
}

/// The libraries' sources as a cargo workspace.
struct Workspace {
    root: PathBuf,
    target: String,
    /// Their dependencies are on this machine already, as they are among those of the command.
    offline: bool,
}

impl Workspace {
    /// Lays it out: manifests of `libraries`, and links to its sources.
    fn lay_out(out: &Path) -> Workspace {
        let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
        let sources = package.join("libraries");
        println!("cargo::rerun-if-changed={}", sources.display());
        let root = out.join("libraries");
        let mut members = Vec::new();
        for folder in listing(&sources.join("crates")) {
            let name = folder.file_name().expect("a folder has a name").to_str().expect("ASCII");
            let to = root.join("crates").join(name);
            fs::create_dir_all(&to).expect("cannot write to OUT_DIR");
            for file in listing(&folder) {
                let name = file.file_name().expect("a file has a name");
                if name == "manifest.toml" {
                    write(&to.join("Cargo.toml"), &without_tests(&read(&file)));
                } else {
                    let link = to.join(name);
                    // Of an earlier run, perhaps of a crate that was elsewhere then.
                    let _ = fs::remove_file(&link);
                    symlink(&file, &link).expect("cannot write to OUT_DIR");
                }
            }
            members.push(format!("crates/{name}"));
        }
        let manifest = with_members(&read(&sources.join("workspace.toml")), &members);
        write(&root.join("Cargo.toml"), &manifest);
        // A static command starts programs that have the system's C library.
        let target = variable("TARGET").replace("-linux-musl", "-linux-gnu");
        let mut workspace = Workspace { root, target, offline: false };
        // A crate has its lock file beside its manifest, a checkout at its root. Only the one that
        // is there is watched: cargo takes a missing file for a change, each time.
        let locks = ["Cargo.lock", "../../Cargo.lock"].map(|lock| package.join(lock));
        let lock = locks.iter().find(|lock| lock.is_file());
        if let Some(lock) = lock {
            println!("cargo::rerun-if-changed={}", lock.display());
        }
        workspace.offline = workspace.resolves(lock) || workspace.resolves(None);
        workspace
    }

    /// Returns true if all dependencies are on this machine, in the versions of this lock file or,
    /// without one, in any.
    fn resolves(&self, lock: Option<&PathBuf>) -> bool {
        let own = self.root.join("Cargo.lock");
        let _ = fs::remove_file(&own);
        if let Some(lock) = lock {
            fs::copy(lock, &own).expect("cannot write to OUT_DIR");
        }
        let mut cargo = self.cargo();
        let fetch = cargo.args(["fetch", "--quiet", "--offline", "--target", &self.target]);
        fetch.output().expect("cannot start cargo").status.success()
    }

    /// Builds a library and returns where it is.
    fn build(&self, package: &Package) -> PathBuf {
        // Builds of one package with other features would overwrite each other.
        let directory = self.root.with_file_name(format!("preload-{}", package.features));
        let mut cargo = self.cargo();
        cargo
            .args(["build", "--release", "--package", package.name])
            .args(["--features", package.features])
            .args(["--target", &self.target, "--target-dir"])
            .arg(&directory);
        if self.offline {
            cargo.args(["--offline", "--locked"]);
        }
        // Line tables would triple the size of every copy of `toft`; the symbol table stays for
        // perf and gdb.
        cargo.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
        let status = cargo.status().expect("cannot start cargo");
        assert!(status.success(), "{} does not build: see the messages above", package.name);
        directory.join(&self.target).join("release").join(package.file)
    }

    /// The cargo that runs this, without what it has set for this package.
    fn cargo(&self) -> Command {
        let mut cargo = Command::new(variable("CARGO"));
        cargo.current_dir(&self.root);
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(|n| !survives(n)) {
                cargo.env_remove(&name);
            }
        }
        cargo
    }
}

/// A manifest without the sections that only tests need: their dependencies are not on a user's
/// machine.
fn without_tests(manifest: &str) -> String {
    const TESTS: [&str; 6] =
        ["[dev-dependencies]", "[target.", "[[test]]", "[[bench]]", "[[example]]", "[profile.dev"];
    let mut keep = true;
    let kept = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            keep = !TESTS.iter().any(|section| line.starts_with(section));
        }
        keep
    });
    kept.map(|line| format!("{line}\n")).collect()
}

/// The manifest of the whole workspace, for these members only.
fn with_members(manifest: &str, members: &[String]) -> String {
    let mut text = String::new();
    for line in without_tests(manifest).lines() {
        match line.split(" = ").next() {
            Some("members") => text += &format!("members = {members:?}\n"),
            Some("default-members" | "exclude") => {}
            _ => text += &format!("{line}\n"),
        }
    }
    text
}

/// What is in a folder, in the order of names.
fn listing(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("cannot read the libraries' sources {}: {e}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("cannot list it").path()).collect();
    paths.sort();
    paths
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|e| panic!("cannot read {}: {e}", file.display()))
}

/// Writes a file, if that changes it: cargo rebuilds what is newer than its last build.
fn write(file: &Path, text: &str) {
    if fs::read_to_string(file).is_ok_and(|there| there == text) {
        return;
    }
    fs::write(file, text).expect("cannot write to OUT_DIR");
}

/// Whether a variable of this build may reach the nested one. What the outer cargo set for this
/// package would be taken for settings of the nested build: flags of coverage or sanitizer runs,
/// lint drivers, features, profiles.
fn survives(name: &str) -> bool {
    const KEPT: [&str; 7] = [
        "CARGO_HOME",
        "CARGO_MAKEFLAGS",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
    ];
    if name.starts_with("CARGO_TARGET_") {
        // CARGO_TARGET_X86_64_..._LINKER and the like describe the machine, _RUSTFLAGS and _RUNNER
        // the run.
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

/// Names the library's content in the file name of its cached copy. Not a proof of anything: the
/// copy is compared whole.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
