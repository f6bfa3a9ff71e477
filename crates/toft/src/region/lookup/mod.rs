//! From an address to the descriptor of the slab that contains it: any address at all, by a few
//! loads from tables, and never a fault.
//!
//! Three ways, of which one is built: `granules`, and for measuring what it gains (or does not) the
//! two that others use, a radix tree and a flat table.

#[cfg(not(any(feature = "experiment-owner-radix", feature = "experiment-owner-flat")))]
mod granules;
#[cfg(not(any(feature = "experiment-owner-radix", feature = "experiment-owner-flat")))]
pub use granules::Lookup;

#[cfg(all(feature = "experiment-owner-radix", not(feature = "experiment-owner-flat")))]
mod radix;
#[cfg(all(feature = "experiment-owner-radix", not(feature = "experiment-owner-flat")))]
pub use radix::Lookup;

#[cfg(feature = "experiment-owner-flat")]
mod flat;
#[cfg(feature = "experiment-owner-flat")]
pub use flat::Lookup;

/// log2 of the bytes in a granule.
pub const GRANULE_SHIFT: u32 = 32;

/// Maps a long table that is touched here and there. In pieces, because a system that counts what
/// it promises may refuse all at once.
#[cfg(any(feature = "experiment-owner-radix", feature = "experiment-owner-flat"))]
fn map_sparse(os: &impl crate::os::Os, start: usize, bytes: usize) -> Result<(), crate::os::Error> {
    const PIECE: usize = 256 << 20;
    for at in (0..bytes).step_by(PIECE) {
        os.map(start + at, PIECE.min(bytes - at))?;
    }
    Ok(())
}
