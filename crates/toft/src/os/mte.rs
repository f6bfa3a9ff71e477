//! The memory tagging extension of aarch64: each 16 bytes have a tag of 4 bits, and an access
//! through a pointer with another one in its top byte faults. UNTESTED: written after the
//! architecture's manual and the kernel's documentation, compiled for aarch64, and never run,
//! because there is no such processor here.

use super::syscall::syscall;

/// The capability in `AT_HWCAP2`.
const HWCAP2_MTE: u64 = 1 << 18;
/// `PROT_MTE`.
const PROT_MTE: usize = 0x20;
/// `PR_SET_TAGGED_ADDR_CTRL`, and its argument: tagged pointers may be given to the kernel, a wrong
/// tag faults at once, and every tag but zero may be drawn.
const SET_TAGGED_ADDR_CTRL: usize = 55;
const CONTROL: usize = 1 | 1 << 1 | 0xFFFE << 3;

/// Bytes that have one tag.
const GRAIN: usize = 16;

/// Whether the processor has tags, and the kernel lets the calling thread, and those that it makes
/// from now on, use them.
pub fn begin() -> bool {
    // SAFETY: reads a table of the loader's.
    let has = unsafe { libc::getauxval(libc::AT_HWCAP2) } as u64 & HWCAP2_MTE != 0;
    // SAFETY: changes what this thread's accesses check, of which there is nothing tagged yet.
    has && unsafe { syscall(libc::SYS_prctl, [SET_TAGGED_ADDR_CTRL, CONTROL, 0, 0, 0, 0]) == 0 }
}

/// Lets pages have tags: zero at first, which fits every pointer without one. Returns true if it
/// could.
pub fn admit(address: usize, len: usize) -> bool {
    let rights = libc::PROT_READ as usize | libc::PROT_WRITE as usize | PROT_MTE;
    // SAFETY: callers own the range; a thread that could reach it still can.
    unsafe { syscall(libc::SYS_mprotect, [address, len, rights, 0, 0, 0]) == 0 }
}

/// Gives a range a tag: 0 to 15.
///
/// # Safety
/// 1. The range is mapped and was admitted, both ends are multiples of 16; no other tag is in use.
pub unsafe fn put(address: usize, len: usize, tag: u8) {
    let tagged = address | usize::from(tag & 15) << 56;
    for offset in (0..len).step_by(GRAIN) {
        // SAFETY: duty 1. The tag that is stored is that of the pointer.
        unsafe {
            core::arch::asm!(
                ".arch_extension memtag",
                "stg {place}, [{place}]",
                place = in(reg) tagged + offset,
                options(nostack, preserves_flags),
            );
        }
    }
}
