//! Size classes: each multiple of 16 bytes up to 1 024.

/// The largest block that this allocator serves. Larger ones pass through.
pub const LARGEST: usize = 1024;
/// The distance between two classes, and the alignment of all blocks.
pub const STEP: usize = 16;
/// The number of classes. A model has one, since loom tracks each atomic.
pub const CLASSES: usize = if cfg!(loom) { 1 } else { LARGEST / STEP };

/// A size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(u8);

impl Class {
    /// The class of a request; `None` if it is too large. A zero-size block is of the first class.
    pub fn of(size: usize) -> Option<Class> {
        (size <= LARGEST).then(|| Class((size.saturating_sub(1) / STEP) as u8))
    }

    /// All classes, smallest first.
    pub fn all() -> impl Iterator<Item = Class> {
        (0..CLASSES as u8).map(Class)
    }

    /// The position of this class among all of them, below [`CLASSES`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The size of a block in bytes.
    pub fn size(self) -> usize {
        (self.index() + 1) * STEP
    }
}
