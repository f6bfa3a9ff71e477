//! The comparison as a person runs it: the table, the JSON, and a planted slowdown that it sees.

mod common;

use common::{Ran, bench, command, empty_library, json, samples, scratch};
use std::process::Stdio;

/// A delay of a microsecond in each allocation is some twenty times the operation itself, which no
/// noise of a busy machine hides.
#[test]
fn a_planted_slowdown_is_seen() {
    let times = |delay: &str| {
        bench(&format!(
            "--quick --runs 3 --peers glibc --workloads pair-64 --set ops=100k \
             --set delay_ns={delay} --output slow-{delay}.json"
        ))
        .page();
        samples(&format!("slow-{delay}.json"), "glibc", "ns")
    };
    let (plain, slow) = (times("0"), times("1000"));
    assert_eq!((plain.len(), slow.len()), (3, 3));
    let ratio = toft_bench::stats::paired(&slow, &plain).unwrap();
    assert!(ratio.median > 3.0, "{plain:?} {slow:?}");
    assert!(slow.iter().all(|ns| *ns >= 1000.0), "{slow:?}");
}

/// One peer that works and one that is no library.
#[test]
fn the_table_names_the_machine_the_units_and_the_failures() {
    std::fs::write(scratch("broken.so"), "not a library").unwrap();
    let ran = bench(
        "--quick --runs 1 --peers glibc,broken=broken.so --workloads pair-64,spawn-true \
         --set ops=10k --set count=3",
    );
    assert!(!ran.err.contains("ld.so"), "{ran:?}");
    let table = ran.page();
    for part in [
        "Linux",
        "THP",
        "glibc 2.",
        "| pair-64 ",
        "ns/op",
        "| spawn-true ",
        "ms/process",
        "1 interleaved round",
        "failed: pair-64 on broken",
        "failed: spawn-true on broken: the library was not loaded",
    ] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    assert!(!table.contains("on glibc:"), "{table}");
}

/// Two cases on two peers that are the same: what is said of all cases together, and how long it
/// took. Of a single case there is nothing more to say. Both run in one thread: of threads, a
/// machine whose processors move apart between two runs leaves the case out, and says so.
#[test]
fn a_run_ends_with_how_the_peers_stand_over_all_cases() {
    empty_library("stand.so");
    let run = |cases: &str| {
        bench(&format!(
            "--quick --peers glibc,mine=stand.so --workloads {cases} --set ops=10k \
             --output stand.json"
        ))
        .page()
    };
    let table = run("pair-64,replace-1k");
    assert!(table.contains("3 interleaved rounds, quick"), "{table}");
    let row = table.lines().find(|line| line.starts_with("| mine ")).unwrap();
    assert!(row.matches("2) |").count() == 3 && row.ends_with("0 |"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("took ") && line.ends_with('s')), "{table}");
    let record = json("stand.json");
    assert_eq!(record["summary"]["base"], "glibc");
    assert_eq!(record["summary"]["peers"][1]["memory"]["cases"], 2);
    assert!(record["took_seconds"].as_f64().unwrap() > 0.0);
    assert!(!run("pair-64").contains("(1 family"));
}

#[test]
fn missed_bars_end_with_status_1() {
    let ran = bench("--bars --quick --runs 1 --peers glibc --workloads pair-64 --set ops=10k");
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.out.contains("toft was not run") && ran.out.contains("MISSED"), "{ran:?}");
}

/// A reader who goes is no error, and a full disk is one line and status 2.
#[test]
fn what_cannot_be_printed_is_told() {
    let list = |out: Stdio| -> Ran {
        command(&["list"]).stdout(out).stderr(Stdio::piped()).output().unwrap().into()
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let gone = list(writer.into());
    assert!(gone.status == Some(0) && gone.err.is_empty(), "{gone:?}");
    let full = list(std::fs::File::options().write(true).open("/dev/full").unwrap().into());
    assert_eq!((full.status, full.err.lines().count()), (Some(2), 1), "{full:?}");
    assert!(full.err.contains("cannot write"), "{full:?}");
}

#[test]
fn the_list_names_every_case_and_unknown_names_are_refused() {
    let cases = bench("list").page();
    for name in ["pair-64", "replace-100k", "handover-8", "redis", "churn", "spawn-true"] {
        assert!(cases.contains(name), "{name}");
    }
    let unknown = bench("--workloads nothing");
    assert!(unknown.status == Some(2) && unknown.err.contains("nothing"), "{unknown:?}");
}

/// `--trace FILE` replays that file, and says what is wrong with another one.
#[test]
fn a_trace_of_ones_own_is_replayed() {
    let replay =
        |file: &str| bench(&format!("--runs 1 --peers glibc --workloads trace --trace {file}"));
    std::fs::copy(
        concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/built-in.trace"),
        scratch("own.trace"),
    )
    .unwrap();
    let table = replay("own.trace").page();
    assert!(table.contains("| trace") && !table.contains("failed"), "{table}");
    std::fs::write(scratch("none.trace"), "this is no trace\n").unwrap();
    let ran = replay("none.trace");
    assert!((ran.out + &ran.err).contains("not a trace"));
}
