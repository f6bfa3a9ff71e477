//! `toft top` in a terminal of 80 columns and 24 lines, with keys, and what it says where there is
//! none.

use std::io::{BufRead, BufReader, Read, Write};
use std::mem;
use std::num::NonZeroU16;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::*;
use serde_json::Value;

const ROWS: NonZeroU16 = NonZeroU16::new(24).unwrap();

/// The marks at the begin and at the end of a picture.
const DRAWS: &[u8] = b"\x1b[?2026h";
const DRAWN: &[u8] = b"\x1b[?2026l";

/// How much of the bytes a terminal shows: nothing of a picture before its end.
fn shown(bytes: &[u8]) -> usize {
    let drawn = bytes.windows(DRAWN.len()).rposition(|mark| mark == DRAWN);
    let rest = drawn.map_or(0, |at| at + DRAWN.len());
    let draws = bytes[rest..].windows(DRAWS.len()).position(|mark| mark == DRAWS);
    let cut = (1..DRAWS.len()).rev().find(|&len| bytes[rest..].ends_with(&DRAWS[..len]));
    draws.map_or(bytes.len() - cut.unwrap_or(0), |at| rest + at)
}

/// Has two sites at rest, one that grows by 100 blocks at each line that it reads, and one that has
/// 1000 blocks one after another at each line that begins with c.
const PROGRAM: &str = include_str!("programs/top.c");

/// With as many partitions as a large program has, so that few call sites share one.
fn start() -> Target {
    start_with(&[("TOFT_PARTITIONS", "64")])
}

fn start_with(variables: &[(&str, &str)]) -> Target {
    let program = compiled("target", PROGRAM, &["-fno-builtin"]);
    Target::with(&program, variables).keeping(program)
}

