//! Reports as the library writes them: lines for a person, between whatever else a program wrote,
//! and lines of JSON.
//!
//! ```text
//! toft: double free: free(0x6a56c970000): this 112-byte block is already free (...)
//! toft:   called from   /path/of/file+0x1169 build-id 0123...
//! toft:   then          /path/of/another+0x2a1ca build-id 4567...
//! toft:   call site     /path/of/file+0x1155 build-id 0123...
//! toft:   process 7, thread 7; ...
//!
//! toft:   process 7 (server of /path/of/file), thread 7; ...
//! ```

use serde_json::Value;
use toft_profile::{Frames, Location, label};

use crate::stats::parse_hex;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What is wrong: the first words of its first line.
    pub what: String,
    /// The call that found it, if one did.
    pub call: Option<String>,
    /// What it was given.
    pub address: Option<String>,
    /// The first line, without whose it is.
    pub message: String,
    pub pid: Option<u64>,
    pub thread: Option<u64>,
    /// The name that the program was started by, and its file, if that has another name.
    pub program: Option<Program>,
    /// The block, as the library describes it; only in JSON.
    pub block: Option<Value>,
    pub stacks: Vec<Stack>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub name: String,
    pub file: String,
}

/// Return addresses of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stack {
    /// Which moment.
    pub what: String,
    pub frames: Vec<Code>,
}

/// A return address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Code {
    pub location: Location,
    /// False if it may be no return address.
    pub certain: bool,
    /// True if its function is inlined into that of the next one.
    pub inlined: bool,
}

impl Code {
    /// Returns one for each function at the address, innermost first, from its label outwards.
    pub fn by_function(&self) -> Vec<Code> {
        let frames = &self.location.frames;
        let Some(outermost) = frames.len().checked_sub(1) else { return vec![self.clone()] };
        let one = |index: usize| {
            let location =
                Location { frames: vec![frames[index].clone()].into(), ..self.location.clone() };
            Code { location, inlined: index != outermost, ..*self }
        };
        (label::first_own(frames).unwrap_or(outermost)..=outermost).map(one).collect()
    }
}

const MARK: &str = "toft: ";
const DETAIL: &str = "toft:   ";

/// Reads reports line by line. A report ends with the line that names its process, where the next
/// one begins, or with the input.
#[derive(Debug, Default)]
pub struct Reader {
    open: Option<Report>,
}

/// What a line is.
#[derive(Debug, Default, PartialEq)]
pub struct Line {
    /// True if it belongs to a report.
    pub of_report: bool,
    /// The reports that have ended, in order.
    pub ended: Vec<Report>,
}

impl Reader {
    /// Takes the next line.
    pub fn line(&mut self, line: &str) -> Line {
        if line.starts_with("{\"toft\":") {
            let report = serde_json::from_str(line).ok().as_ref().and_then(of_json);
            return match report {
                Some(report) => Line {
                    of_report: true,
                    ended: self.end().into_iter().chain([report]).collect(),
                },
                None => Line::default(),
            };
        }
        if let Some(begin) = line.find(DETAIL) {
            let Some(report) = &mut self.open else { return Line::default() };
            let is_last = detail(report, &line[begin + DETAIL.len()..]);
            let ended = if is_last { self.end().into_iter().collect() } else { Vec::new() };
            return Line { of_report: true, ended };
        }
        match line.find(MARK).and_then(|begin| first_line(&line[begin + MARK.len()..])) {
            Some(report) => {
                let ended = self.open.replace(report).into_iter().collect();
                Line { of_report: true, ended }
            }
            None => Line::default(),
        }
    }

    /// Returns the report that no line has ended.
    pub fn end(&mut self) -> Option<Report> {
        self.open.take()
    }
}

/// `what: call(address): words`, or `leaks: words`, or `not freed: words`.
fn first_line(line: &str) -> Option<Report> {
    let (what, rest) = line.split_once(": ")?;
    let message = line.to_owned();
    if what == "leaks" || what == "not freed" {
        return Some(Report { what: "leaks".into(), message, ..Report::default() });
    }
    let (call, rest) = rest.split_once("(0x")?;
    let (address, _) = rest.split_once("): ")?;
    if !call.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | ' ')) {
        return None;
    }
    Some(Report {
        what: what.into(),
        call: Some(call.into()),
        address: Some(format!("0x{address}")).filter(|_| address != "?"),
        message,
        ..Report::default()
    })
}

