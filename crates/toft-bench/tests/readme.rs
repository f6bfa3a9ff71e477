//! The claim and the figures of the README are those that the recorded run makes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use toft_bench::report::{Report, claim, claim_of, section, section_of};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_readme_and_its_plots_are_made_of_the_committed_run() {
    let report = Report::parse(&read("docs/figures/run.json")).unwrap().of_today();
    assert!(report.measured.len() > 50, "{:?}", report.unknown);
    let made = section(&report, "docs/figures");
    let readme = read("README.md");
    let has = section_of(&readme).unwrap();
    for (line, wanted) in has.lines().zip(made.lines()) {
        assert_eq!(line, wanted, "written by hand? `cargo xtask readme FILE` makes it");
    }
    assert_eq!(has.lines().count(), made.lines().count());
    assert_eq!(claim_of(&readme).unwrap(), claim(&report), "`cargo xtask readme FILE` makes it");
    assert_eq!(read("docs/figures/peers.svg"), report.svg().unwrap());
    assert_eq!(read("docs/figures/cases.svg"), report.cases_svg());
}

/// What compares speed or memory stands in a part that is made of the run, and nowhere else.
#[test]
fn no_sentence_written_by_hand_compares_speed_or_memory() {
    let readme = read("README.md");
    let mut by_hand = readme.clone();
    for part in [claim_of(&readme).unwrap(), section_of(&readme).unwrap()] {
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

fn make(readme: &Path) -> Output {
    let run = root().join("docs/figures/run.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_toft-bench"));
    command.arg("report").arg(run).arg("--readme").arg(readme).output().unwrap()
}

/// Made again of what was kept, everything is as it was, and what stands around it stays.
#[test]
fn the_command_writes_the_section_and_the_files_beside_the_readme() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    std::fs::create_dir_all(&folder).unwrap();
    let readme = folder.join("README.md");
    let (start, end) = (
        "before\n- <!-- claim -->old<!-- /claim -->\n<!-- figures -->\n",
        "\n<!-- /figures -->\nafter\n",
    );
    std::fs::write(&readme, format!("{start}old{end}")).unwrap();
    let output = make(&readme);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&readme).unwrap();
    assert!(text.starts_with("before\n") && text.ends_with("\nafter\n") && !text.contains("old"));
    assert_eq!(section_of(&text).unwrap(), section_of(&read("README.md")).unwrap());
    assert_eq!(claim_of(&text).unwrap(), claim_of(&read("README.md")).unwrap());
    for name in ["run.json", "peers.svg", "cases.svg"] {
        let made = std::fs::read_to_string(folder.join("docs/figures").join(name)).unwrap();
        assert!(made == read(&format!("docs/figures/{name}")), "{name} differs");
    }
    std::fs::write(&readme, "no marks\n").unwrap();
    let output = make(&readme);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("README.md: there is no line"));
}
