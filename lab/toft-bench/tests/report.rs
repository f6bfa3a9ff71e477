//! The page and the plot as a person makes them, and as a browser sees them.

mod common;

use common::{bench, scratch, text_of};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Four cases of two families on two peers, one with a name that HTML would read, and one that
/// fails. Makes the page `NAME.html` and the file `NAME.json`.
fn run(name: &str) {
    std::fs::write(scratch(&format!("{name}.so")), "not a library").unwrap();
    bench(&format!(
        "--quick --runs 2 --workloads pair-16,pair-64,pair-1k,replace-100k --set ops=10k \
         --peers glibc,<x>&\"={name}.so --html {name}.html --output {name}.json"
    ))
    .page();
}

/// The text of a run in which Toft is another name for glibc: the plots that need it are there,
/// too.
fn with_toft(text: &str) -> String {
    let mut whole: serde_json::Value = serde_json::from_str(text).unwrap();
    let glibc = serde_json::json!({"name": "toft", "version": ""});
    whole["peers"].as_array_mut().unwrap().push(glibc);
    for case in whole["cases"].as_array_mut().unwrap() {
        case["peers"]["toft"] = case["peers"]["glibc"].clone();
    }
    whole.to_string()
}

#[test]
fn the_page_of_a_run_is_that_of_its_json() {
    run("same");
    bench("report same.json --html later.html").page();
    // Glibc under another name: one peer alone makes no plot of the means.
    std::fs::write(scratch("twins.json"), with_toft(&text_of("same.json"))).unwrap();
    bench("report twins.json --svg later.svg --cases-svg later-cases.svg").page();
    let page = text_of("same.html");
    assert_eq!(page, text_of("later.html"));
    for part in ["glibc 2.", "2, interleaved, quick", " UTC", "pair-64", "&lt;x&gt;&amp;&quot;"] {
        assert!(page.contains(part), "{part}");
    }
    let (picture, long) = (text_of("later.svg"), text_of("later-cases.svg"));
    assert!(picture.starts_with("<svg") && picture.contains("toft: time 1.00"), "{picture}");
    assert!(long.starts_with("<svg") && long.contains("replace-100k"), "{long}");
    let without_space = (picture + &long).replace("http://www.w3.org/2000/svg", "");
    for outside in ["http://", "https://", "src="] {
        assert!(!page.contains(outside) && !without_space.contains(outside), "{outside}");
    }
}

#[test]
fn a_report_of_no_file_and_one_without_an_output_are_refused() {
    let absent = bench("report /nowhere/run.json --svg x.svg");
    assert!(absent.status == Some(2) && absent.err.contains("/nowhere/run.json"), "{absent:?}");
    let without = bench("report /nowhere/run.json");
    assert!(without.err.contains("--html"), "{without:?}");
}

/// Where chromium is; without it the test that asks is left out, or fails when programs that are
/// missing must (`TOFT_TEST_REQUIRE=1`, as for the programs of `tests/packages.txt`).
fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("chromium")).find(|p| p.is_file());
    if found.is_none() {
        let required = std::env::var_os("TOFT_TEST_REQUIRE").is_some_and(|value| value == "1");
        assert!(!required, "chromium is missing: apt-get install chromium");
        println!("skipped: chromium is missing (apt-get install chromium)");
    }
    found
}

/// What a browser makes of a page.
fn dom(chromium: &Path, page: &Path, name: &str) -> String {
    let mut command = Command::new(chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    command.args(["--disable-background-networking", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", scratch(name).display()));
    let output = command.arg(format!("file://{}", page.display())).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_browser_finds_every_plot_and_every_row() {
    let Some(chromium) = chromium() else { return };
    run("browser");
    std::fs::write(scratch("browser.json"), with_toft(&text_of("browser.json"))).unwrap();
    bench("report browser.json --html browser.html").page();
    let dom = dom(&chromium, &scratch("browser.html"), "profile");
    let count = |part: &str| dom.matches(part).count();
    // The means, and case by case.
    assert_eq!(count("<figure class=\"plot"), 2, "{dom}");
    // Two families and three peers, and a row for each figure; and the heads of these tables.
    assert_eq!(count("<tr>"), 2 + 3 + 5 + 3, "{dom}");
    // The script has run: it makes a button of the head of each column, of the means, the families
    // (its name, its cases and two peers) and the cases.
    assert_eq!(count("<button>"), 12 + 4 + 8, "{dom}");
    // How all of them stand: its own name in the head, and a row for each.
    assert_eq!(count("time, × glibc</button>"), 1, "{dom}");
    // A browser reads the name as text, and writes it as such.
    assert!(!dom.contains("<x>") && dom.contains("&lt;x&gt;&amp;\""), "{dom}");
}
