//! The one word of thread-local storage: the address of the thread's heap.
//!
//! It is defined in assembly, because `thread_local!` in a shared library calls `__tls_get_addr`,
//! which is slow and may itself allocate. In the initial-exec model an access is one load of the
//! offset and one load of the word. The word begins as the address of a constant heap that owns
//! nothing, so the fast path needs no null check.

use super::Heap;
use crate::bin::ROW_WORDS;
use crate::sync::{AtomicUsize, Ordering};

/// A constant heap and one row of bins, all empty. The memory is read-only after it is loaded.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ConstantHeap {
    heap: Heap,
    bins: [AtomicUsize; ROW_WORDS],
}

impl ConstantHeap {
    const fn new() -> ConstantHeap {
        ConstantHeap { heap: Heap::empty(), bins: [const { AtomicUsize::new(0) }; ROW_WORDS] }
    }

    /// Returns the heap, with the bins after it.
    pub fn heap(&'static self) -> &'static Heap {
        let address = (&raw const *self).expose_provenance();
        debug_assert!(self.bins[0].load(Ordering::Relaxed) == 0);
        // SAFETY: the heap is the first field of a static.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }
}

/// The heap of a thread that has not allocated yet.
#[unsafe(link_section = ".data.rel.ro")]
pub static EMPTY_HEAP: ConstantHeap = ConstantHeap::new();

/// The heap of a thread whose exit has been noticed. Later calls of the thread borrow an orphan.
#[unsafe(link_section = ".data.rel.ro")]
pub static EXITED_HEAP: ConstantHeap = ConstantHeap::new();

/// The heap of a thread whose calls are all observed, so that none takes a fast path. The thread's
/// own heap is stored under the exit key.
#[unsafe(link_section = ".data.rel.ro")]
pub static CAREFUL_HEAP: ConstantHeap = ConstantHeap::new();

core::arch::global_asm!(
    ".pushsection .tdata, \"awT\", %progbits",
    ".hidden toft_current_heap",
    ".globl toft_current_heap",
    ".type toft_current_heap, %object",
    ".size toft_current_heap, 8",
    ".balign 8",
    "toft_current_heap:",
    ".quad {empty}",
    ".popsection",
    empty = sym EMPTY_HEAP,
);

/// Returns the calling thread's heap.
#[inline(always)]
pub fn current_heap() -> &'static Heap {
    let address: usize;
    // SAFETY: reads this thread's word, which always holds a heap's address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + toft_current_heap@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) address,
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: as above. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:toft_current_heap",
            "ldr {1}, [{1}, :gottprel_lo12:toft_current_heap]",
            "ldr {0}, [{0}, {1}]",
            out(reg) address,
            out(reg) _,
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: heaps live for ever.
    unsafe { &*core::ptr::with_exposed_provenance(address) }
}

/// Makes `heap` the calling thread's.
pub fn set_current_heap(heap: &'static Heap) {
    let address = heap.address();
    // SAFETY: writes this thread's word.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "mov {1}, qword ptr [rip + toft_current_heap@GOTTPOFF]",
            "mov qword ptr fs:[{1}], {0}",
            in(reg) address,
            out(reg) _,
            options(nostack, preserves_flags),
        );
    }
    // SAFETY: as above. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "mrs {1}, tpidr_el0",
            "adrp {2}, :gottprel:toft_current_heap",
            "ldr {2}, [{2}, :gottprel_lo12:toft_current_heap]",
            "str {0}, [{1}, {2}]",
            in(reg) address,
            out(reg) _,
            out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}
