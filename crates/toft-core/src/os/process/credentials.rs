//! The user and the groups of a thread, as the kernel lists them.

use super::{close, open};
use crate::os::syscall::syscall;
use core::ffi::CStr;

/// The bytes of a list that are read, which have the user and some hundred groups.
const BYTES: usize = 1024;
/// The lines of the list, with the number of words that count. The last word of the first two is
/// for access to files only, and file servers change it for each request.
const LINES: [(&[u8], usize); 3] = [(b"Uid:", 3), (b"Gid:", 3), (b"Groups:", usize::MAX)];

/// Who a thread is to the kernel: a number made of its users and its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials(u64);

impl Credentials {
    /// Returns the credentials of the calling thread, or `None` if the kernel does not tell.
    pub fn of_thread() -> Option<Credentials> {
        read(c"/proc/thread-self/status")
    }

    /// Returns the credentials of the process's first thread.
    pub fn of_process() -> Option<Credentials> {
        read(c"/proc/self/status")
    }

    fn of(list: &[u8]) -> Credentials {
        // The hash of Fowler, Noll and Vo.
        let mut hash = 0xCBF2_9CE4_8422_2325u64;
        for line in list.split(|&byte| byte == b'\n') {
            let Some((name, words)) = LINES.iter().find(|(name, _)| line.starts_with(name)) else {
                continue;
            };
            let values = line.get(name.len()..).unwrap_or(&[]);
            let values = values.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            for word in values.take(*words).chain([&b"\n"[..]]) {
                for &byte in word.iter().chain(b" ") {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
                }
            }
        }
        Credentials(hash)
    }
}

fn read(path: &CStr) -> Option<Credentials> {
    let file = open(path, libc::O_RDONLY).ok()?;
    let mut list = [0u8; BYTES];
    let args = [file as usize, list.as_mut_ptr() as usize, BYTES, 0, 0, 0];
    // SAFETY: the kernel writes at most the buffer.
    let got = unsafe { syscall(libc::SYS_read, args) };
    close(file);
    Some(Credentials::of(list.get(..usize::try_from(got).ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn list(uid: &str, gid: &str, groups: &str) -> String {
        std::format!(
            "Name:\tUid:\nPid:\t7\nUid:\t{uid}\nGid:\t{gid}\nGroups:\t{groups} \nVmRSS:\t9\n"
        )
    }

    #[test]
    fn each_user_and_group_counts() {
        let of = |text: String| Credentials::of(text.as_bytes());
        let root = of(list("0\t0\t0\t0", "0\t0\t0\t0", "0 1"));
        assert_eq!(root, of(list("0\t0\t0\t0", "0\t0\t0\t0", "0 1").replace("Pid:\t7", "Pid:\t8")));
        assert_eq!(root, of(list("0\t0\t0\t33", "0\t0\t0\t33", "0 1")), "for files only");
        for (uid, gid, groups) in [
            ("33\t0\t0\t0", "0\t0\t0\t0", "0 1"),
            ("0\t33\t0\t0", "0\t0\t0\t0", "0 1"),
            ("0\t0\t33\t0", "0\t0\t0\t0", "0 1"),
            ("0\t0\t0\t0", "33\t0\t0\t0", "0 1"),
            ("0\t0\t0\t0", "0\t33\t0\t0", "0 1"),
            ("0\t0\t0\t0", "0\t0\t33\t0", "0 1"),
            ("0\t0\t0\t0", "0\t0\t0\t0", "0"),
            ("0\t0\t0\t0", "0\t0\t0\t0", "0 11"),
            ("0\t0\t0\t0", "0\t0\t0\t0", ""),
        ] {
            assert_ne!(root, of(list(uid, gid, groups)), "{uid} {gid} {groups}");
        }
    }

    #[test]
    fn the_kernel_tells_them() {
        let mine = Credentials::of_thread().unwrap();
        assert_eq!(Some(mine), Credentials::of_process());
        let other = std::thread::spawn(|| Credentials::of_thread().unwrap()).join().unwrap();
        assert_eq!(mine, other);
        assert_ne!(mine, Credentials::of(b""), "the lines are there");
        assert_eq!(read(c"/nowhere"), None);
    }
}
