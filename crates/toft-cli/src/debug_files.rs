//! Where debug information is that was separated from a file: by build-id, by the name in
//! `.gnu_debuglink`, or from a server of debuginfod.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::read::{Object, ObjectSection};
use toft_profile::read_file;

/// Where a system keeps debug information that was separated from its files.
pub const SYSTEM: &str = "/usr/lib/debug";

/// The longest file that is read for names: the process that is looked at has chosen it.
pub const FILE_MOST: u64 = 4 << 30;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_a_place_in_a_folder() {
        assert_eq!(by_id(Path::new("/d"), "abcdef"), Path::new("/d/.build-id/ab/cdef.debug"));
        assert_eq!(by_id(Path::new("/d"), "a"), Path::new("/d/.build-id/a/.debug"));
        assert_eq!(hex(&[1, 0xab]), "01ab");
    }
}
