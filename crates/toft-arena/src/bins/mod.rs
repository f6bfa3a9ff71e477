//! The free chunks, by size.
//!
//! | file | what |
//! |---|---|
//! | `index.rs` | which bin a size belongs to |
//! | `list.rs` | a bin's chunks, linked through themselves, and checked at every link |

pub(crate) mod index;
pub(crate) mod list;
