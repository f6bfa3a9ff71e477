//! The ENVIRONMENT section of each manual page: variables that the command reads, and those that it
//! hands to a program.

use toft_core::options::TABLE;

/// How the command prints: of every verb that prints for people.
const PRINTING: [(&str, &str); 4] = [
    ("NO_COLOR", "If it is set and not empty, output has no colours."),
    (
        "CLICOLOR_FORCE",
        "If it is set and neither empty nor 0, output has colours also in a pipe or a file.",
    ),
    ("TERM", "If it is `dumb`, output has no colours."),
    ("COLUMNS", "The width of a line, 40 at least, in place of the terminal's own."),
];

/// Where a library is unpacked: of every verb that starts a program on Toft.
const UNPACKING: [(&str, &str); 3] = [
    (
        "XDG_CACHE_HOME",
        "The library is unpacked into its folder `toft`. It must be an absolute path.",
    ),
    ("HOME", "Without XDG_CACHE_HOME, the library is unpacked into `.cache/toft` below it."),
    ("TMPDIR", "If neither can be written to, the library is unpacked into a folder below it."),
];

const PRELOADING: (&str, &str) =
    ("LD_PRELOAD", "Libraries named there are kept; Toft's library is put before them.");

const COMPILING: [(&str, &str); 2] = [
    ("CC", "The C compiler of `toft bench misuse`; `cc` if it is not set."),
    ("CXX", "The C++ compiler of `toft bench misuse`; `c++` if it is not set."),
];

/// Variables with what each does, for the page of a verb. Empty if none has an effect.
pub fn of(page: &str) -> Vec<(&'static str, &'static str)> {
    let verb = page.split('-').nth(1).unwrap_or_default();
    let options = || TABLE.iter().map(|entry| (entry.name, entry.doc));
    match verb {
        "completions" | "man" => Vec::new(),
        "run" => {
            let mut all: Vec<_> = options().collect();
            all.push(PRELOADING);
            all.extend(UNPACKING);
            all.extend(PRINTING);
            all
        }
        "record" => [PRELOADING].into_iter().chain(UNPACKING).chain(PRINTING).collect(),
        "options" => options().chain(PRINTING).collect(),
        "bench" => COMPILING.into_iter().chain(UNPACKING).chain(PRINTING).collect(),
        "doctor" => UNPACKING.into_iter().chain(PRINTING).collect(),
        _ => PRINTING.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_on_the_page_of_run() {
        let page = of("toft-run");
        for entry in TABLE {
            assert!(page.contains(&(entry.name, entry.doc)), "{}", entry.name);
        }
        assert!(of("toft-man").is_empty());
        assert!(of("toft-bench").iter().any(|(name, _)| *name == "CC"));
        assert!(of("toft-heap").iter().all(|(name, _)| !name.starts_with("TOFT_")));
    }
}
