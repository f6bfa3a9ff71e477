//! The handler of SIGSEGV where `TOFT_PKEY` is on: a write to the allocator's tables from outside
//! is named. Any other fault ends the process as it would without a handler. A program that sets
//! its own has the fault, without the name.

use crate::allocator::{allocator, inside};
use crate::os::seccomp::Calls;
use crate::report::{Call, Line, Stack, head};
use crate::watch::guarded::fault::{Registers, end_by_default};
use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr::{null, null_mut};

/// Puts the handler in place, unless the program has set one before.
pub(crate) fn begin() {
    // SAFETY: structures of integers; the handler lives as long as the process, and does what a
    // handler may.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(libc::SIGSEGV, null(), &raw mut action);
        if action.sa_sigaction == libc::SIG_DFL {
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &raw const action, null_mut());
        }
    }
}

/// # Safety
/// 1. Called by the kernel.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: duty 1.
    let (address, sent) = unsafe { ((*info).si_addr().addr(), (*info).si_code <= 0) };
    if !sent && allocator().os().is_in_tables(address) {
        inside(|| name(address, context));
    }
    end_by_default(signal, sent);
}

fn name(address: usize, context: *mut c_void) {
    let allocator = allocator();
    let at = Registers::of(context);
    let mut line = Line::new(allocator.hide_addresses);
    head(&mut line, "stray access", if at.writes { Call::Write } else { Call::Read }, address);
    line.text("the allocator's own tables are there");
    let stack = allocator
        .filter()
        .permit(allocator.os(), Calls::REPORT, false)
        .map(|_permit| Stack::of_context(at.instruction, at.stack, at.frame));
    allocator.reports().conclude_with(&mut line, stack.as_ref());
}
