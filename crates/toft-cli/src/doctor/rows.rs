//! The rows of the doctor's report, and how they look on a terminal.

use crate::style::Style;
use std::fmt::Write;

/// How good an answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// As Toft wants it.
    Good,
    /// Toft works, in another way or with less.
    Fallback,
    /// Only told.
    Plain,
    /// Toft cannot run.
    Fatal,
}

impl Level {
    /// The word in the JSON output.
    pub fn word(self) -> &'static str {
        match self {
            Level::Good => "ok",
            Level::Fallback => "fallback",
            Level::Plain => "info",
            Level::Fatal => "fatal",
        }
    }
}

/// One line of the report.
pub struct Row {
    /// What was looked at.
    pub name: &'static str,
    /// What is there.
    pub found: String,
    /// How good that is.
    pub level: Level,
    /// What Toft does with it, or without it.
    pub meaning: String,
}

/// The report for people. A reader may have seen enough before its end.
pub fn as_text(rows: &[Row], fit: bool) -> String {
    let mut text = String::new();
    // To a string nothing fails.
    let _ = write_rows(&mut text, rows, fit);
    text
}

fn write_rows(out: &mut String, rows: &[Row], fit: bool) -> std::fmt::Result {
    let style = Style::of_stdout();
    let names = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    for row in rows {
        let mark = match row.level {
            Level::Good => style.good("ok  "),
            Level::Fallback => style.strong("less"),
            Level::Plain => style.faint("-   "),
            Level::Fatal => style.bad("FAIL"),
        };
        writeln!(out, "{mark}  {:<names$}  {}", row.name, row.found)?;
        if !row.meaning.is_empty() {
            writeln!(out, "      {:<names$}  {}", "", style.faint(&row.meaning))?;
        }
    }
    let count = |level| rows.iter().filter(|row| row.level == level).count();
    let verdict =
        if fit { style.good("Toft can run here") } else { style.bad("Toft cannot run here") };
    let (good, fallback) = (count(Level::Good), count(Level::Fallback));
    writeln!(out, "\n{verdict}: {good} ok, {fallback} with a fallback.")
}

/// Makes a row.
pub fn row(
    name: &'static str,
    level: Level,
    found: impl Into<String>,
    meaning: impl Into<String>,
) -> Row {
    Row { name, found: found.into(), level, meaning: meaning.into() }
}
