//! The functions that profiles of real programs name: which share of the bytes has the name of a
//! function of the program, as `toft run` starts it.
//!
//! Scripts of `labels/` write a profile of one program. Beside the directives of all scripts, they
//! have these:
//!
//! ```text
//! # language: C
//! # symbols: all             or exported, or none: which functions have a name in the file; varies
//! # own: redis- librd        how the names of the files begin that are the program
//! # below: WHY               why it is below the bar, if it is
//! ```

use super::page::{self, section, with_section};
use super::run::toft;
use super::{Script, files_in};
use crate::directives::Ending;
use crate::library::{scratch_dir, workspace};
use crate::process::{command, hide_cargo, open_folder, run};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::path::Path;
use toft_bench::machine::Machine;
use toft_profile::{Location, Profile, label};

/// The heading of the section.
pub const TITLE: &str = "Labels";

/// The share that the programs in C, C++ and Rust are to reach, in percent.
const BAR: f64 = 90.0;
/// A program with more allocating functions than the first is to use as many partitions as the
/// second.
const PARTITIONS: (usize, usize) = (200, 50);

/// How a program is started: the columns of the tables.
const WAYS: [(&str, &str); 2] =
    [("without wrappers", "--env TOFT_PARTITIONS=exact"), ("`toft run`", "")];
/// The index of the way that is the default.
const DEFAULT: usize = 1;

/// Parts of names that stand for malloc whatever the list of libraries has.
const SPEAKING: [&str; 9] = [
    "alloc",
    "operator new",
    "strdup",
    "strndup",
    "memdup",
    "obstack",
    "raw_vec",
    "finish_grow",
    "pymem_",
];

/// A program whose labels are counted.
#[derive(Debug)]
pub struct Program {
    /// The script that writes its profile.
    pub script: Script,
    language: String,
    symbols: String,
    own: Vec<String>,
    below: Option<String>,
}

/// Returns the programs, in the order of their names.
pub fn programs() -> Result<Vec<Program>, String> {
    let folder = workspace().join("tests/labels");
    files_in(&folder)?
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
            let stated = |key: &str| {
                let begin = format!("# {key}: ");
                text.lines().find_map(|line| line.strip_prefix(&begin)).map(str::to_owned)
            };
            let said = |key: &str| stated(key).ok_or(format!("{}: no {key}", path.display()));
            Ok(Program {
                language: said("language")?,
                symbols: said("symbols")?,
                below: stated("below"),
                own: said("own")?.split(' ').map(str::to_owned).collect(),
                script: Script::read(path.clone())?,
            })
        })
        .collect()
}

/// What the label of a call site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The name of a function of the program.
    Named,
    /// A place in the program without a name.
    Nameless,
    /// A wrapper of malloc, or a library.
    Library,
}

/// Returns what the label is. `own` has the beginnings of the program's files.
fn kind(location: &Location, own: &[String]) -> Kind {
    if !own.iter().any(|begin| location.module_name().starts_with(begin.as_str())) {
        return Kind::Library;
    }
    let Some(label) = location.label() else { return Kind::Nameless };
    if label::first_own(&location.frames).is_none() || speaks(&label.function) {
        return Kind::Library;
    }
    Kind::Named
}

/// Returns true if a name is that of an allocating function, arguments aside.
fn speaks(function: &str) -> bool {
    let mut depth = 0_usize;
    let outside = function.chars().filter(|character| {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    });
    let path: String = outside.collect::<String>().to_lowercase();
    SPEAKING.iter().any(|part| path.contains(part))
}

/// The figures of one profile. Shares are in percent, of live bytes and of all ever allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    named: [f64; 2],
    nameless: [f64; 2],
    sites: usize,
    functions: usize,
    partitions: usize,
}

impl Figures {
    fn of(profile: &Profile, own: &[String]) -> Figures {
        let mut bytes: BTreeMap<u8, [u64; 2]> = BTreeMap::new();
        let mut all = [0, 0];
        for row in &profile.rows {
            let of_kind = bytes.entry(kind(&row.location, own) as u8).or_default();
            for (at, part) in [row.bytes, row.allocated].into_iter().enumerate() {
                of_kind[at] += part;
                all[at] += part;
            }
        }
        let share = |kind: Kind| {
            let part = bytes.get(&(kind as u8)).copied().unwrap_or_default();
            [0, 1].map(|at| 100.0 * part[at] as f64 / all[at].max(1) as f64)
        };
        let rows = || profile.rows.iter();
        Figures {
            named: share(Kind::Named),
            nameless: share(Kind::Nameless),
            sites: rows().map(|row| row.location.site).collect::<HashSet<_>>().len(),
            functions: rows()
                .map(|row| (row.location.module_name(), row.location.function()))
                .collect::<HashSet<_>>()
                .len(),
            partitions: rows().map(|row| row.partition).collect::<HashSet<_>>().len(),
        }
    }
}

