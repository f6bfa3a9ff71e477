//! Finds the file that contains an address of code, and the place in it, from `/proc/self/maps` and
//! the mapped header of the file.

use crate::os::process::{LINE, Mapping, peek, read_lines_by, read_lines_with};

/// The most bytes of a path that are kept. The kernel's lines are read in pieces of about this
/// size.
const PATH: usize = 384;
/// The most bytes of a build-id that are kept: a SHA-1 has 20.
const BUILD_ID: usize = 20;
/// The most bytes of notes that are searched.
const NOTES: usize = 256;

const ELF_MAGIC: &[u8; 4] = b"\x7fELF";
const EXECUTABLE: u16 = 2;
const LOAD: usize = 1;
const NOTE: u32 = 4;
const GNU_BUILD_ID: u32 = 3;

/// A mapped file, and the place of an address in it.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    path: [u8; PATH],
    path_len: usize,
    /// The address as the file's own tables count it.
    pub offset: usize,
    /// Where the file's first byte is mapped.
    pub base: usize,
    /// The mapping that contains the address.
    pub text: (usize, usize),
    /// True if the file is at the addresses that it was linked for.
    fixed: bool,
    build_id: [u8; BUILD_ID],
    build_id_len: usize,
}

impl Module {
    const NONE: Module = Module {
        path: [0; PATH],
        path_len: 0,
        offset: 0,
        base: 0,
        text: (0, 0),
        fixed: false,
        build_id: [0; BUILD_ID],
        build_id_len: 0,
    };

    /// Returns the file's name, cut off if it is very long.
    pub fn path(&self) -> &[u8] {
        self.path.get(..self.path_len).unwrap_or(&[])
    }

    /// Returns true if the file is the C library of GNU.
    pub fn is_libc(&self) -> bool {
        self.path().rsplit(|&byte| byte == b'/').next() == Some(b"libc.so.6".as_slice())
    }

    /// Returns the file's build-id, or nothing if it has none.
    pub fn build_id(&self) -> &[u8] {
        self.build_id.get(..self.build_id_len).unwrap_or(&[])
    }
}

/// The buffers for finding files, in one place, for callers with a short stack. All zero at first.
#[derive(Debug)]
#[repr(C)]
pub struct Desk {
    module: Module,
    /// The address of code that was found last, or zero.
    found: usize,
    /// Pieces of the kernel's list, and one line of it.
    pieces: [u8; 512],
    line: [u8; LINE],
    notes: [u8; NOTES],
}

impl Desk {
    /// Returns a desk with empty buffers.
    pub fn empty() -> Desk {
        Desk {
            module: Module::NONE,
            found: 0,
            pieces: [0; 512],
            line: [0; LINE],
            notes: [0; NOTES],
        }
    }

    /// Returns the file that the code at `address` was mapped from, or `None` if that is no code of
    /// a file. The kernel's list, which may be long, is not read again if the address is in the
    /// mapping that was found last.
    #[inline(never)]
    pub fn module_of(&mut self, address: usize) -> Option<&Module> {
        let Desk { module, found: last, pieces, line, notes } = self;
        if *last != 0 && (module.text.0..module.text.1).contains(&address) {
            module.offset = module.offset.wrapping_add(address.wrapping_sub(*last));
            *last = address;
            return Some(module);
        }
        *last = 0;
        (module.path_len, module.build_id_len, module.base) = (0, 0, 0);
        let mut found = false;
        let _ = read_lines_with(c"/proc/self/maps", (pieces, line), |line| {
            let Some(mapping) = Mapping::parse(line) else { return };
            if found || mapping.start > address {
                return;
            }
            // A file's mappings follow each other, and the first of them has the header.
            let known = mapping.name.get(..PATH).unwrap_or(mapping.name);
            if known != module.path() {
                module.path_len =
                    module.path.iter_mut().zip(known).map(|(to, &from)| *to = from).count();
                module.base = mapping.start.wrapping_sub(mapping.offset);
            }
            module.text = (mapping.start, mapping.end);
            found = address < mapping.end && mapping.is_code_of_file();
        });
        if !found {
            return None;
        }
        module.offset = address.wrapping_sub(module.base);
        module.fixed = false;
        module.read_header(notes);
        *last = address;
        Some(module)
    }

    /// Returns a buffer for pieces of another file.
    pub fn pieces(&mut self) -> &mut [u8] {
        &mut self.pieces
    }
}

/// Passes each mapping of a file's code to `each`: the file's path, and the first address.
pub fn for_each_code(mut each: impl FnMut(&[u8], usize)) {
    // Malloc may search on the stack of any thread.
    read_lines_by::<512>(c"/proc/self/maps", |line| {
        if let Some(mapping) = Mapping::parse(line)
            && mapping.is_code_of_file()
        {
            each(mapping.name, mapping.start);
        }
    });
}

/// Returns the file that the code at `address` was mapped from, or `None` if that is no code of a
/// file.
pub fn module_of(address: usize) -> Option<Module> {
    Desk::empty().module_of(address).copied()
}

fn field<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<[u8; BYTES]> {
    bytes.get(at..)?.get(..BYTES)?.try_into().ok()
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(field(bytes, at)?) as usize)
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(field(bytes, at)?) as usize)
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u64::from_le_bytes(field(bytes, at)?) as usize)
}

