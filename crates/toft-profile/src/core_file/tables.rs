//! What a core file says of itself: its headers, and the notes of the process and its files.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Core, Mapped, Segment, read_at};
use crate::Error;
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::module::Notes;
use crate::{regular, text_of_path};

/// The most bytes of notes, and of program headers, that are believed.
const TABLE_MOST: u64 = 256 << 20;
/// The most mappings of files that are believed: what a kernel allows a process by default.
const FILES_MOST: usize = 1 << 16;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_FILE: u32 = 0x4649_4c45;

impl Core {
    /// Reads a core file's tables.
    pub fn open(path: &Path) -> Result<Core, Error> {
        let name = path.display().to_string();
        let bad = |why: &str| Error::BadCore(name.clone(), why.to_owned());
        let failed = |error: io::Error| Error::BadCore(name.clone(), error.to_string());
        let file = regular::open(path).map_err(failed)?;
        let about: Metadata = file.metadata().map_err(failed)?;
        let mut header = [0; 64];
        let got = read_at(&file, 0, &mut header);
        match header.get(..6).filter(|_| got == 64) {
            Some([0x7f, b'E', b'L', b'F', 2, 1]) => {}
            Some([0x7f, b'E', b'L', b'F', ..]) => {
                return Err(bad("not of a 64-bit little-endian program"));
            }
            _ => return Err(bad("not a core file")),
        }
        if u16_at(&header, 16) != 4 {
            return Err(bad("a program or a library, and not a core file"));
        }
        let (place, size) = (u64_at(&header, 32), u64::from(u16_at(&header, 54)));
        let mut count = u64::from(u16_at(&header, 56));
        if count == 0xffff {
            // More than fit there: then the first section has the number.
            let mut section = [0; 64];
            read_at(&file, u64_at(&header, 40), &mut section);
            count = u64::from(u32_at(&section, 44));
        }
        let table = count.checked_mul(size).filter(|&bytes| size >= 56 && bytes <= TABLE_MOST);
        let mut headers = vec![0; table.ok_or_else(|| bad("its tables make no sense"))? as usize];
        if read_at(&file, place, &mut headers) != headers.len() {
            return Err(bad("cut off in its tables"));
        }
        let mut core = Core {
            name: name.clone(),
            length: about.len(),
            written: about.mtime(),
            segments: Vec::new(),
            files: Vec::new(),
            pid: 0,
            program: String::new(),
            threads: 0,
            file,
        };
        // Headers may all name the same bytes.
        let mut left = TABLE_MOST;
        for header in headers.chunks_exact(size as usize) {
            let (offset, start) = (u64_at(header, 8), u64_at(header, 16));
            let (kept, bytes) = (u64_at(header, 32), u64_at(header, 40));
            match u32_at(header, 0) {
                PT_LOAD => core.segments.push(Segment {
                    start,
                    end: start.saturating_add(bytes),
                    kept: kept.min(bytes),
                    place: offset,
                    flags: u32_at(header, 4),
                }),
                PT_NOTE => {
                    let there = about.len().saturating_sub(offset);
                    let mut notes = vec![0; kept.min(left).min(there) as usize];
                    left -= notes.len() as u64;
                    let got = read_at(&core.file, offset, &mut notes);
                    core.add_notes(&notes[..got]);
                }
                _ => {}
            }
        }
        core.segments.sort_by_key(|segment| segment.start);
        core.files.sort_by_key(|mapped| mapped.start);
        Ok(core)
    }

    fn add_notes(&mut self, notes: &[u8]) {
        for note in Notes(notes) {
            match (note.name, note.kind) {
                (b"CORE", NT_PRSTATUS) => {
                    self.threads += 1;
                    if self.pid == 0 {
                        self.pid = u32_at(note.contents, 32) as i32;
                    }
                }
                (b"CORE", NT_PRPSINFO) => {
                    // Of the whole process, where the status is of the thread that ended it.
                    self.pid = u32_at(note.contents, 24) as i32;
                    let name = note.contents.get(40..56).unwrap_or(&[]);
                    let name = name.split(|&byte| byte == 0).next().unwrap_or(&[]);
                    self.program = String::from_utf8_lossy(name).into_owned();
                }
                (b"CORE", NT_FILE) => self.add_files(note.contents),
                _ => {}
            }
        }
    }

    fn add_files(&mut self, note: &[u8]) {
        let (count, unit) = (u64_at(note, 0), u64_at(note, 8));
        let Some(names) = count.checked_mul(24).and_then(|bytes| bytes.checked_add(16)) else {
            return;
        };
        let Some(names) = usize::try_from(names).ok().and_then(|names| note.get(names..)) else {
            return;
        };
        let places = note[16..].chunks_exact(24);
        let most = FILES_MOST.saturating_sub(self.files.len()).min(count as usize);
        for (place, name) in places.zip(names.split(|&byte| byte == 0)).take(most) {
            self.files.push(Mapped {
                start: u64_at(place, 0),
                end: u64_at(place, 8),
                offset: u64_at(place, 16).saturating_mul(unit),
                path: text_of_path(Path::new(OsStr::from_bytes(name))),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    /// A core file of that many program headers, each of which names the same note of that many
    /// mappings.
    fn core(headers: usize, mappings: usize) -> Result<Core, Error> {
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16] = 4;
        file[32] = 64;
        file[54] = 56;
        file[56..58].copy_from_slice(&(headers as u16).to_le_bytes());
        let place = (64 + 56 * headers) as u64;
        let contents = 16 + 25 * mappings;
        let length = 20 + contents.next_multiple_of(4);
        for _ in 0..headers {
            let mut header = [0; 56];
            header[0] = PT_NOTE as u8;
            header[8..16].copy_from_slice(&place.to_le_bytes());
            header[32..40].copy_from_slice(&(length as u64).to_le_bytes());
            file.extend(header);
        }
        for number in [5, contents as u32, NT_FILE] {
            file.extend(number.to_le_bytes());
        }
        file.extend(b"CORE\0\0\0\0");
        file.extend((mappings as u64).to_le_bytes());
        file.extend(4096u64.to_le_bytes());
        for i in 0..mappings as u64 {
            for number in [i << 12, (i + 1) << 12, u64::MAX] {
                file.extend(number.to_le_bytes());
            }
        }
        file.resize(place as usize + length, 0);
        let path = std::env::temp_dir().join(format!("toft-core-{}-{headers}", std::process::id()));
        std::fs::write(&path, file).unwrap();
        let core = Core::open(&path);
        std::fs::remove_file(&path).unwrap();
        core
    }

    #[test]
    fn as_many_mappings_are_believed_as_a_process_can_have() {
        let one = core(1, 1000).unwrap();
        assert_eq!(one.files.len(), 1000);
        assert_eq!(one.files[999].start, 999 << 12);
        // A place in the file that no file has is no reason to stumble.
        assert_eq!(one.read(0x10, &mut [0; 8]), 0);
        assert_eq!(one.mappings().unwrap().len(), 1000);
        assert_eq!(core(1000, 1000).unwrap().files.len(), FILES_MOST);
    }
}
