//! `toft run --leaks` and `TOFT_LEAKS`: programs whose leaks are known, to the byte, and their
//! twins.

use std::path::Path;

use crate::common::*;
use serde_json::Value;

/// Lost: 10 x 100 in `lose`, 1 x 50000 in `lose_more`, 1 x 300000 in `lose_much`. Kept: 7 x 200 in
/// a list, and what the C library keeps for stdout. `TWIN` frees all of it.
const LEAKY: &str = include_str!("programs/leaks-leaky.c");

fn build(directory: &Path, name: &str, flags: &[&str]) -> String {
    let flags: Vec<&str> = ["-fno-builtin"].iter().chain(flags).copied().collect();
    text(&compile(directory, name, LEAKY, &flags)).to_owned()
}

/// `(function, bytes, blocks)` of each line.
fn sites(report: &Value) -> Vec<(String, u64, u64)> {
    let site = |leak: &Value| {
        let function = leak["function"].as_str().unwrap_or("?").to_owned();
        (function, leak["bytes"].as_u64().unwrap(), leak["blocks"].as_u64().unwrap())
    };
    report["leaks"].as_array().unwrap().iter().map(site).collect()
}

fn last_json(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn each_site_that_leaked_has_its_line_and_the_status_says_so() {
    let directory = directory();
    let program = build(directory.path(), "leaky", &[]);
    let output = ends_with(123, run(&["--leaks", "--json"], &[&program]));
    let report = last_json(&stderr(&output));
    // The usable bytes of 300000, 50000 and 100.
    let found = sites(&report);
    let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["lose_much", "lose_more", "lose"], "{report:#}");
    assert_eq!(found[2], ("lose".into(), 10 * 112, 10));
    assert!(found[0].1 >= 300_000 && found[0].2 == 1 && found[1].1 >= 50_000 && found[1].2 == 1);
    assert_eq!(report["blocks"], 12);
    assert_eq!(report["looked"], true);
    // The list, and what stdio has; no more than a few blocks of the loader's and the library's
    // start.
    let reachable = report["reachable_blocks"].as_u64().unwrap();
    assert!((8..20).contains(&reachable), "{report:#}");

    let page = stderr(&run(&["--leaks"], &[&program]));
    for wanted in
        ["leaked in 12 blocks, from 3 call sites", "lose_much at leaky.c:9", "lose at leaky.c:7"]
    {
        assert!(page.contains(wanted), "{wanted:?} is not in\n{page}");
    }
}

#[test]
fn call_sites_with_one_label_are_one_line_with_their_number() {
    let source = "#include <stdlib.h>\nvoid *volatile sink;\n\
        static void lose(void) { sink = malloc(100); sink = malloc(100); }\n\
        int main(void) { for (int i = 0; i < 20; i++) lose(); sink = 0; return 0; }\n";
    let program = compiled("two", source, &["-fno-builtin"]);
    let page = stderr(&ends_with(123, run(&["--leaks"], &[text(&program)])));
    assert!(page.contains(" blocks, from 2 call sites"), "{page}");
    assert!(
        page.lines().count() == 3 && page.ends_with("lose at two.c:3 (2 call sites)\n"),
        "{page}"
    );
    let output = run(&["--leaks", "--json"], &[text(&program)]);
    assert_eq!(sites(&last_json(&stderr(&output))).len(), 2);
}

#[test]
fn the_twin_has_none_and_ends_with_zero() {
    let directory = directory();
    let program = build(directory.path(), "clean", &["-DTWIN"]);
    let output = ends_with(0, run(&["--leaks"], &[&program]));
    assert!(stderr(&output).starts_with("toft: no leaks; "), "{}", stderr(&output));
    // Nor without the command.
    let line = alone(&program, &[]);
    assert!(line.starts_with("toft: no leaks in process ") && line.lines().count() == 1, "{line}");
    assert!(line.contains(" blocks can still be reached"), "{line}");
    assert_eq!(alone(&program, &[("TOFT_ON_MISUSE", "ignore")]), "");
}

/// What a program on the library writes to stderr with `TOFT_LEAKS=1`, without the command.
#[track_caller]
fn alone(program: &str, variables: &[(&str, &str)]) -> String {
    let mut command = std::process::Command::new(program);
    // Nothing of the caller's settings.
    command.env_clear().env("LD_PRELOAD", library()).env("TOFT_LEAKS", "1");
    stderr(&ends_with(0, command.envs(variables.iter().copied()).output().unwrap()))
}

#[test]
fn a_program_s_own_failure_comes_first() {
    let directory = directory();
    let program = build(directory.path(), "leaky", &[]);
    let output = ends_with(7, run(&["--leaks"], &[&program, "fail"]));
    assert!(stderr(&output).contains("leaked in 12 blocks"), "{}", stderr(&output));
}

#[test]
fn a_program_that_exits_without_a_report_is_named() {
    let source =
        "#include <unistd.h>\n#include <stdlib.h>\nint main(void) { malloc(9); _exit(0); }\n";
    let program = compiled("quick", source, &["-fno-builtin"]);
    let output = ends_with(124, run(&["--leaks"], &[text(&program)]));
    assert!(stderr(&output).contains("no report of leaks"), "{}", stderr(&output));
}