/// Takes a further line of a report. Returns true if it is the last one.
fn detail(report: &mut Report, text: &str) -> bool {
    if let Some(rest) = text.strip_prefix("process ") {
        report.pid = leading_number(rest);
        if let Some((process, rest)) = rest.rsplit_once(", thread ") {
            report.program = program(process);
            report.thread = leading_number(rest);
        }
        return true;
    }
    let Some((words, place)) = split_place(text) else { return false };
    let Some(location) = location(place) else { return false };
    let code = Code { location, certain: words != "perhaps", inlined: false };
    match words {
        "then" | "perhaps" if !report.stacks.is_empty() => {
            if let Some(stack) = report.stacks.last_mut() {
                stack.frames.push(code);
            }
        }
        _ => report.stacks.push(Stack { what: words.into(), frames: vec![code] }),
    }
    false
}

/// The words before a place in code, and it.
fn split_place(text: &str) -> Option<(&str, &str)> {
    let begin = text.find(" /").or_else(|| text.find(" 0x"))?;
    Some((text[..begin].trim_end(), &text[begin + 1..]))
}

/// `/path+0x1169 build-id 0123`, or `0x1234 in no file`.
fn location(text: &str) -> Option<Location> {
    if let Some(rest) = text.strip_prefix("0x") {
        let digits = rest.split(' ').next()?;
        let address = u64::from_str_radix(digits, 16).ok()?;
        return Some(Location { site: address, ..Location::default() });
    }
    let (place, build_id) = match text.rsplit_once(" build-id ") {
        Some((place, id)) => (place, Some(id.trim().to_owned())),
        None => (text, None),
    };
    let (path, offset) = place.rsplit_once("+0x")?;
    let offset = u64::from_str_radix(offset.trim(), 16).ok()?;
    let (module, offset) = (Some(path.to_owned()), Some(offset));
    Some(Location { module, offset, build_id, ..Location::default() })
}

/// `7 (server of /path/of/file)`. A name has no `/`.
fn program(process: &str) -> Option<Program> {
    let (_, program) = process.strip_suffix(')')?.split_once(" (")?;
    let (name, file) = program.split_once(" of /")?;
    Some(Program { name: name.to_owned(), file: format!("/{file}") })
}

fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn of_json(value: &Value) -> Option<Report> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let message = text("message")?;
    let mut stacks = Vec::new();
    let named = [("stack", "called from"), ("allocated", "allocated at"), ("freed", "freed at")];
    for (field, what) in named {
        let frames: Vec<Code> =
            value[field].as_array().into_iter().flatten().map(code_of_json).collect();
        if !frames.is_empty() {
            stacks.push(Stack { what: what.into(), frames });
        }
    }
    for leak in value["leaks"].as_array().into_iter().flatten() {
        let number = |name: &str| leak[name].as_u64().unwrap_or(0);
        let [bytes, blocks, held_bytes, held_blocks] =
            ["direct_bytes", "direct_blocks", "holds_bytes", "holds_blocks"].map(number);
        let holds = match held_blocks {
            0 => String::new(),
            _ => format!(" which hold {held_bytes} bytes in {held_blocks} blocks,"),
        };
        let direct = format!("{bytes} bytes in {blocks} blocks,{holds} from");
        let (bytes, blocks) =
            (number("bytes").saturating_sub(bytes), number("blocks").saturating_sub(blocks));
        let indirect = format!("{bytes} bytes in {blocks} blocks, held by leaked blocks, from");
        for (what, blocks) in [(direct, number("direct_blocks")), (indirect, blocks)] {
            if blocks != 0 {
                stacks.push(Stack { what, frames: vec![code_of_json(leak)] });
            }
        }
    }
    // The call site of a slab is the first that drew from it: less than what is known exactly.
    if value["site"].is_object() && value["allocated"].is_null() {
        stacks.push(Stack { what: "call site".into(), frames: vec![code_of_json(&value["site"])] });
    }
    Some(Report {
        what: text("report")?,
        call: text("call"),
        address: text("address"),
        message: message.strip_prefix(MARK).unwrap_or(&message).to_owned(),
        pid: value["pid"].as_u64(),
        thread: value["thread"].as_u64(),
        program: text("program")
            .zip(text("program_file"))
            .map(|(name, file)| Program { name, file }),
        block: Some(value["block"].clone()).filter(|block| !block.is_null()),
        stacks,
    })
}

