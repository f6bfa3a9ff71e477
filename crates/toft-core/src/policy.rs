//! The policy of the secure builds: what they do in addition to the default build, and where.
//!
//! The policy is chosen when the library is compiled. The feature `secure` is the secure build. The
//! feature `secure-light` is the light one, which makes no pass over blocks of up to 128 KiB. With
//! both it is the secure build. Without a feature every constant here has the default build's
//! value, and the machine code has no branches on it. The costs and limits of each are in
//! `docs/secure.md`.

/// True in the secure build and in the light one.
pub const SECURE: bool = cfg!(feature = "secure-light");

/// True if the bytes between the requested size and the slot's end have a keyed pattern. The
/// pattern is verified when the block is freed or resized.
pub const CANARY: bool = SECURE;

/// The smallest number of bytes of a slot after the requested size, so that a canary always fits.
pub const SLACK_MIN: usize = if CANARY { 1 } else { 0 };

/// True if a block's bytes are cleared when it is freed, and are verified to be zero before they
/// are handed out again. New memory is then zero, and a write after free is detected.
pub const WIPE: bool = cfg!(feature = "secure");

/// True if malloc takes any of the claimed slots instead of the lowest.
pub const RANDOM_ORDER: bool = SECURE;

/// True if a freed block goes through a quarantine before it is free.
pub const QUARANTINE: bool = SECURE;

/// True if that also holds for small blocks. In the light build a small block is free at once. Its
/// slot is not handed out before the next claim of its group, and is then drawn among the claimed
/// ones (`bin/draw.rs`), each of which is as likely as the gap before it is wide.
pub const QUARANTINE_SMALL: bool = WIPE;

/// The largest number of bytes of blocks that a thread has freed and that are still in quarantine.
pub const QUARANTINE_BYTES: usize = 3 << 20;

/// True if pages of free slots are checked before they are released. A write after free is then
/// detected when the slot is handed out again, if the written bytes are still there.
pub const CHECK_PAGES: bool = WIPE;

/// True if deletes and frees with a size argument are checked against the requested size.
pub const CHECK_SIZES: bool = SECURE;

/// True if slabs have reserved slots with a pattern. A write to such a slot is a wild write.
pub const RESERVE: bool = SECURE;

/// One in this number of slots is reserved, and at least one.
pub const RESERVED_SHARE: usize = 128;

/// The number of slots that a slab must have for one to be reserved.
pub const RESERVED_LEAST: usize = 32;

/// The largest slot, in bytes, of slabs with reserved slots, because each reserved slot uses that
/// much memory.
pub const RESERVED_SIZE_MOST: usize = 4096 + 256;

/// The number of bytes in a slab's descriptor. The secure build also keeps the requested sizes,
/// by slot.
pub const SLAB_BYTES: usize = if SECURE { 1024 } else { 512 };

/// The largest number of unmapped units of 64 KiB between two extents of large blocks. The number
/// is random. It is smaller in a small address space.
pub const LARGE_GAP: usize = 15;

/// The number of freed large blocks whose addresses wait in the order in which they were freed.
pub const LARGE_WAIT_IN_ORDER: usize = 256;

/// The number of random places at which the addresses of freed large blocks wait after that. A
/// block that gets an occupied place replaces the block there, whose wait ends.
pub const LARGE_WAIT_AT_RANDOM: usize = 256;

/// The divisor that limits the address space of waiting large blocks to a share of the large tier.
/// These blocks have no pages and no mapping meanwhile.
pub const LARGE_WAIT_SHARE: usize = 4;

/// The smallest and the largest distance from the end of the first slot after a guard page to the
/// next guard page of the slab, in bytes. A linear overflow from that slot passes no more than the
/// largest. One pair is for small slots and one for medium slots. Each distance is random.
pub const GUARD_PAGE_DISTANCE: [(usize, usize); 2] = [(24 << 10, 48 << 10), (32 << 10, 56 << 10)];

/// The number of mappings that guard pages may cost, on a system whose guard pages need mappings.
/// Beyond half of the number, only the guard pages at the ends of slabs are set up. Beyond all of
/// it, none are.
pub const GUARD_PAGE_MAPPINGS: usize = 4096;

/// The largest number of bytes of addresses for zero-size blocks.
pub const ZERO_SIZE_SPAN: usize = 4 << 30;

/// The number of milliseconds that free memory is idle before it is returned to the OS, unless
/// `TOFT_DECAY` sets another time. The secure build cannot move pages from slab to slab, because
/// of its guard pages. Returned memory therefore costs it a fault for each page.
pub const DECAY: u32 = if SECURE { 250 } else { 100 };

/// The divisor of the growth beyond the peak after which the next sweep is due early. Idle memory
/// must be released before the program has grown much beside it.
pub const SWEEP_GROWTH: usize = if SECURE { 2 } else { 16 };
