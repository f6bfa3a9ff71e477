//! What the tests of the heap and its fuzz target share.
//!
//! | file | what |
//! |---|---|
//! | `shadow.rs` | what a heap must look like from outside, after any operations |
//! | `shapes.rs` | the shapes that tests run over |
//! | `fuzz.rs` | any bytes as operations |
//! | `contract.rs` | what every global allocator does |
//! | `systems.rs` | fake systems that sources take memory from |
//! | `words.rs` | a heap with some blocks, and the words beside them, to be written over |

#![allow(dead_code, unused_imports, reason = "each test uses a part")]

pub mod contract;
pub mod fuzz;
pub mod shadow;
pub mod shapes;
pub mod systems;
pub mod words;

pub use shadow::{Op, Shadow};
