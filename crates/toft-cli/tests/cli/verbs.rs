//! `toft options`, `toft doctor`, the texts, and the executable on its own in a strange place.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::common::*;
use serde_json::Value;

fn options(settings: &[(&str, &str)]) -> (Value, Option<i32>) {
    let output =
        toft().envs(settings.iter().copied()).args(["options", "--json"]).output().unwrap();
    (serde_json::from_str(&stdout(&output)).unwrap(), output.status.code())
}

fn option<'a>(all: &'a Value, name: &str) -> &'a Value {
    all["options"].as_array().unwrap().iter().find(|o| o["name"] == name).unwrap()
}

#[test]
fn every_option_is_listed_with_its_default() {
    let (all, status) = options(&[]);
    assert_eq!(status, Some(0));
    let names: Vec<&str> =
        all["options"].as_array().unwrap().iter().map(|o| o["name"].as_str().unwrap()).collect();
    assert_eq!(names, toft_core::options::TABLE.iter().map(|entry| entry.name).collect::<Vec<_>>());
    for entry in toft_core::options::TABLE {
        let shown = option(&all, entry.name);
        assert_eq!(
            (shown["value"].as_str(), shown["source"].as_str()),
            (Some(entry.default), Some("default"))
        );
    }
}

#[test]
fn an_option_of_the_environment_says_so() {
    let (all, status) = options(&[("TOFT_PARTITIONS", "16")]);
    assert_eq!(status, Some(0));
    let shown = option(&all, "TOFT_PARTITIONS");
    assert_eq!(
        (&shown["value"], &shown["source"], &shown["valid"]),
        (&"16".into(), &"environment".into(), &true.into())
    );
    let output = toft().env("TOFT_ON_MISUSE", "warn").arg("options").output().unwrap();
    let page = stdout(&output);
    let line = page.lines().find(|line| line.starts_with("TOFT_ON_MISUSE")).unwrap();
    assert!(line.contains("warn") && line.ends_with("environment (default abort)"), "{line}");
}

#[test]
fn bad_values_and_unknown_names_are_flagged() {
    let (all, status) = options(&[("TOFT_PARTITIONS", "many"), ("TOFT_PARTITION", "4")]);
    assert_eq!(status, Some(1));
    let shown = option(&all, "TOFT_PARTITIONS");
    assert_eq!(
        (&shown["valid"], &shown["value"], &shown["given"]),
        (&false.into(), &"64".into(), &"many".into())
    );
    assert_eq!(all["unknown"][0]["name"], "TOFT_PARTITION");
    assert_eq!(all["unknown"][0]["nearest"], "TOFT_PARTITIONS");
    let page = stdout(&toft().env("TOFT_PARTITION", "4").arg("options").output().unwrap());
    assert_contains(&page, &["unknown option TOFT_PARTITION; did you mean TOFT_PARTITIONS?"]);
}

#[test]
fn the_doctor_finds_this_machine_fit() {
    let output = toft().args(["doctor", "--json"]).output().unwrap();
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((output.status.code(), &answer["fit"]), (Some(0), &true.into()), "{answer}");
    let rows = answer["rows"].as_array().unwrap();
    let row = |name: &str| {
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}"))
    };
    for name in [
        "kernel",
        "glibc",
        "page size",
        "address window",
        "overcommit",
        "mappings",
        "huge pages",
        "MAP_FIXED_NOREPLACE",
        "MADV_GUARD_INSTALL",
        "MADV_DONTNEED",
        "MADV_PAGEOUT",
        "process_madvise",
        "protection keys",
        "userfaultfd",
        "getrandom",
        "seccomp",
        "limit: memory",
        "limit: address space",
        "processor",
    ] {
        assert!(!row(name)["found"].as_str().unwrap().is_empty(), "{name}");
        assert!(
            ["ok", "fallback", "info", "fatal"].contains(&row(name)["level"].as_str().unwrap())
        );
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(row("kernel")["found"].as_str().unwrap().contains(release.trim()));
    assert!(
        row("MADV_DONTNEED")["level"] == "ok" && row("getrandom")["level"] == "ok",
        "every Linux has these"
    );
    assert_eq!(row("self-test")["level"], "ok");
    assert!(row("self-test")["found"].as_str().unwrap().contains("ran on Toft"));
    let page = stdout(&succeeds(&["doctor"]));
    assert!(page.contains("Toft can run here"), "{page}");
}

#[test]
fn the_doctor_sees_a_limit_that_is_set() {
    let script = format!("ulimit -v 8000000; exec {} doctor --json", env!("CARGO_BIN_EXE_toft"));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let rows = answer["rows"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(row("limit: address space")["found"], "7.6 GiB");
    assert_eq!(answer["fit"], true, "a limit of 8 GB leaves room: {answer}");
}

#[test]
fn the_version_names_the_library_inside() {
    let version = stdout(&succeeds(&["--version"]));
    let expected = format!("toft {}\nlibrary ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&expected), "{version}");
}

/// The executable carries everything: copied away, with no home and nowhere known to write, it runs
/// a program.
#[test]
fn the_executable_works_alone() {
    let place = directory();
    let moved = place.path().join("elsewhere");
    copy(env!("CARGO_BIN_EXE_toft"), &moved);
    let alone = |settings: &[(&str, &str)]| {
        let output = Command::new(&moved)
            .env_clear()
            .envs(settings.iter().copied())
            .args(["run", "--strict", "--", "/bin/cat", "/proc/self/maps"])
            .output()
            .unwrap();
        assert_clean(&output);
        stdout(&output)
    };
    // Root takes places that every user can reach first.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = place.path().join("home");
    fs::create_dir(&home).unwrap();
    assert!(
        alone(&[("HOME", text(&home))])
            .contains(&format!("{}/.cache/toft/libtoft-", home.display()))
    );
    let uid = fs::metadata("/proc/self").unwrap().uid();
    if uid != 0 {
        let unset = alone(&[("TMPDIR", text(place.path()))]);
        let expected = format!("{}/toft-{uid}/libtoft-", place.path().display());
        assert!(unset.contains(&expected), "{unset}");
    }

    // A home that is a file can hold no cache for any user. A directory without write permission
    // would not stop root.
    let blocked = file(place.path(), "blocked", b"", 0o600);
    alone(&[("HOME", text(&blocked)), ("TMPDIR", text(&blocked))]);
    // A home with a space in its name cannot be written in LD_PRELOAD.
    let spaced = place.path().join("a home");
    fs::create_dir(&spaced).unwrap();
    assert!(!alone(&[("HOME", text(&spaced))]).contains("a home"));
}

#[test]
fn a_cache_that_others_may_write_is_not_used() {
    let cache = directory();
    fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = toft()
        .env("XDG_CACHE_HOME", cache.path())
        .args(["run", "--strict", "--", "cat", "/proc/self/maps"])
        .output()
        .unwrap();
    assert_clean(&output);
    assert!(!stdout(&output).contains(text(cache.path())));
    assert!(fs::read_dir(cache.path()).unwrap().next().is_none());
}
