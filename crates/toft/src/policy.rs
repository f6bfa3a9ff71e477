//! The policy of the hardened build: what it does more than the default build, and at what places.
//!
//! It is chosen when the library is compiled (feature `hardened`). Without the feature every constant
//! here is the default build's, and the branches on it are gone from the machine code.

/// Whether this is the hardened build.
pub const HARDENED: bool = cfg!(feature = "hardened");
