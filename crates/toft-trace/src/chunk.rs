//! The header of a file, and of a chunk. All numbers are little-endian.

/// The first bytes of a file. The byte above 127 and the line ends show a file that was damaged as
/// text.
pub const MAGIC: [u8; 8] = *b"\x89TOFT\r\n\x1a";
/// The version of the format. A reader refuses a file with a higher one.
pub const VERSION: u32 = 1;
/// The length of the header of a file.
pub const FILE_HEADER: usize = 16;
/// The length of the header of a chunk.
pub const CHUNK_HEADER: usize = 24;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Events of one thread.
    Events,
    /// The text of `/proc/self/maps`, of which the last one holds: it says what was at the
    /// addresses of the sites.
    Maps,
    /// Two numbers: the calls that could not be recorded, and the blocks that were given back
    /// without a recorded allocation. The last one holds.
    Missed,
}

impl Kind {
    fn word(self) -> [u8; 4] {
        match self {
            Kind::Events => *b"EVNT",
            Kind::Maps => *b"MAPS",
            Kind::Missed => *b"MISS",
        }
    }
}

/// The header of a file written by the process `pid`.
#[must_use]
pub fn file_header(pid: u32) -> [u8; FILE_HEADER] {
    let mut bytes = [0; FILE_HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..].copy_from_slice(&pid.to_le_bytes());
    bytes
}

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it holds; nothing when this reader does not know.
    pub kind: Option<Kind>,
    /// Whose events.
    pub thread: u32,
    /// Bytes behind the header.
    pub length: u32,
    /// The sequence number that the first event's is told from.
    pub before: u64,
}

impl Header {
    /// The header of a chunk of a known kind.
    ///
    /// # Panics
    /// When the kind is not known.
    #[must_use]
    pub fn encode(&self) -> [u8; CHUNK_HEADER] {
        let mut bytes = [0; CHUNK_HEADER];
        bytes[..4].copy_from_slice(&self.kind.expect("a kind that can be written").word());
        bytes[4..8].copy_from_slice(&self.thread.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..].copy_from_slice(&self.before.to_le_bytes());
        bytes
    }

    /// Reads a header; nothing when the bytes are none. A kind that this version does not know is
    /// four capital letters.
    #[must_use]
    pub fn decode(bytes: &[u8; CHUNK_HEADER]) -> Option<Header> {
        let word: [u8; 4] = bytes[..4].try_into().expect("four bytes");
        if !word.iter().all(u8::is_ascii_uppercase) {
            return None;
        }
        let kind =
            [Kind::Events, Kind::Maps, Kind::Missed].into_iter().find(|kind| kind.word() == word);
        let four =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let before = u64::from_le_bytes(bytes[16..].try_into().expect("eight bytes"));
        Some(Header { kind, thread: four(4), length: four(8), before })
    }
}
