//! How numbers and colours look on a terminal. Used by everything that prints for people.

use std::env;
use std::io::{IsTerminal, stderr, stdout};

/// What the place that is printed to can show.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    colour: bool,
    /// Columns of a line.
    pub width: usize,
}

impl Style {
    /// For the error stream.
    pub fn of_stderr() -> Style {
        Style::of(stderr().is_terminal())
    }

    /// For the output stream.
    pub fn of_stdout() -> Style {
        Style::of(stdout().is_terminal())
    }

    fn of(terminal: bool) -> Style {
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let forced =
            env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
        let dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
        Style {
            colour: !set("NO_COLOR") && (forced || (terminal && !dumb)),
            width: columns(terminal),
        }
    }

    /// Something to find at a glance.
    pub fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Something to pass over.
    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// As it should be.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Something to look at.
    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn columns(terminal: bool) -> usize {
    let stated = env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|&columns| columns >= 40);
    let measured = || {
        terminal
            .then(|| terminal_size::terminal_size_of(stderr()))
            .flatten()
            .map(|(w, _)| w.0.into())
    };
    stated.or_else(measured).unwrap_or(100)
}

/// `82.1 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `1 234 567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `12.3 M`, for rates.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 999.95e6 => format!("{:.1} G", r / 1e9),
        r if r >= 999.95e3 => format!("{:.1} M", r / 1e6),
        r if r >= 999.5 => format!("{:.1} k", r / 1e3),
        r => format!("{r:.0}"),
    }
}

/// `1.234 s`.
pub fn seconds(s: f64) -> String {
    match s {
        s if s >= 100.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.001 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}

/// The text, or as much of its beginning as fits.
pub fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(3)).collect();
    short.push_str("...");
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well_at_every_border() {
        let shown: Vec<_> =
            [0, 1023, 1024, 1536, 1_048_530, 1_048_576, u64::MAX].into_iter().map(bytes).collect();
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "16.0 EiB"]
        );
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!([12.0, 1000.0, 2.5e6, 1e9].map(rate), ["12", "1.0 k", "2.5 M", "1.0 G"]);
    }

    #[test]
    fn long_text_is_cut_at_characters() {
        assert_eq!(fit("äöüäöü", 6), "äöüäöü");
        assert_eq!(fit("äöüäöüä", 6), "äöü...");
    }
}
