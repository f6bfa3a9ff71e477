//! The corpus of misuse. Each class is a small program, with a twin that lacks the fault. All are
//! run on every allocator that is there, and the table has the verdict of each.
//!
//! | file | what |
//! |---|---|
//! | `class.rs` | the classes and their cases, as the heads of the programs say |
//! | `expect.rs`, `pattern.rs` | the verdicts that Toft has to reach, and its exact messages |
//! | `programs.rs` | compiling them |
//! | `verdict.rs` | how a program ended |
//! | `trial.rs` | running a case: how often, and what that came to |
//! | `crew.rs` | running all of them |
//! | `unfinished.rs` | what is kept when a run is stopped |
//! | `record.rs`, `table.rs` | the JSON file and the table |

pub mod class;
mod crew;
mod expect;
pub mod pattern;
pub mod programs;
mod record;
mod table;
mod trial;
mod unfinished;
pub mod verdict;

use crate::cli::Samples;
use crate::files;
use crate::mount::{LIGHT, Mount, SECURE, choose_peers};
use crate::peer_cache::Cache;
use crate::peers::{Peer, Recipe, recipes};
use clap::Args;
use class::{Case, Class, classes};
use programs::Programs;
use record::Record;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trial::{Job, Outcome, Tried};
use unfinished::Unfinished;

/// Exit status: Toft does not do what the corpus says.
const DEVIATES: u8 = 1;

/// Exit status: the time was up first.
const UNFINISHED: u8 = 3;

/// What of the corpus to run, on what, and what to make of it.
#[derive(Args, Debug)]
pub struct Options {
    /// Classes to run, by number or by a word of their titles; all when not given
    #[arg(long, value_delimiter = ',', value_name = "CLASS")]
    only: Vec<String>,
    /// Allocators to run it on: names, or name=/path/of/a/library.so; all that are there when not
    /// given
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    peers: Vec<String>,
    /// Seconds of processor time after which a run is given up, and as many in which it does
    /// nothing at all; it counts as one that did not end
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Begin no case after so many minutes, and end with status 3. What is done is kept, then as
    /// after Ctrl-C, and the same command goes on from there
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    minutes: u64,
    /// Start over where an earlier run of the same was stopped
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    samples: Samples,
    /// Write the table into this page, between its marks, and what it is made of into figures
    /// beside it
    #[arg(long, value_name = "FILE", conflicts_with = "only")]
    page: Option<PathBuf>,
    /// Run nothing, and take what an earlier run wrote with --output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "peers", "again"])]
    from: Option<PathBuf>,
    /// List the classes and their cases
    #[arg(long, conflicts_with_all = ["json", "output", "page", "from"])]
    list: bool,
}

/// Runs what the command line says; returns the exit status.
pub(crate) fn run(options: &Options, mount: Mount) -> Result<u8, String> {
    let classes = chosen(&options.only)?;
    options.samples.begin();
    if options.list {
        classes.iter().for_each(list);
        return Ok(0);
    }
    let (record, deviations) = match &options.from {
        Some(file) => (Record::read(file)?, Vec::new()),
        None => match tried(options, &classes, mount)? {
            Some(tried) => tried,
            None => return Ok(UNFINISHED),
        },
    };
    if options.samples.wanted() {
        options.samples.write(&record.text())?;
    }
    crate::out::outln!("{}", table::draw(&record));
    for line in &deviations {
        crate::out::outln!("not as expected: {line}");
    }
    // A table of something else than was expected may be written, for it is true.
    options.page.as_ref().map_or(Ok(()), |path| write_page(path, &record))?;
    Ok(u8::from(!deviations.is_empty()) * DEVIATES)
}

/// Nothing when the time was up first.
fn tried(
    options: &Options,
    classes: &[Class],
    mount: Mount,
) -> Result<Option<(Record, Vec<String>)>, String> {
    let peers = peers(options, mount)?;
    eprintln!("compiling the programs");
    let folder = Cache::of_the_user().misuse();
    let programs = Programs::build(&folder, classes)?;
    let cases: Vec<(&Class, Vec<Case>)> =
        classes.iter().map(|class| (class, class.cases())).collect();
    let jobs = jobs(&cases, &peers);
    let times = crew::Times {
        patience: Duration::from_secs(options.timeout),
        all: Duration::from_secs(60 * options.minutes),
    };
    let plan = unfinished::plan(classes, &peers, times.patience);
    let (file, mut done) = Unfinished::open(&folder, &plan)?;
    if options.again {
        done.clear();
        file.begin_anew()?;
    }
    if !done.is_empty() {
        eprintln!(
            "{} of {} were done by a run that was stopped (--again begins anew)",
            done.len(),
            jobs.len()
        );
    }
    let outcomes = crew::work(&jobs, &programs, times, &done, &file)?;
    let left = outcomes.iter().filter(|outcome| outcome.is_none()).count();
    let outcomes: Option<Vec<Outcome>> = outcomes.into_iter().collect();
    let Some(outcomes) = outcomes else {
        eprintln!(
            "stopped after {} minutes, {left} of {} are left; what is done is in {}, and the same \
             command goes on from there",
            options.minutes,
            jobs.len(),
            file.path().display()
        );
        return Ok(None);
    };
    file.finish();
    let deviations = outcomes.iter().flat_map(|outcome| outcome.deviations.clone()).collect();
    Ok(Some((Record::of(&peers, classes, &jobs, &outcomes), deviations)))
}

