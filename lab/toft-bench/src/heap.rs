//! What a workload allocates from.
//!
//! Workloads are generic over [`Heap`], so that one source measures the process's `malloc`
//! ([`Libc`], whichever library was preloaded) and can be audited on [`Probe`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// An allocator under test; by default the `malloc` of this process. The methods are inlined into
/// the workload, so each place that calls them is a separate call site.
pub trait Heap: Copy + Send + Sync + 'static {
    /// `malloc`.
    #[inline(always)]
    fn malloc(self, size: usize) -> *mut u8 {
        // SAFETY: malloc may be called with any size.
        unsafe { libc::malloc(size) }.cast()
    }
    /// `calloc` of one object.
    #[inline(always)]
    fn calloc(self, size: usize) -> *mut u8 {
        // SAFETY: calloc may be called with any size.
        unsafe { libc::calloc(1, size) }.cast()
    }
    /// `realloc`.
    ///
    /// # Safety
    /// As C's `realloc`: `block` is null or a live block of this heap.
    #[inline(always)]
    unsafe fn realloc(self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps realloc's contract.
        unsafe { libc::realloc(block.cast(), size) }.cast()
    }
    /// `aligned_alloc`.
    #[inline(always)]
    fn aligned(self, align: usize, size: usize) -> *mut u8 {
        // SAFETY: aligned_alloc may be called with any arguments.
        unsafe { libc::aligned_alloc(align, size) }.cast()
    }
    /// `free`.
    ///
    /// # Safety
    /// As C's `free`: `block` is null or a live block of this heap.
    #[inline(always)]
    unsafe fn free(self, block: *mut u8) {
        // SAFETY: the caller keeps free's contract.
        unsafe { libc::free(block.cast()) }
    }
    /// Gives back to the system what it can, at once.
    fn purge(self) {
        crate::purge::purge();
    }
    /// The address of a C function of a size that allocates from this heap, for code that is made
    /// while the program runs. It gets the heap's address as a second argument.
    fn entry(self) -> usize {
        entry::<Self> as *const () as usize
    }
}

/// `malloc` of a heap for callers that know only addresses.
///
/// # Safety
/// `heap` is the address of a heap.
unsafe extern "C" fn entry<H: Heap>(size: usize, heap: *const H) -> *mut u8 {
    // SAFETY: as the caller says.
    unsafe { *heap }.malloc(size)
}

/// The `malloc` of this process.
#[derive(Clone, Copy, Debug)]
pub struct Libc;

impl Heap for Libc {
    /// `malloc` itself, so that the code which calls it is its call site. It does not see the
    /// second argument.
    fn entry(self) -> usize {
        libc::malloc as *const () as usize
    }
}

/// Allocates and touches the first and the last byte. Aborts when there is no memory, since a
/// failed allocation would be the fastest of all.
#[inline(always)]
pub(crate) fn take<H: Heap>(heap: H, size: usize) -> *mut u8 {
    touched(heap.malloc(size), size)
}

/// Allocates and writes every byte, one after the other, as published benchmarks do.
#[inline(always)]
pub(crate) fn take_filled<H: Heap>(heap: H, size: usize) -> *mut u8 {
    filled(take(heap, size), size)
}

/// Writes every byte of a fresh block.
#[inline(always)]
pub(crate) fn filled(block: *mut u8, size: usize) -> *mut u8 {
    for at in 0..size {
        // SAFETY: the caller's block is live and `size` bytes long.
        unsafe { block.add(at).write(at as u8) };
    }
    launder(block)
}

/// Touches the first and the last byte of a fresh block; see [`take`].
#[inline(always)]
pub(crate) fn touched(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        out_of_memory(size);
    }
    // SAFETY: the block is live and `size` bytes long, and size is at least 1 in every workload.
    unsafe {
        block.write_volatile(1);
        block.add(size - 1).write_volatile(1);
    }
    launder(block)
}

/// Returns `block` as a pointer of which the compiler knows nothing. The compiler can neither join
/// `malloc` and `free` into nothing nor reason about the contents. Unlike with `black_box` the
/// pointer stays in a register: a trip through memory would lengthen the chain that is measured.
#[inline(always)]
pub(crate) fn launder(mut block: *mut u8) -> *mut u8 {
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) block, options(nostack, preserves_flags)) };
    block
}

#[cold]
#[inline(never)]
fn out_of_memory(size: usize) -> ! {
    eprintln!("toft-bench: no memory for a block of {size} bytes");
    std::process::abort()
}

/// What every [`Probe`] of this process saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Blocks handed out.
    pub allocations: u64,
    /// Blocks given back.
    pub frees: u64,
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);

/// The process's `malloc`, counted, and slowed on request: for the tests that a workload frees
/// what it allocates, and that a slower allocator is seen to be slower.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    delay: Duration,
}

impl Probe {
    /// A probe that spends `delay_ns` nanoseconds more on every allocation.
    #[must_use]
    pub fn new(delay_ns: u64) -> Self {
        Self { delay: Duration::from_nanos(delay_ns) }
    }

    /// The counts so far, of all probes of this process.
    #[must_use]
    pub fn seen() -> Seen {
        Seen { allocations: ALLOCATIONS.load(Relaxed), frees: FREES.load(Relaxed) }
    }

    fn note(self, block: *mut u8) -> *mut u8 {
        if !block.is_null() {
            ALLOCATIONS.fetch_add(1, Relaxed);
        }
        if !self.delay.is_zero() {
            let start = Instant::now();
            while start.elapsed() < self.delay {
                std::hint::spin_loop();
            }
        }
        block
    }
}

impl Heap for Probe {
    fn malloc(self, size: usize) -> *mut u8 {
        self.note(Libc.malloc(size))
    }
    fn calloc(self, size: usize) -> *mut u8 {
        self.note(Libc.calloc(size))
    }
    unsafe fn realloc(self, block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() {
            return self.malloc(size);
        }
        // SAFETY: the caller keeps realloc's contract.
        unsafe { Libc.realloc(block, size) }
    }
    fn aligned(self, align: usize, size: usize) -> *mut u8 {
        self.note(Libc.aligned(align, size))
    }
    unsafe fn free(self, block: *mut u8) {
        if !block.is_null() {
            FREES.fetch_add(1, Relaxed);
        }
        // SAFETY: the caller keeps free's contract.
        unsafe { Libc.free(block) }
    }
}
