//! Properties of heaps, sources and locks, against models and by exhaustion; what runs under Miri.
//! `cargo test -p toft-arena --features all --test properties`.
//!
//! One program, because each would compile the heap's shapes again.

mod common;

mod miri;
mod model;

// Not under Miri, which takes hours for them.
#[cfg(not(miri))]
mod exhaustive;
#[cfg(not(miri))]
mod sources;
#[cfg(all(not(miri), feature = "system", target_os = "linux"))]
mod system;
#[cfg(not(miri))]
mod wrappers;

#[cfg(feature = "sanitizer")]
mod sanitizer;

// Not under the sanitizer either: they write over tags and links on purpose.
#[cfg(not(any(miri, feature = "sanitizer")))]
mod corruption;
#[cfg(not(any(miri, feature = "sanitizer")))]
mod defects;
#[cfg(not(any(miri, feature = "sanitizer")))]
mod misfrees;
#[cfg(not(any(miri, feature = "sanitizer")))]
mod parking;
#[cfg(not(any(miri, feature = "sanitizer")))]
mod stripes;
#[cfg(not(any(miri, feature = "sanitizer")))]
mod tags;
