//! The stacks of sampled allocations, as the library keeps them: `TOFT_SAMPLE`.

use crate::bytes::{u32_at, u64_at};
use crate::entries::Entries;
use crate::memory::read_u64;
use crate::{Error, Frame, Memory, Tables};

/// The most bytes of entries that are believed.
const BYTES_MOST: u64 = 1 << 32;
/// The most stacks that are believed: a file may be made to look larger than it is.
const STACKS_MOST: usize = 1 << 20;

/// The samples of one stack. Blocks have `sample_object_bits` bits behind the point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Return addresses, innermost first, and the addresses of named frames with a mark.
    pub frames: Vec<u64>,
    /// True if the library could not follow the whole stack.
    pub truncated: bool,
    /// Samples, blocks, bytes.
    pub had: [u64; 3],
    /// Those of them that were freed.
    pub freed: [u64; 3],
}

impl Tables {
    /// Returns the mean number of bytes from one chosen byte to the next; `None` if the library
    /// keeps no stacks.
    pub fn sample_interval(&self) -> Option<u64> {
        (self.root.samples != 0).then_some(self.root.sample_interval)
    }

    /// Returns the number of samples for which there was no memory, and the samples of each stack,
    /// in no order.
    pub fn samples(&self, memory: &impl Memory) -> Result<(u64, Vec<Samples>), Error> {
        let root = &self.root;
        let mut samples = Vec::new();
        if root.samples == 0 {
            return Ok((0, samples));
        }
        let table = Entries {
            name: "the sampled stacks",
            start: root.samples,
            first: (0, 0),
            mapped: root.samples_mapped,
            entry: root.sample_bytes,
            most: BYTES_MOST,
        };
        let missed = read_u64(memory, root.samples_missed);
        let missed = missed.ok_or_else(|| memory.unread(table.name))?;
        self.for_each_entry(memory, &table, |entry| {
            samples.extend(self.sample(entry));
            match samples.len() {
                ..=STACKS_MOST => Ok(()),
                _ => Err(Error::Nonsense(memory.pid(), "the number of sampled stacks")),
            }
        })?;
        Ok((missed, samples))
    }

    /// Returns the function that a named frame is of; `None` if the frame is a return address, or
    /// cannot be read.
    pub fn named_frame(&self, memory: &impl Memory, frame: u64) -> Option<Frame> {
        let root = &self.root;
        let address = frame.checked_sub(root.sample_named).filter(|_| root.sample_named != 0)?;
        let end = address.checked_add(root.named_bytes)?;
        if address < root.metadata || end > root.end {
            return None;
        }
        let mut entry = vec![0; root.named_bytes as usize];
        if memory.read(address, &mut entry) < entry.len() {
            return None;
        }
        let text = |at: u64| {
            let text = entry.get(at as usize..)?.split(|&byte| byte == 0).next()?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        let line = u32_at(&entry, root.named_line as usize);
        Some(Frame {
            function: text(root.named_function).filter(|name| !name.is_empty())?,
            file: text(root.named_file),
            line: Some(line).filter(|&line| line != 0),
        })
    }

    /// Returns the samples of an entry; `None` if it is not in use, or not filled yet.
    fn sample(&self, entry: &[u8]) -> Option<Samples> {
        let root = &self.root;
        let word = |at: u64| u64_at(entry, at as usize);
        let three = |at: u64| [word(at), word(at + 8), word(at + 16)];
        let about = word(root.sample_about);
        let room = (root.sample_bytes - root.sample_frames) / 8;
        let depth = u64::from(about as u32).min(room);
        if word(0) == 0 || depth == 0 {
            return None;
        }
        Some(Samples {
            frames: (0..depth).map(|i| word(root.sample_frames + 8 * i)).collect(),
            truncated: about >> 32 != 0,
            had: three(root.sample_had),
            freed: three(root.sample_freed),
        })
    }
}
