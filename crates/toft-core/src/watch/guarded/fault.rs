//! The handler of SIGSEGV, if `TOFT_GUARDED` is on. It reports a bad access to the pool of guarded
//! blocks. It passes any other fault to the signal's earlier handler.
//!
//! The program may replace Toft's handler at any time. So each sampled block installs Toft's
//! handler again, and records the program's handler, which gets the faults outside the pool. If the
//! program's handler calls Toft's, which it has found installed, Toft calls the handler that was
//! the first of all. The stack tells the two cases apart: only a handler that the kernel calls
//! begins at the kernel's frame.

use crate::allocator::{allocator, inside};
use crate::guarded::{Access, Guarded, Slot};
use crate::os::seccomp::Calls;
use crate::os::{process, syscall};
use crate::report::{Call, Line, Stack, head};
use crate::watch::reports::facts::site_of;
use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr::{null, null_mut};

/// The handler. It passes its stack pointer on to `fault`.
#[unsafe(naked)]
unsafe extern "C" fn on_fault(_signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov rcx, rsp", "jmp {}", sym fault);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x3, sp", "b {}", sym fault);
}

/// Returns true if the kernel has called the handler. The kernel's frame then begins where the
/// handler's stack does.
fn is_from_kernel(info: *mut libc::siginfo_t, context: *mut c_void, stack: usize) -> bool {
    // On x86-64 a return address and the context come first, elsewhere the signal information.
    if cfg!(target_arch = "x86_64") { context.addr() == stack + 8 } else { info.addr() == stack }
}

fn current() -> libc::sigaction {
    // SAFETY: a structure of integers; sigaction writes to it alone.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(libc::SIGSEGV, null(), &raw mut action);
        action
    }
}

fn ours() -> usize {
    on_fault as *const () as usize
}

/// Installs the handler for the first time. It is installed already if the C library has allocated
/// during the start, as musl's `pthread_atfork` does.
pub(crate) fn begin(guarded: &Guarded) {
    stay_in_place(guarded);
    let (handler, flags) = guarded.chained(false);
    guarded.chain(handler, flags, true);
}

/// Installs the handler again, if the program has replaced it.
pub(crate) fn stay_in_place(guarded: &Guarded) {
    let before = current();
    if before.sa_sigaction != ours() {
        guarded.chain(before.sa_sigaction, before.sa_flags, false);
        put(before);
    }
}

/// Installs the handler, with the mask and the stack that the handler before it requested.
fn put(mut action: libc::sigaction) {
    action.sa_sigaction = ours();
    action.sa_flags = (action.sa_flags | libc::SA_SIGINFO) & !libc::SA_RESETHAND;
    // SAFETY: the handler lives as long as the process, and does what a handler may.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, null_mut()) };
}

