//! The leading comment lines of a test source that tell the harness what to do with it.
//!
//! ```text
//! // flags: -pthread -O2       added to the compiler's arguments
//! // libs: -ldl                added after the source
//! // aux: plugin.c             built from `aux/` as a shared object; found at run time through $AUX_DIR
//! // run: 64 5                 arguments; repeated lines are further runs of the same program
//! // env: KEY=VALUE
//! // ulimit: -v 4000000        as the shell's: -v (KiB), -l (KiB), -n
//! // timeout: 60               seconds on an idle machine; PATIENCE times that, and the process group is killed
//! // expect: exit 0            or `signal ABRT`
//! // stderr: LINE              whole lines, in order, nothing else; see `judge` for placeholders
//! // stderr-any: WHY           standard error is not judged
//! // stderr-details: none      no line of a report but its first; else they are not judged unless expected
//! // promise: 4 30             promises of the project's security page that the file holds
//! // twin: WHY                 also built with -DTWIN: the correct program of the same shape
//! // setuid: WHY               linked to the library, not preloaded, and run setuid by another user
//! // checked: WHY             libtoft_checked.so is preloaded as well
//! // libc: skip WHY            holds for Toft and not for the C library
//! // musl: skip WHY            left out in static programs with musl; `aarch64: skip WHY`: under the emulator
//! // build: secure WHY       for these builds only, with commas between: `default`, `light`, `full`,
//! //                         or `secure`, which is the last two
//! // needs: TOOL PACKAGE       a program, or the path of a file, that must be installed, and where
//! //                         Debian has it
//! // machine: pkeys WHY        left out where processor or kernel have no protection keys
//! // case: NAME -DSIZE=64      a test of this name, compiled with these flags and -DCASE=NAME; the
//! //                         directives up to the next case are its own, those above the first all
//! //                         cases'
//! ```

use crate::library::Build;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the seconds of a test are waited for: a busy machine must not fail a test, and one
/// that hangs ends all the same.
pub const PATIENCE: u32 = 5;

/// How a program has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It returned this status.
    Exit(i32),
    /// It was killed by this signal.
    Signal(i32),
}

/// What has to be on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stderr {
    /// Exactly these lines (patterns of `judge`).
    Lines(Vec<String>),
    /// Anything.
    Any,
}

/// A limit to set before the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The `RLIMIT_` number.
    pub resource: libc::__rlimit_resource_t,
    /// Soft and hard value.
    pub value: u64,
}

/// One source file and its directives.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// Its name without the ending, or that of one of its cases.
    pub name: String,
    /// Added to the compiler's arguments.
    pub flags: Vec<String>,
    /// Added after the source.
    pub libs: Vec<String>,
    /// Shared objects to build first.
    pub aux: Vec<String>,
    /// Argument lists, one a run.
    pub runs: Vec<Vec<String>>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Limits to set.
    pub limits: Vec<Limit>,
    /// The time a run may take.
    pub timeout: Duration,
    /// How a run has to end.
    pub ending: Ending,
    /// What a run has to say.
    pub stderr: Stderr,
    /// Whether lines of a report but its first are wrong.
    pub no_details: bool,
    /// The promises it holds.
    pub promises: Vec<u32>,
    /// Whether the correct program of the same shape is in the same file.
    pub twin: bool,
    /// Whether it runs as a setuid program of another user.
    pub setuid: bool,
    /// Whether checked copies are preloaded as well.
    pub checked: bool,
    /// Why it cannot hold on the C library's own malloc.
    pub libc_skip: Option<String>,
    /// What an emulator does not have, of what the program needs.
    pub beyond_emulation: Option<&'static str>,
    /// Platforms that it is left out on, and why.
    pub skips: Vec<(String, String)>,
    /// The only builds that it is for, and in words which, and why.
    pub builds: Option<(Vec<Build>, String)>,
    /// Programs and files it needs, with their Debian packages.
    pub needs: Vec<(String, String)>,
    /// Why it needs protection keys, if it does.
    pub pkeys: Option<String>,
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn ending(text: &str) -> Result<Ending, String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["exit", status] => {
            status.parse().map(Ending::Exit).map_err(|_| format!("not a status: {status}"))
        }
        ["signal", "ABRT"] => Ok(Ending::Signal(libc::SIGABRT)),
        ["signal", "SEGV"] => Ok(Ending::Signal(libc::SIGSEGV)),
        _ => Err(format!("not an ending: {text}")),
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    let [flag, value] = text.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(format!("not a limit: {text}"));
    };
    let value: u64 = value.parse().map_err(|_| format!("not a limit: {text}"))?;
    let (resource, value) = match flag {
        "-v" => (libc::RLIMIT_AS, value << 10),
        "-l" => (libc::RLIMIT_MEMLOCK, value << 10),
        "-n" => (libc::RLIMIT_NOFILE, value),
        _ => return Err(format!("not a limit: {text}")),
    };
    Ok(Limit { resource, value })
}

