//! `toft metrics` with a real Prometheus: the files of `packaging/prometheus`, a scrape, a query
//! and an alert.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::*;
use serde_json::Value;

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus").join(name)
}

/// `promtool check KIND FILE`; what it says where that is no success.
fn refused(kind: &str, file: &Path) -> Option<String> {
    let output = Command::new("promtool").args(["check", kind]).arg(file).output();
    let output = output.expect("the tests need promtool, of the package prometheus");
    (!output.status.success()).then(|| stdout(&output) + &stderr(&output))
}

/// The expressions of a dashboard, and the metrics that they name.
fn expressions(dashboard: &Value) -> Vec<&str> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap()).collect()
}

/// The variables of a dashboard that have queries, with these. A process that is the only one of
/// its server has no labels `process` and `pid` but in `toft_info`: all of them are to match it.
fn variables(dashboard: &Value) -> BTreeMap<&str, &str> {
    let list = dashboard["templating"]["list"].as_array().unwrap();
    let queries = list.iter().filter(|variable| variable["type"] == "query");
    let variable = |variable| -> Option<(&str, &str)> {
        let variable: &Value = variable;
        assert_eq!(variable["allValue"], ".*", "{variable}");
        let (name, query) = (variable["name"].as_str()?, variable["query"]["query"].as_str()?);
        let label = query.strip_prefix("label_values(toft_info")?.rsplit_once(", ")?.1;
        assert_eq!(label, format!("{name})"), "{query}");
        Some((name, query))
    };
    queries.map(|each| variable(each).unwrap_or_else(|| panic!("{each}"))).collect()
}

#[test]
fn the_packaged_files_are_valid() {
    let place = directory();
    assert_eq!(refused("rules", &packaged("alerts.yml")), None);
    assert_eq!(refused("config", &packaged("prometheus.yml")), None);
    let dashboard = fs::read_to_string(packaged("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let all = expressions(&dashboard);
    assert!(all.len() >= 5, "{all:?}");
    // Grafana puts what is chosen in place of its variables.
    let variables = variables(&dashboard);
    assert!(variables.keys().copied().eq(["instance", "pid", "process"]), "{variables:?}");
    let chosen = |text: &str| {
        let all = variables.keys().fold(text.to_owned(), |text, name| {
            assert!(text.contains(&format!("{name}=~\"${name}\"")), "{name} in {text}");
            text.replace(&format!("${name}"), ".*")
        });
        assert!(!all.contains('$'), "{all}");
        all
    };
    let rule = |(number, expression): (usize, &&str)| {
        let expression = chosen(expression);
        format!("      - record: dashboard:{number}\n        expr: '{expression}'\n")
    };
    let rules: String = all.iter().enumerate().map(rule).collect();
    let file = place.path().join("rules.yml");
    fs::write(&file, format!("groups:\n  - name: dashboard\n    rules:\n{rules}")).unwrap();
    assert_eq!(refused("rules", &file), None);
    // The check can fail.
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("sum by (", "sum by [")).unwrap();
    assert!(refused("rules", &file).is_some());
    // Every metric that the files name is one of ours.
    let alerts = fs::read_to_string(packaged("alerts.yml")).unwrap();
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md"));
    let page = page.unwrap();
    for text in all.iter().chain(variables.values()).copied().chain([alerts.as_str()]) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for metric in words.filter(|word| word.starts_with("toft_")) {
            assert!(page.contains(&format!("`{metric}`")), "{metric}");
        }
    }
}

/// Rules as they are packaged, and what they make of series that grow or stay, for twelve hours.
const ALERTS: &str = include_str!("programs/alerts-test.yml");

/// `promtool test rules` of these rules; what it says where that is no success.
fn test_fails(place: &Path, rules: &str, tests: &str) -> Option<String> {
    fs::write(place.join("alerts.yml"), rules).unwrap();
    let file = place.join("test.yml");
    fs::write(&file, tests).unwrap();
    let output = Command::new("promtool").args(["test", "rules"]).arg(file).output().unwrap();
    (!output.status.success()).then(|| stdout(&output) + &stderr(&output))
}

#[test]
fn the_packaged_alerts_fire_and_are_silent() {
    let place = directory();
    let rules = fs::read_to_string(packaged("alerts.yml")).unwrap();
    assert_eq!(test_fails(place.path(), &rules, ALERTS), None);
    // Each rule that never fires, and each that always does, is noticed.
    for (old, new) in [
        ("offset 6h) > 268435456", "offset 6h) > 268435456000000"),
        ("offset 6h) > 268435456", "offset 6h) > 0"),
        ("> 2 * min_over_time", "> -1 + 0 * min_over_time"),
        ("+ 1073741824", "+ 1073741824000000"),
        ("> sum by (instance, process, pid) (toft_live_bytes) + 1073741824", "> 0"),
        ("for: 1h", "for: 20h"),
        ("for: 30m", "for: 20h"),
    ] {
        assert!(rules.contains(old), "{old}");
        assert!(test_fails(place.path(), &rules.replace(old, new), ALERTS).is_some(), "{new}");
    }
}

const BURST: &str = include_str!("programs/burst.c");

