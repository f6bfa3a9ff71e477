//! What the options of the command do, each as a person would see it.

mod common;

use common::{Ran, bench, bench_words, command, compiled, empty_library, json, samples, scratch};

#[test]
fn metrics_become_rows_and_every_outcome_has_them() {
    let line = "--quick --runs 1 --peers glibc --workload pair-64,spawn-true --set ops=10k \
                --set count=3 --output metrics.json";
    let without = bench(line).page();
    assert!(!without.contains("s of processor") && !without.contains("faults"), "{without}");
    let with = bench(&format!("{line} --metrics cpu_seconds,minor_faults")).page();
    for case in ["pair-64", "spawn-true"] {
        for unit in ["s of processor", "faults"] {
            let has = |line: &str| line.contains(case) && line.contains(unit);
            assert!(with.lines().any(has), "{case} {unit}\n{with}");
        }
    }
    for case in json("metrics.json")["cases"].as_array().unwrap() {
        let metrics = &case["peers"]["glibc"][0]["metrics"];
        assert!(metrics["cpu_seconds"].as_f64().unwrap() >= 0.0, "{case}");
        assert!(metrics["minor_faults"].as_f64().unwrap() > 10.0, "{case}");
        assert!(case["metrics"].as_array().unwrap().contains(&"minor_faults".into()), "{case}");
    }
    let unknown = bench("--metrics beauty");
    assert!(unknown.status == Some(2) && unknown.err.contains("minor_faults"), "{unknown:?}");
}

/// A workload that touches more memory has more faults: the figure is of the workload's own
/// process.
#[test]
fn faults_grow_with_the_memory_that_is_touched() {
    let faults = |slots: &str| {
        let file = format!("faults-{slots}.json");
        bench(&format!(
            "--quick --runs 1 --peers glibc --workload replace-100k --set ops=100 \
             --set slots={slots} --output {file}"
        ))
        .page();
        samples(&file, "glibc", "minor_faults")[0]
    };
    // 50 000 blocks of 16 bytes and more are 800 kB at least, which is 195 pages.
    assert!(faults("50k") > faults("100") + 195.0);
}

#[test]
fn the_table_and_the_json_have_the_interval() {
    empty_library("interval.so");
    let table = bench(
        "--quick --runs 4 --peers glibc,mine=interval.so --workload pair-64 --set ops=10k \
         --output interval.json",
    )
    .page();
    assert!(table.contains("mine / glibc"), "{table}");
    let ratio = json("interval.json")["cases"][0]["ratios"][0].clone();
    let figure = |key: &str| ratio[key].as_f64().unwrap_or_else(|| panic!("{key} in {ratio}"));
    assert_eq!((&ratio["of"], &ratio["to"]), (&"mine".into(), &"glibc".into()));
    assert!(figure("low") <= figure("mean") && figure("mean") <= figure("high"), "{ratio}");
    let shown = format!("({:.2}-{:.2}) glibc", figure("low"), figure("high"));
    assert!(table.contains(&shown), "{shown} is not in\n{table}");
    let open = ratio["open"].as_bool().unwrap();
    assert_eq!(open, figure("low") <= 1.0 && figure("high") >= 1.0, "{ratio}");
    assert_eq!(table.contains(&format!("{:.2}? (", figure("median"))), open, "{table}");
}

#[test]
fn any_program_is_measured_on_each_peer() {
    empty_library("program.so");
    let _ = std::fs::remove_file(scratch("program.count"));
    let script = "echo $LD_PRELOAD. >> program.count; sleep 0.01";
    let line = "--runs 3 --peers glibc,mine=program.so --output program.json -- sh -c";
    let words: Vec<&str> = line.split(' ').chain([script]).collect();
    let table = bench_words(&words).page();
    for unit in ["| s ", "s of processor", "faults"] {
        assert!(table.contains(unit), "{unit} is not in\n{table}");
    }
    // Interleaved: glibc, mine, glibc, mine, glibc, mine.
    let order = common::text_of("program.count");
    let order: Vec<bool> = order.lines().map(|line| line.contains("program.so")).collect();
    assert_eq!(order, [false, true, false, true, false, true]);
    for peer in ["glibc", "mine"] {
        assert!(samples("program.json", peer, "seconds")[2] >= 0.01);
        for key in ["cpu_seconds", "minor_faults"] {
            assert_eq!(samples("program.json", peer, key).len(), 3, "{key}");
        }
    }
}

/// 40 MB in the program, and next to nothing in the process that starts it.
#[test]
fn the_peak_of_a_program_is_its_own() {
    let text = "#include <stdlib.h>\n#include <string.h>\n\
        int main(void) { char *p = malloc(40000000); memset(p, 1, 40000000); return p[7] - 1; }\n";
    compiled("large", text, &[]);
    let table = bench("--runs 1 --peers glibc --output peak.json -- ./large").page();
    let peak = samples("peak.json", "glibc", "peak_mb")[0];
    assert!((40.0..60.0).contains(&peak), "{peak}");
    assert!(table.contains("MB peak"), "{table}");
}

