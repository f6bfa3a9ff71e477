//! The stacks of sampled allocations, as the library keeps them: `TOFT_SAMPLE`.

use crate::memory::read_word;
use crate::{Error, Memory, Tables};

/// The most bytes of entries that are believed.
const BYTES_MOST: u64 = 1 << 32;
/// The most stacks that are believed: a file may be made to look larger than it is.
const STACKS_MOST: usize = 1 << 20;
/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// What was sampled of one stack. Blocks have `sample_object_bits` bits behind the point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Return addresses, innermost first.
    pub frames: Vec<u64>,
    /// Whether there is more that could not be had.
    pub truncated: bool,
    /// Samples, blocks, bytes.
    pub had: [u64; 3],
    /// Those that were freed.
    pub freed: [u64; 3],
}

impl Tables {
    /// Bytes from one chosen byte to the next, on average; none, where no stacks are kept.
    pub fn sample_interval(&self) -> Option<u64> {
        (self.root.samples != 0).then_some(self.root.sample_interval)
    }

    /// Samples for which there was no memory, and what was sampled of each stack, in no order.
    pub fn samples(&self, memory: &impl Memory) -> Result<(u64, Vec<Samples>), Error> {
        let root = &self.root;
        let mut samples = Vec::new();
        if root.samples == 0 {
            return Ok((0, samples));
        }
        let nonsense = |what| Error::Nonsense(memory.pid(), what);
        let unread = || memory.unread("the sampled stacks cannot be read");
        let missed = read_word(memory, root.samples_missed).ok_or_else(unread)?;
        let mapped = read_word(memory, root.samples_mapped).ok_or_else(unread)?;
        let end = root.samples.saturating_add(mapped.min(BYTES_MOST));
        if end > root.end {
            return Err(nonsense("the sampled stacks"));
        }
        let step = PIECE / root.sample_bytes * root.sample_bytes;
        let mut at = root.samples;
        while at < end {
            let mut bytes = vec![0; step.min(end - at) as usize];
            if memory.read(at, &mut bytes) != bytes.len() {
                return Err(unread());
            }
            samples.extend(
                bytes.chunks_exact(root.sample_bytes as usize).filter_map(|e| self.sample(e)),
            );
            if samples.len() > STACKS_MOST {
                return Err(nonsense("more sampled stacks than are believed"));
            }
            at += step;
        }
        Ok((missed, samples))
    }

    /// What an entry says; nothing, where it is not in use, or not filled yet.
    fn sample(&self, entry: &[u8]) -> Option<Samples> {
        let root = &self.root;
        let word = |at: u64| {
            let bytes = entry.get(at as usize..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let three = |at: u64| Some([word(at)?, word(at + 8)?, word(at + 16)?]);
        let about = word(root.sample_about)?;
        let room = (root.sample_bytes - root.sample_frames) / 8;
        let depth = u64::from(about as u32).min(room);
        if word(0)? == 0 || depth == 0 {
            return None;
        }
        let frames = (0..depth).map_while(|i| word(root.sample_frames + 8 * i)).collect();
        let (had, freed) = (three(root.sample_had)?, three(root.sample_freed)?);
        Some(Samples { frames, truncated: about >> 32 != 0, had, freed })
    }
}