/// The alert about free memory, with the figures of a program that has had a burst, as they stay
/// for twelve hours. The alert is silent if the memory is returned, and fires if it is kept. Its
/// threshold is reduced from 1 GiB to 64 MiB, as the burst is smaller.
#[test]
fn a_burst_alerts_only_while_its_memory_is_resident() {
    let place = directory();
    let rules = fs::read_to_string(packaged("alerts.yml")).unwrap();
    let small = rules.replace("+ 1073741824", "+ 67108864");
    assert_ne!(small, rules);
    let program = compile(place.path(), "burst", BURST, &["-fno-builtin"]);
    let page = |target: &Target| stdout(&succeeds(&["metrics", &target.pid]));
    let bytes = |page: &str, name: &str| -> u64 {
        let lines = page.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    let series = |page: &str| -> String {
        let names = ["toft_live_bytes{", "toft_free_bytes{", "toft_free_resident_bytes{"];
        let lines = page.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
        let line = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let series = series.replace('{', "{instance=\"a\",process=\"burst\",pid=\"1\",");
            format!("      - series: '{series}'\n        values: '{value}x900'\n")
        };
        lines.map(line).collect()
    };
    let test = |page: &str, fires: bool| {
        let labels = "{severity: info, instance: a, process: burst, pid: 1}";
        let summary = "burst (1): more resident memory is free than live";
        let description = "What it is, and why it stays: toft rss 1";
        let alert = match fires {
            true => format!(
                "\n          - exp_labels: {labels}\n            exp_annotations:\n              \
                 summary: \"{summary}\"\n              description: \"{description}\"\n"
            ),
            false => " []\n".to_owned(),
        };
        let series = series(page);
        format!(
            "rule_files: [alerts.yml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    \
             input_series:\n{series}    alert_rule_test:\n      - eval_time: 12h\n        \
             alertname: ToftFreeMemoryStays\n        exp_alerts:{alert}"
        )
    };

    let returned = Target::start(&program);
    let page_after = until("the memory is returned", || {
        let page = page(&returned);
        (bytes(&page, "toft_free_resident_bytes") < 32 << 20).then_some(page)
    });
    assert_eq!(test_fails(place.path(), &small, &test(&page_after, false)), None);
    // The address space is free all the same: a rule about that would fire.
    assert!(bytes(&page_after, "toft_free_bytes") > 128 << 20, "{page_after}");
    let of_addresses = small.replace("toft_free_resident_bytes", "toft_free_bytes");
    assert_eq!(test_fails(place.path(), &of_addresses, &test(&page_after, true)), None);
    drop(returned);

    let kept = Target::with(&program, &[("TOFT_RECLAIM", "off")]);
    let page_kept = page(&kept);
    assert!(bytes(&page_kept, "toft_free_resident_bytes") > 128 << 20, "{page_kept}");
    assert_eq!(test_fails(place.path(), &small, &test(&page_kept, true)), None);
}

/// The answer of Prometheus' API, if it gives one.
fn asked(port: u16, path: &str) -> Option<Value> {
    let mut peer = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(peer, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    peer.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

const PROGRAM: &str = include_str!("programs/prometheus.c");

#[test]
fn prometheus_scrapes_queries_and_alerts() {
    let place = directory();
    let name = format!("scraped-{}", std::process::id());
    let program = compile(place.path(), &name, PROGRAM, &[]);
    let target = Target::start(&program);

    let mut metrics = toft();
    metrics.args(["metrics", "--name", &name, "--listen", "127.0.0.1:0"]);
    let mut metrics = Running(metrics.stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(metrics.0.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();

    let rules = "groups:\n  - name: t\n    interval: 1s\n    rules:\n      - alert: ToftIsGone\n        expr: toft_processes < 1\n";
    fs::write(place.path().join("rules.yml"), rules).unwrap();
    let config = format!(
        "global:\n  scrape_interval: 1s\nrule_files: [rules.yml]\nscrape_configs:\n  - job_name: toft\n    \
         static_configs:\n      - targets: ['{address}']\n"
    );
    let file = place.path().join("prometheus.yml");
    fs::write(&file, config).unwrap();
    let port = port();
    let mut server = Command::new("prometheus");
    server.arg(format!("--config.file={}", file.display()));
    server.arg(format!("--storage.tsdb.path={}", place.path().join("data").display()));
    server.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _server = Running(server.expect("the tests need prometheus"));

    let query = "/api/v1/query?query=toft_site_live_blocks%7Bsite%3D~%22keep_blocks.*%22%7D";
    let found = until("figures are scraped", || {
        let answer = asked(port, query)?;
        let results = answer["data"]["result"].as_array()?.clone();
        (!results.is_empty()).then_some(results)
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["value"][1], "1000", "{found:?}");
    assert_eq!(found[0]["metric"]["pid"], target.pid);
    let alerts = || {
        let answer = asked(port, "/api/v1/alerts")?;
        Some(answer["data"]["alerts"].as_array()?.len())
    };
    assert_eq!(until("an answer about alerts", alerts), 0);
    drop(target);
    until("the alert fires", || alerts().filter(|&count| count == 1));
}
