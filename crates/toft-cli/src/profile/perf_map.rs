//! Names of functions that a language runtime has generated: `/tmp/perf-PID.map`, which
//! `node --perf-basic-prof`, `python3 -X perf` and `jcmd PID Compiler.perfmap` of the JVM write. A
//! line is `START LENGTH NAME`, the numbers hexadecimal.

use std::path::{Path, PathBuf};

use toft_profile::{Frame, read_file};

/// The longest file that is read.
const FILE_MOST: u64 = 1 << 30;

/// The functions of a process, in the order of their addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PerfMap {
    functions: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// That of a process; empty if there is none. Generated code moves, so it is read for each
    /// profile.
    pub fn of(pid: i32) -> PerfMap {
        let status = toft_profile::read(pid, "status").unwrap_or_default();
        // In a container the process has another number, and another /tmp.
        let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let inner = inner.and_then(|numbers| numbers.split_whitespace().next_back()?.parse().ok());
        let files = [
            PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{}.map", inner.unwrap_or(pid))),
            PathBuf::from(format!("/tmp/perf-{pid}.map")),
        ];
        files.iter().find_map(|file| PerfMap::read(file)).unwrap_or_default()
    }

    fn read(file: &Path) -> Option<PerfMap> {
        let bytes = read_file(file, FILE_MOST).ok()?;
        Some(PerfMap::parse(&String::from_utf8_lossy(&bytes)))
    }

    fn parse(text: &str) -> PerfMap {
        let function = |line: &str| {
            let (start, rest) = line.split_once(' ')?;
            let (length, name) = rest.split_once(' ')?;
            let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
            Some((number(start)?, number(length)?, name.to_owned()))
        };
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        // Of two at one place the later one is there now.
        functions.reverse();
        functions.sort_by_key(|(start, ..)| *start);
        functions.dedup_by_key(|(start, ..)| *start);
        PerfMap { functions }
    }

    /// The function that a call is in that returns to `address`.
    pub fn frame(&self, address: u64) -> Option<Frame> {
        let within = address.wrapping_sub(1);
        let after = self.functions.partition_point(|(start, ..)| *start <= within);
        let (start, length, name) = self.functions.get(after.checked_sub(1)?)?;
        (within - start < *length).then(|| named(name))
    }
}

/// A function by its entry: V8 writes `JS:*handle /srv/app.js:3:18`, CPython
/// `py::handle:/srv/app.py`, the JVM `void app.Server.handle(int)`.
fn named(name: &str) -> Frame {
    if let Some((function, file)) = name.strip_prefix("py::").and_then(|rest| rest.split_once(':'))
    {
        return Frame { function: function.into(), file: Some(file.into()), line: None };
    }
    let code = ["JS:", "LazyCompile:", "Function:"].iter().find_map(|kind| name.strip_prefix(kind));
    let Some((function, place)) = code.and_then(|code| code.split_once(' ')) else {
        let method = method(name).unwrap_or(name);
        return Frame { function: method.into(), file: None, line: None };
    };
    let function = function.trim_start_matches(['*', '~', '^', '+', '\'']);
    let mut parts = place.rsplitn(3, ':');
    let _column = parts.next();
    let line = parts.next().and_then(|line| line.parse().ok());
    let file = parts.next().filter(|_| line.is_some()).map(str::to_owned);
    let function = if function.is_empty() { "(anonymous)" } else { function };
    Frame { function: function.into(), file, line }
}

/// A method of Java by its signature: class and name, without what it returns and takes.
fn method(signature: &str) -> Option<&str> {
    let (_, name) = signature.strip_suffix(')')?.split_once('(')?.0.rsplit_once(' ')?;
    name.contains('.').then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_in_the_function_before_its_return_address() {
        let map = PerfMap::parse("2000 10 b\n0x1000 20 old\nnonsense\n1000 20 a new\n");
        let name = |address| map.frame(address).map(|frame| frame.function);
        assert_eq!(name(0x1001), Some("a new".into()));
        assert_eq!(name(0x1020), Some("a new".into()));
        assert_eq!(name(0x1021), None);
        assert_eq!(name(0x2001), Some("b".into()));
        assert_eq!(name(0x1000), None);
        assert_eq!(name(0), None);
    }

    #[test]
    fn names_have_their_files_and_lines() {
        let frame = |function: &str, file: Option<&str>, line| Frame {
            function: function.into(),
            file: file.map(Into::into),
            line,
        };
        assert_eq!(
            named("JS:*handle /srv/app.js:3:18"),
            frame("handle", Some("/srv/app.js"), Some(3))
        );
        assert_eq!(
            named("LazyCompile:~ node:internal/main:7:1"),
            frame("(anonymous)", Some("node:internal/main"), Some(7))
        );
        assert_eq!(named("py::handle:/srv/app.py"), frame("handle", Some("/srv/app.py"), None));
        assert_eq!(named("Builtin:ArrayPush"), frame("Builtin:ArrayPush", None, None));
        for (signature, name) in [
            ("void app.Server.handle(int)", "app.Server.handle"),
            ("java.lang.Object app.Map.get(java.lang.Object, int[])", "app.Map.get"),
            ("void app.Server.<init>()", "app.Server.<init>"),
            ("StubRoutines (1)", "StubRoutines (1)"),
            ("Interpreter", "Interpreter"),
        ] {
            assert_eq!(named(signature), frame(name, None, None));
        }
    }
}
