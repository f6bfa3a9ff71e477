//! What the test binaries share: reading the directives of a C or C++ source, compiling it, running
//! it on the library under test and judging how it ended.
//!
//! The library is `TOFT_TEST_LIBRARY` if that is set, else it is built. `TOFT_TEST_LIBRARY=none`
//! runs the sources on the C library's own malloc: what a conformance test asserts must hold there
//! too, or the source says why not (`// libc: skip WHY`). `TOFT_TEST_PLATFORM` builds the sources
//! for another system, and runs them there ([`platform`]). `TOFT_TEST_ONLY=build` runs the sources
//! that are for some builds.

pub mod compile;
pub mod directives;
pub mod image;
pub mod judge;
pub mod library;
pub mod linked;
pub mod need;
pub mod platform;
pub mod process;
pub mod programs;
pub mod reference;
pub mod rust;
pub mod secure;
pub mod suite;
pub mod trials;
