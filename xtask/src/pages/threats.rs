//! The verdicts in `docs/threats.md` are those of the table in `docs/misuse.md`, which is measured.

use crate::files::kept;

/// Of each row that begins with a number: the number, the misuse, and the verdicts of both builds.
fn rows(page: &str) -> Vec<[&str; 4]> {
    page.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let numbered = cells.first()?.parse::<u32>().is_ok();
            let first = [*cells.first()?, cells.get(1)?, cells.get(2)?, cells.get(3)?];
            numbered.then_some(first)
        })
        .collect()
}

#[test]
fn the_threat_model_says_what_was_measured() {
    let (threats, misuse) = (kept("docs/threats.md"), kept("docs/misuse.md"));
    let measured = rows(&misuse);
    assert!(measured.len() >= 33);
    assert_eq!(rows(&threats), measured);
}

#[test]
fn a_row_is_read() {
    assert_eq!(
        rows("| class | a |\n|---|\n| 7 | Read | missed | prevented |  x |\n| x | y | z | w |"),
        [["7", "Read", "missed", "prevented"]]
    );
}
