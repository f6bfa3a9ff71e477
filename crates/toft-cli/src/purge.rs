//! `toft purge`: lets a running process give back what it can. `toft-profile` asks; this prints.

use clap::Args;
use serde_json::json;
use toft_profile::Process;

use crate::run::{REFUSED, say};
use crate::style;
use crate::words::printed;

const HELP: &str = "\
Examples:
  toft purge 1234                  return free memory at once that the process would keep for a while
  toft purge --json 1234 | jq .given_bytes

No signal is sent and no thread of the program is stopped. The library's own thread is interrupted for a moment, as \
by a debugger (PTRACE_SEIZE), and you need the permission that one needs.

Exit status: 0, or 125 with a message if the process cannot be purged.";

/// Return all memory of a running process that holds no live block to the OS.
///
/// Returns free pages in every thread's slabs, empty slabs and free large blocks at once, whatever
/// the threads are doing. Live blocks stay resident, and so do free slots on their pages (`toft
/// rss` lists the call sites) and the few slots that threads have claimed. The figures are the
/// kernel's: resident memory before and after.
#[derive(Args, Debug)]
#[command(name = "purge", after_help = HELP, after_long_help = HELP)]
pub struct Purge {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The process
    #[arg(value_name = "PID", value_parser = crate::words::pid, allow_negative_numbers = true)]
    pid: i32,
}

/// The verb.
pub fn purge(args: &Purge) -> i32 {
    let pid = args.pid;
    let purged = match Process::open(pid).and_then(|process| toft_profile::purge(&process)) {
        Ok(purged) => purged,
        Err(error) => {
            say(&error.to_string());
            return REFUSED;
        }
    };
    let (fell, discarded) = (purged.fell(), purged.discarded);
    let (before, after) = (purged.before, purged.after);
    let text = if args.json {
        let object = json!({
            "pid": pid, "given_bytes": fell, "discarded_bytes": discarded,
            "rss_before": before.rss, "rss_after": after.rss,
            "swap_before": before.swap, "swap_after": after.swap,
        });
        format!("{object}\n")
    } else {
        let more = if discarded > fell {
            format!(
                "it discarded {} of address space; the rest of that was not resident, or is in use again\n",
                style::bytes(discarded)
            )
        } else {
            String::new()
        };
        format!(
            "resident memory of process {pid} fell by {}: {} before, {} after; next: toft rss {pid} explains the rest\n{more}",
            style::bytes(fell),
            style::bytes(before.rss),
            style::bytes(after.rss)
        )
    };
    printed(&text, 0)
}
