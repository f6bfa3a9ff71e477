//! L2: what a report of a bad call, a guard that was hit or a leak is made of.
//!
//! | file | what |
//! |---|---|
//! | `api_call.rs` | the calls that a report can be of |
//! | `line.rs` | the first line |
//! | `writer.rs` | text and JSON for a descriptor, through a fixed buffer |
//! | `module.rs` | which file contains an address of code, where in it, and that file's build-id |
//! | `stack.rs` | who called: return addresses of this thread, without an unwinder |
//! | `call.rs` | return addresses, and where the calls before them go |
//! | `exact.rs` | who called, where this library is linked into the program |
//! | `symbols.rs` | a file's functions by their names |
//! | `unwind.rs` | where a frame begins, by the file's own tables |
//! | `frames.rs` | both, as lines for a person and as JSON |
//!
//! All of it may run in a signal handler, in the middle of a malloc, and on a heap that is no
//! longer what it should be: nothing allocates, takes a lock or asks the loader. What it knows of
//! the process it reads from `/proc/self/maps` at that moment; memory that may be gone is read by
//! the kernel ([`crate::os::process::peek`]), which says so where it is. These are unusual system
//! calls: the caller holds a permit (`os/filter.rs`).

mod api_call;
mod call;
mod exact;
mod frames;
mod line;
mod module;
mod stack;
mod symbols;
mod unwind;
mod writer;

pub use api_call::Call;
pub use call::{is_return, registers};
pub use frames::{
    DETAIL, frame_json, frame_line, place_json, place_json_by, place_text, stack_json, stack_lines,
};
pub use line::Line;
pub(crate) use line::{Subject, head};
pub use module::{Desk, Module, module_of};
pub use stack::{FRAMES, Stack};
pub use symbols::for_each_function;
pub use unwind::{Base, Description, Frame, Pointer, describe, frame_of, table_of};
pub use writer::Writer;
