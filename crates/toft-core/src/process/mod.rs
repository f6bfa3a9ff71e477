//! L11: the process's own allocator, and the calls that C, C++ and Rust make on it. The C library's
//! names are in the crate `toft-preload`, Rust's in `toft`.
//!
//! In this order: each file uses only those above it.
//!
//! | file | what |
//! |---|---|
//! | `environment.rs`, `hints.rs` | the variables; the file of hints |
//! | `compacting.rs` | forks of a process whose slabs may share pages |
//! | `key_fault.rs` | accesses that the protection key stops |
//! | `thread_exit.rs`, `start.rs` | the end and the birth of a thread's heap; the start |
//! | `program_delete.rs` | a program's own `operator delete` |
//! | `whole_heap.rs` | calls about the whole heap |
//! | `scope.rs` | which processes the variables are for; the end |
//! | `calls.rs` | malloc, free and the others, for the process |
//! | `gate.rs` | the same calls where a protection key guards the tables |
//! | `shim.rs` | what precedes a call: it finds the call site |

mod calls;
mod compacting;
mod environment;
mod gate;
mod hints;
mod key_fault;
mod program_delete;
mod scope;
mod shim;
mod start;
mod thread_exit;
mod whole_heap;

pub use crate::allocator::{GLOBAL, LOOKS_THROUGH, inside};
pub use gate::*;
pub use program_delete::{
    Delete, delete_by_program, program_deletes, program_deletes_by, sizes_may_be_rounded,
};
