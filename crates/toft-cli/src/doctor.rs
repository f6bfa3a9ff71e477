//! `toft doctor`: what this kernel and this process's limits offer, and what Toft does where
//! something is missing.
//!
//! `doctor/probes.rs` makes the system calls, `doctor/system.rs` reads `/proc` and `/sys`,
//! `doctor/rows.rs` prints; this file says what each answer means, and runs a program under the
//! library as the last proof.

mod probes;
mod rows;
mod system;

use std::path::Path;

use clap::Args;
use nix::errno::Errno;
use nix::sys::resource::Resource;
use serde_json::json;
use toft_core::os::process::page_size;
use toft_core::os::seccomp::{self, Way};
use toft_core::os::{Linux, Memory};
use toft_core::region::{Layout, Windows};

use crate::filtered;
use crate::launch::{self, Launch};
use crate::library::{self, Library};
use crate::stats::Ended;
use crate::style;
use crate::verb::{End, print};
use crate::vet::allocator::is_library;

use probes::{MADV_GUARD_INSTALL, advise};
use rows::{Level, Row, as_text, row};
use system::{chosen, field, limit, line};

/// Show what the kernel supports and which fallbacks Toft would use.
///
/// Every row is a test in this process, under its limits. The last row runs a program on Toft.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  toft doctor\n  toft doctor --json | jq '.rows[] | select(.level == \"fallback\")'\n\nExit status: 0 if Toft can run here, 1 if not."
)]
pub struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn doctor(args: &Doctor) -> End {
    let mut rows = Vec::new();
    about_machine(&mut rows);
    about_memory(&mut rows);
    rows.extend(about_calls());
    about_limits(&mut rows);
    rows.push(other_mallocs());
    rows.push(self_test());
    let fit = rows.iter().all(|row| row.level != Level::Fatal);
    let text = if args.json {
        let shown: Vec<_> = rows.iter().map(Row::json).collect();
        let version = env!("CARGO_PKG_VERSION");
        let all = json!({"version": version, "library": library::HASH, "fit": fit, "rows": shown});
        format!("{all}\n")
    } else {
        as_text(&rows, fit)
    };
    print(text)?;
    Ok(i32::from(!fit))
}

fn about_machine(rows: &mut Vec<Row>) {
    let release = line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    rows.push(row(
        "kernel",
        Level::Plain,
        format!("Linux {release}, {}", std::env::consts::ARCH),
        "",
    ));
    rows.push(row("glibc", Level::Plain, system::libc_version(), ""));
    #[cfg(target_arch = "x86_64")]
    let (wanted, needed) =
        (["bmi1", "bmi2", "popcnt", "erms", "fsrm", "pku", "la57"].as_slice(), "popcnt");
    #[cfg(not(target_arch = "x86_64"))]
    let (wanted, needed) = (["atomics", "bti"].as_slice(), "atomics");
    let features = system::cpu_features(wanted);
    let (level, meaning) = if features.iter().any(|name| name == needed) {
        (Level::Good, "")
    } else {
        (Level::Fallback, "slower searches in bit sets, or slower atomics; nothing is missing")
    };
    rows.push(row("processor", level, features.join(" "), meaning));
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    rows.push(row("processors usable", Level::Plain, cpus.to_string(), ""));
    let page = page_size();
    let fits = page.is_power_of_two() && (4096..=65536).contains(&page);
    rows.push(row(
        "page size",
        if fits { Level::Good } else { Level::Fatal },
        style::bytes(page as u64),
        if fits { "" } else { "Toft supports pages of 4 to 64 KiB" },
    ));
}

fn about_memory(rows: &mut Vec<Row>) {
    let width = field("/proc/cpuinfo", "address sizes").unwrap_or_else(|| "not stated".into());
    rows.push(row("address width", Level::Plain, width, ""));
    rows.push(window());
    let (level, found, meaning) = match line("/proc/sys/vm/overcommit_memory").as_deref() {
        Some("0") => (Level::Good, "heuristic (0)", ""),
        Some("1") => (Level::Good, "always (1)", ""),
        Some("2") => (
            Level::Good,
            "strict (2)",
            "memory is mapped in steps as it is needed, and nothing is reserved",
        ),
        _ => (Level::Plain, "unknown", ""),
    };
    rows.push(row("overcommit", level, found, meaning));
    let most = line("/proc/sys/vm/max_map_count").unwrap_or_else(|| "unknown".into());
    let used = std::fs::read_to_string("/proc/self/maps").map_or(0, |text| text.lines().count());
    let few = most.parse::<u64>().is_ok_and(|n| n < 32768);
    rows.push(row(
        "mappings",
        if few { Level::Fallback } else { Level::Good },
        format!("{used} of {most} used by this process"),
        if few {
            "thousands of large blocks at once may meet this limit (vm.max_map_count)"
        } else {
            ""
        },
    ));
    let huge = line("/sys/kernel/mm/transparent_hugepage/enabled");
    let setting = huge.as_deref().and_then(chosen).unwrap_or("not built in").to_owned();
    let sizes = system::huge_sizes();
    let sizes =
        if sizes.is_empty() { String::new() } else { format!("; sizes on: {}", sizes.join(", ")) };
    let meaning = match setting.as_str() {
        "always" => "the kernel may make a sparsely used slab resident as a whole",
        _ => "",
    };
    rows.push(row("huge pages", Level::Plain, format!("{setting}{sizes}"), meaning));
}

