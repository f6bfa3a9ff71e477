//! What the kernel counts as this process's memory, read without calling `malloc`: the measuring
//! must not make the heap under test larger.

use std::fs::File;
use std::io::Read;

/// Resident bytes of this process, from `/proc/self/statm`.
///
/// # Panics
/// When the kernel does not say.
#[must_use]
pub fn resident() -> u64 {
    let mut text = [0; 256];
    let count = File::open("/proc/self/statm")
        .and_then(|mut file| file.read(&mut text))
        .expect("no /proc/self/statm");
    pages(&text[..count]).expect("/proc/self/statm is not as documented") * page_size()
}

/// The second field of `statm`: resident pages.
fn pages(statm: &[u8]) -> Option<u64> {
    std::str::from_utf8(statm).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// Bytes of a page.
#[must_use]
pub fn page_size() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).expect("the kernel does not say how large a page is")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped::Mapped;

    #[test]
    fn the_second_field_counts() {
        assert_eq!(pages(b"9 77 5 1 0 3 0\n"), Some(77));
        assert_eq!(pages(b"9\n"), None);
    }

    #[test]
    fn memory_that_is_touched_is_seen() {
        const BYTES: usize = 64 << 20;
        let before = resident();
        // Populated by the mapping itself.
        let mapping = Mapped::<u8>::new(BYTES);
        let after = resident();
        assert!(after - before >= BYTES as u64 * 9 / 10, "{before} {after} {}", mapping[0]);
    }
}
