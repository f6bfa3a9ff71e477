//! `toft purge`: lets a running process return its free memory. `toft-profile` asks it to; this
//! prints.

use clap::Args;
use serde_json::json;
use toft_profile::Process;

use crate::style;
use crate::verb::{End, print};

const HELP: &str = "\
Examples:
  toft purge 1234                  return free memory at once that the process would keep for a while
  toft purge --json 1234 | jq .returned_bytes

No signal is sent and no thread of the program is stopped. The library's own thread is interrupted for a moment, as \
by a debugger (PTRACE_SEIZE), and you need the permission that one needs.

Exit status: 0, or 125 with a message if the process cannot be purged.";

/// Return all memory of a running process that holds no live block to the OS.
///
/// Returns free pages in every thread's slabs, empty slabs and free large blocks at once, whatever
/// the threads are doing. Toft returns idle memory by itself too, so that there is often nothing
/// left to return. Live blocks stay resident, and so do free slots on their pages (`toft rss` lists
/// the call sites) and the few slots that threads have claimed. The figures are the kernel's:
/// resident memory before and after.
#[derive(Args, Debug)]
#[command(name = "purge", after_help = HELP)]
pub struct Purge {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The process
    #[arg(value_name = "PID", value_parser = crate::verb::pid, allow_negative_numbers = true)]
    pid: i32,
}

pub fn purge(args: &Purge) -> End {
    let pid = args.pid;
    let purged = toft_profile::purge(&Process::open(pid)?)?;
    let (fell, discarded) = (purged.fell(), purged.discarded);
    let (before, after) = (purged.before, purged.after);
    let text = if args.json {
        let object = json!({
            "pid": pid, "returned_bytes": fell, "discarded_bytes": discarded,
            "rss_before": before.rss, "rss_after": after.rss,
            "swap_before": before.swap, "swap_after": after.swap,
        });
        format!("{object}\n")
    } else {
        let done = match (fell, discarded) {
            (0, 0) => format!("process {pid} has no free memory to return"),
            (0, _) => format!("resident memory of process {pid} did not fall"),
            _ => format!("resident memory of process {pid} fell by {}", style::bytes(fell)),
        };
        let more = if discarded > fell {
            format!(
                "it discarded {} of address space; the rest of that was not resident, or is in use again\n",
                style::bytes(discarded)
            )
        } else {
            String::new()
        };
        format!(
            "{done}: {} before, {} after; next: toft rss {pid} explains the rest\n{more}",
            style::bytes(before.rss),
            style::bytes(after.rss)
        )
    };
    print(text)?;
    Ok(0)
}
