//! Where debug information is that was separated from a file: by build-id, by the name in
//! `.gnu_debuglink`, or from a server of debuginfod. Some distributions leave the names of
//! functions in the file, compressed (`.gnu_debugdata`).

use std::env;
use std::io::{Cursor, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::read::{Object, ObjectSection};
use toft_profile::read_file;
use xz4rust::{XzDecoder, XzReader};

/// Where a system keeps debug information that was separated from its files.
pub const SYSTEM: &str = "/usr/lib/debug";

/// The longest file that is read for names: the process that is looked at has chosen it.
pub const FILE_MOST: u64 = 4 << 30;

/// The most bytes of compressed symbols, when they are not compressed: there are no lines.
const COMPRESSED_MOST: u64 = 256 << 20;
/// The largest dictionary that a file may ask for; that of `xz -9` is as large.
const DICTIONARY_MOST: usize = 64 << 20;
/// The bytes that are decompressed at a time.
const PIECE: NonZeroUsize = NonZeroUsize::new(64 << 10).unwrap();

/// The name of a file of debug information, by build-id, in a folder.
pub fn by_id(folder: &Path, id: &str) -> PathBuf {
    let (directory, name) = id.split_at(id.len().min(2));
    folder.join(format!(".build-id/{directory}/{name}.debug"))
}

/// A build-id as it is written.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file with the debug information of `elf`, which is at `path`; the named folders come first.
pub fn find(path: &Path, elf: &object::File<'_>, folders: &[PathBuf]) -> Option<PathBuf> {
    let id = elf.build_id().ok().flatten().map(hex);
    let all = || folders.iter().map(PathBuf::as_path).chain([Path::new(SYSTEM)]);
    let separate = id.as_deref().and_then(|id| all().map(|f| by_id(f, id)).find(|f| f.is_file()));
    let has_own = || elf.section_by_name(".debug_info").is_some_and(|section| section.size() > 0);
    separate
        .or_else(|| by_link(path, elf, folders))
        .or_else(|| if has_own() { None } else { by_server(&id?) })
}

/// The file that `.gnu_debuglink` names, if its checksum is the right one.
fn by_link(path: &Path, elf: &object::File<'_>, folders: &[PathBuf]) -> Option<PathBuf> {
    let (name, checksum) = elf.gnu_debuglink().ok()??;
    let name = std::str::from_utf8(name).ok()?;
    let here = path.parent()?;
    // What a process in a container has is below /proc/PID/root.
    let mut parts = here.components();
    let inner = match (parts.nth(1), parts.nth(1)) {
        (Some(proc), Some(root)) if proc.as_os_str() == "proc" && root.as_os_str() == "root" => {
            parts.as_path()
        }
        _ => here.strip_prefix("/").unwrap_or(here),
    };
    let system = Path::new(SYSTEM).join(inner);
    let beside = [here.to_owned(), here.join(".debug"), system];
    let all = folders.iter().chain(&beside).map(|folder| folder.join(name));
    let mut others = all.filter(|file| file != path);
    others.find(|file| {
        read_file(file, FILE_MOST).is_ok_and(|bytes| crc32fast::hash(&bytes) == checksum)
    })
}

/// The file that a server has, if the user has named one in `DEBUGINFOD_URLS`: fetched and kept by
/// `debuginfod-find`.
fn by_server(id: &str) -> Option<PathBuf> {
    env::var_os("DEBUGINFOD_URLS").filter(|urls| !urls.is_empty())?;
    let mut find = Command::new("debuginfod-find");
    find.args(["debuginfo", id]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = find.output().ok().filter(|output| output.status.success())?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
    path.is_file().then_some(path)
}

/// The file of debug information that several files share (`dwz`), which `.gnu_debugaltlink` names.
pub fn shared(path: &Path, elf: &object::File<'_>, folders: &[PathBuf]) -> Option<PathBuf> {
    let (name, id) = elf.gnu_debugaltlink().ok()??;
    let named = path.parent()?.join(std::str::from_utf8(name).ok()?);
    let id = hex(id);
    let all = folders.iter().map(PathBuf::as_path).chain([Path::new(SYSTEM)]);
    let mut all = [named].into_iter().chain(all.map(|folder| by_id(folder, &id)));
    all.find(|file| file.is_file()).or_else(|| by_server(&id))
}

/// The file with the names of functions that `elf` has in it, compressed.
pub fn compressed(elf: &object::File<'_>) -> Option<Vec<u8>> {
    let section = elf.section_by_name(".gnu_debugdata")?.data().ok()?;
    decompress(section.to_owned(), COMPRESSED_MOST)
}

fn decompress(bytes: Vec<u8>, most: u64) -> Option<Vec<u8>> {
    let decoder = XzDecoder::in_heap_with_alloc_dict_size(PIECE.get(), DICTIONARY_MOST);
    let reader = XzReader::new_with_buffer_size_and_decoder(Cursor::new(bytes), PIECE, decoder);
    let mut whole = Vec::new();
    reader.take(most.saturating_add(1)).read_to_end(&mut whole).ok()?;
    (whole.len() as u64 <= most).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_a_place_in_a_folder() {
        assert_eq!(by_id(Path::new("/d"), "abcdef"), Path::new("/d/.build-id/ab/cdef.debug"));
        assert_eq!(by_id(Path::new("/d"), "a"), Path::new("/d/.build-id/a/.debug"));
        assert_eq!(hex(&[1, 0xab]), "01ab");
    }

    /// What `xz --check=crc64` makes of 100 000 zeros.
    const ZEROS: &[u8] = &[
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21,
        0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0xe1, 0x86, 0x9f, 0x00, 0x53, 0x5d,
        0x00, 0x00, 0x6f, 0xfd, 0xff, 0xff, 0xa3, 0xb7, 0xff, 0x47, 0x3e, 0x48, 0x15, 0x72, 0x39,
        0x61, 0x51, 0xb8, 0x92, 0x28, 0xe6, 0xa3, 0x86, 0x07, 0xf9, 0xee, 0xe4, 0x1e, 0x82, 0xd3,
        0x2f, 0xc5, 0x3a, 0x3c, 0x01, 0x4b, 0xb1, 0x7e, 0xc9, 0x8a, 0x8a, 0x4d, 0x2f, 0xa3, 0x0d,
        0xd9, 0x7f, 0xa6, 0xe3, 0x8c, 0x23, 0x11, 0x53, 0xe0, 0x59, 0x18, 0xc5, 0x75, 0x8a, 0xe2,
        0x77, 0xf8, 0xb6, 0x94, 0x7f, 0x0c, 0x6a, 0xc0, 0xde, 0x74, 0x49, 0x64, 0xe2, 0xe9, 0x5c,
        0x53, 0xb2, 0x04, 0xd6, 0xb1, 0xf5, 0x97, 0x00, 0x00, 0x00, 0x00, 0x8f, 0xc6, 0x94, 0xa2,
        0x18, 0xe3, 0x70, 0xf1, 0x00, 0x01, 0x6f, 0xa0, 0x8d, 0x06, 0x00, 0x00, 0x90, 0xe4, 0x6e,
        0x51, 0xb1, 0xc4, 0x67, 0xfb, 0x02, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
    ];

    #[test]
    fn what_is_damaged_or_too_large_is_not_decompressed() {
        let of = |bytes: &[u8], most| decompress(bytes.to_vec(), most).map(|bytes| bytes.len());
        assert_eq!(of(ZEROS, 100_000), Some(100_000));
        assert_eq!(of(ZEROS, 99_999), None);
        assert_eq!(of(&ZEROS[..ZEROS.len() / 2], 100_000), None);
        let mut other = ZEROS.to_vec();
        other[40] ^= 1;
        assert_eq!(of(&other, 100_000), None);
        assert_eq!(of(b"no such file", 100_000), None);
    }
}
