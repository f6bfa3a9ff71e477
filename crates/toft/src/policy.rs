//! The policy of the hardened build: what it does more than the default build, and at what places.
//!
//! It is chosen when the library is compiled (feature `hardened`). Without the feature every constant
//! here is the default build's, and the branches on it are gone from the machine code.
//! What each costs, and what it does not do: `docs/hardened.md`.

/// Whether this is the hardened build.
pub const HARDENED: bool = cfg!(feature = "hardened");

/// Whether the bytes between what was asked for and the slot's end carry a keyed pattern, verified
/// when the block is freed or resized.
pub const CANARY: bool = HARDENED;

/// Bytes of a slot behind what was asked for, at least, so that there is always room for a canary.
pub const SLACK_MIN: usize = if CANARY { 1 } else { 0 };

/// Whether a block's bytes are cleared when it is freed, and are found to be still zero before they
/// are handed out again: new memory is zero, and a write after free is seen.
pub const WIPE: bool = HARDENED;

/// Whether malloc takes any of the claimed slots instead of the lowest.
pub const RANDOM_ORDER: bool = HARDENED;

/// Whether what is freed goes through a quarantine before it is free.
pub const QUARANTINE: bool = HARDENED;

/// Whether what leaves the quarantine is looked at then, and not only before it is handed out again: its page may
/// be given back in between.
pub const CHECK_LEAVING: bool = WIPE && QUARANTINE;

/// Whether deletes and frees that name a size are compared with what was asked for.
pub const CHECK_SIZES: bool = HARDENED;

/// Bytes in a slab's descriptor: the hardened build also keeps what was asked for, by slot.
pub const SLAB_BYTES: usize = if HARDENED { 1024 } else { 512 };
