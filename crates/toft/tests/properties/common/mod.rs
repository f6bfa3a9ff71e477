//! What the property tests, the fault injection and the fuzzer share: a grammar of operations, a
//! shadow of what the program has been given, and a world in which the operations are carried out on
//! an allocator over the fake operating system.

// Each user of this module uses a part of it.
#![allow(dead_code)]

pub mod fuzz;
pub mod misuse;
pub mod ops;
pub mod plain;
pub mod shadow;
pub mod world;
