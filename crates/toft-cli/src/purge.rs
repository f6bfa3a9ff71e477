//! `toft purge`: lets a running process give back what it can. `toft-profile` asks; this prints.

use clap::Args;
use serde_json::json;
use toft_profile::Process;

use crate::run::{REFUSED, say};
use crate::style;
use crate::words::printed;

const HELP: &str = "\
Examples:
  toft purge 1234                  give back now what the process would keep for a while
  toft purge --json 1234 | jq .given_bytes

No signal is sent and no thread of the program is stopped; it needs the permission that a debugger needs.

Exit status: 0, or 125 if the process cannot be asked; then one line says why.";

/// Let a running process give back all memory that holds no live block.
///
/// Pages of free memory in every thread's slabs, empty slabs and free large blocks go back to the system at once,
/// whatever the threads are doing. What stays is what lives, what shares a page with it (`toft rss` says which call
/// sites that is), and the few slots that threads have claimed.
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
    let resident = || resident(pid).unwrap_or(0);
    let asked = Process::open(pid).and_then(|process| {
        let before = resident();
        Ok((before, toft_profile::purge(&process)?, resident()))
    });
    let (before, given, after) = match asked {
        Ok(answer) => answer,
        Err(error) => {
            say(&error.to_string());
            return REFUSED;
        }
    };
    let text = if args.json {
        let object = json!({
            "pid": pid, "given_bytes": given, "rss_before": before, "rss_after": after,
        });
        format!("{object}\n")
    } else {
        format!(
            "process {pid} gave back {}: {} resident before, {} after; next: toft rss {pid}, what the rest is\n",
            style::bytes(given),
            style::bytes(before),
            style::bytes(after)
        )
    };
    printed(&text, 0)
}

/// What the kernel counts as resident.
fn resident(pid: i32) -> Option<u64> {
    let status = toft_profile::read(pid, "status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
