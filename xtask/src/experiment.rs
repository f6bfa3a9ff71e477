//! Experiments about one revision of the allocator, whose code is no longer in the tree.
//!
//! `cargo xtask experiment NAME` makes a copy of that revision in `target/experiments/REVISION`,
//! and runs the revision's own command there. The command builds, measures, and writes the page of
//! the copy. The copy is a clone that shares the objects of this repository, so that the page names
//! its revision and not the one of this tree.

use crate::{place, step};
use clap::{Args, Subcommand};
use std::path::Path;
use std::process::{Command, ExitCode};

/// The last revision that has `cost`, `parallel`, `release` and `smallbin`.
const FIRST: &str = "eb573c01b822fbd612a3a6b5fdbad282bdc75565";
/// The last revision that has `arena`, `look`, `musl` and `sites`.
const SECOND: &str = "657b0ec8df071b900be0f75b1fcdc85cd871bbd6";

/// What is asked.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    /// The arena against other allocators for memory that the program hands over; at revision
    /// 657b0ec
    Arena(Arguments),
    /// What each idea costs; at revision eb573c0
    Cost(Arguments),
    /// Arenas against threads, kinds of locks, thread caches; at revision eb573c0
    Parallel(Arguments),
    /// Giving memory back: madvise, process_madvise, io_uring; at revision eb573c0
    Release(Arguments),
    /// What it is worth to send freed small chunks straight to their bins; at revision eb573c0
    Smallbin(Arguments),
    /// What a process notices of `toft heap`, and how long that takes on a large heap; at revision
    /// 657b0ec
    Look(Arguments),
    /// Static Rust programs with musl, on its own malloc, Toft, mimalloc and jemalloc; at revision
    /// 657b0ec
    Musl(Arguments),
    /// How many call sites each rung of the ladder tells apart in real programs, and what it costs;
    /// at revision 657b0ec
    Sites(Arguments),
}

