//! The parser of the options: one variable of the environment a line.
//!
//! `cargo +nightly fuzz run options`, in the folder above this one's.
#![no_main]

#[path = "../../crates/toft-core/tests/properties/common/mod.rs"]
mod common;

// cargo-fuzz keeps code that nothing calls, so the hook must be there.
static HOOK: toft_core::hook::Hook = toft_core::hook::Hook::NONE;
toft_core::hook!(HOOK);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| common::fuzz::options(bytes));