/// Every case on every peer, case by case.
#[must_use]
pub fn jobs<'a>(cases: &'a [(&'a Class, Vec<Case>)], peers: &'a [Peer]) -> Vec<Job<'a>> {
    let of_case =
        |class: &'a Class, case: &'a Case| peers.iter().map(move |peer| Job { class, case, peer });
    cases
        .iter()
        .flat_map(|(class, cases)| cases.iter().flat_map(move |case| of_case(class, case)))
        .collect()
}

/// What of some tried cases is not as the corpus says.
#[must_use]
pub fn deviations(jobs: &[Job], tried: &[Tried]) -> Vec<String> {
    jobs.iter().zip(tried).flat_map(|(job, tried)| job.deviations(tried)).collect()
}

fn chosen(only: &[String]) -> Result<Vec<Class>, String> {
    let all = classes();
    let fits = |class: &Class, word: &String| match word.parse::<u32>() {
        Ok(number) => class.number == number,
        Err(_) => class.title.to_lowercase().contains(&word.to_lowercase()),
    };
    if let Some(unknown) = only.iter().find(|word| !all.iter().any(|class| fits(class, word))) {
        return Err(format!("no class is called {unknown}; `toft bench misuse --list` lists them"));
    }
    let wanted = |class: &Class| only.is_empty() || only.iter().any(|word| fits(class, word));
    Ok(all.into_iter().filter(wanted).collect())
}

fn list(class: &Class) {
    crate::out::outln!("{} {} ({})", class.number, class.title, class.source);
    for case in class.cases() {
        let times = if class.repeat > 1 { format!(" x {}", class.repeat) } else { String::new() };
        let build = expect::Build::Default;
        let toft = class.expectation(build, &case).map_or("", |expectation| &*expectation.value);
        crate::out::outln!("    {:<32}toft: {toft}", format!("{case}{times}"));
    }
}

/// The allocators to run on. What is left out is named.
fn peers(options: &Options, mount: Mount) -> Result<Vec<Peer>, String> {
    if options.peers.is_empty() {
        let mut peers = choose_peers(&["toft".to_owned()], false, mount)?;
        for name in [SECURE, LIGHT] {
            match choose_peers(&[name.to_owned()], false, mount) {
                Ok(secure) => peers.extend(secure),
                Err(why) => eprintln!("left out: {why} (--peers {name}=LIBRARY names one)"),
            }
        }
        let recipes = recipes();
        let mut others: Vec<&Recipe> = recipes.iter().filter(|recipe| compared(recipe)).collect();
        others.sort_by_key(|recipe| !recipe.secure);
        for recipe in others {
            match recipe.find() {
                Ok(peer) => peers.push(peer),
                Err(how) => eprintln!("left out: {} is not there: {how}", recipe.name),
            }
        }
        return Ok(peers);
    }
    choose_peers(&options.peers, false, mount)
}

/// The allocators that programs use, each in its latest version, and not with other variables.
fn compared(recipe: &Recipe) -> bool {
    recipe.built.is_none() && recipe.of.is_none() && recipe.later.is_none()
}

fn write_page(path: &Path, record: &Record) -> Result<(), String> {
    let kept = record.kept();
    let placed = table::MARKS.placed(&files::read(path)?, &table::section(&kept));
    let text = placed.map_err(files::at(path))?;
    let folder = path.parent().unwrap_or(Path::new("")).join("figures");
    files::make_folder(&folder)?;
    files::write(&folder.join("misuse.json"), &kept.text())?;
    files::write(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_chosen_by_number_or_by_a_word() {
        let numbers = |only: &[&str]| -> Vec<u32> {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            chosen(&only).unwrap().iter().map(|class| class.number).collect()
        };
        assert_eq!(numbers(&[]).len(), 33);
        assert_eq!(numbers(&["7", "28"]), [7, 28]);
        assert_eq!(numbers(&["MEMCPY"]), [32]);
        let error = chosen(&["7".into(), "nothing like it".into()]).unwrap_err();
        assert!(error.contains("nothing like it"), "{error}");
        assert!(chosen(&["34".into()]).is_err());
    }

    #[test]
    fn every_allocator_of_programs_is_compared_and_each_once() {
        let recipes = recipes();
        let names: Vec<&str> =
            recipes.iter().filter(|r| compared(r)).map(|r| r.name.as_str()).collect();
        for name in ["glibc", "jemalloc53", "tcmalloc", "mimalloc3", "scudo", "hardened_malloc"] {
            assert!(names.contains(&name), "{names:?}");
        }
        for name in ["toft", "toft-off", "jemalloc", "glibc-no-cache"] {
            assert!(!names.contains(&name), "{names:?}");
        }
        let secure: Vec<&str> =
            recipes.iter().filter(|r| r.secure).map(|r| r.name.as_str()).collect();
        assert_eq!(
            secure,
            ["snmalloc-checks", "mimalloc3-secure", "scudo", "hardened_malloc", "isoalloc"]
        );
    }
}
