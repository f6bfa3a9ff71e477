//! What a plot knows of the descriptors that it keeps: that zero bytes are one.

/// The descriptor of a slab, as far as address space is concerned.
///
/// # Safety
///
/// An implementation promises:
/// 1. zero bytes are a value of the type, and it describes nothing;
/// 2. every field may be used through a shared reference by any thread.
pub unsafe trait Descriptor {
    /// Whether this describes a slab.
    fn is_open(&self) -> bool;
}