#[test]
fn all_that_was_not_freed_is_what_a_recording_says() {
    let directory = directory();
    let program = build(directory.path(), "leaky", &[]);
    let output =
        ends_with(123, run(&["--leaks", "--json", "--env", "TOFT_LEAKS=all"], &[&program]));
    let report = last_json(&stderr(&output));
    let keep = sites(&report).into_iter().find(|(name, ..)| name == "keep").unwrap();
    assert_eq!(keep.2, 7);
    assert_eq!(report["reachable_blocks"], 0);

    // The C library and this one each keep some blocks: what the twin has is taken off.
    let twin = build(directory.path(), "clean", &["-DTWIN"]);
    let options = ["--leaks", "--json", "--env", "TOFT_LEAKS=all"];
    let ours = |program: &str| {
        let report = last_json(&stderr(&run(&options, &[program])));
        [report["blocks"].as_u64().unwrap(), report["bytes"].as_u64().unwrap()]
    };
    let recorded = |program: &str| {
        let trace = directory.path().join("trace");
        succeeds(&["record", "-o", text(&trace), "--", program]);
        let summary = object(&["trace", "--json", text(&trace)]);
        [summary["left_blocks"].as_u64().unwrap(), summary["left_bytes"].as_u64().unwrap()]
    };
    // The twin keeps its list as well.
    let (leaky, clean) = (ours(&program), ours(&twin));
    let (leaky_there, clean_there) = (recorded(&program), recorded(&twin));
    assert_eq!(leaky[0] - clean[0], 12);
    assert_eq!(leaky[0] - clean[0], leaky_there[0] - clean_there[0]);
    // The requested size there, the usable size here: at most an eighth more, and a page for the
    // large one.
    let (asked, usable) = (leaky_there[1] - clean_there[1], leaky[1] - clean[1]);
    assert!(
        (asked..asked + asked / 8 + 4096).contains(&usable),
        "{asked} asked for, {usable} leaked"
    );
}

#[test]
fn without_the_command_the_library_writes_lines_that_can_be_explained() {
    let directory = directory();
    let program = build(directory.path(), "leaky", &[]);
    let report = alone(&program, &[]);
    assert!(
        report.starts_with("toft: leaks: ") && report.contains(" in 12 blocks, of 3 call sites"),
        "{report}"
    );
    let file = directory.path().join("report");
    std::fs::write(&file, &report).unwrap();
    let page = stdout(&succeeds(&["explain", text(&file)]));
    assert!(page.contains("1120 bytes in 10 blocks, from lose at leaky.c:7"), "{page}");
}

#[test]
fn more_call_sites_than_any_table_are_all_there() {
    let mut source = String::from("#include <stdlib.h>\nvoid *volatile sink;\n");
    for number in 0..700 {
        source += &format!(
            "__attribute__((noinline)) void site_{number}(void) {{ sink = malloc({}); }}\n",
            1000 + number
        );
    }
    source += "int main(void) {\n";
    (0..700).for_each(|number| source += &format!("site_{number}();\n"));
    source += "sink = 0; return 0; }\n";
    let program = compiled("many", &source, &["-fno-builtin"]);
    let output = run(&["--leaks", "--json"], &[text(&program)]);
    let report = last_json(&stderr(&output));
    // A word that main has left somewhere may keep one or two.
    let blocks = report["blocks"].as_u64().unwrap();
    assert!((698..=700).contains(&blocks), "{blocks} blocks");
    let found = sites(&report);
    assert_eq!(found.iter().map(|(.., blocks)| blocks).sum::<u64>(), blocks);
    // Two sites of one size class share a partition, of 4096, by chance: of some 200 in each class
    // about five pairs.
    assert!(found.len() >= 630, "{} lines", found.len());
}

const CAUSES: &str = include_str!("programs/leaks-causes.c");

/// `(function, direct blocks, blocks it holds, blocks held by others)` of each line.
fn causes(report: &Value) -> Vec<(&str, u64, u64, u64)> {
    let site = |leak: &'_ Value| {
        let number = |name: &str| leak[name].as_u64().unwrap();
        let direct = number("direct_blocks");
        (direct, number("holds_blocks"), number("blocks") - direct)
    };
    let leaks = report["leaks"].as_array().unwrap();
    let with_name = |leak| {
        let (direct, holds, held) = site(leak);
        (leak["function"].as_str().unwrap_or("?"), direct, holds, held)
    };
    leaks.iter().map(with_name).collect()
}

