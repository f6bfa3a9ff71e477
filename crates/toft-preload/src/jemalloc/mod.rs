//! jemalloc's extended interface, for programs that are written for it: docs/jemalloc.md.
//!
//! Everything here is on top of the calls that other programs use, and costs them nothing.
//!
//! | file | what |
//! |---|---|
//! | `flags.rs` | the flags of the calls about blocks |
//! | `blocks.rs` | `mallocx`, `rallocx`, `xallocx`, `sallocx`, `dallocx`, `sdallocx`, `nallocx` |
//! | `names.rs` | the names that `mallctl` serves, and their numbers |
//! | `figures.rs` | the figures of the last epoch |
//! | `values.rs` | the value of each name, and what writing to it does |
//! | `control.rs` | `mallctl`, `mallctlnametomib`, `mallctlbymib` |
//! | `print.rs` | `malloc_stats_print` |

mod blocks;
mod control;
mod figures;
mod flags;
mod names;
mod print;
mod values;