/// What the library itself would choose, by its own code.
fn window() -> Row {
    let system = Linux::detect();
    let page = system.page_size();
    // One page in place of the tables.
    match Windows::choose(system, |_| page) {
        Ok((system, Layout { windows, .. })) => {
            let whole = windows.large_span == system.address_space().len() / 4;
            let (level, meaning) = if whole {
                (Level::Good, "no address of a block can be guessed; nothing is reserved")
            } else {
                (Level::Fallback, "halved until it fitted; very large programs may run out of it")
            };
            let bytes = windows.data_bytes() as u64;
            row(
                "address window",
                level,
                format!("{}, at a random place", style::bytes(bytes)),
                meaning,
            )
        }
        Err(_) => row("address window", Level::Fatal, "none", "no free range of addresses"),
    }
}

/// The system calls, each with the levels of a call that works and of one that does not, and what
/// Toft does then. A missing call is harmless if no default needs it.
fn about_calls() -> impl Iterator<Item = Row> {
    use Level::{Fallback, Fatal, Good, Plain};
    let calls = [
        (
            "MAP_FIXED_NOREPLACE",
            probes::fixed_noreplace(),
            (Good, ""),
            (Fallback, "addresses are passed as hints, and mappings elsewhere are unmapped"),
        ),
        (
            "MADV_GUARD_INSTALL",
            advise(MADV_GUARD_INSTALL),
            (Good, "guards that cost no mapping"),
            (
                Fallback,
                "beyond 8192 large blocks at once, further ones have no guard page after them",
            ),
        ),
        (
            "MADV_DONTNEED",
            advise(libc::MADV_DONTNEED),
            (Good, "freed memory is returned to the OS at once"),
            (Fallback, "freed memory cannot be returned to the OS"),
        ),
        (
            "mremap",
            probes::mremap(),
            (Good, "large blocks grow without copying"),
            (Fallback, "large blocks grow by copying"),
        ),
        (
            "getrandom",
            probes::random(),
            (Good, "a fresh key for the partitions in every process"),
            (Fatal, "no random key for the partitions, and no safe fallback"),
        ),
        (
            "membarrier",
            probes::membarrier(),
            (Good, "the reclaimer returns free pages of running threads"),
            (Fallback, "free pages of running threads wait for their calls (TOFT_RECLAIM)"),
        ),
        (
            "process_madvise",
            probes::process_madvise(),
            (Good, "many ranges are returned by one call"),
            (Plain, "a call for each range; nothing is missing"),
        ),
        (
            "MADV_POPULATE_WRITE",
            advise(libc::MADV_POPULATE_WRITE),
            (
                Good,
                "steadily growing bins prefault several pages at a time (also for TOFT_MAPPINGS)",
            ),
            (Plain, "a fault for each page; TOFT_MAPPINGS=populate has no effect"),
        ),
        (
            "MADV_PAGEOUT",
            advise(libc::MADV_PAGEOUT),
            (Good, "cold data goes to swap if asked for (TOFT_COLD)"),
            (Plain, "TOFT_COLD has no effect"),
        ),
        (
            "mapping names",
            probes::mapping_names(),
            (Good, "shown in /proc/PID/maps if asked for (TOFT_MAPPINGS, zones)"),
            (Plain, "TOFT_MAPPINGS=names has no effect, and zones have no names there"),
        ),
        (
            "protection keys",
            probes::protection_keys(),
            (Good, "the secure build's tables are written under a key if asked for (TOFT_PKEY)"),
            (Plain, "TOFT_PKEY has no effect"),
        ),
        (
            "userfaultfd",
            probes::userfaultfd(),
            (Good, "for TOFT_GUARDED=uninit, TOFT_COLD and TOFT_COMPACT"),
            (
                Plain,
                "TOFT_GUARDED=uninit and TOFT_COLD have no effect, TOFT_COMPACT in threaded programs",
            ),
        ),
    ];
    calls.into_iter().map(|(name, answer, works, fails)| match answer {
        Ok(()) => row(name, works.0, "works", works.1),
        Err(error) => row(name, fails.0, format!("no ({})", error_name(&error)), fails.1),
    })
}

