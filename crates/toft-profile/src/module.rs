//! Files that are mapped: what their own ELF headers say, read from the memory that is looked at,
//! so that a file which was replaced or is in another container is not mistaken for what runs.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::{Frames, Location, Mapping, Memory};

/// Bytes at the start of a file that its headers are looked for in.
const HEADER: usize = 4096;
/// The most bytes of notes that are read.
const NOTES_MOST: u64 = 64 << 10;
/// The most of one segment that is believed.
const SEGMENT_MOST: u64 = 1 << 30;
/// Bytes of a program header.
const PROGRAM_HEADER: usize = 56;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_W: u32 = 2;
const NT_GNU_BUILD_ID: u32 = 3;

/// What a mapping's first bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A 64-bit ELF file.
    Wide(Image),
    /// A 32-bit one.
    Narrow,
    /// Anything else, or bytes that cannot be read.
    Other,
}

/// A 64-bit ELF file as it is mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// What is added to an address of the file's own tables.
    pub bias: u64,
    /// Where it can be written, from the first address to the one behind the last.
    pub writable: Vec<(u64, u64)>,
    notes: Vec<(u64, u64)>,
}

impl Image {
    /// Reads the headers that a mapping begins with.
    pub fn at(memory: &impl Memory, mapping: &Mapping) -> Kind {
        let mut header = [0; HEADER];
        let got = memory.read(mapping.start, &mut header);
        let header = &header[..got];
        match header.get(..5) {
            Some([0x7f, b'E', b'L', b'F', 2]) => {}
            Some([0x7f, b'E', b'L', b'F', 1]) => return Kind::Narrow,
            _ => return Kind::Other,
        }
        Image::parse(header, mapping.start).map_or(Kind::Other, Kind::Wide)
    }

    fn parse(header: &[u8], start: u64) -> Option<Image> {
        let (place, size) = (usize::try_from(u64_at(header, 32)).ok()?, u16_at(header, 54));
        let size = usize::from(size);
        if size < PROGRAM_HEADER {
            return None;
        }
        let mut bias = None;
        let mut image = Image::default();
        for segment in header.get(place..)?.chunks(size).take(u16_at(header, 56).into()) {
            if segment.len() < PROGRAM_HEADER {
                break;
            }
            let (kind, flags) = (u32_at(segment, 0), u32_at(segment, 4));
            let (offset, address) = (u64_at(segment, 8), u64_at(segment, 16));
            let (in_file, in_memory) = (u64_at(segment, 32), u64_at(segment, 40));
            if kind == PT_NOTE {
                image.notes.push((address, in_memory.min(NOTES_MOST)));
            }
            if kind != PT_LOAD {
                continue;
            }
            let bias =
                *bias.get_or_insert_with(|| start.wrapping_sub(address.wrapping_sub(offset)));
            if flags & PF_W != 0 {
                let start = address.wrapping_add(bias);
                // Zeroed data after what the file has holds no anchor.
                let bytes = in_file.min(SEGMENT_MOST);
                image.writable.push((start, start.saturating_add(bytes)));
            }
        }
        image.bias = bias.unwrap_or(start);
        Some(image)
    }

    /// The build-id, in hexadecimal digits, where it has one that can be read.
    pub fn build_id(&self, memory: &impl Memory) -> Option<String> {
        self.notes.iter().find_map(|&(address, bytes)| {
            let mut notes = vec![0; bytes as usize];
            let got = memory.read(address.wrapping_add(self.bias), &mut notes);
            build_id(notes.get(..got)?)
        })
    }
}

/// Finds the build-id among the notes of a file.
fn build_id(notes: &[u8]) -> Option<String> {
    for note in Notes(notes) {
        if note.kind == NT_GNU_BUILD_ID && note.name == b"GNU" && !note.contents.is_empty() {
            return Some(note.contents.iter().map(|byte| format!("{byte:02x}")).collect());
        }
    }
    None
}

/// A note of an ELF file.
pub struct Note<'a> {
    /// What it is, for those who have that name.
    pub kind: u32,
    /// Whose it is, without the zero.
    pub name: &'a [u8],
    /// What it says.
    pub contents: &'a [u8],
}

/// The notes in these bytes, as far as they make sense.
pub struct Notes<'a>(pub &'a [u8]);

impl<'a> Iterator for Notes<'a> {
    type Item = Note<'a>;

