//! What the kernel counts as this process's memory, read without calling `malloc`: the measuring
//! must not make the heap under test larger.

use crate::outcome::status_kib;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

/// Resident bytes of this process, from `/proc/self/statm`.
pub(crate) fn resident() -> u64 {
    let mut text = [0; 256];
    let count = File::open("/proc/self/statm").and_then(|mut file| file.read(&mut text));
    pages(&text[..count.expect("no /proc/self/statm")])
        .expect("/proc/self/statm is not as documented")
        * page_size()
}

/// Resident bytes at each of these times after `start`, which rise. The thread that asks sleeps in
/// between, and calls no `malloc`.
///
/// # Panics
/// As `resident`, and when there are not as many places as times.
pub fn resident_at(start: Instant, times: &[Duration], seen: &mut [u64]) {
    assert_eq!(times.len(), seen.len());
    for (time, seen) in times.iter().zip(seen) {
        std::thread::sleep(time.saturating_sub(start.elapsed()));
        *seen = resident();
    }
}

/// A field of `/proc/self/status` that is in KiB, such as `VmSize`, in bytes.
pub(crate) fn status_bytes(field: &str) -> u64 {
    1024 * status_kib("self", field)
}

/// Whose page faults are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Faults {
    /// Those of all threads.
    OfProcess,
    /// Those of the calling thread.
    OfThread,
}

/// Page faults so far that needed no disk.
pub(crate) fn faults(of: Faults) -> u64 {
    let who = match of {
        Faults::OfProcess => libc::RUSAGE_SELF,
        Faults::OfThread => libc::RUSAGE_THREAD,
    };
    // SAFETY: zero is a valid rusage, which is plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local of the right type.
    let result = unsafe { libc::getrusage(who, &raw mut usage) };
    assert_eq!(result, 0, "getrusage takes these arguments");
    usage.ru_minflt.cast_unsigned()
}

/// The second field of `statm`: resident pages.
fn pages(statm: &[u8]) -> Option<u64> {
    std::str::from_utf8(statm).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// Bytes of a page.
pub(crate) fn page_size() -> u64 {
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
    fn the_status_is_read_in_bytes() {
        assert!(status_bytes("VmSize") > status_bytes("VmRSS"));
        assert!(status_bytes("VmPTE") >= page_size());
    }

    #[test]
    fn faults_are_those_of_the_thread_or_of_all() {
        let touch = || drop(std::hint::black_box(Mapped::<u8>::new(1 << 20)));
        let [own, all] = [Faults::OfThread, Faults::OfProcess].map(faults);
        let other = std::thread::spawn(move || {
            let before = faults(Faults::OfThread);
            let page = page_size() as usize;
            let mut block = vec![0u8; 4 << 20];
            block.iter_mut().step_by(page).for_each(|byte| *byte = 1);
            std::hint::black_box(&block);
            faults(Faults::OfThread) - before
        });
        let others = other.join().unwrap();
        touch();
        assert!(others >= (4 << 20) / page_size() / 512, "{others}");
        assert!(faults(Faults::OfProcess) - all >= others);
        assert!(faults(Faults::OfThread) - own < others.max(600), "{others}");
    }
}
