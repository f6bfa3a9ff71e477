//! `toft heap --threads`: which thread owns what, in a program of which it is known.

use crate::common::*;
use serde_json::Value;

/// A thread `keeper` has 500 blocks of 1000 bytes, of which the first thread frees 100; one `gone`
/// has 300 of 2000 bytes and ends; and the first has one large block.
const TARGET: &str = include_str!("programs/threads.c");

/// The object that lists the threads of a process.
fn threads_of(pid: &str) -> Value {
    serde_json::from_str(&prints(&["heap", "--threads", "--json", pid])).unwrap()
}

#[test]
fn memory_is_listed_by_owner_thread() {
    let place = directory();
    let program = compile(place.path(), "target", TARGET, &["-pthread", "-fno-builtin"]);
    let target = Target::start(&program);
    let keeper: i64 = target.line.parse().unwrap();
    let pid = &*target.pid;

    let object = threads_of(pid);
    let owners = object["threads"].as_array().unwrap();
    let of = |what: &dyn Fn(&Value) -> bool| {
        let found: Vec<&Value> = owners.iter().filter(|owner| what(owner)).collect();
        assert_eq!(found.len(), 1, "{object}");
        found[0]
    };
    let kept = of(&|owner| owner["thread"] == keeper);
    assert_eq!((&kept["name"], &kept["state"]), (&"keeper".into(), &"S".into()), "{kept}");
    let number = |owner: &Value, name: &str| owner[name].as_u64().unwrap();
    // What others have freed is not collected while the owner sleeps; a slot of 1000 bytes has 1008
    // or 1024.
    let slot = number(kept, "uncollected_bytes") / 100;
    assert!((1000..=1024).contains(&slot), "{kept}");
    assert!((400..420).contains(&number(kept, "live_blocks")), "{kept}");
    let live = number(kept, "live_bytes");
    assert!((400 * slot..400 * slot + 8192).contains(&live), "{kept}");
    assert!(number(kept, "claimed_bytes") <= number(kept, "free_bytes"), "{kept}");
    assert!(number(kept, "free_resident_bytes") <= number(kept, "resident_bytes"), "{kept}");
    let gone = of(&|owner| owner["running"] == false && number(owner, "live_blocks") >= 300);
    assert!(gone["thread"].is_null() && number(gone, "live_bytes") >= 300 * 2000, "{gone}");
    // All that is live has an owner, but for what is large.
    let sum: u64 = owners.iter().map(|owner| number(owner, "live_bytes")).sum();
    assert_eq!(sum + number(&object, "large_bytes"), number(&object, "bytes"));
    assert!(number(&object, "large_bytes") >= 3 << 20);

    let page = in_terminal(place.path(), &["heap", "--threads", pid], 80);
    assert!(page.contains(&format!("{keeper} (keeper), sleeps")), "{page}");
    assert_contains(&page, &["of an exited thread", "free (RSS)"]);
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    toft_ends_with(2, &["heap", "--threads", "--top", "3", pid]);
}

/// 240 MB of blocks that are freed and were never touched.
const UNTOUCHED: &str = include_str!("programs/threads-untouched.c");

#[test]
fn what_is_free_is_shown_as_far_as_it_is_resident() {
    let program = compiled("untouched", UNTOUCHED, &["-fno-builtin"]);
    let target = Target::with(&program, &[("TOFT_RECLAIM", "off")]);
    let pid = &*target.pid;

    let object = threads_of(pid);
    let first = &object["threads"][0];
    let number = |name: &str| first[name].as_u64().unwrap();
    assert!(number("free_bytes") > 60_000_000, "{first}");
    let (free, resident) = (number("free_resident_bytes"), number("resident_bytes"));
    assert!(free <= resident && resident < 16 << 20, "{first}");
    let page = stdout(&succeeds(&["heap", "--threads", pid]));
    let line = page.lines().find(|line| line.contains("(untouched), ")).unwrap();
    // Live bytes are those of slots, free ones are resident.
    let line: Vec<&str> = line.split_whitespace().collect();
    assert!(line[1] == "MiB" && line[3] != "MiB", "{page}");
}

/// Eight threads that each allocate once, one after the other: a thread that finds a shared heap
/// in use goes another way.
const SHARERS: &str = include_str!("programs/threads-sharers.c");

#[test]
fn a_shared_heap_is_told_from_that_of_an_ended_thread() {
    let program = compiled("sharers", SHARERS, &["-pthread", "-fno-builtin"]);
    let target = Target::start(&program);
    assert_eq!(target.line, "ready");
    let pid = &*target.pid;
    let object = threads_of(pid);
    let owners = object["threads"].as_array().unwrap();
    let shared = owners.iter().filter(|owner| owner["shared"] == true);
    let blocks: u64 = shared.map(|owner| owner["live_blocks"].as_u64().unwrap()).sum();
    assert!(blocks >= 5, "{object}");
    for verb in [&["heap", "--threads"][..], &["rss"]] {
        let page = prints(&[verb, &[pid]].concat());
        assert!(page.contains("shared by threads"), "{page}");
        assert!(!page.contains("ended thread") && !page.contains("has exited"), "{page}");
    }
    let page = prints(&["metrics", pid]);
    let ended = page.lines().find(|line| !line.starts_with('#') && line.contains("ended"));
    assert!(ended.is_some_and(|line| line.ends_with(" 0")), "{page}");
}