#[test]
fn a_program_that_is_absent_static_or_fails_is_said_once() {
    let absent = bench("-- no-such-program x");
    assert_eq!(absent.status, Some(2));
    assert!(absent.err.contains("program not found: no-such-program"), "{absent:?}");
    let data = bench("-- /etc/passwd");
    assert!(data.status == Some(2) && data.err.contains("/etc/passwd cannot be executed"));

    empty_library("failing.so");
    let line = "--runs 3 --peers glibc,mine=failing.so -- sh -c";
    let script = "echo a; echo why >&2; exit 5";
    let failing = bench_words(&line.split(' ').chain([script]).collect::<Vec<_>>());
    assert_eq!(failing.status, Some(1));
    assert_eq!(failing.out.matches("exit status: 5: why").count(), 1, "{failing:?}");
    assert!(failing.out.contains("on glibc, mine: exit status: 5: why"), "{failing:?}");

    compiled("fixed", "int main(void) { return 0; }\n", &["-static"]);
    let Ran { status, out, .. } = bench("--runs 1 --peers glibc,mine=failing.so -- ./fixed");
    assert_eq!(status, Some(1));
    assert!(out.contains("fixed on mine:") && out.contains("is statically linked"), "{out}");
    assert!(!out.contains("on glibc"), "its own malloc is glibc's\n{out}");
}

#[test]
fn options_of_workloads_are_refused_beside_a_program() {
    for option in ["--quick", "--workload pair", "--callgrind", "--set ops=1"] {
        let ran = bench(&format!("{option} -- true"));
        assert!(ran.status == Some(2) && ran.err.contains("cannot be used with"), "{ran:?}");
    }
}

/// The probe's counting is a few instructions more in each operation, and counts are the same
/// twice.
#[test]
fn callgrind_counts_the_instructions_of_an_operation() {
    let count = |name: &str, more: &str| {
        let file = format!("count-{name}.json");
        let text = bench(&format!(
            "--callgrind --runs 2 --peers glibc --workload pair-64,spawn-true --set ops=2000 \
             --output {file}{more}"
        ))
        .page();
        // A column more: the times are there as without it.
        assert!(text.contains("instructions/op") && text.contains("| ns/op"), "{text}");
        assert!(text.contains("spawn-true is not counted: it runs other programs"), "{text}");
        let cases = json(&file)["cases"].clone();
        assert_eq!(cases.as_array().unwrap().len(), 2, "{cases}");
        assert_eq!(cases[1]["metrics"].as_array().unwrap().len(), 2, "{cases}");
        let counts = samples(&file, "glibc", "instructions");
        assert!(counts.len() == 2 && counts[0] == counts[1], "{counts:?}");
        assert!(samples(&file, "glibc", "ns").iter().all(|ns| *ns > 0.0));
        counts[0]
    };
    let (first, second) = (count("first", ""), count("second", ""));
    assert!((10.0..2000.0).contains(&first), "{first}");
    assert!((first / second - 1.0).abs() < 0.02, "{first} {second}");
    let probed = count("probed", " --set probe=1");
    assert!(probed > first + 3.0, "{probed} {first}");
}

#[test]
fn without_valgrind_callgrind_says_what_to_install() {
    let mut command = command(&["--callgrind", "--peers", "glibc", "--workload", "pair-64"]);
    let ran = Ran::from(command.env("PATH", "/nowhere").output().unwrap());
    assert!(ran.status == Some(2) && ran.err.contains("apt-get install valgrind"), "{ran:?}");
}

/// A traced run of the same work says what an operation asks of the kernel. If so configured, glibc
/// maps 512 blocks of 200 KB one by one, and unmaps them. In a heap that grows it is a call now and
/// then.
#[test]
fn system_calls_of_a_round_are_counted_from_outside() {
    let calls = |name: &str, settings: &str| {
        let (file, peer) = (format!("{name}.json"), format!("glibc{settings}"));
        let table = bench(&format!(
            "--runs 1 --workload thrash --peers {peer} --output {file} --set objects=512 \
             --set rounds=4 --set low=200000 --set high=200001"
        ))
        .page();
        assert!(table.contains("system calls/round"), "{table}");
        samples(&file, &peer, "syscalls_per_round")[0]
    };
    let mapped = calls("mapped", "@MALLOC_MMAP_THRESHOLD_:100000@MALLOC_MMAP_MAX_:100000");
    assert!((1024.0..1040.0).contains(&mapped), "{mapped}");
    let never = "@MALLOC_MMAP_MAX_:0@MALLOC_TRIM_THRESHOLD_:4000000000@MALLOC_TOP_PAD_:300000000";
    let kept = calls("kept", never);
    assert!(kept < 8.0, "{kept}");
}

/// Cases that take seconds whatever their numbers are left out of a quick run of everything, by
/// name, and run when they are asked for.
#[test]
fn a_quick_run_leaves_the_slow_out_unless_they_are_named() {
    let has =
        |table: &str, case: &str| table.lines().any(|line| line.starts_with(&format!("| {case} ")));
    // A peer that fails at once, so that it takes no time.
    let nothing = "--quick --runs 1 --peers none=/bin/sh";
    let all = bench(nothing).page();
    let left = all.lines().find(|line| line.starts_with("left out, since they are slow")).unwrap();
    for slow in ["burst-idle", "burst-idle-cross", "latency-64-reclaim"] {
        assert!(left.contains(slow) && !has(&all, slow), "{slow}\n{all}");
    }
    assert!(has(&all, "thrash") && has(&all, "rss-idle"), "{all}");
    let named = bench(&format!("{nothing} --workload burst-idle")).page();
    assert!(has(&named, "burst-idle-cross") && !named.contains("left out"));
}
