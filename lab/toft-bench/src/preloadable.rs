//! Whether a library can be preloaded into a program. Where it cannot, the loader says nothing, or
//! there is no loader, and the program's own malloc would be measured under the peer's name.

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What there is under the name of a program.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// A file that can be executed.
    Program(PathBuf),
    /// A file that cannot.
    NotExecutable(PathBuf),
    /// No file.
    Nothing,
}

/// Looks for a program as `execvp` does: a name with a slash is a path.
pub fn find(name: &Path, path: &OsStr) -> Found {
    let look = |file: &Path| {
        let about = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
        Some(if about.permissions().mode() & 0o111 == 0 {
            Found::NotExecutable(file.to_owned())
        } else {
            Found::Program(file.to_owned())
        })
    };
    if name.as_os_str().as_bytes().contains(&b'/') {
        return look(name).unwrap_or(Found::Nothing);
    }
    let mut found = Found::Nothing;
    for folder in std::env::split_paths(path) {
        match look(&folder.join(name)) {
            Some(Found::Program(file)) => return Found::Program(file),
            Some(other) if found == Found::Nothing => found = other,
            _ => {}
        }
    }
    found
}

/// Where an installed program is.
pub fn installed(name: &str) -> Option<PathBuf> {
    match find(Path::new(name), &std::env::var_os("PATH")?) {
        Found::Program(file) => Some(file),
        _ => None,
    }
}

/// Why no library can be preloaded into a program, if so. Of a script its interpreter counts. What
/// cannot be read is left to the loader.
pub fn closed(file: &Path) -> Option<String> {
    let mut file = file.to_owned();
    // As many interpreters of interpreters as the kernel follows.
    for _ in 0..5 {
        match interpreter(&file) {
            Some(next) => file = next,
            None => break,
        }
    }
    let shown = file.display();
    let mode = fs::metadata(&file).ok()?.permissions().mode();
    if mode & 0o6000 != 0 {
        return Some(format!("{shown} is set-uid or set-gid: nothing is preloaded into it"));
    }
    let bytes = fs::read(&file).ok()?;
    match is_dynamic(&bytes) {
        Some(false) => Some(format!("{shown} is statically linked: nothing is preloaded into it")),
        _ => None,
    }
}

/// The interpreter of a script.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    fs::File::open(file).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.trim_ascii().split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(Path::new(OsStr::from_bytes(word)).to_owned())
}

/// Whether a program asks for a loader; `None` of what is no program for this machine.
fn is_dynamic(bytes: &[u8]) -> Option<bool> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    Some(segments.iter().any(|segment| segment.p_type(endian) == elf::PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Stage;

    fn file(folder: &Stage, name: &str, text: &[u8], mode: u32) -> PathBuf {
        let file = folder.path(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn programs_are_found_in_the_order_of_the_path() {
        let (first, second) = (Stage::new().unwrap(), Stage::new().unwrap());
        file(&first, "tool", b"", 0o644);
        let tool = file(&second, "tool", b"", 0o755);
        let folders = [first.path(""), second.path("")];
        let path = std::env::join_paths(&folders).unwrap();
        assert_eq!(find(Path::new("tool"), &path), Found::Program(tool));
        let only = find(Path::new("tool"), folders[0].as_os_str());
        assert_eq!(only, Found::NotExecutable(first.path("tool")));
        assert_eq!(find(Path::new("other"), &path), Found::Nothing);
        assert_eq!(find(&folders[0], &path), Found::Nothing, "a folder is no program");
    }

    /// This very test is dynamic; without its request for a loader it would be static.
    #[test]
    fn static_and_privileged_programs_are_closed_and_scripts_follow_their_interpreter() {
        let here = Stage::new().unwrap();
        let own = fs::read("/proc/self/exe").unwrap();
        assert_eq!(is_dynamic(&own), Some(true));
        let mut fixed = own.clone();
        let start = u64::from_le_bytes(own[32..40].try_into().unwrap()) as usize;
        let (size, count) = (usize::from(own[54]), usize::from(own[56]));
        for at in (0..count).map(|index| start + index * size) {
            if fixed[at..at + 4] == 3_u32.to_le_bytes() {
                fixed[at] = 0;
            }
        }
        let fixed = file(&here, "fixed", &fixed, 0o755);
        assert!(closed(&fixed).unwrap().contains("fixed is statically linked"));
        assert_eq!(closed(Path::new("/proc/self/exe")), None);
        let line = format!("#!{} -x\necho\n", fixed.display());
        let script = file(&here, "script", line.as_bytes(), 0o755);
        assert!(closed(&script).unwrap().contains("fixed is statically linked"));
        let shell = file(&here, "shell", b"#! /bin/sh\n", 0o755);
        assert_eq!(closed(&shell), None);
        let privileged = file(&here, "privileged", &own, 0o4755);
        assert!(closed(&privileged).unwrap().contains("set-uid"));
    }
}
