//! A run against an earlier one, as a person compares them.

mod common;

use common::{bench, scratch};
use serde_json::json;

/// A run of one case, whose figures grow by a factor.
fn write(name: &str, growth: f64) {
    let outcome = |round: u32| {
        let ns = growth * (20.0 + 0.1 * f64::from(round));
        json!({"ops": 1000, "metrics": {"ns": ns, "peak_mb": 80.0}})
    };
    let run = json!({
        "toft_bench": 1,
        "machine": {},
        "peers": [{"name": "toft", "version": "1"}],
        "cases": [{
            "case": "replace-100k", "workload": "replace", "metrics": ["ns", "peak_mb"],
            "peers": {"toft": (0..7).map(outcome).collect::<Vec<_>>()},
        }],
    });
    std::fs::write(scratch(name), run.to_string()).unwrap();
}

#[test]
fn two_files_are_compared_by_the_command() {
    write("old.json", 1.0);
    write("new.json", 1.05);
    let worse = bench("compare old.json new.json");
    assert_eq!(worse.status, Some(1), "{worse:?}");
    assert!(worse.out.contains("REGRESSION") && worse.out.contains("replace-100k"), "{worse:?}");
    let better = bench("compare new.json old.json").page();
    assert!(better.contains("better") && !better.contains("REGRESSION"), "{better}");
    let tolerant = bench("compare --threshold 20% old.json new.json").page();
    assert!(tolerant.contains("2 within 20 %"), "{tolerant}");
    assert_eq!(bench("compare old.json /nowhere.json").status, Some(2));
}

/// The figures of the earlier run are replaced by what no machine can be: no noise hides that.
#[test]
fn a_run_is_compared_with_its_baseline() {
    let line = "--quick --runs 3 --peers glibc --workload pair-64 --set ops=20k";
    bench(&format!("{line} --output baseline.json")).page();
    let kept = common::json("baseline.json");
    let against = |ns: f64, more: &str| {
        let mut changed = kept.clone();
        for outcome in changed["cases"][0]["peers"]["glibc"].as_array_mut().unwrap() {
            assert!(outcome["metrics"]["ns"].as_f64().unwrap() > 0.0);
            outcome["metrics"]["ns"] = ns.into();
        }
        std::fs::write(scratch("baseline.json"), changed.to_string()).unwrap();
        bench(&format!("{line} --baseline baseline.json{more}"))
    };
    let worse = against(1e-12, "");
    assert!(worse.status == Some(1) && worse.out.contains("REGRESSION"), "{worse:?}");
    assert!(against(1e15, "").page().contains("| better"));
    assert_eq!(against(1e-12, " --threshold 1e30").status, Some(0));
    let absent = bench("--baseline /nowhere/old.json --workload pair-64");
    assert!(absent.status == Some(2) && absent.err.contains("/nowhere/old.json"), "{absent:?}");
}
