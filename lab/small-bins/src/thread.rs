//! The cache of the calling thread. A thread has one, of the allocator that it called last: a
//! program uses one allocator. The thread gives the blocks in it back when it exits.

use crate::cache::Cache;
use std::ffi::c_void;
use std::sync::OnceLock;

/// The owner of a cache of no allocator.
const NO_OWNER: usize = 0;
/// The owner of a cache that stays empty: the thread exits, or would not be seen to exit.
pub(crate) const NO_CACHE: usize = 1;

/// What a thread has. All zeros is a thread before its first call.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Thread {
    /// The address of the allocator, or one of the constants. Only this thread.
    pub(crate) owner: usize,
    /// Gives the cache back to the owner. Only this thread.
    pub(crate) leave: Option<unsafe fn(&mut Thread)>,
    /// The next thread whose cache is of the same owner. The holder of the owner's lock.
    pub(crate) next: *mut Thread,
    /// This thread; in a forked process, the thread that has forked.
    pub(crate) cache: Cache,
}

// In assembly, because `thread_local!` in a shared library calls `__tls_get_addr`.
std::arch::global_asm!(
    ".pushsection .tbss, \"awT\", %nobits",
    ".hidden toft_small_bins_thread",
    ".globl toft_small_bins_thread",
    ".type toft_small_bins_thread, %object",
    ".size toft_small_bins_thread, {size}",
    ".balign 16",
    "toft_small_bins_thread: .zero {size}",
    ".popsection",
    size = const size_of::<Thread>(),
);

/// The place of the calling thread's value.
#[inline(always)]
pub(crate) fn current() -> *mut Thread {
    let place: *mut Thread;
    // SAFETY: computes an address from the thread's base.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "mov {0}, qword ptr fs:[0]",
            "add {0}, qword ptr [rip + toft_small_bins_thread@GOTTPOFF]",
            out(reg) place, options(pure, nomem, nostack),
        );
    }
    // SAFETY: as above. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:toft_small_bins_thread",
            "ldr {1}, [{1}, :gottprel_lo12:toft_small_bins_thread]",
            "add {0}, {0}, {1}",
            out(reg) place, out(reg) _, options(pure, nomem, nostack),
        );
    }
    place
}

/// Takes a thread's cache from its owner. Returns false if the thread would not call [`exited`]
/// when it exits. Until the cache has an owner again, no call uses it.
///
/// # Safety
/// 1. `thread` is that of the calling thread, which is in no call with its cache.
pub(crate) unsafe fn take(thread: *mut Thread) -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    // SAFETY: (1). There is no reference to the thread while the C library may call malloc.
    unsafe {
        leave(&mut *thread);
        (*thread).owner = NO_CACHE;
        let key = KEY.get_or_init(|| {
            let mut key = 0;
            (libc::pthread_key_create(&raw mut key, Some(exited)) == 0).then_some(key)
        });
        key.is_some_and(|key| libc::pthread_setspecific(key, thread.cast()) == 0)
    }
}

/// The destructor of the key.
unsafe extern "C" fn exited(thread: *mut c_void) {
    // SAFETY: the value of this thread, which is in no other call.
    unsafe {
        leave(&mut *thread.cast());
        (*thread.cast::<Thread>()).owner = NO_CACHE;
    }
}

/// Gives a thread's cache back to its owner.
///
/// # Safety
/// 1. `thread` is that of the calling thread, which is in no call with its cache.
pub(crate) unsafe fn leave(thread: &mut Thread) {
    if let Some(leave) = thread.leave.take() {
        // SAFETY: (1).
        unsafe { leave(thread) };
    }
    thread.owner = NO_OWNER;
}
