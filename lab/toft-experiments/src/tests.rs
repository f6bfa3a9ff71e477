//! What holds for every experiment: its page, its plots, and the arguments of its command.

use crate::page::{Findings, Page, folder};
use crate::{Cli, Experiment, cost, parallel, release, small_bins};
use clap::Parser;
use std::collections::BTreeSet;
use toft_bench::marks::{END, begin};

/// The most words of a page when its figures are filled in. A word has a letter or a digit.
const WORDS: usize = 1200;

fn all() -> [(Page, Findings); 4] {
    [
        (parallel::PAGE, parallel::made()),
        (small_bins::PAGE, small_bins::made()),
        (release::PAGE, release::made()),
        (cost::PAGE, cost::tests::made()),
    ]
}

#[test]
fn a_page_has_every_mark_and_every_plot_and_no_other() {
    for (page, findings) in all() {
        let text = page.read().unwrap();
        let all = findings.with_plots();
        let filled = page.filled(&text, &all).unwrap();
        for name in page.marks {
            assert_eq!(text.matches(&begin(name)).count(), 1, "{page:?}: {name}");
            let mut sections = all.iter();
            let section = sections.find(|section| section.name == *name);
            let section = section.unwrap_or_else(|| panic!("{page:?}: no section {name}"));
            assert!(filled.contains(section.text.trim()), "{page:?}: {name}");
        }
        let shown = |name: &String| filled.contains(&format!("]({name})"));
        let plots: BTreeSet<String> = findings.plots.into_iter().map(|(name, _)| name).collect();
        assert!(plots.iter().all(shown), "{page:?}: {plots:?}");
        let there = std::fs::read_dir(folder()).unwrap().flatten();
        let there = there.map(|entry| entry.file_name().into_string().unwrap());
        let own = |name: &String| name.starts_with(page.name) && name.ends_with(".svg");
        let other: Vec<String> = there.filter(own).filter(|it| !plots.contains(it)).collect();
        assert!(other.is_empty(), "{page:?} shows no such plots: {other:?}");
    }
}

#[test]
fn only_the_sections_of_a_page_change_and_its_marks_must_be_right() {
    let page = Page { name: "page", marks: &["one"] };
    let section = |name| [crate::page::Section::new(name, "One", "new\n".into())];
    let text = format!("a\n{}old\n{END}\nb\n", begin("one"));
    let filled = |text: &str| page.filled(text, &section("one"));
    assert_eq!(filled(&text).unwrap(), text.replace("old\n", "\nnew\n\n"));
    assert!(filled("a").unwrap_err().contains("page.md: there is no line"));
    let more = format!("{text}{}{END}\n", begin("two"));
    assert!(filled(&more).unwrap_err().contains("2 parts with figures, and not 1"));
}

/// As it is, and filled again.
#[test]
fn a_page_is_short() {
    let words = |text: &str| {
        let is_word = |it: &&str| it.contains(char::is_alphanumeric);
        text.split_whitespace().filter(is_word).count()
    };
    for (page, findings) in all() {
        let text = page.read().unwrap();
        let filled = page.filled(&text, &findings.with_plots()).unwrap();
        let each = findings.sections.iter().map(|section| (section.name, words(&section.text)));
        let each: Vec<_> = each.collect();
        println!("{}: {} words, {} filled", page.name, words(&text), words(&filled));
        for text in [&text, &filled] {
            assert!(words(text) <= WORDS, "{}: {} words: {each:?}", page.name, words(text));
        }
    }
}

/// The runs of all rounds, and the seconds that one may take on average. A run of `parallel` takes
/// 0.13 s if it is not quick. One of `cost` is also counted by callgrind, which takes seconds.
#[test]
fn a_quick_run_is_planned_for_less_than_three_minutes() {
    for (name, runs, seconds) in [
        ("parallel", 3 * parallel::quick_runs(), 0.25),
        ("small-bins", 3 * small_bins::quick_runs(), 0.25),
        ("release", 2 * release::quick_runs(), 0.25),
        ("cost", 2 * cost::quick_runs(), 10.0),
    ] {
        let planned = runs as f64 * seconds;
        assert!((20.0..180.0).contains(&planned), "{name}: {runs} runs take {planned} s");
    }
}

#[test]
fn every_experiment_takes_quick_and_runs() {
    for (name, full, quick) in
        [("parallel", 3, 3), ("small-bins", 7, 3), ("release", 5, 2), ("cost", 7, 2)]
    {
        let parsed = |words: &[&str]| {
            let words = ["experiment", name].into_iter().chain(words.iter().copied());
            let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
            Ok::<_, String>(match cli.experiment {
                Experiment::Parallel(asked) => asked.arguments,
                Experiment::SmallBins(it) | Experiment::Release(it) | Experiment::Cost(it) => it,
            })
        };
        let rounds = |words: &[&str]| parsed(words).unwrap().rounds(full, quick);
        assert_eq!((rounds(&[]), rounds(&["--quick"])), (full, quick));
        assert_eq!(rounds(&["--quick", "--runs", "9"]), 9);
        assert!(parsed(&["--quick"]).unwrap().quick && !parsed(&[]).unwrap().quick);
        for wrong in ["0", "-1", "many", ""] {
            let runs = format!("--runs={wrong}");
            assert!(parsed(&[&runs]).unwrap_err().contains("not a number from 1 on"), "{wrong}");
        }
    }
}
