//! The library that `toft record` preloads: it stands before any `malloc` and writes down what is
//! asked of it, in the format of `docs/trace-format.md`.
//!
//! It never calls `malloc` for itself: what it needs it maps. A call that it makes while it
//! records, or that a signal handler makes then, is passed on and not recorded.
//!
//! | file | what |
//! |---|---|
//! | `calls.rs` | the names that programs call |
//! | `next.rs` | the allocator behind, and a little memory for the time until it is found |
//! | `session.rs` | what is recorded: objects, sequence numbers, sites |
//! | `thread.rs` | a thread's buffer, from its first call to its end |
//! | `current.rs` | the one word of thread-local storage |
//! | `objects.rs` | which address is which object |
//! | `sites.rs` | the numbers of call sites |
//! | `file.rs` | the file |
//! | `life.rs` | loading, fork, exec, exit |
//! | `lock.rs`, `map.rs` | a short lock; memory of our own |
//!
//! Order of the locks, the outermost first: the list of threads, a thread, then one of objects or
//! the file.

#[macro_use]
mod calls;
mod current;
mod file;
mod life;
mod lock;
mod map;
mod next;
mod objects;
mod session;
mod sites;
mod thread;
