//! Counting: what test harnesses say, read line by line.

use std::fmt::Write;
use std::process::ExitCode;

/// One test binary, or one check, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suite {
    /// Whose tests.
    pub name: String,
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that were left out.
    pub ignored: usize,
    /// What failed, by name.
    pub failures: Vec<String>,
    /// What the failed tests printed, the first lines of each.
    pub printed: Vec<String>,
}

/// Lines that are kept of what one failed test printed.
const KEPT: usize = 12;

impl Suite {
    /// A suite that could not be built, or did not end as it should.
    pub fn broken(name: &str, why: String) -> Suite {
        Suite { name: name.into(), failed: 1, failures: vec![why], ..Suite::default() }
    }

    /// A suite that is left out because something is missing; says so.
    pub fn left_out(name: &str, missing: &str) -> Suite {
        println!("\n==> {name}: left out, there is no {missing}");
        Suite { name: name.into(), ignored: 1, ..Suite::default() }
    }

    /// A check that counts as a number of tests; says what is wrong.
    pub fn checked(name: &str, tests: usize, done: Result<(), String>) -> Suite {
        match done {
            Ok(()) => Suite { name: name.into(), passed: tests, ..Suite::default() },
            Err(why) => {
                println!("==> {name}: {why}");
                Suite::broken(name, why)
            }
        }
    }
}

/// The tests that failed.
pub fn failed(suites: &[Suite]) -> usize {
    suites.iter().map(|suite| suite.failed).sum()
}

/// One line for each suite with anything to say, and the failures by name.
pub fn summary(suites: &[Suite]) -> String {
    let mut text = String::from("\n");
    let width = suites.iter().map(|suite| suite.name.len()).max().unwrap_or(0);
    for Suite { name, passed, failed, ignored, .. } in suites {
        if passed + failed + ignored > 0 {
            let _ = write!(text, "{name:<width$}  {passed:>5} passed {failed:>4} failed");
            let _ = match ignored {
                0 => writeln!(text),
                _ => writeln!(text, " {ignored:>4} left out"),
            };
        }
    }
    for suite in suites {
        for failure in &suite.failures {
            let _ = writeln!(text, "failed: {}: {failure}", suite.name);
        }
        for line in &suite.printed {
            let _ = writeln!(text, "    {line}");
        }
    }
    text + "\n"
}

/// `N passed, N failed`.
pub fn closing_line(suites: &[Suite]) -> String {
    let passed: usize = suites.iter().map(|suite| suite.passed).sum();
    format!("{passed} passed, {} failed", failed(suites))
}

/// Reads the output of `cargo test`, line by line, standard output and error together.
#[derive(Debug)]
pub struct Reader {
    title: String,
    done: Vec<Suite>,
    /// The binary that runs now: announced, and without a result so far.
    open: Option<Suite>,
    /// Lines still kept of the failed test whose output is read.
    keeps: usize,
    /// The first line that says what is wrong.
    error: Option<String>,
}

impl Reader {
    /// A reader for a command of this title.
    pub fn new(title: &str) -> Reader {
        Reader { title: title.into(), done: Vec::new(), open: None, keeps: 0, error: None }
    }

    /// Takes a line.
    pub fn line(&mut self, line: &str) {
        if let Some(name) = announced(line) {
            self.close_unfinished();
            self.open = Some(Suite { name: format!("{} {name}", self.title), ..Suite::default() });
        } else if let Some(result) = line.strip_prefix("test result: ") {
            let mut suite = self
                .open
                .take()
                .unwrap_or_else(|| Suite { name: self.title.clone(), ..Suite::default() });
            let count = |what| count_before(result, what).unwrap_or(0);
            suite.passed = count(" passed");
            suite.failed = count(" failed");
            suite.ignored = count(" ignored");
            self.done.push(suite);
        } else if let Some(name) = line.strip_prefix("test ").and_then(failed_name)
            && let Some(suite) = &mut self.open
        {
            suite.failures.push(name.into());
        } else if line.starts_with("---- ") && line.ends_with(" ----") {
            self.keeps = KEPT;
        } else if line.starts_with("stack backtrace:") || line == "failures:" {
            self.keeps = 0;
        } else if self.keeps > 0 && !line.trim().is_empty() {
            self.keeps -= 1;
            if let Some(suite) = &mut self.open {
                suite.printed.push(line.into());
            }
        } else if self.error.is_none() && line.starts_with("error") {
            self.error = Some(line.into());
        }
    }

