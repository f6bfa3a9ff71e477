//! How numbers and colours look on a terminal. Used by everything that prints for people.

use std::env;
use std::io::{IsTerminal, stderr, stdout};
use std::os::fd::AsFd;

pub use toft_profile::format::units::{bytes, count, duration, fit, fit_place, plain};

/// Where lines without a given width are wrapped.
pub const WRAP: usize = 100;

/// What the place that is printed to can show.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    colour: bool,
    /// Columns of a line: of a pipe or a file there is no end, so that nothing is cut off there.
    pub width: usize,
}

impl Style {
    pub fn of_stderr() -> Style {
        Style::of(&stderr())
    }

    pub fn of_stdout() -> Style {
        Style::of(&stdout())
    }

    pub fn of_file() -> Style {
        Style { colour: false, width: usize::MAX }
    }

    fn of(stream: &(impl IsTerminal + AsFd)) -> Style {
        let terminal = stream.is_terminal();
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let forced =
            env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
        let dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
        Style {
            colour: !set("NO_COLOR") && (forced || (terminal && !dumb)),
            width: if terminal { columns(stream) } else { usize::MAX },
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

    /// Something that needs attention.
    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn columns(terminal: &impl AsFd) -> usize {
    let stated = env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|&columns| columns >= 40);
    let measured = || terminal_size::terminal_size_of(terminal).map(|(w, _)| w.0.into());
    stated.or_else(measured).unwrap_or(WRAP)
}
