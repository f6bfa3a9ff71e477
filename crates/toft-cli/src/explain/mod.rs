//! `toft explain`: a report of the library, with names for its places in code, and in plain words.
//!
//! | file | what |
//! |---|---|
//! | `read.rs` | both forms of a report |
//! | `meaning.rs` | what each kind of report means and what to do next |

mod meaning;
mod read;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use self::read::{Code, Report, reports};
use crate::run::{REFUSED, say};
use crate::style::Style;
use crate::symbols::{Found, Place, Symbols};
use crate::words::{FILE_MOST, printed, read};
use meaning::{Meaning, meaning};

const HELP: &str = "\
Examples:
  ./program 2>&1 | toft explain -              explain the reports in a program's output
  toft explain program.log                     explain the reports in a log file, between other lines
  TOFT_REPORT=/tmp/reports ./program; toft explain /tmp/reports

Names come from the files of the report, and from /usr/lib/debug by build-id: run it on the machine with the program.
Compile with -g for lines, and with -fno-omit-frame-pointer for stacks of more than one call.

Exit status: 0; 1 if the input has no report; 125 if it cannot be read.";

/// The exit status where there is nothing to explain.
const NOTHING: i32 = 1;

/// Explain a report of the library in plain words.
///
/// Reads what the library wrote to stderr, also between other lines, or the JSON lines of
/// the file that TOFT_REPORT names. Adds the function, file and line to each code address.
#[derive(Args, Debug)]
#[command(after_help = HELP, after_long_help = HELP)]
pub struct Explain {
    /// Print one JSON object for each report
    #[arg(long)]
    json: bool,
    /// A file with reports, or - for standard input
    #[arg(value_name = "REPORT")]
    report: PathBuf,
}

/// The verb.
pub fn explain(args: &Explain) -> i32 {
    let shown = args.report.display();
    let bytes = match read(&args.report, FILE_MOST) {
        Ok(bytes) => bytes,
        Err(why) => {
            say(&format!("cannot read {why}"));
            return REFUSED;
        }
    };
    let reports = reports(&String::from_utf8_lossy(&bytes));
    if reports.is_empty() {
        say(&format!(
            "no report of Toft in {shown}: a report begins with `toft: ` and the kind of error, or is a JSON line of the file that TOFT_REPORT names"
        ));
        return NOTHING;
    }
    let mut symbols = Symbols::new(&[]);
    let mut text = String::new();
    for report in &reports {
        let named = Named::of(report, &mut symbols);
        text += &if args.json { format!("{}\n", named.json()) } else { named.text() };
    }
    printed(&text, 0)
}

/// A report whose places have names.
struct Named<'a> {
    report: &'a Report,
    meaning: Meaning,
    /// As the report's stacks: what it is the stack of, and its places.
    stacks: Vec<(&'a str, Vec<NamedCode<'a>>)>,
    /// Files that are not those that the program ran.
    rebuilt: Vec<PathBuf>,
}

struct NamedCode<'a> {
    code: &'a Code,
    place: Place,
}

impl<'a> Named<'a> {
    fn of(report: &'a Report, symbols: &mut Symbols) -> Named<'a> {
        let mut rebuilt = Vec::new();
        let mut stacks = Vec::new();
        for stack in &report.stacks {
            let mut places = Vec::new();
            for code in &stack.frames {
                let place = match &code.module {
                    Some(path) => {
                        let (place, found) =
                            symbols.in_file(path, code.offset, code.build_id.as_deref());
                        if found == Found::Another && !rebuilt.contains(path) {
                            rebuilt.push(path.clone());
                        }
                        place
                    }
                    None => Place { offset: code.address, ..Place::default() },
                };
                if !is_ours(&place) {
                    places.push(NamedCode { code, place });
                }
            }
            stacks.push((stack.what.as_str(), places));
        }
        Named { report, meaning: meaning(&report.what, &report.message), stacks, rebuilt }
    }

    fn text(&self) -> String {
        let style = Style::of_stdout();
        let mut page = format!("{}\n", style.strong(&self.report.message));
        if let (Some(pid), Some(thread)) = (self.report.pid, self.report.thread) {
            page += &format!("{}\n", style.faint(&format!("process {pid}, thread {thread}")));
        }
        page.push('\n');
        for (what, places) in &self.stacks {
            for (number, NamedCode { code, place }) in places.iter().enumerate() {
                let what = if number == 0 { what } else { "" };
                let perhaps = if code.certain { "" } else { " (perhaps)" };
                page += &format!("  {what:<14} {}{perhaps}\n", place.words(code.address));
            }
        }
        if self.stacks.iter().all(|(_, places)| places.is_empty()) {
            page += "  The report has no code addresses: it is one line only (TOFT_REPORT=full writes all).\n";
        }
        for path in &self.rebuilt {
            let line = format!("{} is not the file that ran: names may be wrong", path.display());
            page += &format!("  {}\n", style.bad(&line));
        }
        page += &format!("\nWhat it means: {}\n\nWhat to do next:\n", self.meaning.means);
        for step in self.meaning.next {
            page += &format!("  - {step}\n");
        }
        page.push('\n');
        page
    }

    fn json(&self) -> Value {
        let stacks: Vec<Value> = self
            .stacks
            .iter()
            .map(|(what, places)| {
                let places: Vec<Value> = places.iter().map(NamedCode::json).collect();
                json!({"what": what, "frames": places})
            })
            .collect();
        json!({
            "report": self.report.what,
            "call": self.report.call,
            "address": self.report.address,
            "message": self.report.message,
            "pid": self.report.pid,
            "thread": self.report.thread,
            "block": self.report.block,
            "stacks": stacks,
            "rebuilt": self.rebuilt,
            "means": self.meaning.means,
            "next": self.meaning.next,
        })
    }
}

impl NamedCode<'_> {
    fn json(&self) -> Value {
        json!({
            "module": self.place.module,
            "offset": format!("{:#x}", self.code.offset),
            "function": self.place.function,
            "file": self.place.file,
            "line": self.place.line,
            "certain": self.code.certain,
        })
    }
}

/// Whether a place is the allocator's own code: a program that is linked to it has that on its
/// stacks.
fn is_ours(place: &Place) -> bool {
    let of_library = place
        .module
        .as_ref()
        .and_then(|path| path.file_name())
        .is_some_and(|name| name.to_string_lossy().contains("libtoft"));
    // The shims of a global allocator are what it is inlined into.
    let ours = ["toft::", "toft_core::", "<toft::", "<toft_core::", "__rg_", "__rustc::__rg_"];
    of_library
        || place.function.as_ref().is_some_and(|name| ours.iter().any(|own| name.starts_with(own)))
}
