//! The claim and the figures of the README and of the page about speed are those that the recorded
//! run makes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use toft_bench::report::{CLAIM, HEADLINE, PAGE, Report, SHAPES, claim, headline, section, shapes};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_readme_and_its_plots_are_made_of_the_committed_run() {
    let kept =
        |name: &str| Report::parse(&read(&format!("docs/figures/{name}.json"))).unwrap().of_today();
    let (report, own) = (kept("run"), kept("shapes"));
    assert!(report.measured.len() > 40, "{:?}", report.unknown);
    assert!(own.measured.len() > 100, "{:?}", own.unknown);
    let (readme, page) = (read("README.md"), read("docs/speed.md"));
    for (has, made) in [
        (CLAIM.section_of(&readme).unwrap(), claim(&report)),
        (HEADLINE.section_of(&readme).unwrap(), headline(&report)),
        (PAGE.section_of(&page).unwrap(), section(&report, "figures")),
        (SHAPES.section_of(&page).unwrap(), shapes(&own)),
    ] {
        for (line, wanted) in has.lines().zip(made.lines()) {
            assert_eq!(line, wanted, "written by hand? `cargo xtask readme FILE` makes it");
        }
        assert_eq!(has.lines().count(), made.lines().count());
    }
    assert_eq!(read("docs/figures/peers.svg"), report.svg().unwrap());
    assert_eq!(read("docs/figures/cases.svg"), report.cases_svg());
}

/// What compares speed or memory stands in a part that is made of the run, and nowhere else.
#[test]
fn no_sentence_written_by_hand_compares_speed_or_memory() {
    let readme = read("README.md");
    let mut by_hand = readme.clone();
    for part in [CLAIM, HEADLINE].map(|marks| marks.section_of(&readme).unwrap()) {
        by_hand = by_hand.replace(part, "");
    }
    let compares = |text: &str| {
        let text = text.to_lowercase();
        [
            "fastest",
            "faster",
            "lowest",
            "tightest",
            "× glibc",
            "x glibc",
            "mean of time",
            "as fast as",
        ]
        .into_iter()
        .find(|words| text.contains(words))
    };
    assert_eq!(compares(&by_hand), None);
    // The sentence that stood there, and the parts that are made.
    assert!(compares("Over all cases it has the lowest mean of time").is_some());
    assert!(compares(&readme).is_some());
}

fn make(run: &str, readme: &Path) -> Output {
    let run = root().join("docs/figures").join(run);
    let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
    command.arg("report").arg(run).arg("--readme").arg(readme).output().unwrap()
}

/// Made again of what was kept, everything is as it was, and the text around the parts stays. What
/// is made of our own shapes leaves the rest alone.
#[test]
fn the_command_writes_the_parts_and_the_files_beside_the_readme() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("docs")).unwrap();
    let (readme, page) = (folder.join("README.md"), folder.join("docs/speed.md"));
    let part = |name: &str| format!("<!-- {name} -->old<!-- /{name} -->\n");
    let text = format!("before\n{}between\n{}after\n", part("claim"), part("headline"));
    std::fs::write(&readme, &text).unwrap();
    let parts = format!("before\n{}{}after\n", part("figures"), part("shapes"));
    std::fs::write(&page, parts).unwrap();
    let output = make("shapes.json", &readme);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(&readme).unwrap(), text);
    assert!(std::fs::read_to_string(&page).unwrap().contains(&part("figures")));
    assert!(!folder.join("docs/figures/run.json").exists());
    let output = make("run.json", &readme);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (path, theirs, marks) in [
        (&readme, "README.md", &[CLAIM, HEADLINE][..]),
        (&page, "docs/speed.md", &[PAGE, SHAPES][..]),
    ] {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.starts_with("before\n") && text.ends_with("after\n"), "{text}");
        assert!(!text.contains("old<"), "{text}");
        let theirs = read(theirs);
        for marks in marks {
            assert_eq!(marks.section_of(&text).unwrap(), marks.section_of(&theirs).unwrap());
        }
    }
    for name in ["run.json", "shapes.json", "peers.svg", "cases.svg"] {
        let made = std::fs::read_to_string(folder.join("docs/figures").join(name)).unwrap();
        assert!(made == read(&format!("docs/figures/{name}")), "{name} differs");
    }
    // Nothing is written before every place is found.
    std::fs::write(&page, "no marks\n").unwrap();
    std::fs::write(&readme, &text).unwrap();
    let output = make("run.json", &readme);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("speed.md: there is no line"));
    assert_eq!(std::fs::read_to_string(&readme).unwrap(), text);
}
