//! Static probes (USDT), by the contract of OpenTelemetry's memory profiler: provider `otel_memory`
//! (docs/probes.md).
//!
//! ```text
//! .note.stapsdt:  otel_memory  alloc  --> the probe's nop    arguments "8@%rdi 8@%rsi 8@%rdx"
//!                                    \--> its semaphore, in .probes
//! ```
//!
//! A tracer finds the notes in the file. It raises the semaphore in the process, and puts a
//! breakpoint on the nop. While the semaphore is zero, no thread reaches the nop, because each
//! caller checks the semaphore first. No caller is on a fast path. The library raises the semaphore
//! in the same way if it keeps stacks of sampled blocks itself (`TOFT_SAMPLE`). Each probe is a
//! function of one nop. Its arguments are therefore both where the notes tell and where the calling
//! convention puts them. Some tracers read only one of the two.
//!
//! Only the default build has probes. The secure build has other slot states, and no probes.

pub use there::{
    allocated, ask_for_blocks, freed, mapped, unmapped, wants_allocations, wants_frees,
    wants_mappings, wants_unmappings,
};

/// True if this build has probes.
pub const THERE: bool = cfg!(not(feature = "secure-light"));

#[cfg(not(feature = "secure-light"))]
mod there {
    use crate::sync::AtomicU16;
    use crate::sync::Ordering::Relaxed;

    /// The number of tracers that follow the probe. Tracers write it, from outside the process.
    /// Callers of the probe read it, and need not see a change at once.
    #[derive(Debug)]
    #[repr(transparent)]
    struct Semaphore(AtomicU16);

    /// Defines a probe. The arguments are `probe!(function(arguments), query, "name", SEMAPHORE,
    /// "arguments on x86-64", "arguments on aarch64")`.
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
                    // The address of this byte tells how far a file's addresses were moved since
                    // the notes were written.
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

    /// Makes the library itself follow blocks, as a tracer would. Called once, at the start.
    pub fn ask_for_blocks() {
        ALLOC.0.fetch_add(1, Relaxed);
        FREE.0.fetch_add(1, Relaxed);
    }

    probe!(
        /// A sampled block was allocated. The arguments are its address, its size, and the number
        /// of allocated bytes that it represents.
        allocated(_address, _size, _weight),
        wants_allocations, "alloc", ALLOC, "8@%rdi 8@%rsi 8@%rdx", "8@x0 8@x1 8@x2"
    );
    probe!(
        /// A block that `allocated` has reported is about to be freed.
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

/// A build without probes follows nothing.
#[cfg(feature = "secure-light")]
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
