//! Recorded allocations: the file that `toft record` writes, and what can be read out of it.
//!
//! The format is described in `docs/trace-format.md`. A file is a header and chunks; a chunk holds
//! events of one thread. [`event`] and [`chunk`] code into slices and never allocate, because the
//! recorder runs inside `malloc`; [`Writer`] and [`Trace`] are for everybody else.
//!
//! ```
//! use toft_trace::{Action, Trace, Writer};
//! let mut writer = Writer::new(Vec::new(), 1)?;
//! let block = writer.event(0, Action::Allocate { size: 24, align: 1, site: 0, zeroed: false })?;
//! writer.event(0, Action::Free { object: block })?;
//! let trace = Trace::read(&writer.finish()?).unwrap();
//! assert_eq!(trace.threads[0].events.len(), 2);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod chunk;
pub mod event;
pub mod read;
pub mod summary;
pub mod varint;
pub mod write;

pub use event::{Action, Event};
pub use read::{Error, Thread, Trace, Warning};
pub use summary::Summary;
pub use write::Writer;
