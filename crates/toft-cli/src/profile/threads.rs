//! `toft heap --threads`: whose slabs the memory is in, by thread.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toft_profile::{Core, Owner, Process, Profile, owners, owners_of_heaps};

use super::heap::{Target, of_core, of_process};
use super::output::painted;
use crate::run::say;
use crate::style::{Style, bytes, count, fit};
use crate::words::print;

/// Prints it.
pub fn show(json: bool, target: &Target) -> Result<(), String> {
    let told = |error: toft_profile::Error| error.to_string();
    let (profile, owners) = match target {
        Target::Process(pid) => {
            let profile = of_process(*pid).map_err(told)?;
            (profile, Process::open(*pid).and_then(|process| owners(&process)).map_err(told)?)
        }
        Target::Core(path) => {
            let profile = of_core(path).map_err(told)?;
            (profile, Core::open(path).and_then(|core| owners_of_heaps(&core)).map_err(told)?)
        }
    };
    if json {
        return print(format!("{}\n", object(&profile, &owners)).as_bytes());
    }
    let style = Style::of_stdout();
    print(painted(&page(&profile, &owners, style.width), style).as_bytes())?;
    if std::io::IsTerminal::is_terminal(&std::io::stdout())
        && let Target::Process(pid) = target
    {
        say(&format!(
            "next: toft top {pid} and key t to watch it; toft rss {pid} for the resident part"
        ));
    }
    Ok(())
}

/// Bytes of large blocks, as of one look.
fn large(profile: &Profile) -> u64 {
    profile.rows.iter().filter(|row| row.size == 0).map(|row| row.bytes).sum()
}

fn page(profile: &Profile, owners: &[Owner], width: usize) -> String {
    let mut page = String::new();
    let first = format!(
        "process {} ({})  Toft {}, {}",
        profile.pid,
        profile.name,
        profile.toft,
        profile.source.words()
    );
    let _ = writeln!(page, "{}", fit(&first, width));
    let large = large(profile);
    let second = format!(
        "{} live: {} in slabs, by thread; {} in large blocks",
        bytes(profile.bytes),
        bytes(profile.bytes - large),
        bytes(large)
    );
    let _ = writeln!(page, "{}\n", fit(&second, width));
    let waits = owners.iter().any(|owner| owner.heap.quarantined_bytes > 0);
    let head = format!(
        "{:>10} {:>10} {:>10} {:>11}{} {:>6}  thread",
        "live",
        "free (RSS)",
        "claimed",
        "uncollected",
        if waits { "  quarantine" } else { "" },
        "slabs"
    );
    let _ = writeln!(page, "{}", fit(&head, width));
    for owner in owners {
        let line = format!(
            "{:>10} {:>10} {:>10} {:>11}{} {:>6}  {}",
            bytes(owner.heap.live_bytes),
            bytes(owner.heap.resident.free()),
            bytes(owner.heap.resident.claimed),
            bytes(owner.heap.remote_bytes),
            if waits {
                format!(" {:>11}", bytes(owner.heap.quarantined_bytes))
            } else {
                String::new()
            },
            count(owner.heap.slabs),
            owner.words()
        );
        let _ = writeln!(page, "{}", fit(&line, width));
    }
    page
}

fn object(profile: &Profile, owners: &[Owner]) -> Value {
    let owner = |owner: &Owner| {
        let Owner { heap, task } = owner;
        json!({
            "heap": heap.heap, "running": heap.running, "shared": heap.shared,
            "thread": task.as_ref().map(|task| task.number),
            "name": task.as_ref().map(|task| &task.name),
            "state": task.as_ref().map(|task| task.state.to_string()),
            "slabs": heap.slabs, "live_bytes": heap.live_bytes, "live_blocks": heap.live_blocks,
            "free_bytes": heap.free_bytes, "free_resident_bytes": heap.resident.free(),
            "claimed_bytes": heap.claimed_bytes, "uncollected_bytes": heap.remote_bytes,
            "quarantined_bytes": heap.quarantined_bytes, "resident_bytes": heap.resident.sum(),
        })
    };
    json!({
        "pid": profile.pid, "name": profile.name, "toft": profile.toft,
        "bytes": profile.bytes, "large_bytes": large(profile),
        "threads": owners.iter().map(owner).collect::<Vec<_>>(),
    })
}
