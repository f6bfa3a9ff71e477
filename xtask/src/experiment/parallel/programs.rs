//! Real programs on the builds, and the sizes that real programs ask for.

use super::builds::{Build, Libraries, folder, program};
use crate::experiment::markdown::{figure, table};
use crate::place;
use std::path::{Path, PathBuf};
use std::process::Command;
use toft_bench::metrics::CPU;
use toft_bench::report::Report;

/// Cases of the laboratory that are real programs.
const CASES: &str = "python-malloc,gcc,git,sqlite";

/// Runs them, on one arena where there are any: they are programs of one thread.
pub fn run(libraries: &Libraries, runs: usize) -> Result<String, String> {
    eprintln!("real programs: {CASES}");
    let json = folder().join("programs.json");
    let peers: Vec<String> = Build::ALL
        .into_iter()
        .map(|build| {
            let peer = libraries.peer(build);
            match &peer.library {
                Some(library) => format!("{}={}", peer.name, library.display()),
                None => peer.name,
            }
        })
        .collect();
    let mut bench = Command::new(program("toft-bench"));
    bench.args(["--workloads", CASES, "--quick", "--runs", &runs.to_string()]);
    bench.args(["--peers", &peers.join(",")]).arg("--output").arg(&json);
    bench.env("TOFT_EXPERIMENT_ARENAS", "1").stdout(std::process::Stdio::null());
    succeed(bench)?;
    let report = Report::read(&json)?;
    let rows: Vec<Vec<String>> = report
        .measured
        .iter()
        .map(|result| {
            let cells = (0..report.peers.len()).map(|peer| figure(result.summary(peer, &CPU)));
            [result.job.case.name.clone()].into_iter().chain(cells).collect()
        })
        .collect();
    let head: Vec<&str> =
        ["s of processor"].into_iter().chain(Build::ALL.map(Build::name)).collect();
    Ok(table(&head, &rows))
}

/// The upper ends of the columns of sizes.
const UP_TO: [u64; 6] = [16, 64, 256, 1024, 4096, 32768];

const PYTHON: &str = "import json, random\nrandom.seed(1)\n\
    for _ in range(8):\n    d = [{str(i * j % 997): i for i in range(60)} for j in range(60)]\n    \
    json.loads(json.dumps(d))\n";
const SQL: &str = "create table t(a, b);\
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) \
    insert into t select i, hex(randomblob(8)) from n;\
    create index x on t(b); select count(*) from t as u join t as v on u.b = v.b;";

/// What programs ask for, as the recorder sees it.
pub fn sizes() -> Result<String, String> {
    eprintln!("sizes of real programs");
    let source = folder().join("sizes.c");
    let text: String = (0..400)
        .map(|n| {
            format!("int f{n}(int a, int b) {{ return a * {n} + (b ? f(a, b - 1) : {n}); }}\n")
        })
        .collect();
    std::fs::write(&source, format!("int f(int, int);\n{text}"))
        .map_err(|e| format!("{}: {e}", source.display()))?;
    let source = source.to_string_lossy().into_owned();
    let cc1 = told(&["gcc", "-print-prog-name=cc1"])?;
    // What is called python3 may be a script that finds it.
    let python = told(&["python3", "-c", "import sys; print(sys.executable)"])?;
    let programs: [(&str, Vec<&str>); 5] = [
        ("python3, JSON", vec![&python, "-c", PYTHON]),
        ("cc1 -O1", vec![&cc1, "-quiet", "-O1", "-w", &source, "-o", "/dev/null"]),
        ("sqlite3, a table and a join", vec!["sqlite3", ":memory:", SQL]),
        ("git log", vec!["git", "log", "--stat", "-n", "40"]),
        ("perl, a hash", vec!["perl", "-e", "$h{$_ % 5000} .= \"x$_\" for 1 .. 200000;"]),
    ];
    let mut rows = Vec::new();
    for (name, words) in programs {
        match recorded(&words) {
            Ok(trace) => rows.push(row(name, &trace)?),
            Err(error) => eprintln!("left out: {name}: {error}"),
        }
    }
    if rows.is_empty() {
        return Err("no program could be recorded".into());
    }
    let columns = UP_TO.map(|size| format!("up to {size}"));
    let head: Vec<&str> = ["blocks of", "blocks"]
        .into_iter()
        .chain(columns.iter().map(String::as_str))
        .chain(["larger", "freed by another thread"])
        .collect();
    Ok(table(&head, &rows))
}

/// A row of the table, out of what `toft trace --json` has said.
fn row(name: &str, trace: &serde_json::Value) -> Result<Vec<String>, String> {
    let number = |key: &str| trace.get(key).and_then(serde_json::Value::as_u64);
    let blocks = number("allocations").filter(|&blocks| blocks > 0).ok_or("no allocations")?;
    let classes = trace.get("sizes").and_then(|v| v.as_array()).ok_or("no sizes")?;
    let share = |low: u64, high: u64| {
        let of = |class: &serde_json::Value| {
            let up_to = class.get("up_to")?.as_u64()?;
            (low < up_to || low == 0).then_some(())?;
            (up_to <= high).then_some(class.get("blocks")?.as_u64()?)
        };
        100.0 * classes.iter().filter_map(of).sum::<u64>() as f64 / blocks as f64
    };
    let mut cells = vec![name.to_owned(), blocks.to_string()];
    let mut low = 0;
    for high in UP_TO.into_iter().chain([u64::MAX]) {
        cells.push(format!("{:.1} %", share(low, high)));
        low = high;
    }
    let others = number("frees_by_other_threads").unwrap_or(0);
    cells.push(format!("{:.1} %", 100.0 * others as f64 / blocks as f64));
    Ok(cells)
}

/// Records a program; the summary of the trace.
fn recorded(words: &[&str]) -> Result<serde_json::Value, String> {
    let trace: PathBuf = folder().join("sizes.trace");
    let mut record = Command::new(program("toft"));
    record.args(["record", "--output"]).arg(&trace).arg("--").args(words);
    // Else python3 has its own allocator for small blocks.
    record
        .env("PYTHONMALLOC", "malloc")
        .current_dir(place::root())
        .stdout(std::process::Stdio::null());
    succeed(record)?;
    let shown = show(&trace)?;
    let _ = std::fs::remove_file(&trace);
    serde_json::from_slice(&shown).map_err(|e| e.to_string())
}

fn show(trace: &Path) -> Result<Vec<u8>, String> {
    let out = Command::new(program("toft")).args(["trace", "--json"]).arg(trace).output();
    let out = out.map_err(|e| e.to_string())?;
    if out.status.success() { Ok(out.stdout) } else { Err(out.status.to_string()) }
}

/// What a program says.
fn told(words: &[&str]) -> Result<String, String> {
    let out = Command::new(words[0]).args(&words[1..]).output();
    let out = out.map_err(|e| format!("{}: {e}", words[0]))?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

fn succeed(mut command: Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_a_row_are_those_of_the_trace_and_add_up() {
        let trace = serde_json::json!({
            "allocations": 10, "frees_by_other_threads": 1,
            "sizes": [{"up_to": 0, "blocks": 1}, {"up_to": 16, "blocks": 4},
                {"up_to": 128, "blocks": 3}, {"up_to": 65536, "blocks": 2}],
        });
        let cells = row("x", &trace).unwrap();
        let expected =
            ["x", "10", "50.0 %", "0.0 %", "30.0 %", "0.0 %", "0.0 %", "0.0 %", "20.0 %", "10.0 %"];
        assert_eq!(cells, expected);
        assert!(row("x", &serde_json::json!({"allocations": 0})).is_err());
    }
}