/// The figures of a program, one for each of `WAYS`.
pub type Row = [Figures; WAYS.len()];

/// Runs a program in each way, and prints the largest labels that are not of its functions.
///
/// # Errors
/// What kept it from running, or what it complained of; or that it is below the bar, if its script
/// does not say why.
pub fn measure(program: &Program) -> Result<Row, String> {
    let mut row = Row::default();
    for ((way, options), figures) in WAYS.iter().zip(&mut row) {
        let profile = profile(program, options)?;
        *figures = Figures::of(&profile, &program.own);
        println!("{} {way}: {figures:.1?}", program.script.name);
        let mut others: Vec<_> = profile
            .rows
            .iter()
            .filter(|row| kind(&row.location, &program.own) != Kind::Named)
            .map(|row| (row.bytes, row.allocated, row.location.place()))
            .collect();
        others.sort_by_key(|&(live, ever, _)| std::cmp::Reverse((live.max(ever), live)));
        for (live, ever, place) in others.iter().take(8) {
            println!("    {live:>12} live {ever:>14} ever  {place}");
        }
    }
    let named = row[DEFAULT].named;
    if program.below.is_none() && is_below(&row[DEFAULT]) {
        return Err(format!("{}: {named:.1?} % are named, and not {BAR}", program.script.name));
    }
    Ok(row)
}

fn is_below(figures: &Figures) -> bool {
    figures.named.iter().any(|&share| share < BAR)
}

/// Runs a script with these options of `toft run`, and reads the profile.
fn profile(program: &Program, options: &str) -> Result<Profile, String> {
    let name = &program.script.name;
    // Servers run as another user.
    let said = |error: std::io::Error| format!("{name}: {error}");
    let temporary = open_folder().map_err(said)?;
    let folder = temporary.path();
    let toft = {
        let copy = folder.join("toft");
        std::fs::copy(toft()?, &copy).map_err(said)?;
        copy
    };
    let work = folder.join("work");
    std::fs::create_dir(&work).map_err(said)?;
    let file = folder.join("profile.json");
    let mut shell = command("bash");
    shell
        .args(["--norc", "-eu", "-o", "pipefail"])
        .arg(&program.script.path)
        .current_dir(&work)
        .env("TOFT", &toft)
        .env("OPTIONS", options)
        .env("PROFILE", &file)
        .env("LABELS", workspace().join("tests/labels"))
        .env("PROGRAMS", super::folder())
        .env("SOURCES", workspace().join("crates"))
        .env("BUILT", scratch_dir("labels"))
        .env("TMPDIR", folder)
        .env("PYTHONHASHSEED", "0");
    hide_cargo(&mut shell);
    let finished = run(shell, &[], program.script.timeout);
    if finished.ending != Ending::Exit(0) {
        return Err(finished.describe(&format!("{name} fails")));
    }
    let text = std::fs::read(&file).map_err(|e| finished.describe(&format!("{name}: {e}")))?;
    Profile::from_json(&text).map_err(|e| format!("{name}: {e:?}"))
}

/// Writes the section into the page.
///
/// # Errors
/// What the system said.
pub fn write(path: &Path, rows: &BTreeMap<String, (&Program, Row)>) -> Result<(), String> {
    let said = |e: std::io::Error| format!("{}: {e}", path.display());
    let page = std::fs::read_to_string(path).map_err(said)?;
    let new = with_section(&page, TITLE, &text(rows));
    debug_assert!(section(&new, TITLE).is_some());
    std::fs::write(path, new).map_err(said)
}

/// An item of a list.
fn item(line: &str) -> String {
    let mut text = String::new();
    page::item(&mut text, line);
    text
}

