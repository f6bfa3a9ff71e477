//! How far a verification by shares has come (`watch/verify_share.rs`).

/// The place that a verification has reached. It belongs to the thread that verifies.
#[derive(Debug, Default)]
pub struct Share {
    /// The tick of the last share.
    pub at: u32,
    /// The number of small slabs of this pass that are done.
    pub small: usize,
    /// The number of medium slabs of this pass that are done.
    pub medium: usize,
    /// The number of completed passes.
    pub passes: usize,
}