/// Reports a bad access to the pool, or calls the handler that is next.
///
/// # Safety
/// 1. Called by the kernel, or with what the kernel has given another handler.
unsafe extern "C" fn fault(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    stack: usize,
) {
    // SAFETY: duty 1.
    let address = unsafe { (*info).si_addr() }.addr();
    // SAFETY: duty 1.
    let sent = unsafe { (*info).si_code } <= 0;
    // The kernel starts a handler with default protection-key rights, and a report changes the
    // tables.
    if !sent && inside(|| is_named(address, context)) {
        return;
    }
    let first = !is_from_kernel(info, context, stack);
    let (handler, flags) = allocator().guarded.chained(first);
    match handler {
        libc::SIG_IGN if sent => {}
        libc::SIG_DFL | libc::SIG_IGN => end_by_default(signal, sent),
        _ if flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the program has installed this function as a handler of this kind.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { core::mem::transmute(handler) };
            handler(signal, info, context);
        }
        _ => {
            // SAFETY: as above.
            let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Does what the kernel does without a handler. After the handler returns, the instruction faults
/// again, or a signal that was sent arrives again.
pub(crate) fn end_by_default(signal: c_int, sent: bool) {
    // SAFETY: a structure of integers, of which zero is the default.
    unsafe {
        let action: libc::sigaction = zeroed();
        libc::sigaction(signal, &raw const action, null_mut());
    }
    if sent {
        let args = [process::pid(), process::thread_number() as usize, signal as usize, 0, 0, 0];
        // SAFETY: a signal to this thread.
        unsafe { syscall(libc::SYS_tgkill, args) };
    }
}

/// Reports a bad access to the pool. Returns true if the fault is dealt with, so that the program
/// may go on.
fn is_named(address: usize, context: *mut c_void) -> bool {
    let allocator = allocator();
    let Some(access) = allocator.guarded.access(address) else { return false };
    let (what, far, words, slot) = match access {
        Access::AfterFree(slot) => {
            let inside = address.wrapping_sub(slot.begin());
            if inside < slot.bytes() {
                ("use after free", inside, " bytes inside the ", slot)
            } else if address < slot.begin() {
                ("use after free", slot.begin() - address, " bytes before the ", slot)
            } else {
                let beyond = inside - slot.bytes() + 1;
                ("use after free", beyond, " bytes beyond the ", slot)
            }
        }
        Access::Beyond(slot, far) => ("heap overflow", far, " bytes beyond the ", slot),
        Access::Before(slot, far) => ("heap underflow", far, " bytes before the ", slot),
        Access::Within(slot) if allocator.guarded.is_shut_out(slot, address) => {
            return is_uninitialized_read(slot, address, context);
        }
        // The page is accessible again if another thread's fault on it was handled meanwhile.
        Access::Within(slot) if slot.is_watched() => {
            return process::peek(address, &mut [0]) == 1;
        }
        Access::Within(_) | Access::Wild => return false,
    };
    let at = Registers::of(context);
    let mut line = Line::new(allocator.hide_addresses);
    head(&mut line, what, if at.writes { Call::Write } else { Call::Read }, address);
    line.subject.block = Some(slot.begin());
    line.number(far as u64).text(words).number(slot.bytes() as u64);
    line.text("-byte block at ").address(slot.begin()).text(" (guarded block");
    let live = slot.condition() == crate::guarded::SlotCondition::Live;
    line.text(if live { ", live" } else { ", free" });
    line.text("; call site ").address(site_of(slot).address()).text(")");
    let stack = allocator
        .filter()
        .permit(allocator.os(), Calls::REPORT, false)
        .map(|_permit| Stack::of_context(at.instruction, at.stack, at.frame));
    allocator.reports().conclude_with(&mut line, stack.as_ref());
    // If the program goes on, it may use the page from now on.
    allocator.guarded.give_in(address);
    true
}

/// Handles a fault on a page that the watcher made inaccessible because a read would be before the
/// first write. Reports a read. A write goes on.
fn is_uninitialized_read(slot: &Slot, address: usize, context: *mut c_void) -> bool {
    let allocator = allocator();
    let at = Registers::of(context);
    if !at.writes {
        let permit = allocator.filter().permit(allocator.os(), Calls::REPORT, false);
        let stack = permit.map(|_| Stack::of_context(at.instruction, at.stack, at.frame));
        allocator.uninitialized_reads().report_uninitialized(
            slot,
            Call::Read,
            address,
            None,
            stack.as_ref(),
        );
    }
    allocator.guarded.let_in(slot);
    true
}

/// The program's registers at the moment when a signal interrupted it.
pub(crate) struct Registers {
    pub(crate) instruction: usize,
    pub(crate) stack: usize,
    pub(crate) frame: usize,
    pub(crate) writes: bool,
}

impl Registers {
    pub(crate) fn of(context: *mut c_void) -> Registers {
        let context: *const libc::ucontext_t = context.cast_const().cast();
        // SAFETY: the kernel gives this context to a handler that requests it.
        let machine = unsafe { &(*context).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        {
            let register = |number: c_int| {
                machine.gregs.get(number as usize).map_or(0, |&value| value as usize)
            };
            // Bit 1 of the processor's error code is set for a write.
            let writes = register(libc::REG_ERR) & 2 != 0;
            Registers {
                instruction: register(libc::REG_RIP),
                stack: register(libc::REG_RSP),
                frame: register(libc::REG_RBP),
                writes,
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            let instruction = machine.pc as usize;
            let mut code = [0u8; 4];
            // SAFETY: the processor has just read this instruction.
            unsafe {
                core::ptr::copy_nonoverlapping(machine.pc as *const u8, code.as_mut_ptr(), 4)
            };
            Registers {
                instruction,
                stack: machine.sp as usize,
                frame: machine.regs.get(29).map_or(0, |&value| value as usize),
                writes: stores(u32::from_le_bytes(code)),
            }
        }
    }
}

/// Returns true if an instruction of aarch64 that accesses memory writes to it. Atomic operations,
/// which read and write, count as writes.
#[cfg(any(test, target_arch = "aarch64"))]
fn stores(code: u32) -> bool {
    let bits = |low: u32, count: u32| code >> low & ((1 << count) - 1);
    let vector = bits(26, 1) == 1;
    match bits(27, 3) {
        // One register; the first arm has the atomic operations. For vectors the lower of two bits
        // is zero in a store. For others both bits are zero in a store, and the rest are loads.
        0b111 if bits(24, 1) == 0 && bits(21, 1) == 1 && bits(10, 2) == 0 && !vector => true,
        0b111 if vector => bits(22, 1) == 0,
        0b111 => bits(22, 2) == 0,
        // Accesses relative to the instruction only read.
        0b011 => false,
        // Pairs, structures of vectors, exclusive and ordered accesses: one bit is zero in a store.
        0b101 | 0b001 => bits(22, 1) == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::stores;

    /// The words are output of the assembler.
    #[test]
    fn stores_are_told_from_loads() {
        for (name, code, stored) in [
            ("strb w1, [x0]", 0x3900_0001, true),
            ("ldrb w1, [x0]", 0x3940_0001, false),
            ("ldrsb x1, [x0]", 0x3980_0001, false),
            ("ldrsb w1, [x0]", 0x39c0_0001, false),
            ("str x1, [x0, #8]", 0xf900_0401, true),
            ("ldr x1, [x0, #8]", 0xf940_0401, false),
            ("ldrsw x1, [x0]", 0xb980_0001, false),
            ("stur x1, [x0, #-1]", 0xf81f_f001, true),
            ("ldur x1, [x0, #-1]", 0xf85f_f001, false),
            ("str x1, [x0, x2]", 0xf822_6801, true),
            ("ldr x1, [x0, x2]", 0xf862_6801, false),
            ("str q1, [x0]", 0x3d80_0001, true),
            ("ldr q1, [x0]", 0x3dc0_0001, false),
            ("stp x1, x2, [x0]", 0xa900_0801, true),
            ("ldp x1, x2, [x0]", 0xa940_0801, false),
            ("stp q1, q2, [x0]", 0xad00_0801, true),
            ("ldp q1, q2, [x0]", 0xad40_0801, false),
            ("stxr w3, x1, [x0]", 0xc803_7c01, true),
            ("ldxr x1, [x0]", 0xc85f_7c01, false),
            ("stlr x1, [x0]", 0xc89f_fc01, true),
            ("ldar x1, [x0]", 0xc8df_fc01, false),
            ("ldadd x1, x2, [x0]", 0xf821_0002, true),
            ("st1 {v1.16b}, [x0]", 0x4c00_7001, true),
            ("ld1 {v1.16b}, [x0]", 0x4c40_7001, false),
        ] {
            assert_eq!(stores(code), stored, "{name}");
        }
    }
}