impl Source {
    /// Reads the directives of a file with one test. A file with more is an error.
    pub fn read(path: &Path) -> Result<Source, String> {
        let [source]: [Source; 1] = Source::cases(path)?
            .try_into()
            .map_err(|cases: Vec<_>| format!("{}: {} cases", path.display(), cases.len()))?;
        Ok(source)
    }

    /// Reads the directives of a file, for each of its cases; an unknown one is an error, for a
    /// misspelt expectation would otherwise hold nothing.
    pub fn cases(path: &Path) -> Result<Vec<Source>, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Source::parse(path, stem, &text).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn parse(path: &Path, name: String, text: &str) -> Result<Vec<Source>, String> {
        let mut cases: Vec<Source> = Vec::new();
        let mut shared = Source {
            path: path.to_owned(),
            name,
            flags: Vec::new(),
            libs: Vec::new(),
            aux: Vec::new(),
            runs: Vec::new(),
            env: Vec::new(),
            limits: Vec::new(),
            timeout: PATIENCE * Duration::from_secs(60),
            ending: Ending::Exit(0),
            stderr: Stderr::Lines(Vec::new()),
            no_details: false,
            promises: Vec::new(),
            twin: false,
            setuid: false,
            checked: false,
            libc_skip: None,
            beyond_emulation: crate::platform::beyond_emulation(text),
            skips: Vec::new(),
            builds: None,
            needs: Vec::new(),
            pkeys: None,
        };
        for line in text.lines().take_while(|l| l.starts_with("//")) {
            let line = line.trim_start_matches('/').trim();
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            match key {
                "case" => cases.push(shared.as_case(value)?),
                _ => cases.last_mut().unwrap_or(&mut shared).directive(key, value.trim())?,
            }
        }
        if cases.is_empty() {
            cases.push(shared);
        }
        for case in cases.iter_mut().filter(|case| case.runs.is_empty()) {
            case.runs.push(Vec::new());
        }
        Ok(cases)
    }

    /// One case of this file: its name and its flags.
    fn as_case(&self, value: &str) -> Result<Source, String> {
        let mut flags = words(value).into_iter();
        let name = flags.next().ok_or("a case without a name")?;
        let mut case = self.clone();
        case.flags.push(format!("-DCASE={name}"));
        case.flags.extend(flags);
        case.name = name;
        Ok(case)
    }

