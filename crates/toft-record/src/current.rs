//! The one word of thread-local storage: where this thread records.
//!
//! It is defined in assembly, because `thread_local!` in a shared library may go through
//! `__tls_get_addr`, which may itself allocate. The library is always loaded at the start, so its
//! storage is at a fixed distance from the thread's base.

std::arch::global_asm!(
    ".pushsection .tbss, \"awT\", %nobits",
    ".hidden toft_record_current",
    ".globl toft_record_current",
    ".type toft_record_current, %object",
    ".size toft_record_current, 8",
    ".balign 8",
    "toft_record_current:",
    ".zero 8",
    ".popsection",
);

/// The thread has made no call yet.
pub const FRESH: usize = 0;
/// The thread is inside of the recorder.
pub const BUSY: usize = 1;
/// The thread's end was noticed, or it could get no buffer: it shares one with others like it.
pub const SHARED: usize = 2;

/// This thread's word: one of the constants, or the address of its [`crate::thread::Recording`].
#[inline(always)]
pub fn get() -> usize {
    let word: usize;
    // SAFETY: reads this thread's word.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "mov {0}, qword ptr [rip + toft_record_current@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) word,
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: as above. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:toft_record_current",
            "ldr {1}, [{1}, :gottprel_lo12:toft_record_current]",
            "ldr {0}, [{0}, {1}]",
            out(reg) word,
            out(reg) _,
            options(nostack, preserves_flags, readonly),
        );
    }
    word
}

/// Sets this thread's word.
#[inline(always)]
pub fn set(word: usize) {
    // SAFETY: writes this thread's word.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "mov {1}, qword ptr [rip + toft_record_current@GOTTPOFF]",
            "mov qword ptr fs:[{1}], {0}",
            in(reg) word,
            out(reg) _,
            options(nostack, preserves_flags),
        );
    }
    // SAFETY: as above. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "mrs {1}, tpidr_el0",
            "adrp {2}, :gottprel:toft_record_current",
            "ldr {2}, [{2}, :gottprel_lo12:toft_record_current]",
            "str {0}, [{1}, {2}]",
            in(reg) word,
            out(reg) _,
            out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}
