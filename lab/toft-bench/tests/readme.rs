//! The claim and the figures of the README and of the page about speed are those that the recorded
//! run makes.

mod common;

use common::{bench, scratch, text_of};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The part of a page between the marks of this name.
fn part<'p>(page: &'p str, name: &str) -> &'p str {
    let start = page.find(&format!("<!-- {name}")).unwrap_or_else(|| panic!("no {name}"));
    let end = page.find(&format!("<!-- /{name} -->")).unwrap_or_else(|| panic!("no end of {name}"));
    &page[start..end]
}

/// What compares speed or memory stands in a part that is made of the run, and nowhere else.
#[test]
fn no_sentence_written_by_hand_compares_speed_or_memory() {
    let readme = read("README.md");
    let by_hand = ["claim", "headline"]
        .iter()
        .fold(readme.clone(), |text, name| text.replace(part(&readme, name), ""));
    let words = "fastest,faster,lowest,tightest,× glibc,x glibc,mean of time,as fast as";
    let compares = |text: &str| words.split(',').find(|words| text.to_lowercase().contains(words));
    assert_eq!(compares(&by_hand), None);
    // The sentence that stood there, and the parts that are made.
    assert!(compares("Over all cases it has the lowest mean of time").is_some());
    assert!(compares(&readme).is_some());
}

/// Made again of what was kept, everything is as it was, and the text around the parts stays. What
/// is made of our own shapes leaves the rest alone.
#[test]
fn the_command_writes_the_parts_and_the_files_beside_the_readme() {
    let _ = std::fs::remove_dir_all(scratch("readme"));
    std::fs::create_dir_all(scratch("readme/docs")).unwrap();
    let old = |name: &str| format!("<!-- {name} -->old<!-- /{name} -->\n");
    let write = |page: &str, text: &str| std::fs::write(scratch(page), text).unwrap();
    let (readme, page) = ("readme/README.md", "readme/docs/speed.md");
    let text = format!("before\n{}between\n{}after\n", old("claim"), old("headline"));
    write(readme, &text);
    write(page, &format!("before\n{}{}after\n", old("figures"), old("shapes")));
    for name in ["run.json", "shapes.json"] {
        std::fs::copy(root().join("docs/figures").join(name), scratch(name)).unwrap();
    }
    bench("report shapes.json --readme readme/README.md").page();
    assert_eq!(text_of(readme), text);
    assert!(text_of(page).contains(&old("figures")));
    assert!(!scratch("readme/docs/figures/run.json").exists());
    bench("report run.json --readme readme/README.md").page();
    for (made, theirs, parts) in [
        (readme, "README.md", ["claim", "headline"]),
        (page, "docs/speed.md", ["figures", "shapes"]),
    ] {
        let (made, theirs) = (text_of(made), read(theirs));
        assert!(made.starts_with("before\n") && made.ends_with("after\n"), "{made}");
        for name in parts {
            let (made, has) = (part(&made, name), part(&theirs, name));
            for (line, wanted) in has.lines().zip(made.lines()) {
                assert_eq!(line, wanted, "written by hand? `cargo xtask readme FILE` makes it");
            }
            assert_eq!(has.lines().count(), made.lines().count());
        }
    }
    for name in ["run.json", "shapes.json", "peers.svg", "cases.svg"] {
        let made = text_of(&format!("readme/docs/figures/{name}"));
        assert!(made == read(&format!("docs/figures/{name}")), "{name} differs");
    }
    // Nothing is written before every place is found.
    write(page, "no marks\n");
    write(readme, &text);
    let ran = bench("report run.json --readme readme/README.md");
    assert!(ran.status == Some(2) && ran.err.contains("speed.md: there is no line"), "{ran:?}");
    assert_eq!(text_of(readme), text);
}
