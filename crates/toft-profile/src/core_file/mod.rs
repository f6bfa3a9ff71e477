//! A core file: the memory of a process at its end, as far as the kernel wrote it down.
//!
//! | part | what it is for |
//! |---|---|
//! | `PT_LOAD` | a mapping, and its bytes where the file has them |
//! | `NT_FILE` | which mappings are of which file, and where in it |
//! | `NT_PRSTATUS`, `NT_PRPSINFO` | the process's number and name |
//!
//! Pages of files that the program did not change are not in a core file by default, only the first
//! of each file. What is not there is read from the file that was mapped, if it is older than the
//! core.

mod tables;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

use crate::{Error, Found, Mapping, Memory, Run, paths_of_text, regular};

const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;

/// A core file.
#[derive(Debug)]
pub struct Core {
    file: File,
    /// The file's name, for messages.
    name: String,
    length: u64,
    written: i64,
    segments: Vec<Segment>,
    files: Vec<Mapped>,
    pid: i32,
    program: String,
    threads: usize,
}

/// A mapping of the process.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
    /// Bytes of it that the core has, and where.
    kept: u64,
    place: u64,
    flags: u32,
}

/// A mapping of a file.
#[derive(Clone, Debug)]
struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

impl Core {
    /// The program's name.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Threads that it had.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// When it was written, in seconds since 1970.
    pub fn written(&self) -> u64 {
        self.written.max(0) as u64
    }

    /// What of the allocator's tables the core has not, if any: then a profile of it is of a part.
    pub fn lacks(&self, found: &Found) -> Option<String> {
        let root = &found.root;
        let (mut missing, mut cut) = (0, 0);
        for segment in &self.segments {
            // Memory without write permission: the allocator has not used it yet.
            if segment.flags & PF_W == 0 {
                continue;
            }
            let from = segment.start.max(root.metadata);
            let to = segment.end.min(root.end);
            let kept = segment.start.saturating_add(segment.kept);
            missing += to.saturating_sub(from.max(kept));
            let there = self.length.saturating_sub(segment.place).min(segment.kept);
            let there = segment.start.saturating_add(there);
            cut += to.min(kept).saturating_sub(from.max(there));
        }
        match (missing, cut) {
            (0, 0) => None,
            (_, 1..) => Some(format!(
                "{cut} bytes of Toft's tables: the file was cut off (ulimit -c, or a full disk)"
            )),
            _ => Some(format!(
                "{missing} bytes of Toft's tables: private anonymous memory was left out (bit 0 of \
                 /proc/PID/coredump_filter, 0x33 by default)"
            )),
        }
    }

    /// Why Toft cannot be found in it, where the core itself is the reason.
    pub fn explain(&self, error: Error) -> Error {
        let ends = |s: &Segment| s.place.saturating_add(s.kept);
        let end = self.segments.iter().map(ends).max().unwrap_or(0);
        let kept = |s: &&Segment| s.flags & PF_W != 0 && s.kept > 0;
        if end > self.length {
            let (have, whole) = (self.length, end);
            let what =
                format!("its end: it has {have} of {whole} bytes (ulimit -c, or a full disk)");
            return Error::CoreLacks(self.name.clone(), what);
        }
        if !self.segments.iter().any(|segment| kept(&segment)) {
            let what = "the program's data: private anonymous memory was left out (bit 0 of \
                        /proc/PID/coredump_filter, 0x33 by default)";
            return Error::CoreLacks(self.name.clone(), what.into());
        }
        match error {
            Error::NotToft(_) => Error::BadCore(
                self.name.clone(),
                "its process did not run on Toft, or the files that it ran from have changed since \
                 and their first pages are not in the core (bit 4 of /proc/PID/coredump_filter)"
                    .into(),
            ),
            error => error,
        }
    }

    fn segment_of(&self, address: u64) -> Option<&Segment> {
        let behind = self.segments.partition_point(|segment| segment.start <= address);
        self.segments.get(behind.checked_sub(1)?).filter(|segment| address < segment.end)
    }

    fn file_of(&self, address: u64) -> Option<&Mapped> {
        let behind = self.files.partition_point(|mapped| mapped.start <= address);
        self.files.get(behind.checked_sub(1)?).filter(|mapped| address < mapped.end)
    }

