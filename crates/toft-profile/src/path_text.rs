//! Paths as text, from which the path can be made again.
//!
//! Profiles, mappings and reports are text, and a path may have any bytes. Bytes that are not UTF-8
//! become octal numbers: `\377`. The kernel writes a newline so in its lists of mappings: `\012`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Returns text with each byte that is not UTF-8 as an octal number.
pub fn text_of_bytes(bytes: &[u8]) -> String {
    with_octal(bytes, "\\")
}

/// Returns a JSON text whose strings have each byte that is not UTF-8 as an octal number.
pub fn text_of_json(bytes: &[u8]) -> String {
    with_octal(bytes, "\\\\")
}

fn with_octal(bytes: &[u8], mark: &str) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text += chunk.valid();
        chunk.invalid().iter().for_each(|byte| text += &format!("{mark}{byte:03o}"));
    }
    text
}

/// Returns a path as the kernel's lists of mappings have it, as text.
pub fn text_of_path(path: &Path) -> String {
    text_of_bytes(path.as_os_str().as_bytes()).replace('\n', "\\012")
}

/// Returns the paths that a text may stand for: itself, and the one with bytes for octal numbers.
pub fn paths_of_text(text: &str) -> Vec<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.first_chunk().filter(|_| first == b'\\').and_then(octal);
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    let same = bytes == text.as_bytes();
    let other = OsString::from_vec(bytes);
    let all = [OsStr::new(text), &other];
    all[..if same { 1 } else { 2 }].iter().map(PathBuf::from).collect()
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    let digits = str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_again_of_its_text() {
        for path in [&b"/a b"[..], b"/\xff\n\t\"'\\x", b"/\xe9t\xe9", "/löst".as_bytes(), b"/a\\01"]
        {
            let path = Path::new(OsStr::from_bytes(path));
            assert!(
                paths_of_text(&text_of_path(path)).iter().any(|other| other == path),
                "{path:?}"
            );
        }
        assert_eq!(text_of_path(Path::new(OsStr::from_bytes(b"/\xff\n"))), "/\\377\\012");
        assert_eq!(paths_of_text("/a\\777\\+11"), [Path::new("/a\\777\\+11")]);
        assert_eq!(paths_of_text("/plain").len(), 1);
        assert_eq!(paths_of_text("/a\\012"), [Path::new("/a\\012"), Path::new("/a\n")]);
        assert_eq!(text_of_json(b"\"\xff\""), "\"\\\\377\"");
    }
}