#[derive(Args, Debug)]
pub struct Arguments {
    /// Passed on to the command of that revision, for example --quick, --runs N
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Experiment {
    /// The name, here and in the revision; the revision; the page that its command writes; and the
    /// arguments.
    fn parts(&self) -> (&'static str, &'static str, &'static str, &[String]) {
        let (name, revision, page, asked) = match self {
            Experiment::Arena(asked) => ("arena", SECOND, "arena.md", asked),
            Experiment::Cost(asked) => ("cost", FIRST, "cost.md", asked),
            Experiment::Parallel(asked) => ("parallel", FIRST, "parallel.md", asked),
            Experiment::Release(asked) => ("release", FIRST, "release.md", asked),
            Experiment::Smallbin(asked) => ("smallbin", FIRST, "small-bins.md", asked),
            Experiment::Look(asked) => ("look", SECOND, "look.md", asked),
            Experiment::Musl(asked) => ("musl", SECOND, "musl.md", asked),
            Experiment::Sites(asked) => ("sites", SECOND, "sites.md", asked),
        };
        (name, revision, page, &asked.arguments)
    }
}

/// Copies the revision, unless the copy is there, and runs its command.
pub fn run(experiment: &Experiment) -> Result<ExitCode, String> {
    let (name, revision, page, arguments) = experiment.parts();
    let copy = place::target_dir().join("experiments").join(revision);
    if !copy.is_dir() {
        println!("revision {revision} into {}", copy.display());
        check_out(place::root(), revision, &copy).map_err(|e| format!("experiment {name}: {e}"))?;
    }
    let mut cargo = place::cargo();
    cargo.args(["xtask", "experiment", name]).args(arguments).current_dir(&copy);
    // The copy has its own target directory, and is deleted with it.
    let status = step::passed_on(cargo.env_remove("CARGO_TARGET_DIR"))?;
    if status == ExitCode::SUCCESS {
        println!("results: {}", copy.join("docs/experiments").join(page).display());
    }
    Ok(status)
}

/// Checks out a revision of the repository at `root` in the new folder `copy`.
fn check_out(root: &Path, revision: &str, copy: &Path) -> Result<(), String> {
    present(root, revision)?;
    let failed = |error: std::io::Error| format!("{}: {error}", copy.display());
    // A copy that was interrupted is made again.
    let part = copy.with_extension("part");
    if part.exists() {
        std::fs::remove_dir_all(&part).map_err(failed)?;
    }
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--shared", "--no-checkout"]).arg(root).arg(&part);
    step::succeed(&mut clone)?;
    let mut check_out = Command::new("git");
    check_out.arg("-C").arg(&part).args(["checkout", "--quiet", "--detach", revision]);
    step::succeed(&mut check_out)?;
    std::fs::rename(&part, copy).map_err(failed)
}

/// Fails if git does not have the revision.
fn present(root: &Path, revision: &str) -> Result<(), String> {
    let commit = format!("{revision}^{{commit}}");
    step::text(Command::new("git").arg("-C").arg(root).args(["cat-file", "-e", &commit]))
        .map(drop)
        .map_err(|why| {
            format!(
                "revision {revision} is not in {}\n  {}\n  \
                 in a shallow clone, fetch the history: git fetch --unshallow\n  \
                 in an unpacked archive there is no history: run this in a clone of the repository",
                root.display(),
                why.trim()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// What each experiment is made of in its revision.
    const SOURCES: [(&str, &str); 8] = [
        ("arena", "xtask/src/experiment/arena.rs"),
        ("cost", "crates/toft-bench/src/cost/mod.rs"),
        ("parallel", "xtask/src/experiment/parallel.rs"),
        ("release", "xtask/src/experiment/release.rs"),
        ("smallbin", "crates/toft-bench/src/smallbin/mod.rs"),
        ("look", "xtask/src/experiment/look.rs"),
        ("musl", "xtask/src/experiment/musl.rs"),
        ("sites", "xtask/src/experiment/sites.rs"),
    ];

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(subcommand)]
        experiment: Experiment,
    }

    fn git(root: &Path, words: &[&str]) -> Result<String, String> {
        step::text(Command::new("git").arg("-C").arg(root).args(words))
    }

    /// A shallow clone does not have the revisions.
    fn shallow() -> bool {
        let shallow = git(place::root(), &["rev-parse", "--is-shallow-repository"]);
        let shallow = shallow.unwrap().starts_with("true");
        if shallow {
            eprintln!("left out: this clone is shallow; git fetch --unshallow completes it");
        }
        shallow
    }

    #[test]
    fn each_revision_has_its_experiment() {
        if shallow() {
            return;
        }
        for (name, source) in SOURCES {
            let asked = Cli::parse_from(["xtask", name, "--quick", "--runs", "3"]).experiment;
            let (known, revision, page, arguments) = asked.parts();
            assert_eq!((known, arguments.join(" ").as_str()), (name, "--quick --runs 3"));
            for path in [source, &format!("docs/experiments/{page}")] {
                git(place::root(), &["cat-file", "-e", &format!("{revision}:{path}")]).unwrap();
            }
            let help = Cli::try_parse_from(["xtask", name, "--help"]).unwrap_err().to_string();
            assert!(help.contains(&revision[..7]) && help.contains("Passed on"), "{help}");
        }
    }

    #[test]
    fn a_revision_that_git_does_not_have_is_one_error() {
        let copy = std::env::temp_dir().join(format!("toft-past-none-{}", std::process::id()));
        let error = check_out(place::root(), &"f".repeat(40), &copy).unwrap_err();
        assert!(error.starts_with("revision ffffffff"), "{error}");
        assert!(error.contains("git fetch --unshallow"), "{error}");
        assert!(!copy.exists());
        // A folder that is in no repository.
        let error = present(Path::new("/"), FIRST).unwrap_err();
        assert!(error.contains("not in /\n") && error.contains("clone of the"), "{error}");
    }

    /// A copy has the revision's files, and git there names the revision.
    #[test]
    fn a_copy_is_of_its_revision() {
        if shallow() {
            return;
        }
        let copy = std::env::temp_dir().join(format!("toft-past-{}", std::process::id()));
        check_out(place::root(), FIRST, &copy).unwrap();
        let head = git(&copy, &["rev-parse", "HEAD"]);
        let has_files = copy.join(SOURCES[1].1).is_file();
        std::fs::remove_dir_all(&copy).unwrap();
        assert_eq!(head.unwrap().trim(), FIRST);
        assert!(has_files);
    }
}
