//! Size classes of large blocks: how much address space a request is given, and so which freed
//! blocks fit it.

/// log2 of the largest request that is not large.
pub(super) const CLASS_BASE: u32 = 17;
/// Classes that span two doublings: up to 32 MiB.
const WIDE_CLASSES: u32 = 4;
/// Number of large classes.
pub(super) const LARGE_CLASSES: usize = (usize::BITS - CLASS_BASE - WIDE_CLASSES) as usize;

/// The class of a large block: one for two doublings, and from 32 MiB on one for each. Address
/// space costs nothing and only the requested size is mapped, so few classes are best: a freed
/// block fits more requests, and a growing one is moved less often.
pub fn large_class(bytes: usize) -> usize {
    let doubling = (bytes - 1).ilog2() - CLASS_BASE;
    (if doubling < 2 * WIDE_CLASSES { doubling / 2 } else { doubling - WIDE_CLASSES }) as usize
}

/// Bytes that the largest request of a class needs.
pub(super) fn class_bytes(class: usize) -> usize {
    let class = class as u32;
    let doublings = if class < WIDE_CLASSES { 2 * class + 2 } else { class + WIDE_CLASSES + 1 };
    1usize << (CLASS_BASE + doublings).min(usize::BITS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_monotonic_and_hold_their_requests() {
        let mut last = 0;
        for bytes in ((128usize << 10) + 1..64 << 20).step_by(4093) {
            let class = large_class(bytes);
            assert!(class >= last && class < LARGE_CLASSES);
            assert!(class_bytes(class) >= bytes, "{bytes}");
            assert!(class == 0 || class_bytes(class - 1) < bytes, "{bytes}");
            last = class;
        }
        assert!(large_class(isize::MAX as usize) < LARGE_CLASSES);
    }
}
