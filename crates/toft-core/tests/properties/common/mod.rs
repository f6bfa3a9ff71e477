//! What the property tests, the fault injection and the fuzzer share. There is a grammar of
//! operations, and a shadow of what the program has been given. A world carries out the operations
//! on an allocator over the fake operating system.

// Each user of this module uses a part of it.
#![allow(dead_code)]

pub mod fuzz;
pub mod misuse;
pub mod ops;
pub mod plain;
pub mod program;
pub mod shadow;
pub mod world;
