//! Profiles: `toft heap`, `toft report`, `toft diff`, `toft top`. `toft-profile` counts and writes;
//! this gives names, and says where what goes.
//!
//! | file | what |
//! |---|---|
//! | `heap.rs` | `toft heap`: a running process, or a core file |
//! | `report.rs` | `toft report`: a saved profile in any form |
//! | `at_exit.rs` | `toft run --profile`: what the library wrote, in the form that was asked for |
//! | `threads.rs` | `toft heap --threads`: which thread owns what |
//! | `top.rs`, `screen.rs`, `owned.rs` | `toft top`: the same again and again, and how it looks; by thread |
//! | `diff.rs` | `toft diff`: what has grown between two |
//! | `names.rs`, `perf_map.rs` | the functions of call sites; those that a language runtime has generated |
//! | `output.rs` | forms, files and the screen |

mod at_exit;
mod diff;
mod heap;
mod names;
mod output;
mod owned;
mod perf_map;
mod report;
mod screen;
mod threads;
mod top;

pub use at_exit::{AtExit, NAME_MOST};
pub use diff::{Difference, diff};
pub use heap::{Heap, heap};
pub use names::Names;
pub use output::NO_STACKS;
pub use report::{View, read, report};
pub use threads::json_of_owner;
pub use top::{Top, top};