impl Module {
    /// Reads the build-id. In a program at the addresses that it was linked for, `offset` becomes
    /// such an address.
    fn read_header(&mut self, notes: &mut [u8; NOTES]) -> Option<()> {
        let mut header = [0u8; 64];
        if peek(self.base, &mut header) != header.len() || !header.starts_with(ELF_MAGIC) {
            return None;
        }
        let fixed = half(&header, 16)? == EXECUTABLE as usize;
        if fixed {
            self.offset = self.offset.wrapping_add(self.base);
        }
        self.fixed = fixed;
        for number in 0..half(&header, 56)? {
            let (kind, address, bytes) = self.segment_at(&header, number)?;
            if kind == NOTE as usize {
                self.read_notes(notes, address, bytes);
            }
        }
        Some(())
    }

    fn segment_at(&self, header: &[u8], number: usize) -> Option<(usize, usize, usize)> {
        let (table, size) = (long(header, 32)?, half(header, 54)?);
        let mut entry = [0u8; 56];
        let at = self.base.wrapping_add(table).wrapping_add(number.wrapping_mul(size));
        if peek(at, &mut entry) != entry.len() {
            return None;
        }
        let address = self.bias().wrapping_add(long(&entry, 16)?);
        Some((word(&entry, 0)?, address, long(&entry, 40)?))
    }

    /// Returns the address and the bytes, in this process, of the first segment of a kind.
    pub fn segment(&self, wanted: usize) -> Option<(usize, usize)> {
        self.segment_that(|kind, _, _| kind == wanted)
    }

    /// Returns the start and the end of what is mapped of the file around an address.
    pub fn loaded_around(&self, address: usize) -> Option<(usize, usize)> {
        let around =
            |at: usize, bytes| address.checked_sub(at).is_some_and(|before| before < bytes);
        let (at, bytes) = self.segment_that(|kind, at, bytes| kind == LOAD && around(at, bytes))?;
        Some((at, at.checked_add(bytes)?))
    }

    fn segment_that(&self, fits: impl Fn(usize, usize, usize) -> bool) -> Option<(usize, usize)> {
        let mut header = [0u8; 64];
        if peek(self.base, &mut header) != header.len() || !header.starts_with(ELF_MAGIC) {
            return None;
        }
        let mut segments = (0..half(&header, 56)?).map_while(|n| self.segment_at(&header, n));
        let (_, at, bytes) = segments.find(|&(kind, at, bytes)| fits(kind, at, bytes))?;
        Some((at, bytes))
    }

    /// Returns the number to add to an address of the file's own tables to get the one in this
    /// process.
    pub fn bias(&self) -> usize {
        if self.fixed { 0 } else { self.base }
    }

    fn read_notes(&mut self, notes: &mut [u8; NOTES], address: usize, bytes: usize) -> Option<()> {
        let wanted = notes.get_mut(..bytes.min(NOTES))?;
        let got = peek(address, wanted);
        let mut rest = notes.get(..got)?;
        while let (Some(name), Some(description)) = (word(rest, 0), word(rest, 4)) {
            let begin = 12 + name.checked_next_multiple_of(4)?;
            let id = rest.get(begin..)?.get(..description)?;
            if word(rest, 8)? == GNU_BUILD_ID as usize && rest.get(12..16)? == b"GNU\0" {
                self.build_id_len =
                    self.build_id.iter_mut().zip(id).map(|(to, &from)| *to = from).count();
                return Some(());
            }
            rest = rest.get(begin + description.checked_next_multiple_of(4)?..)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_this_program_is_found_and_data_is_not() {
        let here = code_of_this_program_is_found_and_data_is_not as *const () as usize;
        let module = module_of(here).unwrap();
        let own = std::env::current_exe().unwrap();
        assert_eq!(module.path(), own.as_os_str().as_encoded_bytes());
        assert_eq!(
            module.base.wrapping_add(module.offset),
            here,
            "a program that may lie anywhere"
        );
        let local = 0u64;
        assert!(module_of((&raw const local).addr()).is_none());
        assert!(module_of(1).is_none());
    }

    #[test]
    fn a_desk_finds_what_a_new_one_finds() {
        let mut desk = Desk::empty();
        let here = a_desk_finds_what_a_new_one_finds as *const () as usize;
        let there = code_of_this_program_is_found_and_data_is_not as *const () as usize;
        let other = libc::getpid as *const () as usize;
        let (start, end) = module_of(here).unwrap().text;
        for address in [here, there, other, there, start, end - 1, end, 1, here, start - 1] {
            let new = module_of(address);
            let found = desk.module_of(address);
            let what = |module: &Module| {
                let id = module.build_id().to_vec();
                (module.path().to_vec(), module.offset, module.base, module.text, id)
            };
            assert_eq!(found.map(what), new.as_ref().map(what), "{address:#x}");
        }
    }

    #[test]
    fn the_build_id_is_the_file_s() {
        // The build-id of libc, which every distribution has.
        let module = module_of(libc::getpid as *const () as usize).unwrap();
        assert!(module.path().windows(4).any(|part| part == b"libc"), "{:?}", module.path());
        let bytes = std::fs::read(std::str::from_utf8(module.path()).unwrap()).unwrap();
        assert_eq!(module.build_id().len(), 20);
        assert!(bytes.windows(20).any(|part| part == module.build_id()));
    }
}
