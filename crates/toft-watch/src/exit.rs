//! What is reported when the program ends: a profile, damage, leaks and statistics, if they were
//! asked for.

use crate::pointer_scan::{To, report_leaks, sweep_for_dangling};
use crate::profile;
use crate::statistics::write_json;
use toft_core::options::Leaks;
use toft_core::os::process;
use toft_core::process::{instance, verify_as_asked};
use toft_core::stats::Resident;

/// What a line of the process's mappings begins with in a report.
const PREFIX: &[u8; 4] = b"map ";

/// Reports to the process that started the program, by `descriptor`, or else to its user.
pub fn report(descriptor: Option<i32>) {
    let Some(allocator) = instance() else { return };
    profile::at_exit(allocator);
    let options = allocator.options();
    verify_as_asked();
    if options.dangling != 0 {
        sweep_for_dangling(allocator, None);
    }
    if !options.stats && options.leaks == Leaks::Off {
        return;
    }
    let starter = match descriptor {
        // A program that closes what it does not know may have opened something else there.
        Some(descriptor) if process::is_pipe(descriptor) => Some(descriptor),
        Some(_) => return,
        None => None,
    };
    if options.leaks != Leaks::Off {
        report_leaks(allocator, starter.map_or(To::Person, To::Starter));
    }
    if starter.is_none() && !options.stats {
        return;
    }
    let descriptor = starter.unwrap_or(libc::STDERR_FILENO);
    // A filter that the program has installed may kill for opening files.
    let permit = allocator.filter().permit_unless_installed();
    if options.stats {
        let resident = permit.is_some().then(|| Resident::now(&allocator.layout()));
        write_json(allocator, descriptor, resident.as_ref());
    }
    if permit.is_some() {
        process::read_lines(c"/proc/self/maps", |line| {
            // Executable mappings are what addresses of call sites are looked up in.
            if !process::Mapping::parse(line).is_some_and(|mapping| mapping.is_executable()) {
                return;
            }
            // At once, so that the lines of two processes do not run into each other.
            let mut whole = [0u8; PREFIX.len() + 512 + 1];
            let bytes = PREFIX.iter().chain(line).chain(b"\n");
            let len = whole.iter_mut().zip(bytes).map(|(place, &byte)| *place = byte).count();
            process::write_all(descriptor, whole.get(..len).unwrap_or(&[]));
        });
    }
    process::write_all(descriptor, b"toft-end\n");
}
