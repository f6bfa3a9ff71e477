//! What a machine may not have: programs, and what its processor lacks.

pub use toft_bench::preloadable::installed as find;

/// The Debian packages of those tools that are missing.
pub fn missing(needs: &[(String, String)]) -> Vec<&str> {
    needs
        .iter()
        .filter(|(tool, _)| find(tool).is_none())
        .map(|(_, package)| package.as_str())
        .collect()
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
    fn only_packages_beyond_ci_are_optional() {
        assert!(is_optional("firefox-esr"));
        assert!(!is_optional("redis-server") && !is_optional("# firefox-esr") && !is_optional(""));
    }
}