/// The command in a separate terminal, which `script` makes.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    picture: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    fn start(pid: &str) -> Terminal {
        Terminal::of_width(pid, 80)
    }

    fn of_width(pid: &str, columns: u16) -> Terminal {
        let words = format!(
            "stty rows 24 cols {columns}; exec {} top --interval 0.1 {pid}",
            env!("CARGO_BIN_EXE_toft")
        );
        let mut script = Command::new("script");
        script
            .args(["-qec", &words, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh");
        script.env_remove("COLUMNS").env_remove("LINES").env_remove("NO_COLOR");
        let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the tests need script, of util-linux");
        let picture =
            Arc::new(Mutex::new(vt100::Parser::new(ROWS, NonZeroU16::new(columns).unwrap(), 0)));
        let (mut output, to) = (child.stdout.take().unwrap(), Arc::clone(&picture));
        thread::spawn(move || {
            let (mut bytes, mut held) = ([0; 4096], Vec::new());
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                held.extend_from_slice(&bytes[..count]);
                let rest = held.split_off(shown(&held));
                to.lock().unwrap().process(&mem::replace(&mut held, rest));
            }
        });
        Terminal { keys: child.stdin.take().unwrap(), child, picture }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn contents(&self) -> String {
        self.picture.lock().unwrap().screen().contents()
    }

    /// The picture, once it is as expected.
    #[track_caller]
    fn wait(&self, what: &str, ok: impl Fn(&str) -> bool) -> String {
        until(what, || Some(self.contents()).filter(|contents| ok(contents)))
    }

    fn end(mut self) -> Option<i32> {
        self.press("q");
        self.child.wait().unwrap().code()
    }
}

/// Functions of the table's lines, from above. By default call sites are hashed into partitions by
/// a number that differs in each process: two of them may share one, and are marked.
fn sites(contents: &str) -> Vec<String> {
    let lines = contents.lines().filter(|line| line.contains(" at target.c:"));
    lines
        .map(|line| {
            let name = line.split(" at ").next().unwrap().split_whitespace().last().unwrap();
            name.strip_prefix('~').unwrap_or(name).to_owned()
        })
        .collect()
}

fn begins(contents: &str, names: [&str; 3]) -> bool {
    sites(contents).iter().take(3).eq(names)
}

#[test]
fn sites_are_sorted_filtered_and_opened_and_growth_is_seen() {
    let mut target = start();
    let mut terminal = Terminal::start(&target.pid);
    let first = terminal.wait("live first", |text| begins(text, ["resting", "small", "growing"]));
    assert_contains(&first, &[&format!("{} (target)", target.pid), "RSS "]);
    assert!(
        first.contains("x live)") && first.contains("1 threads") || first.contains("2 threads"),
        "{first}"
    );
    assert!(first.lines().all(|line| line.chars().count() <= 80), "{first}");
    assert_eq!(first.lines().count(), 24, "the last line says which keys there are: {first}");

    target.ask("g\n");
    let line =
        |text: &str| text.lines().find(|line| line.contains("growing at")).unwrap_or("").to_owned();
    // 100 blocks of 1008 bytes or a little more.
    terminal.wait("growth", |text| {
        line(text).contains("+98.4 KiB") || line(text).contains("+100.0 KiB")
    });
    terminal.press("sss");
    terminal
        .wait("sorted by growth", |text| sites(text).first().is_some_and(|site| site == "growing"));
    terminal.press("z");
    terminal.wait("growth from now", |text| !line(text).contains('+'));
    terminal.press("s");
    terminal
        .wait("sorted by blocks", |text| sites(text).first().is_some_and(|site| site == "small"));
    terminal.press("r");
    terminal.wait("turned", |text| sites(text).last().is_some_and(|site| site == "small"));
    terminal.press("r/rest");
    terminal
        .wait("filtered while typing", |text| sites(text) == ["resting"] && text.contains("rest_"));
    terminal.press("\r");
    terminal
        .wait("filtered", |text| sites(text) == ["resting"] && text.contains("/rest (Esc: all)"));
    terminal.press("\r");
    let inside = terminal.wait("inside", |text| text.contains("partition"));
    assert_contains(&inside, &["target+0x", "1 000"]);
    terminal.press("\x1b");
    terminal.wait("back", |text| !text.contains("partition") && sites(text) == ["resting"]);
    terminal.press("\x1b");
    terminal.wait("all", |text| sites(text).len() >= 3);
    terminal.press("j\r");
    terminal.wait("the second", |text| text.contains("partition") && text.contains("at target.c:"));
    terminal.press("\x1b");
    terminal.wait("back again", |text| sites(text).len() >= 3);

    // Beside it another one goes on, and says when there has been something to see: two looks,
    // however long they take.
    let beside = Terminal::start(&target.pid);
    terminal.press(" ");
    terminal.wait("held", |text| text.contains("HELD"));
    let before = line(&terminal.contents());
    let mut seen = beside.wait("beside", |text| line(text).contains("growing"));
    for _ in 0..2 {
        let old = line(&seen);
        target.ask("g\n");
        seen = beside
            .wait("growth beside", |text| line(text).contains("growing") && line(text) != old);
    }
    assert_eq!(line(&terminal.contents()), before);
    assert_eq!(beside.end(), Some(0));
    terminal.press(" ");
    terminal.wait("goes on", |text| line(text) != before);
    assert_eq!(terminal.end(), Some(0));
}

/// Every key that the page of the command names is on the page of help, which hides no change.
#[test]
fn a_question_mark_shows_the_keys() {
    let target = start();
    let mut terminal = Terminal::start(&target.pid);
    let first = terminal.wait("there", |text| sites(text).len() >= 3);
    assert!(first.contains("? help") && first.contains("q quit"), "{first}");
    terminal.press("?");
    let help = terminal.wait("the keys", |text| text.contains("show or hide this page"));
    let keys = ["Enter", "Esc", "s ", "r ", "/ ", "t ", "z ", "space", "q "];
    for key in keys {
        assert!(help.lines().any(|line| line.starts_with(key)), "{key}: {help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    assert!(sites(&help).is_empty() && help.contains("blocks    live blocks"), "{help}");
    // Other keys change nothing behind it.
    terminal.press("s/t\x1b");
    let back = terminal.wait("back", |text| sites(text).len() >= 3);
    assert!(back.contains("v live") && !back.contains("filter by name"), "{back}");
    terminal.press("??");
    terminal.press("j\r");
    terminal.wait("details", |text| text.contains("partition"));
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn call_sites_that_share_a_partition_are_marked() {
    let marked = |options: &[(&str, &str)]| {
        let target = start_with(options);
        let terminal = Terminal::start(&target.pid);
        let text = terminal.wait("there", |text| sites(text).len() >= 3);
        assert_eq!(terminal.end(), Some(0));
        ["resting", "small", "growing"].map(|name| text.contains(&format!(" ~{name} at ")))
    };
    assert_eq!(marked(&[("TOFT_PARTITIONS", "1")])[..2], [true, true]);
    assert_eq!(marked(&[("TOFT_PARTITIONS", "exact")]), [false; 3]);
}

#[test]
fn threads_are_shown_in_place_of_call_sites() {
    let mut target = start();
    let mut terminal = Terminal::start(&target.pid);
    let first = terminal.wait("there", |text| sites(text).len() >= 3);
    assert!(first.contains("t threads"), "{first}");
    terminal.press("t");
    let mine = format!("{} (target), sleeps", target.pid);
    let line = |text: &str| text.lines().find(|line| line.contains(&mine)).map(str::to_owned);
    let owns = terminal.wait("threads", |text| line(text).is_some());
    assert!(
        owns.contains("free (RSS)") && owns.contains("uncollected") && !owns.contains("alloc/s"),
        "{owns}"
    );
    assert!(owns.lines().all(|line| line.chars().count() <= 80), "{owns}");
    // 1000 of 2000 bytes, 5000 of 50 and 100 of 1000, and what stdio has.
    assert!(line(&owns).unwrap().contains(" 6 10"), "{owns}");
    target.ask("g\n");
    // 100 blocks of 1008 bytes or a little more.
    terminal.wait("growth", |text| {
        line(text).is_some_and(|line| line.contains("+98.4 KiB") || line.contains("+100.0 KiB"))
    });
    terminal.press("z");
    terminal.wait("growth from now", |text| line(text).is_some_and(|line| !line.contains('+')));
    terminal.press("j\x1b");
    terminal.wait("back", |text| sites(text).len() >= 3);
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn the_end_of_the_process_is_printed_and_the_terminal_is_restored() {
    let target = start();
    let mut terminal = Terminal::start(&target.pid);
    terminal.wait("there", |text| sites(text).len() >= 3);
    let pid = target.pid.clone();
    drop(target);
    terminal.wait("told", |text| text.contains(&format!("toft: process {pid} has ended")));
    assert!(!terminal.picture.lock().unwrap().screen().alternate_screen());
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
}

/// Whatever the width, figures are whole: columns go instead.
#[test]
fn a_narrow_terminal_has_fewer_columns() {
    // Call sites that share a partition by chance have a mark, which takes a column.
    let target = start_with(&[("TOFT_PARTITIONS", "exact:64")]);
    for columns in [79, 70, 60, 50, 40, 32] {
        let mut terminal = Terminal::of_width(&target.pid, columns);
        let whole = |text: &str| {
            let line = text.lines().find(|line| line.contains("resting at"));
            line.is_some_and(|line| {
                line.starts_with("   1.9 MiB ") || line.starts_with("   2.0 MiB ")
            })
        };
        let text = terminal.wait("whole", whole);
        assert!(text.lines().all(|line| line.chars().count() <= columns.into()), "{text}");
        let head = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with("v live"));
            line.or(text.lines().find(|line| line.trim_start().starts_with("live  ")))
                .is_some_and(|line| line.contains(name))
        };
        assert_eq!(head(&text, "calls/s"), columns >= 75, "{columns}: {text}");
        assert_eq!(head(&text, "growth"), columns > 42, "{columns}: {text}");
        terminal.press("t");
        // 1000 of 2000 bytes, 5000 of 50 and 100 of 1000, and what stdio has.
        let owns = |text: &str| text.lines().any(|line| line.trim_start().starts_with("2.4 MiB "));
        let text = terminal.wait("whole, by thread", owns);
        assert_eq!(head(&text, "uncollected"), columns >= 77, "{columns}: {text}");
        assert_eq!(terminal.end(), Some(0));
    }
}

#[test]
fn without_a_terminal_there_are_lines_of_json_or_a_reason() {
    let target = start();
    let pid = target.pid.clone();
    let output = succeeds(&["top", "--json", "--count", "3", "--interval", "0.05", &pid]);
    let lines: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0]["bytes"].as_u64().unwrap() > 2_000_000 && lines[0]["growth_bytes"] == 0);
    assert!(refused(&["top", &pid]).contains("a terminal is needed"));
    assert_eq!(
        toft().args(["top", "--interval", "0", &pid]).output().unwrap().status.code(),
        Some(2)
    );
}

/// A site of which nothing is ever live at a reading.
#[test]
fn blocks_that_come_and_go_between_two_readings_are_counted() {
    let mut target = start();
    let mut looking = toft();
    let words = ["top", "--json", "--count", "30", "--interval", "0.05"];
    let mut child = looking.args(words).arg(&target.pid).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut all = lines.next().unwrap() + "\n";
    target.ask("c\n");
    all.extend(lines.map(|line| line + "\n"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (mut blocks, mut bytes, mut live, mut lives) = (0, 0, 0, Vec::new());
    for line in all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        for site in line["sites"].as_array().unwrap() {
            if site["function"] != "churning" {
                continue;
            }
            // A reading may fall between the call of malloc and that of free.
            live = site["objects"].as_u64().unwrap();
            assert!(live <= 1 && site["growth_bytes"].as_i64().unwrap().abs() < 10_000, "{site}");
            blocks += site["allocations"].as_u64().unwrap();
            bytes += site["allocated_bytes"].as_u64().unwrap();
            lives.push(site["mean_lifetime_seconds"].as_f64());
        }
    }
    // Of a thread at work a reading may see one more or less; the next reading counts it.
    assert_eq!((blocks, live), (1000, 0), "{all}");
    assert!((3_000_000..4_000_000).contains(&bytes) && bytes % 1000 == 0, "{bytes}");
    let zeros = lives.iter().filter(|life| **life == Some(0.0)).count();
    assert!(2 * zeros > lives.len() && lives.iter().all(Option::is_some), "{lives:?}");

    // `toft heap` shows lifetimes only after two readings.
    let looks = prints(&["heap", "--over", "0.1", &target.pid]);
    let resting =
        |page: &str| page.lines().find(|line| line.contains("resting at")).unwrap().to_owned();
    assert!(resting(&looks).contains("unknown"), "{looks}");
    let once = stdout(&succeeds(&["heap", &target.pid]));
    assert!(!once.contains("lives") && once.contains("slot"));

    let profile = object(&["heap", "--json", &target.pid]);
    let rows = profile["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["frames"][0]["function"] == "churning").unwrap();
    assert_eq!((row["objects"].as_u64(), row["allocations"].as_u64()), (Some(0), Some(1000)));
}
