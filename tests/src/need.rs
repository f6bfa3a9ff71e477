//! What a machine may not have: programs, headers, and what its processor lacks.

use std::path::Path;
pub use toft_bench::preloadable::installed as find;

/// Returns true if a program, or a file by its absolute path, is there.
fn is_there(tool: &str) -> bool {
    find(tool).is_some() || Path::new(tool).is_absolute() && Path::new(tool).is_file()
}

/// The Debian packages of those tools that are missing.
pub fn missing(needs: &[(String, String)]) -> Vec<&str> {
    needs.iter().filter(|(tool, _)| !is_there(tool)).map(|(_, package)| package.as_str()).collect()
}

/// Whether a missing program fails its test instead of leaving it out (`TOFT_TEST_REQUIRE=1`).
pub fn required() -> bool {
    std::env::var_os("TOFT_TEST_REQUIRE").is_some_and(|v| v == "1")
}

/// Returns true if a Debian package is one that CI does not install (`packages-real.txt`). Its
/// tests are left out without it, even where all others are required.
pub fn is_optional(package: &str) -> bool {
    include_str!("../packages-real.txt").lines().any(|line| line == package)
}

/// Whether a process can have protection keys, as the processor says of itself.
pub fn pkeys() -> bool {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = about.lines().find(|line| line.starts_with("flags"));
    // Not `pku` alone: the kernel has to have switched it on.
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "ospke"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_and_a_file_count_and_nothing_else() {
        let needs = ["sh", "/etc/passwd", "/no/such/file", "no-such-program", "etc"];
        let needs = needs.map(|tool| (tool.to_owned(), tool.to_owned()));
        assert_eq!(missing(&needs), ["/no/such/file", "no-such-program", "etc"]);
    }

    #[test]
    fn only_packages_beyond_ci_are_optional() {
        assert!(is_optional("firefox-esr"));
        assert!(!is_optional("redis-server") && !is_optional("# firefox-esr") && !is_optional(""));
    }
}
