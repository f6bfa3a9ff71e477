//! `toft explain`: a report of the library, with names for its places in code, and in plain words.
//!
//! | file | what |
//! |---|---|
//! | `read.rs` | both forms of a report |
//! | `meaning.rs` | what each kind of report means and what to do next |

mod meaning;
mod read;

use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use toft_profile::{Location, label, text_of_bytes, text_of_json};

use self::read::{Code, Reader, Report, Stack};
use crate::style::{Style, plain};
use crate::symbols::{Found, Symbols, with_place};
use crate::verb::{End, FILE_MOST, Failure, input_name, is_standard, print_while_read, read};
use meaning::{Explanation, explanation};

const HELP: &str = "\
Examples:
  ./program 2>&1 | toft explain -              explain the reports in a program's output, as they come
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
/// the file that TOFT_REPORT names. Adds the function, file and line to each code address. Passes
/// on the other lines of standard input, to stderr with --json.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Explain {
    /// Print one JSON object for each report
    #[arg(long)]
    json: bool,
    /// A file with reports, or - for standard input
    #[arg(value_name = "REPORT")]
    report: PathBuf,
}

pub fn explain(args: &Explain) -> End {
    let mut explained = Explained {
        json: args.json,
        reader: Reader::default(),
        symbols: Symbols::new(Vec::new()),
        count: 0,
    };
    if is_standard(&args.report) {
        explained.standard_input()?;
    } else {
        let bytes = read(&args.report, FILE_MOST).map_err(|why| format!("cannot read {why}"))?;
        for line in bytes.split(|&byte| byte == b'\n') {
            let ended = explained.reader.line(&line_text(line)).ended;
            explained.print(ended)?;
        }
        explained.end()?;
    }
    if explained.count == 0 {
        let reason = if is_standard(&args.report) {
            "Toft writes reports to stderr, which a pipe gets by 2>&1; the table of toft run --leaks \
             has names already"
        } else {
            "a report begins with `toft: ` and the kind of error, or is a JSON line of the file that \
             TOFT_REPORT names"
        };
        let message = format!("no report of Toft in {}: {reason}", input_name(&args.report));
        return Err(Failure::new(NOTHING, message));
    }
    Ok(0)
}

/// Returns a line of text or of JSON. Paths in it may have any bytes.
fn line_text(line: &[u8]) -> String {
    if line.starts_with(b"{") { text_of_json(line) } else { text_of_bytes(line) }
}

/// The reports of an input, explained one by one.
struct Explained {
    json: bool,
    reader: Reader,
    symbols: Symbols,
    /// The number of reports.
    count: usize,
}

impl Explained {
    /// Explains the reports of standard input as they come, and passes on all other lines.
    fn standard_input(&mut self) -> Result<(), String> {
        let mut input = io::stdin().lock();
        let mut bytes = Vec::new();
        while {
            bytes.clear();
            let read = input.by_ref().take(FILE_MOST).read_until(b'\n', &mut bytes);
            read.map_err(|error| format!("cannot read standard input: {error}"))? > 0
        } {
            let line = self.reader.line(line_text(&bytes).trim_end());
            if !line.of_report {
                self.pass_on(&bytes)?;
            }
            if !self.print(line.ended)? {
                return Ok(());
            }
        }
        self.end()
    }

    /// Passes on a line of the program. JSON stays alone on standard output.
    fn pass_on(&self, line: &[u8]) -> Result<(), String> {
        if self.json {
            // A closed stderr must not stop the reports.
            let _ = io::stderr().write_all(line);
            return Ok(());
        }
        print_while_read(line).map(drop)
    }

    fn end(&mut self) -> Result<(), String> {
        let last = self.reader.end();
        self.print(last).map(drop)
    }

