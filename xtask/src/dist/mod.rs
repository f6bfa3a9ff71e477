//! `cargo xtask dist`: what users install, in `target/dist`.
//!
//! | file | what |
//! |---|---|
//! | `build.rs` | stripped libraries and command, debug files apart; the same bytes each time |
//! | `machine.rs` | the processors they are for |
//! | `glibc.rs` | the oldest glibc they run on: linking for it, and the check that they are |
//! | `archive.rs` | `.tar.gz` of the usual folders, and of the debug files |
//! | `debian.rs` | `libtoft0`, `libtoft-dev`, `toft`, by debhelper |
//! | `rpm.rs` | one RPM of all, by rpmbuild |
//! | `python.rs` | the wheel |
//! | `node.rs` | the package for npm |
//! | `sbom.rs` | the bill of materials of each |
//! | `again.rs` | builds all of it in another folder and compares |
//! | `trial.rs` | installs, uses and removes each as its user would |
//! | `of_tests.rs` | the same in CI, with what the tests have built |
//!
//! The templates are in `packaging/`.

mod again;
mod archive;
mod build;
mod debian;
mod glibc;
mod machine;
mod node;
mod of_tests;
mod python;
mod rpm;
mod sbom;
mod trial;

use crate::files::{copy, emptied, name, write};
use crate::install::VERSION;
use crate::step::{succeed as run, text};
use crate::{figures, files, packages, place, tally};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub use of_tests::run as of_tests;

/// What is made, and of what.
#[derive(clap::Args, Debug)]
pub struct What {
    /// Make only these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND")]
    only: Vec<Kind>,
    /// Then install each in an empty system, use it and remove it
    #[arg(long)]
    r#try: bool,
    /// Then build everything again from a clone in another folder, and compare each byte
    #[arg(long)]
    check_reproducible: bool,
    /// For a release: fail if the README's figures are of another revision of the allocator
    #[arg(long)]
    release: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything, for glibc on x86-64
    Archive,
    /// Everything, for glibc on aarch64
    Aarch64,
    /// The command without a C library, for x86-64
    Musl,
    Debian,
    Rpm,
    Python,
    Node,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Archive,
        Kind::Aarch64,
        Kind::Musl,
        Kind::Debian,
        Kind::Rpm,
        Kind::Python,
        Kind::Node,
    ];
}

/// Where everything of a run lies.
struct Dist {
    /// `target/dist`: what is given away.
    out: PathBuf,
    /// `target/dist-work`: what it is made of.
    work: PathBuf,
    /// The commit at the start.
    commit: String,
    /// Seconds since 1970 that every file in a package bears: those of the commit.
    epoch: String,
}

impl Dist {
    /// Of the last commit, in folders of this name below the target folder.
    fn new(name: &str) -> Result<Dist, String> {
        let target = place::target_dir();
        let (out, work) = (target.join(name), target.join(format!("{name}-work")));
        emptied(&out)?;
        Ok(Dist { out, work, commit: of_commit("%H")?, epoch: of_commit("%ct")? })
    }
}

/// Makes the packages, and the list of their checksums.
pub fn main(what: &What) -> Result<ExitCode, String> {
    if let Some(why) = warning(figures::check(), what.release)? {
        eprintln!("warning: {why}");
    }
    if !packages::prepare(packages::DIST, true)? {
        return Err("Debian packages are missing".into());
    }
    let dist = Dist::new("dist")?;
    let kinds = if what.only.is_empty() { &Kind::ALL[..] } else { &what.only };
    let built = build::build(&dist, machine::X86_64)?;
    let command = built.folder.join("toft");
    let mut made = Vec::new();
    for kind in kinds {
        println!("==> {kind:?}");
        made.extend(match kind {
            Kind::Archive => archive::make(&dist, &built, &command)?,
            Kind::Aarch64 => {
                archive::make(&dist, &build::build(&dist, machine::AARCH64)?, &command)?
            }
            Kind::Musl => archive::make_command(&dist, &build::build_command(&dist, &built)?)?,
            Kind::Debian => debian::make(&dist, &built)?,
            Kind::Rpm => vec![rpm::make(&dist, &built)?],
            Kind::Python => vec![python::make(&dist, &built)?],
            Kind::Node => vec![node::make(&dist, &built)?],
        });
    }
    made.sort();
    let mut files = sbom::make(&made)?;
    files.extend_from_slice(&made);
    files.sort();
    sums(&dist.out, &files)?;
    for path in &made {
        let bytes = fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?.len();
        println!("{:>10} KiB  {}", bytes.div_ceil(1024), name(path));
    }
    if what.check_reproducible {
        again::check(&dist, kinds)?;
    }
    if what.r#try {
        return Ok(tally::close(&trial::all(&dist, &made, trial::Release::ALL)));
    }
    Ok(ExitCode::SUCCESS)
}

/// What to warn of before packages are made: stale figures, which a release must not have.
fn warning(figures: Result<(), String>, release: bool) -> Result<Option<String>, String> {
    match figures {
        Err(why) if release => Err(why),
        figures => Ok(figures.err()),
    }
}

/// A fact of the last commit, by a format of `git log`.
fn of_commit(format: &str) -> Result<String, String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", &format!("--format={format}")]).current_dir(place::root());
    let fact = text(&mut git).map_err(|why| format!("packages are made of a commit: {why}"))?;
    Ok(fact.trim().to_owned())
}

/// The checksums, as `sha256sum --check` reads them.
fn sums(out: &Path, made: &[PathBuf]) -> Result<(), String> {
    let names = made.iter().map(|path| name(path));
    let sums = text(Command::new("sha256sum").args(names).current_dir(out))?;
    write(&out.join("SHA256SUMS"), sums)
}

/// A template of `packaging/`, with the versions of Toft and of the oldest glibc in their places.
fn template(path: &str) -> Result<String, String> {
    let text = files::read(&place::root().join("packaging").join(path))?;
    Ok(text.replace("@VERSION@", VERSION).replace("@GLIBC@", &glibc::FLOOR.number()))
}

/// Copies both licences into a folder of a package.
fn copy_licences(folder: &Path) -> Result<(), String> {
    ["LICENSE-APACHE", "LICENSE-MIT"]
        .iter()
        .try_for_each(|licence| copy(&place::root().join(licence), &folder.join(licence)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_figures_hold_up_a_release_and_no_packages() {
        let stale = || "stale".to_owned();
        assert_eq!(warning(Err(stale()), true), Err(stale()));
        assert_eq!(warning(Err(stale()), false), Ok(Some(stale())));
        for release in [false, true] {
            assert_eq!(warning(Ok(()), release), Ok(None));
        }
    }
}
