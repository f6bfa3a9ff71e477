//! Reads a trace: everything that can be read of it, and warnings about what cannot.

use crate::chunk::{CHUNK_HEADER, FILE_HEADER, Header, Kind, MAGIC, VERSION};
use crate::event::{Action, Event};
use crate::varint;
use std::collections::BTreeMap;
use std::fmt;

/// Why there is nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is no trace.
    Foreign,
    /// It ends within the header.
    Short,
    /// It was written by a later version.
    Newer {
        /// The version of the file.
        version: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Foreign => write!(f, "not a trace: it begins with other bytes"),
            Error::Short => write!(f, "not a whole trace: it ends within the header"),
            Error::Newer { version } => write!(
                f,
                "written in version {version} of the format; this program reads version {VERSION}"
            ),
        }
    }
}

impl std::error::Error for Error {}

/// What could not be read of a trace that can be used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The file ends within a chunk. Everything before is there.
    Truncated {
        /// The byte at which the chunk begins.
        at: usize,
    },
    /// The bytes of a chunk make no sense from some point on. What is before, and the chunks
    /// behind, are there.
    Damaged {
        /// The byte at which the chunk begins.
        at: usize,
    },
    /// There is no chunk where one should begin, and so nothing behind can be found.
    Lost {
        /// The byte.
        at: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Truncated { at } => {
                write!(f, "the file is cut off in the chunk at byte {at}: read up to there")
            }
            Warning::Damaged { at } => {
                write!(f, "the chunk at byte {at} is damaged: its end is not read")
            }
            Warning::Lost { at } => {
                write!(f, "no chunk begins at byte {at}: nothing behind it is read")
            }
        }
    }
}

/// A chunk of a file, not yet decoded. Nothing here allocates.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Its header.
    pub header: Header,
    /// What is there of its bytes.
    pub bytes: &'a [u8],
    /// Whether that is all of them.
    pub whole: bool,
    /// Where it begins in the file.
    pub at: usize,
}

impl<'a> Chunk<'a> {
    /// Its events, if it holds any. The last one is a warning when not all could be read.
    #[must_use]
    pub fn events(&self) -> Events<'a> {
        let bytes = if self.header.kind == Some(Kind::Events) { self.bytes } else { &[] };
        Events { bytes, before: self.header.before, whole: self.whole, at: self.at, over: false }
    }
}

/// The events of a chunk.
pub struct Events<'a> {
    bytes: &'a [u8],
    before: u64,
    whole: bool,
    at: usize,
    over: bool,
}

impl Iterator for Events<'_> {
    type Item = Result<Event, Warning>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        if self.bytes.is_empty() {
            self.over = true;
            return (!self.whole).then_some(Err(Warning::Truncated { at: self.at }));
        }
        let Some(event) = Event::decode(self.before, &mut self.bytes) else {
            self.over = true;
            let at = self.at;
            return Some(Err(if self.whole {
                Warning::Damaged { at }
            } else {
                Warning::Truncated { at }
            }));
        };
        self.before = event.sequence;
        Some(Ok(event))
    }
}

/// The chunks of a file.
pub struct Chunks<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The process that was recorded.
    pub pid: u32,
}

/// Checks the header of a file.
///
/// # Errors
/// When it is no trace, or one of a later version.
pub fn chunks(bytes: &[u8]) -> Result<Chunks<'_>, Error> {
    let shown = bytes.len().min(MAGIC.len());
    if bytes[..shown] != MAGIC[..shown] || bytes.is_empty() {
        return Err(Error::Foreign);
    }
    let Some(header) = bytes.first_chunk::<FILE_HEADER>() else {
        return Err(Error::Short);
    };
    let four = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    match four(8) {
        1..=VERSION => Ok(Chunks { bytes, at: FILE_HEADER, pid: four(12) }),
        0 => Err(Error::Foreign),
        version => Err(Error::Newer { version }),
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, Warning>;
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty())?;
        self.at = self.bytes.len();
        let Some((header, rest)) = rest.split_first_chunk::<CHUNK_HEADER>() else {
            return Some(Err(Warning::Truncated { at }));
        };
        let Some(header) = Header::decode(header) else {
            return Some(Err(Warning::Lost { at }));
        };
        let length = header.length as usize;
        let whole = length <= rest.len();
        let bytes = &rest[..length.min(rest.len())];
        self.at = at + CHUNK_HEADER + bytes.len();
        Some(Ok(Chunk { header, bytes, whole, at }))
    }
}

/// What one thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its number in the file.
    pub number: u32,
    /// In order; the definitions of sites are not among them.
    pub events: Vec<Event>,
}

/// A whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The process that was recorded.
    pub pid: u32,
    /// The threads, by number.
    pub threads: Vec<Thread>,
    /// The return addresses that the numbers of sites stand for.
    pub sites: BTreeMap<u32, u64>,
    /// The text of the process's `/proc/self/maps`.
    pub maps: String,
    /// Calls that could not be recorded.
    pub unrecorded: u64,
    /// Blocks that were given back without a recorded allocation.
    pub unknown_frees: u64,
    /// What could not be read.
    pub warnings: Vec<Warning>,
}

impl Trace {
    /// Reads all that there is.
    ///
    /// # Errors
    /// When it is no trace, or one of a later version. What is only cut off or damaged is read as
    /// far as it goes, with warnings.
    pub fn read(bytes: &[u8]) -> Result<Trace, Error> {
        let chunks = chunks(bytes)?;
        let mut trace = Trace { pid: chunks.pid, ..Trace::default() };
        let mut threads: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
        for chunk in chunks {
            match chunk {
                Ok(chunk) => trace.take(&chunk, &mut threads),
                Err(warning) => trace.warnings.push(warning),
            }
        }
        trace.threads =
            threads.into_iter().map(|(number, events)| Thread { number, events }).collect();
        Ok(trace)
    }

    fn take(&mut self, chunk: &Chunk<'_>, threads: &mut BTreeMap<u32, Vec<Event>>) {
        match chunk.header.kind {
            Some(Kind::Events) => {
                let events = threads.entry(chunk.header.thread).or_default();
                if events.last().is_some_and(|last| last.sequence > chunk.header.before) {
                    self.warnings.push(Warning::Damaged { at: chunk.at });
                    return;
                }
                for event in chunk.events() {
                    match event {
                        Ok(Event { action: Action::Site { site, address }, .. }) => {
                            self.sites.insert(site, address);
                        }
                        Ok(event) => events.push(event),
                        Err(warning) => self.warnings.push(warning),
                    }
                }
                return;
            }
            Some(Kind::Maps) => self.maps = String::from_utf8_lossy(chunk.bytes).into_owned(),
            Some(Kind::Missed) => {
                let mut rest = chunk.bytes;
                let numbers = (varint::number(&mut rest), varint::number(&mut rest));
                if let (Some(unrecorded), Some(unknown)) = numbers {
                    (self.unrecorded, self.unknown_frees) = (unrecorded, unknown);
                } else if chunk.whole {
                    self.warnings.push(Warning::Damaged { at: chunk.at });
                }
            }
            // A chunk that a later writer of this version has added: nothing that is needed.
            None => {}
        }
        if !chunk.whole {
            self.warnings.push(Warning::Truncated { at: chunk.at });
        }
    }
}