    fn next(&mut self) -> Option<Note<'a>> {
        let header = self.0.get(..12)?;
        let (name, contents) = (u32_at(header, 0) as usize, u32_at(header, 4) as usize);
        let begin = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = begin.checked_add(contents)?;
        let note = Note {
            kind: u32_at(header, 8),
            name: self.0.get(12..12usize.checked_add(name)?)?.split(|&b| b == 0).next()?,
            contents: self.0.get(begin..end)?,
        };
        self.0 = self.0.get(end.checked_next_multiple_of(4)?..).unwrap_or(&[]);
        Some(note)
    }
}

/// A file that code is run from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The file.
    pub path: String,
    /// Its build-id.
    pub build_id: Option<String>,
    /// What is added to an address of the file's own tables.
    pub bias: u64,
    start: u64,
    end: u64,
}

/// The files that code is run from, by address.
#[derive(Clone, Debug, Default)]
pub struct Modules(Vec<Module>);

impl Modules {
    /// Of a process.
    pub fn of(memory: &impl Memory, mappings: &[Mapping]) -> Modules {
        let mut modules = Vec::new();
        let mut first: Option<&Mapping> = None;
        let mut known: Option<(u64, Image, Option<String>)> = None;
        for mapping in mappings {
            if mapping.offset == 0 && mapping.path.starts_with('/') {
                first = Some(mapping);
            }
            if !mapping.executable || !mapping.path.starts_with('/') {
                continue;
            }
            let start = first.filter(|first| first.path == mapping.path);
            let (bias, build_id) = match start {
                Some(start) => {
                    if known.as_ref().is_none_or(|(at, ..)| *at != start.start) {
                        known = match Image::at(memory, start) {
                            Kind::Wide(image) => {
                                let build_id = image.build_id(memory);
                                Some((start.start, image, build_id))
                            }
                            Kind::Narrow | Kind::Other => None,
                        };
                    }
                    known.as_ref().map_or(
                        (mapping.start.wrapping_sub(mapping.offset), None),
                        |(_, image, build_id)| (image.bias, build_id.clone()),
                    )
                }
                None => (mapping.start.wrapping_sub(mapping.offset), None),
            };
            modules.push(Module {
                path: mapping.path.clone(),
                build_id,
                bias,
                start: mapping.start,
                end: mapping.end,
            });
        }
        modules.sort_by_key(|module| module.start);
        Modules(modules)
    }

    /// The file that a call returns to.
    pub fn of_return(&self, address: u64) -> Option<&Module> {
        // A call that never returns may be the last instruction.
        let within = address.checked_sub(1)?;
        let behind = self.0.partition_point(|module| module.start <= within);
        self.0.get(behind.checked_sub(1)?).filter(|module| within < module.end)
    }

    /// Returns the call site of a return address, without its functions.
    pub fn location(&self, site: u64) -> Location {
        match self.of_return(site) {
            Some(module) => Location {
                site,
                module: Some(module.path.clone()),
                build_id: module.build_id.clone(),
                offset: Some(site.wrapping_sub(module.bias)),
                program: None,
                frames: Frames::default(),
            },
            None => Location { site, ..Location::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;

    #[test]
    fn notes_are_read_and_cut_off_ones_end_them() {
        let mut bytes = Vec::new();
        for (name, kind, contents) in
            [(&b"GNU\0"[..], 1u32, &[1u8, 2, 3, 4, 5][..]), (b"GNU\0", 3, &[0xab, 0xcd])]
        {
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend((contents.len() as u32).to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(name);
            bytes.extend(contents);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id(&bytes).as_deref(), Some("abcd"));
        assert_eq!(build_id(&bytes[..bytes.len() - 4]), None);
        // A length that no file has.
        bytes[4..8].copy_from_slice(&[0xff; 4]);
        assert_eq!(Notes(&bytes).count(), 0);
    }

    /// The file that this test runs from says the same of itself as what is mapped of it.
    #[test]
    fn this_process_is_mapped_from_its_file() {
        let process = Process::open(std::process::id() as i32).unwrap();
        let mappings = process.mappings().unwrap();
        let modules = Modules::of(&process, &mappings);
        let here = this_process_is_mapped_from_its_file as fn() as usize as u64;
        let module = modules.of_return(here + 1).unwrap();
        let own = std::env::current_exe().unwrap();
        assert_eq!(module.path, own.to_str().unwrap());
        let bytes = std::fs::read(own).unwrap();
        let id = module.build_id.as_ref().unwrap();
        let digits: Vec<u8> = (0..id.len() / 2)
            .map(|i| u8::from_str_radix(&id[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        assert!(bytes.windows(digits.len()).any(|window| window == digits));
        assert!(modules.of_return(8).is_none());
    }
}
