//! A row of a profile: a call site, and its live memory in slots of one size.

use serde::{Deserialize, Serialize};

use crate::{Frame, Location};

/// Whose memory a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// The site's alone, for certain.
    Exact,
    /// No other site was seen in its partition, though one may be there: sites are hashed.
    Alone,
    /// Other sites draw from the same partition, and some of it may be theirs.
    Shared,
}

/// What a row got between two readings of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recent {
    /// The time between the two.
    pub milliseconds: u64,
    /// Live blocks at the first reading.
    pub objects_before: u64,
    /// Blocks that were allocated between the two.
    pub allocations: u64,
}

/// The live memory of one call site in slots of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The call site.
    #[serde(flatten)]
    pub location: Location,
    /// The partition.
    pub partition: u32,
    /// Bytes in a slot; 0 for large blocks, whose sizes differ.
    pub size: u64,
    /// Live blocks.
    pub objects: u64,
    /// Bytes of the live blocks.
    pub bytes: u64,
    /// Blocks that were ever allocated, freed ones included.
    #[serde(default)]
    pub allocations: u64,
    /// Bytes that were ever allocated. Of large blocks also those by which they grew in place.
    #[serde(default)]
    pub allocated: u64,
    /// What was allocated lately, if the process was read twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<Recent>,
    /// Whose memory it is.
    pub share: Share,
}

impl Row {
    /// Returns the mean lifetime of its blocks in seconds, if the process was read twice and blocks
    /// were allocated meanwhile.
    pub fn lifetime(&self) -> Option<f64> {
        let recent = self.recent?;
        let seconds = recent.milliseconds as f64 / 1e3;
        mean_lifetime([recent.objects_before, self.objects], recent.allocations, seconds)
    }

    /// Returns the number of blocks that were freed.
    pub fn frees(&self) -> u64 {
        self.allocations.saturating_sub(self.objects)
    }

    /// Returns the file and the functions, outermost first, for folded stacks and flame graphs. The
    /// label is the innermost one, unless `full` asks for all.
    pub fn stack(&self, full: bool) -> Vec<String> {
        let Location { frames, .. } = &self.location;
        let frames = if full { frames.as_slice() } else { self.location.frames_from_label() };
        let mut stack = vec![self.location.shown_module().to_owned()];
        stack.extend(frames.iter().skip(1).rev().map(|frame| frame.function.clone()));
        // The label as every table has it. The file is there already.
        let innermost = match full {
            true => frames.first().map(Frame::words),
            false => self.location.frames.label_words().map(str::to_owned),
        };
        stack.push(innermost.unwrap_or_else(|| self.location.place()));
        stack
    }
}

/// Returns the mean lifetime of blocks by Little's law: the mean number of live blocks, divided by
/// the number of blocks allocated in a second. `None` if none was allocated.
///
/// The mean is that of the blocks that came and went if the number of live blocks is steady. Where
/// it grows, the blocks that stay make the mean longer the longer the time between the readings.
pub(super) fn mean_lifetime(live: [u64; 2], allocations: u64, seconds: f64) -> Option<f64> {
    let mean = (live[0] as f64 + live[1] as f64) / 2.0;
    (allocations > 0).then(|| mean * seconds / allocations as f64)
}
