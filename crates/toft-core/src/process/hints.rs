//! Reads the file of hints at the start (docs/hints.md).

use crate::options::{
    Leaks, Options, PARTITIONS_EXACT, PARTITIONS_MAX, PARTITIONS_USUAL, SiteMode,
};
use crate::os::process;
use crate::report::Line;
use crate::site::Hints;

/// The largest file in bytes: a line for each call site of a hundred of the largest programs.
const FILE_MOST: usize = 16 << 20;
/// The number of invalid lines that are reported one by one. Further ones are only counted.
const REPORTED_MOST: usize = 8;

/// Reads the requested hints, and switches `options` to exact call sites. Returns no hints if none
/// were requested, another option excludes them, or the file cannot be read.
pub(crate) fn read(options: &mut Options) -> Hints {
    let Some(name) = options.hints else { return Hints::none() };
    let name = name.as_c_str().to_bytes();
    let separates_sites = options.leaks != Leaks::Off || options.profile.is_some();
    if separates_sites || options.sites == SiteMode::Hash {
        let why = if separates_sites {
            "TOFT_PROFILE and TOFT_LEAKS tell all call sites apart"
        } else {
            "a number in TOFT_PARTITIONS comes before it"
        };
        refuse(name, why);
        return Hints::none();
    }
    match read_file(options, name) {
        Ok(hints) => {
            options.sites = SiteMode::Exact;
            if options.partitions == 0 {
                options.partitions = partitions(&hints);
            }
            hints
        }
        Err(why) => {
            refuse(name, why);
            Hints::none()
        }
    }
}

fn read_file(options: &Options, name: &[u8]) -> Result<Hints, &'static str> {
    let path = options.hints.as_ref().ok_or("there is none")?;
    let text = process::read_whole(path.as_c_str(), FILE_MOST)?;
    let mut bad = 0usize;
    let hints = Hints::read(text, |number, why| {
        bad += 1;
        if bad <= REPORTED_MOST {
            let mut line = begin(name);
            line.text(": line ").number(number as u64).text(": ").text(why);
            line.text("; it is skipped");
            process::write_all(libc::STDERR_FILENO, line.end());
        }
    })?;
    if let Some(more) = bad.checked_sub(REPORTED_MOST).filter(|&more| more != 0) {
        let mut line = begin(name);
        line.text(": ").number(more as u64).text(" more such lines are skipped");
        process::write_all(libc::STDERR_FILENO, line.end());
    }
    Ok(hints)
}

/// Returns the number of partitions that the hints need. A smaller number makes the tables smaller.
fn partitions(hints: &Hints) -> usize {
    match hints.own() {
        None => PARTITIONS_EXACT,
        Some(own) => {
            // Adds row 0, and more than the one partition in 64 that late sites get.
            let needed = own.saturating_add(hints.groups()).saturating_add(1);
            let needed = needed.saturating_add(needed / 32 + 1);
            needed.min(PARTITIONS_MAX).next_power_of_two().max(PARTITIONS_USUAL)
        }
    }
}

fn begin(name: &[u8]) -> Line {
    let mut line = Line::new(false);
    line.text("toft: TOFT_HINTS: ").raw(name);
    line
}

fn refuse(name: &[u8], why: &str) {
    let mut line = begin(name);
    line.text(": ").text(why).text("; going on without it");
    process::write_all(libc::STDERR_FILENO, line.end());
}
