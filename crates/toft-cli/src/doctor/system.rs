//! What the system says about itself in `/proc` and `/sys`. `doctor` turns it into rows.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::style;

/// The first line of a file, or nothing where the file is not there.
pub fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// The value of `name:` in a file of such lines.
pub fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The version of the system's glibc; empty if it has none. The command itself may be static, with
/// another C library.
pub fn libc_version() -> String {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    said.trim().strip_prefix("glibc ").unwrap_or_default().to_owned()
}

/// The libraries that the loader puts before those of each program.
pub fn preloaded() -> Vec<String> {
    let of_system = fs::read_to_string("/etc/ld.so.preload").unwrap_or_default();
    let of_user = std::env::var("LD_PRELOAD").unwrap_or_default();
    let words = |text: &str| -> Vec<String> {
        let is_end = |c: char| c == ':' || c.is_whitespace();
        text.split(is_end).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    [words(&of_user), words(&of_system)].concat()
}

/// A soft limit, readable; with the number, if there is one.
pub fn limit(of: Resource) -> (String, Option<u64>) {
    match getrlimit(of) {
        Ok((RLIM_INFINITY, _)) => ("unlimited".into(), None),
        Ok((soft, _)) => (style::bytes(soft), Some(soft)),
        Err(e) => (format!("unknown ({e})"), None),
    }
}

/// The word in brackets: `always [madvise] never`.
pub fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

/// The multi-size huge pages that are switched on, as `64 KiB (madvise)`.
pub fn huge_sizes() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/kernel/mm/transparent_hugepage") else {
        return Vec::new();
    };
    let mut sizes: Vec<(u64, String)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let setting = line(entry.path().join("enabled"))?;
            Some((kib, chosen(&setting).unwrap_or("unknown").to_owned()))
        })
        .filter(|(_, setting)| setting != "never")
        .collect();
    sizes.sort();
    sizes
        .into_iter()
        .map(|(kib, setting)| format!("{} ({setting})", style::bytes(kib * 1024)))
        .collect()
}

/// Which of `wanted` the processor has.
pub fn cpu_features(wanted: &[&str]) -> Vec<String> {
    let flags = field("/proc/cpuinfo", "flags")
        .or_else(|| field("/proc/cpuinfo", "Features"))
        .unwrap_or_default();
    let has: Vec<&str> = flags.split_whitespace().collect();
    wanted.iter().filter(|name| has.contains(name)).map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_is_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always madvise"), None);
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(field("/proc/self/status", "Pid").unwrap(), std::process::id().to_string());
        assert!(field("/proc/self/status", "Pi").is_none());
    }
}
