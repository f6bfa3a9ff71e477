//! L10: the process's own allocator, and the calls that C, C++ and Rust make on it. The C library's
//! names are in the crate `toft-preload`, Rust's in `toft`.
//!
//! | file | what |
//! |---|---|
//! | `calls.rs` | malloc, free and the others, for the process |
//! | `whole_heap.rs` | calls about the whole heap |
//! | `gate.rs` | the same calls where a protection key guards the tables |
//! | `start.rs`, `thread_exit.rs` | the start, and the birth and end of a thread's heap |
//! | `environment.rs`, `scope.rs` | the variables; which processes they are for |
//! | `program_delete.rs` | a program's own `operator delete` |
//! | `key_fault.rs` | accesses that the protection key stops |
//! | `zones/` | private zones |

mod calls;
mod environment;
mod gate;
mod key_fault;
mod program_delete;
mod scope;
mod start;
mod thread_exit;
mod whole_heap;
pub mod zones;

pub use crate::allocator::{GLOBAL, LOOKS_THROUGH, inside};
pub use gate::*;
pub use program_delete::{Delete, program_deletes, program_deletes_by};
