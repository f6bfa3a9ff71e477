//! Writes a trace from ordinary code. The recorder has its own way, which does not allocate.

use crate::chunk::{Header, Kind, file_header};
use crate::event::{self, Action, Event};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// How much of a thread is gathered before it is written.
const CHUNK: usize = 64 * 1024;

/// Gathers the events of each thread and writes them in chunks.
pub struct Writer<W: Write> {
    output: W,
    threads: BTreeMap<u32, Pending>,
    sequence: u64,
    chunk: usize,
}

/// What a thread did since its last chunk.
#[derive(Default)]
struct Pending {
    /// The sequence number before the first of `bytes`.
    before: u64,
    /// That of the last event.
    last: u64,
    bytes: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// As the output.
    pub fn new(mut output: W, pid: u32) -> io::Result<Self> {
        output.write_all(&file_header(pid))?;
        Ok(Self { output, threads: BTreeMap::new(), sequence: 0, chunk: CHUNK })
    }

    /// Sets another size of chunks, which shows in nothing but the file.
    #[must_use]
    pub fn with_chunks_of(mut self, bytes: usize) -> Self {
        self.chunk = bytes;
        self
    }

    /// Adds what `thread` did next, and returns its sequence number: the name of the object if it
    /// was an allocation.
    ///
    /// # Errors
    /// As the output.
    pub fn event(&mut self, thread: u32, action: Action) -> io::Result<u64> {
        let pending = self.threads.entry(thread).or_default();
        let sequence = match action {
            Action::Site { .. } => pending.last,
            _ => {
                self.sequence += 1;
                self.sequence
            }
        };
        let mut place = [0; event::LONGEST];
        let len = Event { sequence, action }.encode(pending.last, &mut place);
        pending.bytes.extend_from_slice(&place[..len]);
        pending.last = sequence;
        if pending.bytes.len() >= self.chunk {
            pending.write(thread, &mut self.output)?;
        }
        Ok(sequence)
    }

    /// Adds the text of `/proc/PID/maps`.
    ///
    /// # Errors
    /// As the output; and when the text is larger than a chunk can be.
    pub fn maps(&mut self, text: &str) -> io::Result<()> {
        let header =
            Header { kind: Some(Kind::Maps), thread: 0, length: length(text.len())?, before: 0 };
        self.output.write_all(&header.encode())?;
        self.output.write_all(text.as_bytes())
    }

    /// Writes what is left, and gives the output back.
    ///
    /// # Errors
    /// As the output.
    pub fn finish(mut self) -> io::Result<W> {
        for (thread, pending) in &mut self.threads {
            pending.write(*thread, &mut self.output)?;
        }
        self.output.flush()?;
        Ok(self.output)
    }
}

impl Pending {
    fn write(&mut self, thread: u32, output: &mut impl Write) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let header = Header {
            kind: Some(Kind::Events),
            thread,
            length: length(self.bytes.len())?,
            before: self.before,
        };
        output.write_all(&header.encode())?;
        output.write_all(&self.bytes)?;
        self.bytes.clear();
        self.before = self.last;
        Ok(())
    }
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(io::Error::other)
}
