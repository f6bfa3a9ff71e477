//! The property tests, the fault injection and a short run of the fuzzer, over the fake operating
//! system. `cargo test -p toft-core --features fake-os --test properties`; with `fake-os,secure`
//! for the secure build.
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
mod mapping_options;
mod model;
mod outside;
mod pool;
mod pressure;
mod shared;
mod slots;
mod stopped;
mod sweep;
mod tails;

// The secure build has no shared pages, and guard pages between its slabs, which have one length.
#[cfg(not(feature = "secure-light"))]
mod compact;
#[cfg(not(feature = "secure-light"))]
mod filtered;
#[cfg(not(feature = "secure-light"))]
mod full;
#[cfg(not(feature = "secure-light"))]
mod heaps;
#[cfg(not(feature = "secure-light"))]
mod huge;
#[cfg(not(feature = "secure-light"))]
mod outbox;
#[cfg(not(feature = "secure-light"))]
mod prefault;
#[cfg(not(feature = "secure-light"))]
mod short_slabs;
#[cfg(not(feature = "secure-light"))]
mod threads;

#[cfg(feature = "secure-light")]
mod guard_pages;
#[cfg(feature = "secure-light")]
mod reserved;
#[cfg(feature = "secure-light")]
mod secure;