    /// Reads what can be read at once; zero where nothing can.
    fn read_piece(&self, address: u64, into: &mut [u8]) -> usize {
        if let Some(segment) = self.segment_of(address) {
            let offset = address - segment.start;
            if offset < segment.kept {
                let most = into.len().min((segment.kept - offset) as usize);
                return read_at(
                    &self.file,
                    segment.place.saturating_add(offset),
                    &mut into[..most],
                );
            }
            if segment.flags & PF_W != 0 {
                // What the program may have changed is in no file.
                return 0;
            }
        }
        let Some(mapped) = self.file_of(address) else { return 0 };
        let most = into.len().min((mapped.end - address) as usize);
        let mut paths = paths_of_text(&mapped.path).into_iter();
        let Some(file) = paths.find_map(|path| regular::open(&path).ok()) else { return 0 };
        if !file.metadata().is_ok_and(|about| about.mtime() <= self.written) {
            return 0;
        }
        read_at(&file, mapped.offset.saturating_add(address - mapped.start), &mut into[..most])
    }
}

impl Memory for Core {
    fn pid(&self) -> i32 {
        self.pid
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Error> {
        let of_segment = |segment: &Segment| {
            let mapped = self.file_of(segment.start);
            Mapping {
                start: segment.start,
                end: segment.end,
                offset: mapped.map_or(0, |m| m.offset.saturating_add(segment.start - m.start)),
                readable: segment.flags & PF_R != 0,
                executable: segment.flags & PF_X != 0,
                path: mapped.map_or_else(String::new, |mapped| mapped.path.clone()),
            }
        };
        let mut mappings: Vec<Mapping> = self.segments.iter().map(of_segment).collect();
        // A debugger may leave out what it can read elsewhere.
        let left_out = self.files.iter().filter(|m| self.segment_of(m.start).is_none());
        mappings.extend(left_out.map(|mapped| Mapping {
            start: mapped.start,
            end: mapped.end,
            offset: mapped.offset,
            readable: true,
            executable: true,
            path: mapped.path.clone(),
        }));
        mappings.sort_by_key(|mapping| mapping.start);
        Ok(mappings)
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            let Some(at) = address.checked_add(done as u64) else { break };
            match self.read_piece(at, &mut into[done..]) {
                0 => break,
                count => done += count,
            }
        }
        done
    }

    /// What the core has, without the holes that the kernel leaves for pages of zeros.
    fn pages(&self, start: u64, end: u64) -> Result<Vec<Run>, Error> {
        const PAGE: u64 = 4096;
        let mut runs = Vec::new();
        for segment in &self.segments {
            let kept = segment.kept.min(self.length.saturating_sub(segment.place));
            let (from, to) =
                (segment.start.max(start), segment.start.saturating_add(kept).min(end));
            let mut at = from;
            while at < to {
                let place = |address: u64| segment.place.saturating_add(address - segment.start);
                let data = seek(&self.file, place(at), Whence::SeekData).unwrap_or(u64::MAX);
                let first = data.saturating_sub(place(at)).saturating_add(at) & !(PAGE - 1);
                if first >= to {
                    break;
                }
                let first = first.max(from);
                let hole =
                    seek(&self.file, place(first).max(data), Whence::SeekHole).unwrap_or(u64::MAX);
                let last = hole.saturating_sub(place(first)).saturating_add(first).min(to);
                let last = last.max(first + 1).checked_next_multiple_of(PAGE).unwrap_or(to).min(to);
                runs.push(Run { start: first, end: last });
                at = last;
            }
        }
        Ok(runs)
    }
}

/// Where the next data, or the next hole, begins; a file system without holes has data everywhere.
fn seek(file: &File, from: u64, whence: Whence) -> Option<u64> {
    match lseek(file, from as i64, whence) {
        Ok(place) => Some(place as u64),
        Err(Errno::ENXIO) => None,
        Err(_) if matches!(whence, Whence::SeekData) => Some(from),
        Err(_) => None,
    }
}

/// Reads until there is no more.
fn read_at(file: &File, place: u64, into: &mut [u8]) -> usize {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], place.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    done
}
