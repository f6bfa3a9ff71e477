//! Static probes (USDT), by the contract of OpenTelemetry's memory profiler: provider `otel_memory`
//! (docs/probes.md).
//!
//! ```text
//! .note.stapsdt:  otel_memory  alloc  --> the probe's nop    arguments "8@%rdi 8@%rsi 8@%rdx"
//!                                    \--> its semaphore, in .probes
//! ```
//!
//! A tracer finds the notes in the file, raises the semaphore in the process and puts a breakpoint
//! on the nop. While the semaphore is zero no thread gets there: a caller checks it first, and
//! never on a fast path. The library raises it in the same way, where it keeps stacks of sampled
//! blocks itself (`TOFT_SAMPLE`). Each probe is a function of one nop, so that its arguments are
//! where the notes say and where the calling convention has them, too: there are tracers that read
//! only one of the two.
//!
//! In the default build. The hardened one has other states of slots, and no probes.

pub use there::{
    allocated, ask_for_blocks, freed, mapped, unmapped, wants_allocations, wants_frees,
    wants_mappings, wants_unmappings,
};

/// Whether this build has probes.
pub const THERE: bool = cfg!(not(feature = "hardened"));

#[cfg(not(feature = "hardened"))]
mod there {
    use crate::sync::AtomicU16;
    use crate::sync::Ordering::Relaxed;

    /// The number of tracers that follow the probe. Written by tracers, from outside of the
    /// process; read by callers of the probe, which need not see a change at once.
    #[derive(Debug)]
    #[repr(transparent)]
    struct Semaphore(AtomicU16);

    /// `probe!(function(arguments), asked by, "name", SEMAPHORE, "arguments on x86-64", "and on
    /// aarch64")`.
    macro_rules! probe {
        (
            $(#[$doc:meta])*
            $function:ident($($argument:ident),*),
            $wants:ident, $name:literal, $semaphore:ident, $x86:literal, $arm:literal
        ) => {
            #[unsafe(link_section = ".probes")]
            static $semaphore: Semaphore = Semaphore(AtomicU16::new(0));

            #[doc = concat!("Whether somebody wants to know of `", $name, "`.")]
            #[inline(always)]
            pub fn $wants() -> bool {
                $semaphore.0.load(Relaxed) != 0
            }

            $(#[$doc])*
            #[unsafe(naked)]
            pub extern "C" fn $function($($argument: usize),*) {
                core::arch::naked_asm!(
                    // For an unwinder, which begins at the nop.
                    ".cfi_startproc",
                    "990: nop",
                    "ret",
                    ".cfi_endproc",
                    ".pushsection .note.stapsdt, \"\", \"note\"",
                    ".balign 4",
                    ".4byte 992f - 991f, 994f - 993f, 3",
                    "991: .asciz \"stapsdt\"",
                    "992: .balign 4",
                    "993: .8byte 990b",
                    ".8byte _.stapsdt.base",
                    ".8byte {semaphore}",
                    ".asciz \"otel_memory\"",
                    concat!(".asciz \"", $name, "\""),
                    #[cfg(target_arch = "x86_64")]
                    concat!(".asciz \"", $x86, "\""),
                    #[cfg(target_arch = "aarch64")]
                    concat!(".asciz \"", $arm, "\""),
                    "994: .balign 4",
                    ".popsection",
                    // Where this lies tells how far a file's addresses were moved since the notes
                    // were written.
                    ".ifndef _.stapsdt.base",
                    ".pushsection .stapsdt.base, \"aGR\", \"progbits\", .stapsdt.base, comdat",
                    ".weak _.stapsdt.base",
                    ".hidden _.stapsdt.base",
                    "_.stapsdt.base: .space 1",
                    ".size _.stapsdt.base, 1",
                    ".popsection",
                    ".endif",
                    semaphore = sym $semaphore,
                );
            }
        };
    }

    /// Lets the library itself follow blocks, as a tracer would. Once, at the start.
    pub fn ask_for_blocks() {
        ALLOC.0.fetch_add(1, Relaxed);
        FREE.0.fetch_add(1, Relaxed);
    }

    probe!(
        /// A block was allocated that was chosen, with its bytes, and how many allocated bytes it
        /// stands for.
        allocated(_address, _size, _weight),
        wants_allocations, "alloc", ALLOC, "8@%rdi 8@%rsi 8@%rdx", "8@x0 8@x1 8@x2"
    );
    probe!(
        /// A block that `allocated` has told of is about to be freed.
        freed(_address),
        wants_frees, "free", FREE, "8@%rdi", "8@x0"
    );
    probe!(
        /// Addresses were mapped.
        mapped(_address, _size),
        wants_mappings, "mmap", MMAP, "8@%rdi 8@%rsi", "8@x0 8@x1"
    );
    probe!(
        /// Addresses were unmapped.
        unmapped(_address, _size),
        wants_unmappings, "munmap", MUNMAP, "8@%rdi 8@%rsi", "8@x0 8@x1"
    );
}

/// Where there are no probes nothing is followed.
#[cfg(feature = "hardened")]
#[allow(missing_docs)]
mod there {
    pub fn ask_for_blocks() {}

    macro_rules! nobody_wants {
        ($($wants:ident, $function:ident($($argument:ident),*);)*) => { $(
            #[inline(always)]
            pub fn $wants() -> bool {
                false
            }
            #[inline(always)]
            pub fn $function($($argument: usize),*) {}
        )* };
    }
    nobody_wants! {
        wants_allocations, allocated(_address, _size, _weight);
        wants_frees, freed(_address);
        wants_mappings, mapped(_address, _size);
        wants_unmappings, unmapped(_address, _size);
    }
}
