//! The one word of thread-local storage: which record this thread has.
//!
//! It is defined in assembly, because `thread_local!` in a shared library may go through
//! `__tls_get_addr`. The library is always loaded at the start, so its storage is at a fixed
//! distance from the thread's base.

std::arch::global_asm!(
    ".pushsection .tbss, \"awT\", %nobits",
    ".hidden toft_ar_current",
    ".globl toft_ar_current",
    ".type toft_ar_current, %object",
    ".size toft_ar_current, 8",
    ".balign 8",
    "toft_ar_current: .zero 8",
    ".popsection",
);

/// The thread has made no call yet.
pub const FRESH: usize = 0;
/// The thread's record was taken back.
pub const EXITED: usize = 1;

/// The place of this thread's word.
#[inline(always)]
fn place() -> *mut usize {
    let place: *mut usize;
    // SAFETY: computes an address from the thread's base.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "mov {0}, qword ptr fs:[0]",
            "add {0}, qword ptr [rip + toft_ar_current@GOTTPOFF]",
            out(reg) place, options(pure, nomem, nostack),
        );
    }
    // SAFETY: as above. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:toft_ar_current",
            "ldr {1}, [{1}, :gottprel_lo12:toft_ar_current]",
            "add {0}, {0}, {1}",
            out(reg) place, out(reg) _, options(pure, nomem, nostack),
        );
    }
    place
}

/// This thread's word: one of the constants, or the address of its [`crate::thread::Thread`].
#[inline(always)]
pub fn get() -> usize {
    // SAFETY: the word of this thread, which no other thread uses.
    unsafe { place().read() }
}

/// Sets this thread's word.
pub fn set(word: usize) {
    // SAFETY: as in `get`.
    unsafe { place().write(word) };
}
