//! The arena's heap, in eleven shapes, against the shadow of the property tests.
//!
//! `cargo +nightly fuzz run arena`, in the folder above this one's.
#![no_main]
#![allow(dead_code, reason = "the property tests use the rest")]

#[path = "../../crates/toft-arena/tests/properties/common/fuzz.rs"]
mod fuzz;
#[path = "../../crates/toft-arena/tests/properties/common/shadow.rs"]
mod shadow;
#[path = "../../crates/toft-arena/tests/properties/common/shapes.rs"]
mod shapes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::arena(bytes));