    /// Prints reports. Returns false if the reader of the output is gone.
    fn print(&mut self, reports: impl IntoIterator<Item = Report>) -> Result<bool, String> {
        for report in reports {
            self.count += 1;
            let named = Named::of(report, &mut self.symbols);
            let text = if self.json { format!("{}\n", named.json()) } else { named.text() };
            if !print_while_read(text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A report whose code addresses have names.
struct Named {
    report: Report,
    explanation: Explanation,
    /// Files that are not those that the program ran.
    rebuilt: Vec<String>,
}

impl Named {
    fn of(mut report: Report, symbols: &mut Symbols) -> Named {
        let mut rebuilt = Vec::new();
        for stack in &mut report.stacks {
            for code in &mut stack.frames {
                let found = symbols.name(&mut code.location);
                let program = report.program.as_ref();
                code.location.program = program
                    .filter(|program| code.location.module.as_ref() == Some(&program.file))
                    .map(|program| program.name.clone());
                if found == Found::Another {
                    rebuilt.extend(code.location.module.clone());
                }
            }
            stack.frames.retain(|code| !is_ours(&code.location));
            stack.frames = stack.frames.iter().flat_map(Code::by_function).collect();
        }
        rebuilt.dedup();
        let explanation = explanation(&report.what, &report.message);
        Named { report, explanation, rebuilt }
    }

    fn text(&self) -> String {
        let style = Style::of_stdout();
        let mut page = format!("{}\n", style.strong(&self.report.message));
        if let (Some(pid), Some(thread)) = (self.report.pid, self.report.thread) {
            let program = self.report.program.as_ref();
            let name = program.map_or(String::new(), |program| format!(" ({})", program.name));
            let process = plain(&format!("process {pid}{name}, thread {thread}"));
            page += &format!("{}\n", style.faint(&process));
        }
        page.push('\n');
        for Stack { what, frames } in &self.report.stacks {
            for (number, code) in frames.iter().enumerate() {
                let what = if number == 0 { what } else { "" };
                let inlined = if code.inlined { " (inlined)" } else { "" };
                let perhaps = if code.certain { "" } else { " (perhaps)" };
                let place = plain(&code.location.place());
                page += &format!("  {what:<14} {place}{inlined}{perhaps}\n");
            }
        }
        if self.report.stacks.iter().all(|stack| stack.frames.is_empty()) {
            page += "  The report has no code addresses: it is one line only (TOFT_REPORT=full writes all).\n";
        }
        for path in &self.rebuilt {
            let line = format!("{path} is not the file that ran: it names no function");
            page += &format!("  {}\n", style.bad(&line));
        }
        page += &format!("\nWhat it means: {}\n\nWhat to do next:\n", self.explanation.means);
        for step in &self.explanation.next {
            page += &format!("  - {step}\n");
        }
        page.push('\n');
        page
    }

    fn json(&self) -> Value {
        let stacks: Vec<Value> = self
            .report
            .stacks
            .iter()
            .map(|Stack { what, frames }| {
                let frames: Vec<Value> = frames.iter().map(json_of).collect();
                json!({"what": what, "frames": frames})
            })
            .collect();
        json!({
            "report": self.report.what,
            "call": self.report.call,
            "address": self.report.address,
            "message": self.report.message,
            "pid": self.report.pid,
            "thread": self.report.thread,
            "program": self.report.program.as_ref().map(|program| &program.name),
            "block": self.report.block,
            "stacks": stacks,
            "rebuilt": self.rebuilt,
            "means": self.explanation.means,
            "next": self.explanation.next,
        })
    }
}

fn json_of(code: &Code) -> Value {
    with_place(json!({"certain": code.certain, "inlined": code.inlined}), &code.location)
}

/// Returns true if a location is the allocator's own code: a program that is linked to Toft has
/// that on its stacks.
fn is_ours(location: &Location) -> bool {
    // The shims of a global allocator have it inlined.
    let ours = [
        "toft::",
        "toft_core::",
        "toft_watch::",
        "toft_zone::",
        "<toft::",
        "<toft_core::",
        "<toft_watch::",
        "<toft_zone::",
        "__rg_",
        "__rustc::__rg_",
    ];
    let label = label::label(&location.frames);
    location.module_name().contains("libtoft")
        || label.is_some_and(|label| ours.iter().any(|own| label.function.starts_with(own)))
}
