//! `toft heap --threads`: whose slabs the memory is in, by thread.

use std::fmt::Write as _;
use std::io::IsTerminal;

use serde_json::{Value, json};
use toft_profile::format::Table;
use toft_profile::{Core, Owner, Process, Profile, owners, owners_of_heaps};

use super::heap::{Target, of_core, of_process};
use super::output::painted;
use crate::style::{Style, bytes, count, fit};
use crate::verb::{Failure, message, print};

pub fn show(json: bool, target: &Target) -> Result<(), Failure> {
    let (profile, owners) = match target {
        Target::Process(pid) => (of_process(*pid)?, owners(&Process::open(*pid)?)?),
        Target::Core(path) => (of_core(path)?, owners_of_heaps(&Core::open(path)?)?),
    };
    if json {
        return Ok(print(format!("{}\n", object(&profile, &owners)))?);
    }
    let style = Style::of_stdout();
    print(painted(&page(&profile, &owners, style.width), style))?;
    if std::io::stdout().is_terminal()
        && let Target::Process(pid) = target
    {
        message(&format!(
            "next: toft top {pid} and key t to watch it; toft rss {pid} for the resident part"
        ));
    }
    Ok(())
}

fn large(profile: &Profile) -> u64 {
    profile.rows.iter().filter(|row| row.size == 0).map(|row| row.bytes).sum()
}

fn page(profile: &Profile, owners: &[Owner], width: usize) -> String {
    let mut page = String::new();
    let large = large(profile);
    let second = format!(
        "{} live: {} in slabs, by thread; {} in large blocks",
        bytes(profile.bytes),
        bytes(profile.bytes - large),
        bytes(large)
    );
    let _ = writeln!(page, "{}\n{}\n", fit(&profile.title(), width), fit(&second, width));
    let quarantine = owners.iter().any(|owner| owner.heap.quarantined_bytes > 0);
    let mut columns =
        vec![("live", 10), ("free (RSS)", 10), ("claimed", 10), ("uncollected", 11), ("slabs", 6)];
    if quarantine {
        columns.push(("quarantine", 11));
    }
    let table = Table::new(&columns, width).narrow().cut();
    let _ = writeln!(page, "{}", table.head("thread"));
    for owner in owners {
        let heap = &owner.heap;
        let figures = [
            bytes(heap.live_bytes),
            bytes(heap.resident.free()),
            bytes(heap.resident.claimed),
            bytes(heap.uncollected_bytes),
            count(heap.slabs),
            bytes(heap.quarantined_bytes),
        ];
        let _ = writeln!(page, "{}", table.line(&figures, &owner.words()));
    }
    page
}

fn object(profile: &Profile, owners: &[Owner]) -> Value {
    json!({
        "pid": profile.pid, "name": profile.name, "toft": profile.toft,
        "bytes": profile.bytes, "large_bytes": large(profile),
        "threads": owners.iter().map(json_of_owner).collect::<Vec<_>>(),
    })
}

/// A heap and its thread, as an object.
pub fn json_of_owner(owner: &Owner) -> Value {
    let Owner { heap, task } = owner;
    json!({
        "heap": heap.heap,
        "running": heap.running,
        "shared": heap.shared,
        "thread": task.as_ref().map(|task| task.number),
        "name": task.as_ref().map(|task| &task.name),
        "state": task.as_ref().map(|task| task.state.to_string()),
        "slabs": heap.slabs,
        "live_bytes": heap.live_bytes,
        "live_blocks": heap.live_blocks,
        "free_bytes": heap.free_bytes,
        "free_resident_bytes": heap.resident.free(),
        "claimed_bytes": heap.claimed_bytes,
        "uncollected_bytes": heap.uncollected_bytes,
        "quarantined_bytes": heap.quarantined_bytes,
        "resident_bytes": heap.resident.sum(),
        "resident": heap.resident,
    })
}
