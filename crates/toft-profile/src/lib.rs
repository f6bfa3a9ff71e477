//! Reads the tables of a process that runs on Toft, from outside: nothing of it is stopped, and no
//! code runs in it. One exception is asked for by name: [`purge`].
//!
//! A core file answers in place of a process that has ended.
//!
//! | file | what |
//! |---|---|
//! | `memory.rs` | [`Memory`]: what is asked of the process that is looked at, running or not |
//! | `process.rs` | a running one: `/proc` and `process_vm_readv` |
//! | `core_file/` | one that has ended: its core file |
//! | `module.rs` | the files that are mapped, by their own headers |
//! | `location.rs` | a place in code: [`Location`] |
//! | `regular.rs` | files whose names another process chose, read within bounds |
//! | `pagemap.rs` | which of its pages are resident |
//! | `kernel.rs` | what the kernel counts: smaps, status, tasks |
//! | `root.rs` | where the allocator's tables are |
//! | `tables.rs` | the tables: slabs, large blocks, heaps |
//! | `entries.rs` | tables of entries of one size: |
//! | `sites.rs` | call sites, where each has a separate partition |
//! | `samples.rs` | the stacks of sampled allocations |
//! | `tally.rs` | what each call site has ever had in large blocks |
//! | `account.rs` | tables and pages joined: what each resident byte of a slab or a block is |
//! | `owners.rs` | slabs and their memory by owner thread: [`Owner`] |
//! | `control.rs` | what is asked of a process: [`purge`] |
//! | `figures.rs` | what there is of everything, [`Figures`] |
//! | `rss.rs` | the whole of a process's resident memory, [`Rss`] |
//! | `profile/` | live memory by call site: [`Profile`] |
//! | `hints.rs` | what the next run can make of that: [`Hints`] |
//! | `format/` | a profile in the forms that other programs and people read |
//! | `error.rs` | why a process cannot be explained, in words |
//!
//! What is read changes meanwhile. So nothing that is read is believed: every number is compared
//! with what it can be, every loop is bounded by what is mapped, and what makes no sense is
//! counted.

#![deny(unsafe_code)]

mod account;
mod bytes;
mod control;
mod core_file;
mod entries;
mod error;
mod figures;
pub mod format;
mod frames;
mod hints;
mod kernel;
pub mod label;
mod location;
mod memory;
mod module;
mod owners;
mod pagemap;
mod path_text;
mod process;
mod profile;
mod regular;
mod root;
mod rss;
mod samples;
mod sites;
mod tables;
mod tally;

pub use account::{Account, Pin, Split, Thread, account};
pub use control::{Purged, purge};
pub use core_file::Core;
pub use error::Error;
pub use figures::Figures;
pub use frames::Frames;
pub use hints::{HINTS_VERSION, HintModule, Hints, OwnSite};
pub use kernel::{Area, Counts, Kernel, Task};
pub use location::{Frame, Location};
pub use memory::{Mapping, Memory, Run};
pub use module::{Module, Modules};
pub use owners::{Owner, owners, owners_of_heaps};
pub use path_text::{paths_of_text, text_of_bytes, text_of_json, text_of_path};
pub use process::{Process, read};
pub use profile::{
    Breakdown, Change, Diff, FileError, MemoryLimit, Part, Profile, Recent, Row, Sampled,
    SampledStack, Share, Source, StackChange, VERSION as PROFILE_VERSION, take, take_with_figures,
};
pub use regular::{open as open_file, read_file};
pub use root::{Found, find};
pub use rss::{Others, Reading, Rss};
pub use samples::Samples;
pub use sites::Site;
pub use tables::{Block, Doubts, HeapOf, Slab, Slot, Tables};
pub use tally::{Made, Tally};