    /// A binary that was started and gave no result has crashed.
    fn close_unfinished(&mut self) {
        if let Some(suite) = self.open.take() {
            let mut broken = Suite::broken(&suite.name, "ended without a result".into());
            broken.failures.extend(suite.failures);
            broken.printed = suite.printed;
            self.done.push(broken);
        }
    }

    /// All suites. `wrong` is why the command failed; it counts when no line read shows a
    /// failure.
    pub fn end(mut self, wrong: Option<String>) -> Vec<Suite> {
        self.close_unfinished();
        if let Some(why) = wrong
            && self.done.iter().all(|suite| suite.failed == 0)
        {
            let why = self.error.take().map_or(why.clone(), |error| format!("{why}: {error}"));
            self.done.push(Suite::broken(&self.title, why));
        }
        self.done
    }
}

/// `Running unittests src/lib.rs (target/debug/deps/toft-0123)` gives `toft src/lib.rs`.
fn announced(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package} doc"));
    }
    let (what, binary) = line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
    let binary = binary.rsplit('/').next().unwrap_or(binary);
    let name = binary.rsplit_once('-').map_or(binary, |(name, _)| name);
    // Unit tests are called by their package, the others by their file.
    match what.strip_prefix("unittests ") {
        Some(file) => Some(format!("{name} {file}")),
        None => Some(what.into()),
    }
}

/// `[promise 4] double_free ... FAILED` gives `double_free`.
fn failed_name(rest: &str) -> Option<&str> {
    let name = rest.trim_end().strip_suffix("FAILED")?.trim_end().strip_suffix("...")?.trim();
    match name.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((_, name)) => Some(name.trim()),
        None => Some(name),
    }
}

fn count_before(text: &str, what: &str) -> Option<usize> {
    let before = &text[..text.find(what)?];
    before.rsplit(' ').next()?.parse().ok()
}

/// Prints what failed and, last and alone on its line, how many.
pub fn close(suites: &[Suite]) -> ExitCode {
    print!("{}", summary(suites));
    println!("{}", closing_line(suites));
    if failed(suites) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, wrong: Option<&str>) -> Vec<Suite> {
        let mut reader = Reader::new("t");
        text.lines().for_each(|line| reader.line(line));
        reader.end(wrong.map(str::to_owned))
    }

    const TWO: &str = "     Running unittests src/lib.rs (target/debug/deps/toft-01ab)
test slab::tests::a ... ok
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s
     Running runners/misuse.rs (target/debug/deps/misuse-77)
test [promise 4] double_free  ... FAILED

failures:

---- double_free ----
the program said nothing
stack backtrace:
   0: a

failures:
    double_free

test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s
   Doc-tests toft
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s
";

    #[test]
    fn results_are_added_up_over_all_suites() {
        let tally = read(TWO, Some("exit status 101"));
        assert_eq!(closing_line(&tally), "8 passed, 1 failed");
        let summary = summary(&tally);
        let failed = "failed: t runners/misuse.rs: double_free\n    the program said nothing\n\n";
        assert!(summary.contains(failed), "{summary}");
        assert!(summary.contains("t toft src/lib.rs") && summary.contains("1 left out"));
    }

    #[test]
    fn a_suite_that_crashes_is_a_failure() {
        let crash = "     Running tests/a.rs (target/debug/deps/a-1)\ntest x ... ";
        assert_eq!(closing_line(&read(crash, Some("exit status 101"))), "0 passed, 1 failed");
        assert_eq!(closing_line(&read(&format!("{crash}\n{TWO}"), None)), "8 passed, 2 failed");
    }

    #[test]
    fn a_command_that_does_not_build_is_a_failure() {
        let text = "error[E0425]: cannot find value `x` in this scope";
        assert_eq!(closing_line(&read(text, Some("exit status 101"))), "0 passed, 1 failed");
        assert!(summary(&read(text, Some("exit status 101"))).contains("cannot find value"));
        assert_eq!(closing_line(&read(text, None)), "0 passed, 0 failed");
    }
}
