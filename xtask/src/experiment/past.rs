//! Experiments about one revision of the allocator, whose code is no longer in the tree.
//!
//! `cargo xtask experiment NAME` makes a copy of that revision in `target/experiments/REVISION`,
//! and runs the revision's own command there. The command builds, measures, and writes the page of
//! the copy. The copy is a clone that shares the objects of this repository, so that the page names
//! its revision and not the one of this tree.

use crate::{place, step};
use clap::{Arg, ArgMatches, Command, FromArgMatches, Subcommand};
use std::path::Path;
use std::process::{Command as Process, ExitCode};

/// The last revision that has `cost`, `parallel`, `release` and `smallbin`.
const FIRST: &str = "eb573c01b822fbd612a3a6b5fdbad282bdc75565";
/// The last revision that has `look`, `musl` and `sites`.
const SECOND: &str = "657b0ec8df071b900be0f75b1fcdc85cd871bbd6";

/// A past experiment.
#[derive(Debug)]
struct Past {
    /// The subcommand, here and in the revision.
    name: &'static str,
    /// The full hash.
    revision: &'static str,
    /// The page that the revision's command writes.
    page: &'static str,
    /// The question.
    asks: &'static str,
}

impl Past {
    const fn new(
        name: &'static str,
        revision: &'static str,
        page: &'static str,
        asks: &'static str,
    ) -> Past {
        Past { name, revision, page, asks }
    }
}

static TABLE: [Past; 7] = [
    Past::new("cost", FIRST, "cost.md", "What each idea costs"),
    Past::new(
        "parallel",
        FIRST,
        "parallel.md",
        "Arenas against threads, kinds of locks, thread caches",
    ),
    Past::new(
        "release",
        FIRST,
        "release.md",
        "Giving memory back: madvise, process_madvise, io_uring",
    ),
    Past::new(
        "smallbin",
        FIRST,
        "small-bins.md",
        "What it is worth to send freed small chunks straight to their bins",
    ),
    Past::new(
        "look",
        SECOND,
        "look.md",
        "What a process notices of `toft heap`, and how long that takes on a large heap",
    ),
    Past::new(
        "musl",
        SECOND,
        "musl.md",
        "Static Rust programs with musl, on its own malloc, Toft, mimalloc and jemalloc",
    ),
    Past::new(
        "sites",
        SECOND,
        "sites.md",
        "How many call sites each rung of the ladder tells apart in real programs, and what it costs",
    ),
];

/// A past experiment, and the arguments for its command.
#[derive(Debug)]
pub struct Asked {
    past: &'static Past,
    arguments: Vec<String>,
}

const ARGUMENTS: &str = "arguments";

impl Past {
    fn find(name: &str) -> Option<&'static Past> {
        TABLE.iter().find(|past| past.name == name)
    }

    fn command(&self) -> Command {
        let arguments = Arg::new(ARGUMENTS)
            .value_name("ARGUMENTS")
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .help("Passed on to the command of that revision, for example --quick, --runs N");
        let about = format!("{}; at revision {}", self.asks, &self.revision[..7]);
        Command::new(self.name).about(about).arg(arguments)
    }
}

impl Subcommand for Asked {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(TABLE.iter().map(Past::command))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Past::find(name).is_some()
    }
}

