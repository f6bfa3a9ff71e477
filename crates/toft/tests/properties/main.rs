//! The property tests, the fault injection and a short run of the fuzzer, over the fake operating
//! system. `cargo test -p toft --features fake-os --test properties`; with `fake-os,hardened` for
//! the hardened build.
//!
//! One program, because each would compile the allocator for the fake system again.

mod cases;
mod common;

mod cold;
mod failures;
mod fuzz_smoke;
mod group;
mod idle;
mod laws;
mod limit;
mod model;
mod pool;
mod shared;
mod slots;
mod sweep;
mod wishes;
mod zones;

// The hardened build has no shared pages, and walls between its slabs.
#[cfg(not(feature = "hardened"))]
mod compact;
#[cfg(not(feature = "hardened"))]
mod filtered;
#[cfg(not(feature = "hardened"))]
mod full;
#[cfg(not(feature = "hardened"))]
mod heaps;
#[cfg(not(feature = "hardened"))]
mod huge;
#[cfg(not(feature = "hardened"))]
mod pressure;
#[cfg(not(feature = "hardened"))]
mod ready;
#[cfg(not(feature = "hardened"))]
mod threads;

#[cfg(feature = "hardened")]
mod hardened;
#[cfg(feature = "hardened")]
mod reserved;
#[cfg(feature = "hardened")]
mod walls;
