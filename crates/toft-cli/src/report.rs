//! What the library in the target says over the report descriptor: the sign of life at start, the
//! statistics at exit.
//!
//! `launch` feeds it bytes as they come, `run` and `stats` read the result. Other processes may
//! write to the same pipe (a forked child inherits the library, and under `--children` every
//! program has it), so lines are distinguished by pid.

use serde_json::Value;
use toft_profile::{Mapping, text_of_bytes};

/// Fewer bytes of other anonymous memory than this are not reported. Stacks and the tables of the C
/// library have far less.
const OTHER_LEAST: u64 = 32 << 20;

#[derive(Debug, Default)]
pub struct Report {
    pid: i32,
    partial: Vec<u8>,
    taking_maps: bool,
    /// The library's version, once the target itself has reported it.
    pub ready: Option<String>,
    /// Other processes that have reported it.
    pub ready_elsewhere: u64,
    /// The statistics of the target itself.
    pub heap: Option<Value>,
    /// What it leaked, where that was asked for.
    pub leaks: Option<Value>,
    /// The executable lines of its `/proc/self/maps`.
    pub maps: Vec<String>,
    /// Lines that make no sense, as two processes that end in the same moment may produce.
    pub garbled: u64,
}

impl Report {
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn mappings(&self) -> Vec<Mapping> {
        self.maps.iter().filter_map(|line| Mapping::of_line(line)).collect()
    }

    /// Returns the bytes of anonymous memory that was not Toft's at exit, if they are far more than
    /// Toft had. They are mappings, stacks or static data of the program (a virtual machine's heap,
    /// say), or blocks of a malloc that was not recognized.
    pub fn other_anonymous(&self) -> Option<u64> {
        let sum = |object: &Value, names: &[&str]| -> u64 {
            names.iter().filter_map(|name| object[name].as_u64()).sum()
        };
        let (other, ours) = match (&self.leaks, &self.heap) {
            (Some(leaks), _) => (sum(leaks, &["other_resident"]), sum(leaks, &["resident"])),
            (None, heap) => {
                let resident = &heap.as_ref()?["resident"];
                (sum(resident, &["brk", "other"]), sum(resident, &["slabs", "large"]))
            }
        };
        (other >= OTHER_LEAST && other / 4 > ours).then_some(other)
    }

    pub fn of(pid: i32) -> Report {
        Report { pid, ..Report::default() }
    }

    /// Takes the next bytes from the pipe.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(length) = self.partial[start..].iter().position(|&byte| byte == b'\n') {
            let line = text_of_bytes(&self.partial[start..start + length]);
            self.line(&line);
            start += length + 1;
        }
        self.partial.drain(..start);
    }

    fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("toft-ready ") {
            match rest.split_once(' ').map(|(version, pid)| (version, pid.parse::<i32>())) {
                // This pid twice: the target replaced itself by exec and has the library again.
                Some((version, Ok(pid))) if pid == self.pid => {
                    self.ready = Some(version.to_owned())
                }
                Some((_, Ok(_))) => self.ready_elsewhere += 1,
                _ => self.garbled += 1,
            }
        } else if let Some(map) = line.strip_prefix("map ") {
            if self.taking_maps {
                self.maps.push(map.to_owned());
            }
        } else if line == "toft-end" {
            self.taking_maps = false;
        } else if line.starts_with('{') {
            match serde_json::from_str::<Value>(line) {
                Ok(heap) => {
                    self.taking_maps = heap["pid"].as_i64() == Some(i64::from(self.pid));
                    if self.taking_maps {
                        self.maps.clear();
                        let leaks = heap["report"] == "leaks";
                        *(if leaks { &mut self.leaks } else { &mut self.heap }) = Some(heap);
                    }
                }
                Err(_) => self.garbled += 1,
            }
        } else if !line.is_empty() {
            self.garbled += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_come_in_any_pieces() {
        let text = b"toft-ready 0.1.0 7\n{\"pid\":7,\"misuse\":2}\nmap 1-2 r-xp 0 0:0 1 /x\ntoft-end\nmap late\n";
        for piece in 1..text.len() {
            let mut report = Report::of(7);
            text.chunks(piece).for_each(|bytes| report.feed(bytes));
            assert_eq!(report.ready.as_deref(), Some("0.1.0"));
            assert_eq!(report.heap.as_ref().unwrap()["misuse"], 2);
            assert_eq!(report.maps, ["1-2 r-xp 0 0:0 1 /x"]);
            assert_eq!(report.garbled, 0);
        }
    }

    #[test]
    fn leaks_and_statistics_come_one_after_the_other() {
        let mut report = Report::of(7);
        report
            .feed(b"{\"report\":\"leaks\",\"pid\":7}\n{\"pid\":7,\"misuse\":0}\nmap 1\ntoft-end\n");
        assert!(report.leaks.is_some() && report.heap.unwrap()["misuse"] == 0);
        assert_eq!(report.maps, ["1"]);
    }

    #[test]
    fn another_process_is_not_the_target() {
        let mut report = Report::of(7);
        report.feed(b"toft-ready 0.1.0 8\n{\"pid\":8}\nmap theirs\ntoft-end\n");
        assert!(report.ready.is_none() && report.heap.is_none() && report.maps.is_empty());
        assert_eq!(report.ready_elsewhere, 1);
    }

    #[test]
    fn nonsense_is_counted_and_survived() {
        let mut report = Report::of(7);
        report.feed(b"toft-ready x\n{\"pid\":7,{\"pid\"\n\xff\xfe\ntoft-ready 0.1.0 7\n");
        assert_eq!(report.garbled, 3);
        assert!(report.ready.is_some());
    }
}
