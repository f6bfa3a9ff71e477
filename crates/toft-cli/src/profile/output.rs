//! In which form a profile goes where.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use toft_profile::Profile;
use toft_profile::format::{Format, Shown, View, text};

use crate::style::Style;
use crate::verb::{
    Failure, SymbolFolders, USAGE, check_extension, is_standard, message, print, write,
};

/// The message for a program that was started without sampling.
pub const NO_STACKS: &str =
    "the program keeps no stacks: start it with TOFT_SAMPLE=512k, or by toft run --sample 512k";

/// The options of every verb that shows a profile.
#[derive(Args, Debug)]
pub struct Output {
    /// Print one JSON object, with every call site (the same as --format json)
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to a file, or with - to stdout. The extension selects the format: .pb.gz, .svg, .html,
    /// .folded, .json, .txt, .toft
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format: a table (text), JSON, a saved profile without names (toft; quick, `toft report`
    /// adds the names), pprof, folded stacks, a flame graph, or an HTML page to search and drill
    /// down in
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json", "toft", "pprof", "folded", "flame", "html"])]
    format: Option<String>,
    /// Number of call sites in the table; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Show sampled stacks instead of call sites in flame graphs, in folded stacks and as pprof's
    /// default (the other formats have both). The program must run with TOFT_SAMPLE
    #[arg(long)]
    stacks: bool,
    /// Show all functions of call sites and stacks, also those of libraries, with their whole
    /// names: in the table, in pprof, in folded stacks and in flame graphs
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    pub symbols: SymbolFolders,
}

impl Output {
    /// Returns the requested format, by name or by the file's extension. Returns an error if the
    /// extension selects none, or if the two differ.
    pub fn format(&self) -> Result<Format, Failure> {
        let usage = |message| Failure::new(USAGE, message);
        let known = |word: &str| Format::ALL.iter().find(|(name, _)| *name == word);
        let named = self.format.as_deref().and_then(known).map(|(_, format)| *format);
        if let Some(format) = named.or(self.json.then_some(Format::Json)) {
            let checked =
                self.output.as_deref().map_or(Ok(()), |path| check_extension(path, format));
            return checked.map(|()| format).map_err(usage);
        }
        let path = self.output.as_deref().filter(|path| !is_standard(path));
        let Some(path) = path else { return Ok(Format::Text) };
        Format::of_name(&path.to_string_lossy()).ok_or_else(|| {
            usage(format!(
                "{}: its extension selects no format: give --format pprof, folded, flame, html, json, text or toft",
                path.display()
            ))
        })
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes the profile, and prints what to do with it.
    pub fn write(&self, profile: &Profile, format: Format, next: &str) -> Result<(), String> {
        if self.stacks && profile.sampled.is_none() {
            return Err(NO_STACKS.into());
        }
        let view = View { stacks: self.stacks, full: self.full };
        if let Some(path) = self.output.as_deref().filter(|path| !is_standard(path)) {
            // A reader of a file wants it whole.
            write(path, &format.write_view(profile, view))?;
            message(&format!("wrote {}; next: {}", path.display(), what_next(format, path)));
            return Ok(());
        }
        let screen = io::stdout().is_terminal();
        if format == Format::Pprof && screen {
            return Err("the pprof format is not for a terminal: give -o FILE.pb.gz".into());
        }
        if format != Format::Text {
            return print(format.write_view(profile, view));
        }
        let style = Style::of_stdout();
        let shown = Shown { width: style.width, top: self.top, full: self.full };
        print(painted(&text(profile, &shown), style))?;
        if screen {
            message(&format!("next: {next}"));
        }
        Ok(())
    }
}

/// The first line stands out, and the head of the table steps back.
pub fn painted(page: &str, style: Style) -> String {
    let mut painted = String::new();
    for (number, line) in page.lines().enumerate() {
        let head = ["call site", "thread", "   stack"].iter().any(|name| line.ends_with(name))
            && line.starts_with("   ");
        painted += &match (number, head) {
            (0, _) => style.strong(line),
            (_, true) => style.faint(line),
            _ => line.to_owned(),
        };
        painted.push('\n');
    }
    painted
}

/// What to type, or to do, with a file of that form.
pub fn what_next(format: Format, path: &Path) -> String {
    let file = path.display();
    match format {
        Format::Pprof => {
            format!("go tool pprof -top {file}, or open it in Speedscope, Pyroscope or Grafana")
        }
        Format::Folded => format!("any flame graph program: inferno-flamegraph {file} > heap.svg"),
        Format::Flame | Format::Html => format!("xdg-open {file}"),
        Format::Text => format!("less {file}"),
        Format::Json | Format::Toft => {
            format!("toft report {file}, or toft diff {file} with a later one")
        }
    }
}
