//! The functions that this crate calls in the crates above it: one table, the process's hook. Each
//! program and each library with the process's allocator defines it, with [`hook!`](crate::hook!).
//! An allocator of a test has [`Hook::NONE`].
//!
//! Only slow paths call these functions: reports, statistics, and the child of a fork. A program
//! that has this crate for its constants or its tables alone needs no hook: the linker drops the
//! code that refers to it.

use crate::report::{Call, Line, Stack};
use core::fmt;

/// The functions of the crates above. They may use the process's allocator.
#[derive(Clone, Copy)]
pub struct Hook {
    /// The number of bytes in the allocator's tables for a crate above. They start as zero, and are
    /// never unmapped. The address of the number says whose they are
    /// ([`Allocator::hook_tables`](crate::Allocator::hook_tables)).
    pub tables: &'static usize,
    /// Returns the number of bytes that the crates above have mapped for metadata.
    pub metadata_bytes: fn() -> usize,
    /// Describes an address outside malloc's memory that a call of the allocator got. Writes the
    /// report's line and returns true if the address is of a crate above.
    pub foreign_address: fn(&mut Line, Call, usize) -> bool,
    /// Writes what is known of a report beside its line. The stack is given for an event that was
    /// no call.
    pub reported: fn(&Line, Option<&Stack>),
    /// Repairs the crates above in the child of a fork. The allocator is repaired before.
    pub forked: fn(),
    /// Prepares profiles, if the options ask for them, when the process's library is in place.
    pub starts: fn(),
    /// Gets the bytes by which the heap is about to grow. Called only if the options ask for it.
    pub grows: fn(usize),
    /// Gets the number of allocations that slow paths have made so far, after one of them. Called
    /// only if the options ask for work now and then.
    pub allocated: fn(usize),
    /// Reports what the options ask for when the program ends, on this descriptor of the process
    /// that started it, or on stderr. Not called if they ask for nothing.
    pub exits: fn(Option<i32>),
}

impl Hook {
    /// The hook of an allocator that has nothing above it.
    pub const NONE: Hook = Hook {
        tables: &0,
        metadata_bytes: || 0,
        foreign_address: |_, _, _| false,
        reported: |_, _| {},
        forked: || {},
        starts: || {},
        grows: |_| {},
        allocated: |_| {},
        exits: |_| {},
    };
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("tables", &self.tables).finish_non_exhaustive()
    }
}

unsafe extern "Rust" {
    /// The address of the process's hook, which [`hook!`](crate::hook!) defines.
    ///
    /// Safe, because `hook!` alone defines it, as the address of a static of this type.
    safe static toft_hook: &'static Hook;
}

/// Returns the hook of the process.
pub(crate) fn process_hook() -> &'static Hook {
    toft_hook
}

/// Defines the process's [`Hook`](crate::hook::Hook), the value of a static. Each program and each
/// library that contains the process's allocator does so once; a program without it does not link.
///
/// The symbol is hidden: no other library sees or replaces it. A static with `#[no_mangle]` would
/// be exported.
#[macro_export]
macro_rules! hook {
    ($table:path) => {
        const _: () = {
            // The type exactly, and no `static mut`.
            const _: *const $crate::hook::Hook = &raw const $table;
            const _: &$crate::hook::Hook = &$table;
            // A linker that reads each archive once takes this object file only if the program
            // refers to it, which it does for the sake of this byte.
            #[used]
            static LINKED: u8 = 0;
        };
        ::core::arch::global_asm!(
            ".pushsection .data.rel.ro.toft_hook,\"aw\",@progbits",
            ".balign 8",
            ".globl toft_hook",
            ".hidden toft_hook",
            ".type toft_hook, %object",
            ".size toft_hook, 8",
            "toft_hook: .quad {table}",
            ".popsection",
            table = sym $table,
        );
    };
}

#[cfg(test)]
static ALONE: Hook = Hook::NONE;
#[cfg(test)]
hook!(ALONE);
