//! The rows of the doctor's report, and how they look on a terminal.

use serde_json::{Value, json};

use crate::style::Style;

/// How good an answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// It works.
    Good,
    /// It is missing, and Toft uses a fallback.
    Fallback,
    /// A fact, or something missing that only an option needs.
    Plain,
    /// It is missing, and Toft cannot run without it.
    Fatal,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Good => "ok",
            Level::Fallback => "fallback",
            Level::Plain => "info",
            Level::Fatal => "fatal",
        }
    }
}

pub struct Row {
    /// What was looked at.
    pub name: &'static str,
    pub found: String,
    pub level: Level,
    /// What Toft does with it, or without it.
    pub meaning: String,
}

impl Row {
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "found": self.found,
            "level": self.level.word(),
            "meaning": self.meaning,
        })
    }
}

pub fn as_text(rows: &[Row], fit: bool) -> String {
    let style = Style::of_stdout();
    let mut text = String::new();
    let names = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    for row in rows {
        let mark = match row.level {
            Level::Good => style.good("ok     "),
            Level::Fallback => style.strong("missing"),
            Level::Plain => style.faint("-      "),
            Level::Fatal => style.bad("FAIL   "),
        };
        text += &format!("{mark}  {:<names$}  {}\n", row.name, row.found);
        if !row.meaning.is_empty() {
            text += &format!("         {:<names$}  {}\n", "", style.faint(&row.meaning));
        }
    }
    let count = |level| rows.iter().filter(|row| row.level == level).count();
    let verdict =
        if fit { style.good("Toft can run here") } else { style.bad("Toft cannot run here") };
    let [good, fallback, plain, fatal] =
        [Level::Good, Level::Fallback, Level::Plain, Level::Fatal].map(count);
    text +=
        &format!("\n{verdict}: {good} ok, {fallback} missing with a fallback, {plain} harmless");
    text + &if fatal == 0 {
        ".\n".into()
    } else {
        format!(", {fatal} that Toft cannot do without.\n")
    }
}

pub fn row(
    name: &'static str,
    level: Level,
    found: impl Into<String>,
    meaning: impl Into<String>,
) -> Row {
    Row { name, found: found.into(), level, meaning: meaning.into() }
}
