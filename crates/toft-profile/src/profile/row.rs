//! A row of a profile: a call site, what it has live in slots of one size, and how the place is
//! said.

use serde::{Deserialize, Serialize};

use crate::label;

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

/// A function that a call site is in, or is inlined into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// Its name, as people write it.
    pub function: String,
    /// The source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Frame {
    /// `function at file.c:12`.
    pub fn words(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => {
                format!("{} at {}:{line}", self.function, file_name(file))
            }
            _ => self.function.clone(),
        }
    }
}

/// What a row got between two readings of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recent {
    /// How long that was.
    pub milliseconds: u64,
    /// Live blocks at the first reading.
    pub objects_before: u64,
    /// Blocks that came between the two.
    pub allocations: u64,
}

/// What one call site has live, in slots of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The address that the call returns to.
    #[serde(with = "super::file::hex", rename = "site")]
    pub site: u64,
    /// The file that the site is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Its build-id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// The site as the file's own tables count.
    #[serde(default, with = "super::file::hex_or_none", skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The partition.
    pub partition: u32,
    /// Bytes in a slot; 0 for large blocks, whose sizes differ.
    pub size: u64,
    /// Live blocks.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks that it has ever had: those that live, and those that were freed.
    #[serde(default)]
    pub allocations: u64,
    /// Their bytes, as of `bytes`; of large blocks those by which they have grown in place, too.
    #[serde(default)]
    pub allocated: u64,
    /// What came to it lately, where the process was looked at twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<Recent>,
    /// Whose they are.
    pub share: Share,
    /// The functions that the site is in, innermost first: those behind the first have it inlined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
}

impl Row {
    /// The file's name without its folders.
    pub fn module_name(&self) -> &str {
        self.module.as_deref().map_or("no file", file_name)
    }

    /// Seconds that its blocks live on average, by Little's law, as of
    /// [`Change::lifetime`](super::Change::lifetime): known where the process was looked at twice
    /// and blocks came meanwhile.
    pub fn lifetime(&self) -> Option<f64> {
        let recent = self.recent.filter(|recent| recent.allocations > 0)?;
        let live = (recent.objects_before as f64 + self.objects as f64) / 2.0;
        Some(live * recent.milliseconds as f64 / 1e3 / recent.allocations as f64)
    }

    /// Blocks that were freed.
    pub fn frees(&self) -> u64 {
        self.allocations.saturating_sub(self.objects)
    }

    /// The function that names the site, as [`label`] chooses and shortens it.
    pub fn label(&self) -> Option<Frame> {
        let frame = label::label(&self.frames)?;
        Some(Frame { function: label::short(&frame.function), ..frame.clone() })
    }

    /// Whether all functions at the site belong to libraries, so that several callers may share it.
    pub fn is_library_code(&self) -> bool {
        !self.frames.is_empty() && label::first_own(&self.frames).is_none()
    }

    /// The function that names the site, or as much as is known of the place.
    pub fn function(&self) -> String {
        match (self.label(), self.offset) {
            (Some(label), _) => label.function,
            (None, Some(offset)) if self.module.is_some() => {
                format!("{}+{offset:#x}", self.module_name())
            }
            _ => format!("{:#x}", self.site),
        }
    }

    /// The place in one line: `function at file.c:12`, or with less where less is known.
    pub fn place(&self) -> String {
        match self.label() {
            Some(label) if label.line.is_some() => label.words(),
            Some(label) => format!("{} in {}", label.words(), self.module_name()),
            None => self.function(),
        }
    }

    /// All functions at the site, innermost first, in full.
    pub fn in_full(&self) -> impl Iterator<Item = String> + '_ {
        self.frames.iter().map(Frame::words)
    }

    /// Outermost first: the file, then the functions. What folded stacks and flame graphs show.
    pub fn stack(&self) -> Vec<String> {
        let mut stack = vec![self.module_name().to_owned()];
        stack.extend(self.frames.iter().skip(1).rev().map(|frame| frame.function.clone()));
        stack.push(match self.frames.first() {
            Some(frame) => frame.words(),
            None => self.function(),
        });
        stack
    }

    /// The file and the place: what a site is known by in another run.
    pub fn key(&self) -> (String, String) {
        (self.module_name().to_owned(), self.place())
    }
}

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
