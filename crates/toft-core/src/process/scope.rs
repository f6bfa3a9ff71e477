//! What surrounds the program's run: saying that the library is in place, keeping it out of
//! children, and the statistics at the end.

use crate::allocator::Allocator;
use crate::hook::process_hook;
use crate::options::{Leaks, Options};
use crate::os::{Linux, process};
use crate::process::environment::hide_from_children;
use crate::process::start;
use crate::process::whole_heap::{self, instance};
use crate::report::Line;

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
    if allocator.options().profile.is_some() {
        (process_hook().starts)();
    }
}

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
    exits(|_| None);
}

/// When the program ends: what the options ask for then.
pub fn at_exit() {
    exits(|options| options.report_descriptor);
}

/// Lets the crates above do what the options ask for. Most programs have nothing to do, and no page
/// of those crates' code comes into memory.
fn exits(descriptor: impl FnOnce(&Options) -> Option<i32>) {
    if let Some(instance) = instance()
        && instance.options().has_work_at_exit()
    {
        (process_hook().exits)(descriptor(instance.options()));
    }
}

/// Returns true if the heap is verified when the program ends.
pub fn verifies_at_exit() -> bool {
    instance().is_some_and(|instance| instance.options().verifies_at_exit())
}

/// Verifies the heap when the program ends, also by `quick_exit`, if that was asked for, and as it
/// was.
pub fn verify_as_asked() {
    let Some(instance) = instance() else { return };
    let options = instance.options();
    if options.verify != 0 {
        whole_heap::verify();
    } else if options.verify_exit {
        whole_heap::verify_at_exit();
    }
}