#[test]
fn causes_come_before_the_blocks_that_they_hold() {
    let program = compiled("causes", CAUSES, &["-fno-builtin"]);
    // A number that a call has left somewhere may be the address of a block, which then counts as
    // one that can be reached. That is rare.
    let complete = |arguments: &[&str], is_complete: &dyn Fn(&str) -> bool| {
        let once = || stderr(&ends_with(123, run(arguments, &[text(&program)])));
        (0..3).map(|_| once()).find(|said| is_complete(said)).unwrap_or_else(once)
    };
    let report = complete(&["--leaks", "--json"], &|said| last_json(said)["blocks"] == 43);
    let report = last_json(&report);
    // The packed structure's three blocks are none of them.
    let wanted = [
        ("serve", 3, 30, 0),
        ("ring", 1, 5, 5),
        ("owner", 1, 3, 0),
        ("put", 0, 0, 30),
        ("part", 0, 0, 3),
    ];
    assert_eq!(causes(&report), wanted, "{report:#}");
    let put = report["leaks"][3]["bytes"].as_u64().unwrap();
    assert_eq!(report["leaks"][0]["holds_bytes"], put);

    let page = complete(&["--leaks"], &|said| said.contains(" leaked in 43 blocks"));
    let lines: Vec<&str> = page.lines().collect();
    assert!(lines[0].contains(" leaked in 43 blocks, from 5 call sites"), "{page}");
    let order =
        ["holds  call site", "serve at causes.c:", "ring at causes.c:", "owner at causes.c:"];
    let held =
        ["only leaked blocks point to these", "put at causes.c:", "ring at causes.c:", "part at"];
    for (line, wanted) in lines[1..].iter().zip(order.iter().chain(&held)) {
        assert!(line.contains(wanted), "{wanted:?} is not in {line:?} of\n{page}");
    }
    assert_eq!(lines.len(), 9, "{page}");
}

#[test]
fn a_pointer_at_any_byte_keeps_its_block() {
    let program = compiled("packed", CAUSES, &["-fno-builtin", "-DTWIN"]);
    let output = ends_with(0, run(&["--leaks"], &[text(&program)]));
    assert!(stderr(&output).starts_with("toft: no leaks; "), "{}", stderr(&output));
}

const PLACES: &str = include_str!("programs/leaks-places.c");

/// The functions of `PLACES`. Each allocates one block, for the place of its name.
const OF_PLACES: [&str; 11] = [
    "of_local",
    "of_key",
    "of_thread_local",
    "of_thread_key",
    "of_thread_stack",
    "of_shared",
    "of_private",
    "of_tagged",
    "of_interior",
    "of_packed",
    "of_coroutine",
];

#[test]
fn a_pointer_in_any_place_keeps_its_block() {
    let program = compiled("places", PLACES, &["-fno-builtin", "-pthread"]);
    let output = ends_with(0, run(&["--leaks"], &[text(&program)]));
    assert!(stderr(&output).starts_with("toft: no leaks; "), "{}", stderr(&output));
}

#[test]
fn a_block_is_lost_when_the_pointer_in_its_place_goes() {
    let program = compiled("places", PLACES, &["-fno-builtin", "-pthread"]);
    for place in OF_PLACES {
        // A number that a call has left somewhere may be the address of the block. That is rare.
        let once = || last_json(&stderr(&run(&["--leaks", "--json"], &[text(&program), place])));
        let found = (0..3).map(|_| once()).find(|report| report["blocks"] != 0);
        let report = found.unwrap_or_else(|| panic!("{place}: nothing is lost"));
        let [(function, _, blocks)] = &sites(&report)[..] else { panic!("{place}: {report:#}") };
        assert_eq!((function.as_str(), *blocks), (place, 1), "{report:#}");
    }
}

#[test]
fn causes_are_named_without_the_command_and_explained() {
    let program = compiled("causes", CAUSES, &["-fno-builtin"]);
    let folder = directory();
    let file = folder.path().join("report.json");
    let report = alone(text(&program), &[("TOFT_REPORT", text(&file))]);
    std::fs::write(folder.path().join("report"), &report).unwrap();
    for input in [&folder.path().join("report"), &file] {
        let page = stdout(&succeeds(&["explain", text(input)]));
        for wanted in [
            " in 3 blocks, which hold ",
            " in 30 blocks, from serve at causes.c:",
            " in 30 blocks, held by leaked blocks, from put at causes.c:",
            " in 5 blocks, held by leaked blocks, from ring at causes.c:",
        ] {
            assert!(page.contains(wanted), "{wanted:?} is not in\n{page}");
        }
    }
}

#[test]
fn with_all_what_can_be_reached_is_not_called_leaked() {
    let program = compiled("packed", CAUSES, &["-fno-builtin", "-DTWIN"]);
    let all = ["--leaks", "--env", "TOFT_LEAKS=all"];
    let page = stderr(&ends_with(123, run(&all, &[text(&program)])));
    assert!(page.contains(" not freed in ") && page.contains("   not freed  "), "{page}");
    assert!(!page.contains("leak") && page.contains("packed at packed.c:"), "{page}");
    let report = alone(text(&program), &[("TOFT_LEAKS", "all")]);
    assert!(report.starts_with("toft: not freed: ") && !report.contains("leak"), "{report}");
    let folder = directory();
    let file = folder.path().join("report");
    std::fs::write(&file, &report).unwrap();
    let page = stdout(&succeeds(&["explain", text(&file)]));
    assert!(page.contains("these blocks were not freed. Pointers"), "{page}");
}