/// `EPERM: Operation not permitted`, which tells a forbidden call from an unknown one.
fn error_name(error: &std::io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(errno) => format!("{errno}"),
        None => error.to_string(),
    }
}

fn about_limits(rows: &mut Vec<Row>) {
    for (name, of) in
        [("limit: address space", Resource::RLIMIT_AS), ("limit: data", Resource::RLIMIT_DATA)]
    {
        let (found, bytes) = limit(of);
        let meaning = if bytes.is_some() {
            "counts what is used, as with any allocator: nothing is reserved"
        } else {
            ""
        };
        rows.push(row(name, Level::Plain, found, meaning));
    }
    rows.push(row("limit: locked memory", Level::Plain, limit(Resource::RLIMIT_MEMLOCK).0, ""));
    let memory = toft_core::os::memory_there_is().map(|bytes| style::bytes(bytes as u64));
    let found = memory.unwrap_or_else(|| "unknown".into());
    rows.push(row(
        "limit: memory",
        Level::Plain,
        found,
        "of the control group or the machine; percentages in options are of it",
    ));
    let filter = field("/proc/self/status", "Seccomp");
    let (level, found, meaning) = match filter.as_deref() {
        Some("0") => (Level::Good, "off", String::new()),
        Some("1") => (Level::Fatal, "strict", "not even mmap is allowed".into()),
        Some("2") => {
            // As any command may, this one creates processes: the last row does.
            match seccomp::probe_by(Way::Clone, page_size()).map(filtered::off) {
                Some(None) => (Level::Good, "a filter is on, as in a container", String::new()),
                Some(Some(off)) => {
                    (Level::Fallback, "a filter is on, as in a container", format!("off: {off}"))
                }
                None => {
                    let meaning = "no child process could probe it: the reclaimer thread is off (idle memory \
                                   stays resident; TOFT_RECLAIM=thread)";
                    (Level::Fallback, "a filter is on, as in a container", meaning.into())
                }
            }
        }
        _ => (Level::Plain, "unknown", String::new()),
    };
    rows.push(row("seccomp", level, found, meaning));
}

/// The mallocs that are preloaded into every program, and what stays outside of Toft if a program
/// uses another one.
fn other_mallocs() -> Row {
    let preloaded = system::preloaded();
    let names = preloaded.iter().filter_map(|path| Path::new(path).file_name()?.to_str());
    let others: Vec<&str> = names.filter(|name| is_library(name)).collect();
    let found = if others.is_empty() {
        "none preloaded".into()
    } else {
        format!("preloaded: {}", others.join(", "))
    };
    let outside = "jemalloc's mallocx and mallctl are replaced; blocks of mimalloc's mi_malloc, of \
                   tcmalloc's tc_malloc, and of a malloc inside a program stay outside, and so does \
                   tcmalloc's MallocExtension";
    row("other mallocs", Level::Plain, found, outside)
}

/// Runs a program that does nothing under the library and asks for the same proof as `toft run`.
fn self_test() -> Row {
    let fail = |why: String| row("self-test", Level::Fatal, why, "no program can run on Toft");
    let library = match Library::find(None) {
        Ok(library) => library,
        Err(why) => return fail(why),
    };
    let Some(program) =
        ["/bin/true", "/usr/bin/true"].into_iter().find(|path| Path::new(path).exists())
    else {
        return row("self-test", Level::Plain, "not run: there is no /bin/true", "");
    };
    let before = std::env::var_os("LD_PRELOAD");
    let launch = Launch {
        program: program.into(),
        name: program.into(),
        arguments: Vec::new(),
        environment: vec![
            ("LD_PRELOAD".into(), library::preload_value(&library.path, before.as_deref())),
            ("TOFT_SCOPE".into(), "program".into()),
        ],
        silent: true,
    };
    match launch::run(&launch, || {}) {
        Ok(outcome) => match (outcome.report.ready, Ended::of(outcome.status)) {
            (Some(version), Ended::Exit(0)) => {
                let found = format!("{program} ran on Toft {version}");
                row(
                    "self-test",
                    Level::Good,
                    found,
                    format!("library {}: {}", library.path.display(), library.origin),
                )
            }
            (None, _) => fail(format!("the library did not load into {program}")),
            (Some(_), ended) => fail(format!("{program} on Toft: {}", ended.words())),
        },
        Err(e) => fail(format!("{program}: {e}")),
    }
}
