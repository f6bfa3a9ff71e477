//! The policy of the hardened build: what it does more than the default build, and at what places.
//!
//! It is chosen when the library is compiled (feature `hardened`). Without the feature every
//! constant here is the default build's, and the branches on it are gone from the machine code.
//! What each costs, and what it does not do: `docs/hardened.md`.

/// Whether this is the hardened build.
pub const HARDENED: bool = cfg!(feature = "hardened");

/// Whether the bytes between the requested size and the slot's end carry a keyed pattern, verified
/// when the block is freed or resized.
pub const CANARY: bool = HARDENED;

/// Bytes of a slot after the requested size, at least, so that there is always room for a canary.
pub const SLACK_MIN: usize = if CANARY { 1 } else { 0 };

/// Whether a block's bytes are cleared when it is freed, and are found to be still zero before they
/// are handed out again: new memory is zero, and a write after free is seen.
pub const WIPE: bool = HARDENED;

/// Whether malloc takes any of the claimed slots instead of the lowest.
pub const RANDOM_ORDER: bool = HARDENED;

/// Whether what is freed goes through a quarantine before it is free.
pub const QUARANTINE: bool = HARDENED;

/// Bytes of blocks that a thread has freed and that are not free yet, at most.
pub const QUARANTINE_BYTES: usize = 3 << 20;

/// Whether pages of free slots are looked at before they are given back: what was written there
/// after a free is found when the slot is handed out again, if it is still there.
pub const CHECK_PAGES: bool = WIPE;

/// Whether deletes and frees that name a size are compared with the requested size.
pub const CHECK_SIZES: bool = HARDENED;

/// Whether slabs have reserved slots that carry a pattern: what is written there is a wild write.
pub const RESERVE: bool = HARDENED;

/// One slot of `RESERVED_SHARE` is reserved, and one at least.
pub const RESERVED_SHARE: usize = 128;

/// Slots that a slab must have for one to be reserved.
pub const RESERVED_LEAST: usize = 32;

/// Bytes of the slots of which some are reserved, at most: each takes so much memory.
pub const RESERVED_SIZE_MOST: usize = 4096 + 256;

/// Bytes in a slab's descriptor: the hardened build also keeps the requested sizes, by slot.
pub const SLAB_BYTES: usize = if HARDENED { 1024 } else { 512 };

/// Units of 64 KiB without a mapping between two extents of large blocks, at most: a random number.
/// In a small address space there are fewer.
pub const LARGE_GAP: usize = 15;

/// Freed large blocks whose addresses wait in the order in which they were freed.
pub const LARGE_WAIT_IN_ORDER: usize = 256;

/// Freed large blocks whose addresses wait, after that, at a random one of this number of places: a
/// block that gets a taken place sends away the one that was there.
pub const LARGE_WAIT_AT_RANDOM: usize = 256;

/// Bytes of address space that freed large blocks wait with, at most, as a share of the large tier,
/// as a divisor. They have no pages and no mapping meanwhile.
pub const LARGE_WAIT_SHARE: usize = 4;

/// Bytes that lie between the end of the first block behind a wall and the next wall inside a slab,
/// at least and at most: how far a sweep comes. By tier, small and medium; a random number between
/// the two.
pub const WALL_REACH: [(usize, usize); 2] = [(24 << 10, 48 << 10), (32 << 10, 56 << 10)];

/// Mappings that walls may cost where the system has no guards that cost none. Beyond half of them
/// only the walls at the ends of slabs are put up; beyond all of them, none.
pub const WALL_MAPPINGS: usize = 4096;

/// Bytes of addresses for zero-size blocks, at most.
pub const NOTHING_SPAN: usize = 4 << 30;

/// Milliseconds that free memory is idle before it is returned to the OS, unless `TOFT_DECAY` sets
/// another time. The hardened build cannot move pages from slab to slab, because of its walls:
/// returned memory costs it a fault for each page.
pub const DECAY: u32 = if HARDENED { 250 } else { 100 };

/// The share by which slabs may grow, as a divisor, before the next sweep is due, however early:
/// idle memory must go before a program has grown much beside it.
pub const SWEEP_GROWTH: usize = if HARDENED { 2 } else { 16 };
