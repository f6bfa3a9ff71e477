//! Sweeps: one thread gives back pages of all threads' slabs, whatever those are doing. What other
//! threads do meanwhile is played at the barriers: one before anything, and for each batch of slabs
//! one while slots are held and one when they are not any more.
//!
//! | file | what |
//! |---|---|
//! | `program.rs` | the two threads, and blocks that are free in part |
//! | `pages.rs` | which pages go, and which stay |
//! | `meanwhile.rs` | what others do while slots are held |
//! | `fork.rs` | a fork in the middle of it |
//! | `named.rs` | misuse of slots that are held |
//! | `random.rs` | all of it, in whatever order |

mod fork;
mod meanwhile;
mod named;
mod pages;
mod program;
mod random;
