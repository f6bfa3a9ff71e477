//! The parser of the options: one variable of the environment a line.
//!
//! `cargo +nightly fuzz run options`, in the folder above this one's.
#![no_main]

#[path = "../../crates/toft-core/tests/properties/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| common::fuzz::options(bytes));
