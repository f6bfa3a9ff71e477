//! What the field requires of the descriptors of its slabs: zero bytes are a descriptor.

/// The descriptor of a slab, as far as address space is concerned.
///
/// # Safety
///
/// An implementation promises:
/// 1. zero bytes are a value of the type, and it describes nothing;
/// 2. every field may be used through a shared reference by any thread.
pub unsafe trait Descriptor {
    /// Returns true if this describes a slab.
    fn is_open(&self) -> bool;

    /// Returns the first address of the slab that this describes, and the number of bytes of its
    /// pages of 4 KiB.
    fn extent(&self) -> (usize, usize);
}