/// The section.
fn text(rows: &BTreeMap<String, (&Program, Row)>) -> String {
    let machine = Machine::here();
    let mut text = format!("## {TITLE}\n\n");
    text.push_str(
        "The share of bytes whose [label](profiles.md#how-a-call-site-is-named) is the name of a\n\
         function of the program: of live bytes / of all ever allocated, in percent. Programs that end\n\
         are read at their exit, when little is live. A name with *alloc*, *strdup*, *obstack* or the like\n\
         in it does not count, nor do functions of the C library and of other libraries.\n\
         `cargo xtask labels` measures and writes this section; the [scripts](../tests/labels) say what\n\
         each program does.\n\n",
    );
    let _ = writeln!(
        text,
        "- {} x {}, Linux {}, glibc {}, revision {}\n\
         - *without wrappers*: each return address is a call site\n\
         - *nameless*: the function has no symbol, so only debug information names it; by `toft run`\n\
         - symbols: of *all* functions, of *exported* ones, or *none*, as the distribution ships it\n",
        machine.cpus, machine.cpu, machine.kernel, machine.libc, machine.revision
    );
    let ways = WAYS.map(|(way, _)| way).join(" | ");
    let _ = writeln!(text, "| program | language | symbols | {ways} | nameless |");
    text.push_str("|---|---|---|---:|---:|---:|\n");
    let pair = |[live, ever]: [f64; 2]| format!("{live:.1} / {ever:.1}");
    for (name, (program, row)) in rows {
        let shares = row.map(|figures| pair(figures.named)).join(" | ");
        let nameless = pair(row[DEFAULT].nameless);
        let (language, symbols) = (&program.language, &program.symbols);
        let _ = writeln!(text, "| {name} | {language} | {symbols} | {shares} | {nameless} |");
    }
    let _ = writeln!(text, "\nCall sites, and partitions that they use by `toft run`:\n");
    let _ = writeln!(text, "| program | {ways} | functions | partitions |");
    text.push_str("|---|---:|---:|---:|---:|\n");
    for (name, (_, row)) in rows {
        let sites = row.map(|figures| figures.sites.to_string()).join(" | ");
        let Figures { functions, partitions, .. } = &row[DEFAULT];
        let _ = writeln!(text, "| {name} | {sites} | {functions} | {partitions} |");
    }
    text.push_str("\n*Functions* are the labels by `toft run`.\n\n");
    let below = |is_below: &dyn Fn(&Row) -> bool| {
        let rows = rows.iter().filter(|(_, (_, row))| is_below(row));
        let lines = rows.map(|(name, (program, _))| match &program.below {
            Some(why) => item(&format!("{name}: {why}")),
            None => item(name),
        });
        let lines: String = lines.collect();
        if lines.is_empty() { "- none\n".to_owned() } else { lines }
    };
    let (functions, partitions) = PARTITIONS;
    let _ = writeln!(
        text,
        "Below {BAR} % by `toft run`, of live bytes or of all:\n\n{}",
        below(&|row| is_below(&row[DEFAULT]))
    );
    let _ = write!(
        text,
        "More than {functions} functions and fewer than {partitions} partitions:\n\n{}",
        below(&|row| row[DEFAULT].functions > functions && row[DEFAULT].partitions < partitions)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use toft_profile::{Frame, Frames};

    fn location(module: &str, function: Option<&str>) -> Location {
        let frame = |function: &str| Frame { function: function.into(), file: None, line: None };
        Location {
            module: Some(module.into()),
            offset: Some(16),
            frames: Frames::from(function.map(frame).into_iter().collect::<Vec<_>>()),
            ..Location::default()
        }
    }

    #[test]
    fn only_functions_of_the_program_count() {
        let own = ["server".to_owned(), "libown".to_owned()];
        let of = |module: &str, function: Option<&str>| kind(&location(module, function), &own);
        assert_eq!(of("/bin/server", Some("read_names")), Kind::Named);
        assert_eq!(of("/lib/libown.so.1", Some("app::fill<std::allocator<int> >")), Kind::Named);
        assert_eq!(of("/bin/server", None), Kind::Nameless);
        assert_eq!(of("/lib/libc.so.6", Some("fopen")), Kind::Library);
        for wrapper in ["xmalloc", "std::vector<int>::push_back", "ggc_alloc_tree", "ObStackBegin"]
        {
            assert_eq!(of("/bin/server", Some(wrapper)), Kind::Library, "{wrapper}");
        }
    }

    #[test]
    fn the_section_names_what_is_below_the_bars() {
        let all = programs().unwrap();
        let figures = |named, functions, partitions| Figures {
            named: [named, 95.0],
            functions,
            partitions,
            ..Figures::default()
        };
        let rows = BTreeMap::from([
            ("high".to_owned(), (&all[0], [figures(95.0, 300, 50); WAYS.len()])),
            ("low".to_owned(), (&all[0], [figures(89.9, 300, 49); WAYS.len()])),
        ]);
        let text = text(&rows);
        assert!(text.contains("or of all:\n\n- low\n\nMore"), "{text}");
        assert!(text.contains("than 50 partitions:\n\n- low\n"), "{text}");
        assert!(text.contains("| 95.0 / 95.0 |"), "{text}");
    }
}
