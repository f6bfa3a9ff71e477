//! Files whose names another process chose: what they are is checked before they are read.
//!
//! Such a name may be a pipe's without a writer, a device's without an end, or a file's that is
//! mostly a hole. Only regular files are opened, and no more is read than was agreed to.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file. Never waits, and opens nothing else: to open a device may already do
/// something.
pub fn open(path: &Path) -> io::Result<File> {
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    if !fs::metadata(path)?.is_file() {
        return Err(other());
    }
    // It may be another by now.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(other());
    }
    Ok(file)
}

/// All bytes of a regular file that has no more than so many.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "too long");
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_long());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_likely_length_are_read() {
        let folder = std::env::temp_dir().join(format!("toft-regular-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(at("file"), b"12345").unwrap();
        File::create(at("hole")).unwrap().set_len(1 << 40).unwrap();
        let kind = |path: &Path, most| read_file(path, most).map_err(|error| error.kind());
        let found = [
            kind(&at("pipe"), 100),
            kind(Path::new("/dev/zero"), 100),
            kind(&folder, 100),
            kind(&at("hole"), 1 << 32),
            kind(&at("file"), 4),
            kind(&at("file"), 5),
            // Longer than it says.
            kind(Path::new("/proc/self/maps"), 10),
        ];
        fs::remove_dir_all(&folder).unwrap();
        let (other, long) = (io::ErrorKind::InvalidInput, io::ErrorKind::FileTooLarge);
        let expected = [
            Err(other),
            Err(other),
            Err(other),
            Err(long),
            Err(long),
            Ok(b"12345".to_vec()),
            Err(long),
        ];
        assert_eq!(found, expected);
    }
}
