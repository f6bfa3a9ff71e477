//! What surrounds the program's run: saying that the library is in place, keeping it out of
//! children, and the statistics at the end.

use crate::allocator::Allocator;
use crate::options::Leaks;
use crate::os::{Linux, process};
use crate::process::environment::hide_from_children;
use crate::process::start;
use crate::process::whole_heap::{self, instance};
use crate::report::Line;
use crate::stats::Resident;
use crate::watch::pointer_scan::leaks::To;
use crate::watch::profile;

/// When the library has been loaded: notifies the process that asked. Restores the environment for
/// children, as it would be without us, where that was requested.
///
/// # Safety
/// 1. `argc` and `argv` are what the kernel put on the stack, as libc hands them to constructors.
/// 2. No other thread uses the environment meanwhile.
pub unsafe fn at_start(argc: usize, argv: *mut *mut u8) {
    let Some(allocator) = instance() else { return };
    let options = allocator.options();
    if let Some(descriptor) = options.report_descriptor {
        let mut line = Line::new(false);
        line.text("toft-ready ").text(env!("CARGO_PKG_VERSION")).text(" ");
        line.number(process::pid() as u64);
        process::write_all(descriptor, line.end());
        if !options.stats && options.leaks == Leaks::Off {
            process::close(descriptor);
        } else if options.program_only {
            process::close_on_exec(descriptor);
        }
    }
    if options.program_only {
        // SAFETY: (1), (2) the caller's.
        unsafe { hide_from_children(argc, argv) };
    }
    begin(allocator);
}

/// What the program's begin has in common, whether the library is preloaded or linked.
fn begin(allocator: &Allocator<Linux>) {
    allocator.mapper().apply_at_start();
    profile::at_start(allocator);
}

/// What a line of the process's mappings begins with in a report.
const PREFIX: &[u8; 4] = b"map ";

/// When a program that has the allocator for its Rust code is about to begin; `code` is an address
/// of its code. Nothing is said to `toft run`, and nothing hidden from children: `LD_PRELOAD` and
/// the pipe are the preloaded library's.
pub fn linked_at_start(code: usize) {
    start::is_rust();
    if let Some(allocator) = instance() {
        allocator.call_sites().read_program(code);
        begin(allocator);
    }
}

/// When such a program ends: as [`at_exit`], on stderr.
pub fn linked_at_exit() {
    if let Some(instance) = instance() {
        report_at_exit(instance, None);
    }
}

/// When the program ends: a profile, leaks and statistics, if they were asked for.
pub fn at_exit() {
    if let Some(instance) = instance() {
        report_at_exit(instance, instance.options().report_descriptor);
    }
}

/// Returns true if the heap is verified when the program ends.
pub fn verifies_at_exit() -> bool {
    instance().is_some_and(|instance| {
        let options = instance.options();
        options.verify != 0 || options.verify_exit
    })
}

/// When the program ends by `quick_exit`: verifies the heap, if that was asked for.
pub fn at_quick_exit() {
    if let Some(instance) = instance() {
        verify_at_exit(instance);
    }
}

fn verify_at_exit(instance: &Allocator<Linux>) {
    let options = instance.options();
    if options.verify != 0 {
        whole_heap::verify();
    } else if options.verify_exit {
        whole_heap::verify_at_exit();
    }
}

/// Notifies the process that started the program, by a descriptor, or else its user.
fn report_at_exit(instance: &Allocator<Linux>, descriptor: Option<i32>) {
    profile::at_exit(instance);
    let options = instance.options();
    verify_at_exit(instance);
    if options.dangling != 0 {
        instance.pointer_scan().sweep_for_dangling(None);
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
        instance.pointer_scan().report_leaks(starter.map_or(To::Person, To::Starter));
    }
    if starter.is_none() && !options.stats {
        return;
    }
    let descriptor = starter.unwrap_or(libc::STDERR_FILENO);
    // A filter that the program has installed may kill for opening files.
    let permit = instance.filter().permit_unless_installed();
    if options.stats {
        let resident = permit.is_some().then(|| Resident::now(&instance.layout()));
        crate::stats::write_json(instance, descriptor, resident.as_ref());
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