    fn directive(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "flags" => self.flags.extend(words(value)),
            "libs" => self.libs.extend(words(value)),
            "aux" => self.aux.extend(words(value)),
            "run" => self.runs.push(words(value)),
            "env" => {
                let (k, v) = value.split_once('=').ok_or(format!("not KEY=VALUE: {value}"))?;
                self.env.push((k.to_owned(), v.to_owned()));
            }
            "ulimit" => self.limits.push(limit(value)?),
            "timeout" => {
                let seconds = value.parse().map_err(|_| format!("not seconds: {value}"))?;
                self.timeout = PATIENCE * Duration::from_secs(seconds);
            }
            "expect" => self.ending = ending(value)?,
            "stderr" => match &mut self.stderr {
                Stderr::Lines(lines) => lines.push(value.to_owned()),
                Stderr::Any => return Err("stderr after stderr-any".into()),
            },
            "stderr-any" => self.stderr = Stderr::Any,
            "stderr-details" if value == "none" => self.no_details = true,
            "promise" => {
                for word in words(value) {
                    let number = word.parse().map_err(|_| format!("not a promise: {word}"))?;
                    self.promises.push(number);
                }
            }
            "twin" => self.twin = true,
            "setuid" => self.setuid = true,
            "checked" => self.checked = true,
            "libc" | "musl" | "aarch64" => {
                let why = value.strip_prefix("skip ").ok_or(format!("not `skip WHY`: {value}"))?;
                match key {
                    "libc" => self.libc_skip = Some(why.to_owned()),
                    _ => self.skips.push((key.to_owned(), why.to_owned())),
                }
            }
            "build" => {
                let (build, why) = value.split_once(' ').ok_or(format!("no reason: {value}"))?;
                let mut builds = Vec::new();
                for word in build.split(',') {
                    builds.extend_from_slice(match word {
                        "secure" => &[Build::Light, Build::Secure][..],
                        "light" => &[Build::Light],
                        "full" => &[Build::Secure],
                        "default" => &[Build::Default],
                        _ => return Err(format!("no build: {word}")),
                    });
                }
                self.builds = Some((builds, format!("for the {build} build: {why}")));
            }
            "needs" => {
                let (tool, package) =
                    value.split_once(' ').ok_or(format!("not TOOL PACKAGE: {value}"))?;
                self.needs.push((tool.to_owned(), package.trim().to_owned()));
            }
            "machine" => {
                let why =
                    value.strip_prefix("pkeys ").ok_or(format!("not `pkeys WHY`: {value}"))?;
                self.pkeys = Some(why.to_owned());
            }
            // Prose may have a colon in it; a directive is one word in lower case.
            word if word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') => {
                return Err(format!("unknown directive `{word}:`"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The correct program of the same shape: it must end well and say nothing.
    pub fn as_twin(&self) -> Source {
        let mut twin = self.clone();
        twin.name = format!("{}_twin", self.name);
        twin.flags.push("-DTWIN".into());
        twin.ending = Ending::Exit(0);
        twin.stderr = Stderr::Lines(Vec::new());
        twin.promises = vec![6];
        twin.libc_skip = None;
        twin
    }

    /// Whether the file is C++.
    pub fn is_cpp(&self) -> bool {
        self.path.extension().is_some_and(|e| e == "cc")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(text: &str) -> Result<Vec<Source>, String> {
        Source::parse(Path::new("x.c"), "x".into(), text)
    }

    fn parse(text: &str) -> Result<Source, String> {
        cases(text).map(|mut cases| cases.swap_remove(0))
    }

    #[test]
    fn reads_every_directive() {
        let source = parse(
            "// What: prose, with a colon: ignored.\n// flags: -O2 -pthread\n// run: 1 2\n// run: 3\n\
             // env: A=b=c\n// ulimit: -v 10\n// timeout: 5\n// expect: signal ABRT\n// stderr: a: b\n\
             // promise: 4 30\n// twin: frees once\n// libc: skip because\n// needs: nm binutils\n\
             // build: secure it is\n// musl: skip so\nint x; // flags: ignored\nrun_again();\n",
        )
        .unwrap();
        assert_eq!(source.flags, ["-O2", "-pthread"]);
        assert_eq!(source.runs, [vec!["1".to_owned(), "2".into()], vec!["3".into()]]);
        assert_eq!(source.env, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!(source.limits, [Limit { resource: libc::RLIMIT_AS, value: 10 << 10 }]);
        assert_eq!(source.timeout, PATIENCE * Duration::from_secs(5));
        assert_eq!(source.ending, Ending::Signal(libc::SIGABRT));
        assert_eq!(source.stderr, Stderr::Lines(vec!["a: b".into()]));
        assert_eq!(source.promises, [4, 30]);
        assert!(source.twin);
        assert_eq!(source.beyond_emulation, Some("cannot start programs again"));
        assert_eq!(source.libc_skip.as_deref(), Some("because"));
        assert_eq!(source.needs, [("nm".to_owned(), "binutils".to_owned())]);
        let builds = vec![Build::Light, Build::Secure];
        assert_eq!(source.builds, Some((builds, "for the secure build: it is".to_owned())));
        assert_eq!(source.skips, [("musl".to_owned(), "so".to_owned())]);
        let twin = source.as_twin();
        assert_eq!(twin.ending, Ending::Exit(0));
        assert_eq!(twin.stderr, Stderr::Lines(Vec::new()));
    }

    #[test]
    fn refuses_a_misspelt_directive() {
        assert!(parse("// expct: exit 0\n").unwrap_err().contains("expct"));
        assert!(parse("// expect: exits 0\n").is_err());
        assert!(parse("// ulimit: -q 3\n").is_err());
        assert!(parse("// build: soft and warm\n").is_err());
    }
    #[test]
    fn a_case_has_what_all_have_and_its_own() {
        let [small, large] = &cases(
            "// expect: signal ABRT\n// case: x_small -DSIZE=64\n// stderr: small\n\
             // case: x_large -DSIZE=300000\n// run: 1\n// stderr: large\nint x;\n",
        )
        .unwrap()[..] else {
            panic!("two cases")
        };
        assert_eq!((&*small.name, &*large.name), ("x_small", "x_large"));
        assert_eq!(small.flags, ["-DCASE=x_small", "-DSIZE=64"]);
        assert_eq!(large.flags, ["-DCASE=x_large", "-DSIZE=300000"]);
        for (case, said) in [(small, "small"), (large, "large")] {
            assert_eq!(case.ending, Ending::Signal(libc::SIGABRT));
            assert_eq!(case.stderr, Stderr::Lines(vec![said.into()]));
        }
        assert_eq!((&small.runs[..], &large.runs[..]), (&[vec![]][..], &[vec!["1".into()]][..]));
        assert!(cases("// case:\n").is_err());
    }
}
