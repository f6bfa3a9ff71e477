//! The number of a partition.

/// The number of a partition, which is a set of call sites that share slabs. It is below the number
/// of partitions in force. In exact mode, partition 0 has no site. Large blocks have one partition
/// more, which has no site either (`held_partition`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub struct Partition(usize);

impl Partition {
    /// Returns the partition with a number.
    #[inline(always)]
    pub const fn new(number: usize) -> Partition {
        Partition(number)
    }

    /// Returns the partition's number.
    #[inline(always)]
    pub const fn number(self) -> usize {
        self.0
    }
}
