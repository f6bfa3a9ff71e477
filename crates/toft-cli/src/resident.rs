//! The table of resident memory that `toft rss` and `toft run --stats` share: what the kernel
//! counts, cut into named terms that add up to it.

use std::fmt::Write as _;

use toft_profile::Location;
use toft_profile::format::Table;

use crate::style::{self, Style};
use crate::symbols::by_place;

/// How many lines a table of call sites or threads has.
pub const TOP: usize = 10;

/// A line of the table.
pub struct Term {
    pub bytes: u64,
    pub name: &'static str,
    pub note: String,
}

impl Term {
    pub fn new(bytes: u64, name: &'static str, note: impl Into<String>) -> Term {
        Term { bytes, name, note: note.into() }
    }
}

/// The terms, and the kernel's number under the line. What is left over is a separate line: pages
/// that came or went between two readings.
pub fn table(page: &mut String, style: Style, when: &str, terms: &[Term], rss: u64) {
    let head = format!("  {:>10}  {:>6}  {when}", "resident", "share");
    let _ = writeln!(page, "{}", style.faint(&head));
    let mut line = |bytes: i64, name: &str, note: &str| {
        let share = 100.0 * bytes as f64 / rss.max(1) as f64;
        let sign = if bytes < 0 { "-" } else { "" };
        let size = format!("{sign}{}", style::bytes(bytes.unsigned_abs()));
        let figures = format!("  {size:>10}  {share:>5.1}%  ");
        let room = style.width.saturating_sub(figures.chars().count()).max(24);
        let text = style::fit(&format!("{name:<NAME$}{note}"), room);
        let (name, note) = text.split_at_checked(NAME).unwrap_or((&text, ""));
        let _ = writeln!(page, "{}", format!("{figures}{name}{}", style.faint(note)).trim_end());
    };
    for term in terms {
        line(term.bytes as i64, term.name, &term.note);
    }
    let sum: u64 = terms.iter().map(|term| term.bytes).sum();
    let left = rss as i64 - sum as i64;
    line(left, "unaccounted", if left == 0 { "" } else { "it changed between two readings" });
    let _ = writeln!(
        page,
        "  {:>10}  {:>6}  {}",
        style::bytes(rss),
        "",
        style.strong("the kernel's Rss")
    );
}

/// Columns that names take.
const NAME: usize = 28;

/// A named row of cells, going on below where the width does not do.
pub fn row(page: &mut String, style: Style, name: &str, cells: &[String]) {
    const INDENT: usize = 11;
    let mut line = format!("  {}", style.faint(&format!("{name:<9}")));
    let mut used = INDENT;
    for (i, cell) in cells.iter().enumerate() {
        let length = cell.chars().count();
        if i > 0 && used + 3 + length > style.width.min(style::WRAP) {
            let _ = writeln!(page, "{line}");
            line = " ".repeat(INDENT);
            used = INDENT;
        } else if i > 0 {
            line.push_str("   ");
            used += 3;
        }
        line.push_str(cell);
        used += length;
    }
    let _ = writeln!(page, "{line}");
}

/// Cells that each name some bytes.
pub fn cells(named: &[(&str, u64)]) -> Vec<String> {
    named.iter().map(|(name, bytes)| format!("{name} {}", style::bytes(*bytes))).collect()
}

/// Prints the call sites whose live blocks pin free memory, if there are any. Each has three
/// figures: the pinned bytes, and the bytes and blocks that are live. Returns the number of lines
/// that are left out.
pub fn pin_table<'a>(
    page: &mut String,
    style: Style,
    sites: impl Iterator<Item = (&'a Location, [u64; 3])> + Clone,
) -> usize {
    let places = by_place(sites);
    if places.is_empty() {
        return 0;
    }
    let table = Table::new(&[("pinned", 10), ("live", 10), ("blocks", 10)], style.width).cut();
    let _ = writeln!(page, "\n{}", style.faint(&table.head("pinned by a block of")));
    for (place, [pinned, live, blocks]) in places.iter().take(TOP) {
        let figures = [style::bytes(*pinned), style::bytes(*live), style::count(*blocks)];
        let _ = writeln!(page, "{}", table.line(&figures, place));
    }
    places.len().saturating_sub(TOP)
}