impl FromArgMatches for Asked {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let named = matches.subcommand().and_then(|(name, rest)| Some((Past::find(name)?, rest)));
        let Some((past, rest)) = named else {
            return Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand));
        };
        let arguments = rest.get_many::<String>(ARGUMENTS).into_iter().flatten().cloned();
        Ok(Asked { past, arguments: arguments.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Copies the revision, unless the copy is there, and runs its command.
pub fn run(asked: &Asked) -> Result<ExitCode, String> {
    let Past { name, revision, page, .. } = asked.past;
    let copy = place::target_dir().join("experiments").join(revision);
    if !copy.is_dir() {
        println!("revision {revision} into {}", copy.display());
        check_out(place::root(), revision, &copy).map_err(|e| format!("experiment {name}: {e}"))?;
    }
    let mut cargo = place::cargo();
    cargo.args(["xtask", "experiment", name]).args(&asked.arguments).current_dir(&copy);
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
    let mut clone = Process::new("git");
    clone.args(["clone", "--quiet", "--shared", "--no-checkout"]).arg(root).arg(&part);
    step::succeed(&mut clone)?;
    let mut check_out = Process::new("git");
    check_out.arg("-C").arg(&part).args(["checkout", "--quiet", "--detach", revision]);
    step::succeed(&mut check_out)?;
    std::fs::rename(&part, copy).map_err(failed)
}

/// Fails if git does not have the revision.
fn present(root: &Path, revision: &str) -> Result<(), String> {
    let commit = format!("{revision}^{{commit}}");
    let answer = Process::new("git").arg("-C").arg(root).args(["cat-file", "-e", &commit]).output();
    let answer = answer.map_err(|error| format!("git: {error}"))?;
    if answer.status.success() {
        return Ok(());
    }
    Err(format!(
        "revision {revision} is not in {}\n  {}\n  \
         in a shallow clone, fetch the history: git fetch --unshallow\n  \
         in an unpacked archive there is no history: run this in a clone of the repository",
        root.display(),
        String::from_utf8_lossy(&answer.stderr).trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// What each experiment is made of in its revision.
    const SOURCES: [(&str, &str); 7] = [
        ("cost", "crates/toft-bench/src/cost/mod.rs"),
        ("parallel", "xtask/src/experiment/parallel.rs"),
        ("release", "xtask/src/experiment/release.rs"),
        ("smallbin", "crates/toft-bench/src/smallbin/mod.rs"),
        ("look", "xtask/src/experiment/look.rs"),
        ("musl", "xtask/src/experiment/musl.rs"),
        ("sites", "xtask/src/experiment/sites.rs"),
    ];

    fn git(words: &[&str]) -> std::process::Output {
        Process::new("git").arg("-C").arg(place::root()).args(words).output().expect("git")
    }

    /// A shallow clone does not have the revisions.
    fn shallow() -> bool {
        let answer = git(&["rev-parse", "--is-shallow-repository"]);
        let shallow = answer.stdout.starts_with(b"true");
        if shallow {
            eprintln!("left out: this clone is shallow; git fetch --unshallow completes it");
        }
        shallow
    }

    #[test]
    fn each_revision_has_its_experiment() {
        assert_eq!(SOURCES.map(|(name, _)| name), TABLE.each_ref().map(|past| past.name));
        if shallow() {
            return;
        }
        for (past, (_, source)) in TABLE.iter().zip(SOURCES) {
            present(place::root(), past.revision).unwrap();
            for path in [source, &format!("docs/experiments/{}", past.page)] {
                let object = format!("{}:{path}", past.revision);
                assert!(git(&["cat-file", "-e", &object]).status.success(), "{object}");
            }
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
        let head = Process::new("git").arg("-C").arg(&copy).args(["rev-parse", "HEAD"]).output();
        let has_files = copy.join(SOURCES[0].1).is_file();
        std::fs::remove_dir_all(&copy).unwrap();
        assert_eq!(String::from_utf8_lossy(&head.unwrap().stdout).trim(), FIRST);
        assert!(has_files);
    }

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        experiment: super::super::Experiment,
    }

    #[test]
    fn arguments_are_passed_on() {
        let words = ["xtask", "smallbin", "--quick", "--runs", "3"];
        let super::super::Experiment::Past(asked) = Cli::parse_from(words).experiment else {
            panic!("another experiment");
        };
        assert_eq!((asked.past.name, asked.past.revision), ("smallbin", FIRST));
        assert_eq!(asked.arguments, ["--quick", "--runs", "3"]);
    }

    #[test]
    fn help_shows_the_arguments_and_the_revision() {
        for past in &TABLE {
            let help = Cli::try_parse_from(["xtask", past.name, "--help"]).err().unwrap();
            let help = help.to_string();
            for part in ["[ARGUMENTS]...", "Passed on", &past.revision[..7], past.asks] {
                assert!(help.contains(part), "{part} is not in {help}");
            }
        }
    }
}