fn code_of_json(value: &Value) -> Code {
    let hex = |name: &str| value[name].as_str().and_then(parse_hex);
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let location = Location {
        site: hex("address").unwrap_or(0),
        module: text("module"),
        offset: hex("offset"),
        build_id: text("build_id"),
        frames: Frames::default(),
        program: None,
    };
    Code { location, certain: value["certain"] != Value::Bool(false), inlined: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(text: &str) -> Vec<Report> {
        let mut reader = Reader::default();
        let ended: Vec<Report> = text.lines().flat_map(|line| reader.line(line).ended).collect();
        ended.into_iter().chain(reader.end()).collect()
    }

    #[test]
    fn lines_of_no_report_are_not_taken() {
        let mut reader = Reader::default();
        let others: Vec<&str> = TEXT.lines().filter(|line| !reader.line(line).of_report).collect();
        let own = ["the program's own line", "something in between"];
        assert_eq!(others, [own[0], own[1], "toft: the library did not load into x"]);
    }

    const TEXT: &str = "\
the program's own line
Nov 22 host prog[7]: toft: double free: free(0x10): this 64-byte block is already free (small slab, slot 0)
toft:   called from   /tmp/a b+0x1169 build-id 0a0b
something in between
toft:   perhaps       0x1234 in no file
toft:   call site     /tmp/a b+0x1155
toft:   process 7, thread 9; `toft explain` says more
toft: the library did not load into x
toft: invalid free: operator delete(0x?): not a block of this allocator
";

    #[test]
    fn lines_for_a_person_are_read_between_others() {
        let all = reports(TEXT);
        assert_eq!(all.len(), 2, "{all:#?}");
        let first = &all[0];
        assert_eq!((first.what.as_str(), first.call.as_deref()), ("double free", Some("free")));
        assert_eq!((first.pid, first.thread), (Some(7), Some(9)));
        assert!(first.message.starts_with("double free: free(0x10): this 64-byte"));
        let [called, site] = &first.stacks[..] else { panic!("{first:#?}") };
        assert_eq!(called.what, "called from");
        let of_file = &called.frames[0].location;
        assert_eq!((of_file.module.as_deref(), of_file.offset), (Some("/tmp/a b"), Some(0x1169)));
        assert_eq!(of_file.build_id.as_deref(), Some("0a0b"));
        assert!(called.frames[0].certain && !called.frames[1].certain);
        assert_eq!(called.frames[1].location.site, 0x1234);
        assert_eq!(site.frames[0].location.offset, Some(0x1155));
        assert_eq!(all[1].call.as_deref(), Some("operator delete"));
        assert!(all[1].address.is_none() && all[1].stacks.is_empty());
    }

    #[test]
    fn lines_of_json_are_read_and_others_are_not() {
        let line = r#"{"toft":"0.1.0","report":"double free","call":"free","address":"0x10","message":"toft: double free: free(0x10): x","pid":7,"thread":9,"block":{"size":64},"site":{"address":"0x5","module":"/m","offset":"0x1"},"stack":[{"address":"0x6","module":"/m","offset":"0x2","build_id":"ff","certain":false}]}"#;
        let all =
            reports(&format!("{line}\n{{\"toft\":\"0.1.0\",\"pid\":3}}\n{{\"toft\": broken\n"));
        let [report] = &all[..] else { panic!("{all:#?}") };
        assert_eq!(report.message, "double free: free(0x10): x");
        assert_eq!(report.block.as_ref().unwrap()["size"], 64);
        assert_eq!(report.stacks.len(), 2);
        assert!(!report.stacks[0].frames[0].certain);
        assert_eq!(report.stacks[1].frames[0].location.offset, Some(1));
    }

    #[test]
    fn a_program_has_a_name_and_a_file() {
        let line = r#"{"toft":"0.1.0","report":"leaks","message":"toft: leaks: x","pid":7,"thread":9,"program":"a of (b","program_file":"/x of /y), thread 3"}"#;
        let text =
            "toft: leaks: x\ntoft:   process 7 (a of (b of /x of /y), thread 3), thread 9; ...\n";
        for input in [line, text] {
            let [report] = &reports(input)[..] else { panic!("{input}") };
            assert_eq!((report.pid, report.thread), (Some(7), Some(9)));
            let program = report.program.as_ref().unwrap();
            assert_eq!((&*program.name, &*program.file), ("a of (b", "/x of /y), thread 3"));
        }
        assert_eq!(reports(TEXT)[0].program, None);
    }

    #[test]
    fn anything_else_is_no_report() {
        assert!(reports("").is_empty());
        assert!(reports("toft: unknown option TOFT_X\ntoft:   called from /x+0x1\n").is_empty());
    }
}
