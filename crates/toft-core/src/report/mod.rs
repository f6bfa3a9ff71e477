//! L2: the parts of a report of a bad call, a guard page that was hit, or a leak.
//!
//! | file | contents |
//! |---|---|
//! | `api_call.rs` | the calls that a report can name |
//! | `line.rs` | the first line |
//! | `writer.rs` | text and JSON for a descriptor, through a fixed buffer |
//! | `module.rs` | the file that contains an address of code, the place in it, its build-id |
//! | `stack.rs` | the callers: return addresses of this thread, without an unwinder |
//! | `call.rs` | return addresses, and the targets of the calls before them |
//! | `exact.rs` | the callers, by the unwind tables |
//! | `symbols.rs` | a file's functions and variables by their names |
//! | `unwind.rs` | where a frame begins, by the file's own tables |
//! | `program.rs` | the process, and the name that its program was started by |
//!
//! All of this code may run in a signal handler, in the middle of a malloc, and on a damaged heap.
//! So it does not allocate, take a lock or call the loader. It reads what it needs to know about
//! the process from `/proc/self/maps` at that moment. The kernel reads memory that may be gone
//! ([`crate::os::process::peek`]), and refuses what is not there. These are unusual system calls:
//! the caller holds a permit (`os/filter.rs`).

mod api_call;
mod call;
mod exact;
mod line;
mod module;
mod program;
mod stack;
mod symbols;
mod unwind;
mod writer;

pub use api_call::Call;
pub use call::{is_return, registers};
pub use exact::OwnFile;
pub use line::{Line, Subject, head};
pub use module::{Desk, Module, for_each_code, module_of};
pub use program::{DETAIL, name_of_process, process_json, process_line, program_name};
pub use stack::{FRAMES, Stack};
pub use symbols::{for_each_function, for_each_symbol};
pub use unwind::{Base, Description, Frame, Pointer, Source, describe, frame_of, table_of};
pub use writer::Writer;
