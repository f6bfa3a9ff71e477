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
            "next: toft top {pid}, then t, as it changes; toft rss {pid}, what of it is resident"
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
    let waits = owners.iter().any(|owner| owner.quarantined_bytes > 0);
    let head = format!(
        "{:>10} {:>10} {:>10} {:>11}{} {:>6}  thread",
        "live",
        "free",
        "claimed",
        "uncollected",
        if waits { "  quarantine" } else { "" },
        "slabs"
    );
    let _ = writeln!(page, "{}", fit(&head, width));
    for owner in owners {
        let line = format!(
            "{:>10} {:>10} {:>10} {:>11}{} {:>6}  {}",
            bytes(owner.live_bytes),
            bytes(owner.free_bytes),
            bytes(owner.claimed_bytes),
            bytes(owner.uncollected_bytes),
            if waits { format!(" {:>11}", bytes(owner.quarantined_bytes)) } else { String::new() },
            count(owner.slabs),
            owner.words()
        );
        let _ = writeln!(page, "{}", fit(&line, width));
    }
    page
}

fn object(profile: &Profile, owners: &[Owner]) -> Value {
    let owner = |owner: &Owner| {
        json!({
            "heap": owner.heap, "running": owner.running,
            "thread": owner.thread.as_ref().map(|task| task.number),
            "name": owner.thread.as_ref().map(|task| &task.name),
            "state": owner.thread.as_ref().map(|task| task.state.to_string()),
            "slabs": owner.slabs, "live_bytes": owner.live_bytes, "live_blocks": owner.live_blocks,
            "free_bytes": owner.free_bytes, "claimed_bytes": owner.claimed_bytes,
            "uncollected_bytes": owner.uncollected_bytes, "quarantined_bytes": owner.quarantined_bytes,
        })
    };
    json!({
        "pid": profile.pid, "name": profile.name, "toft": profile.toft,
        "bytes": profile.bytes, "large_bytes": large(profile),
        "threads": owners.iter().map(owner).collect::<Vec<_>>(),
    })
}
