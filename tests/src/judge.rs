//! Whether a run ended and spoke as it had to.
//!
//! A line of expected standard error is taken literally but for what stands in braces:
//! `{addr}` an address, `{n}` a number, `{x|y}` one of these words (an empty one is allowed),
//! `{re:...}` a regular expression, and `{name}` the value that the program itself announced on
//! standard output in a line `name=value`.
//!
//! Lines of a report behind its first (they begin with [`DETAIL`]) depend on where the program is linked to and
//! how it was compiled: they are judged where one of them is expected or none may be, and else taken away.

use crate::directives::{Source, Stderr};
use crate::process::Finished;
use regex_lite::Regex;

fn pattern(line: &str, stdout: &str) -> Result<Regex, String> {
    let mut out = String::from("^");
    let mut rest = line;
    while let Some(open) = rest.find('{') {
        out.push_str(&regex_lite::escape(&rest[..open]));
        let close = rest[open..].find('}').ok_or(format!("no closing brace: {line}"))? + open;
        let word = &rest[open + 1..close];
        match word {
            "addr" => out.push_str("0x[0-9a-f]+"),
            "n" => out.push_str("[0-9]+"),
            _ if word.starts_with("re:") => out.push_str(&format!("(?:{})", &word[3..])),
            _ if word.contains('|') => {
                let words: Vec<_> = word.split('|').map(regex_lite::escape).collect();
                out.push_str(&format!("(?:{})", words.join("|")));
            }
            name => {
                let announced = stdout
                    .lines()
                    .filter_map(|l| l.split_once('='))
                    .find(|(k, _)| *k == name)
                    .ok_or(format!("the program did not announce `{name}`"))?;
                out.push_str(&regex_lite::escape(announced.1));
            }
        }
        rest = &rest[close + 1..];
    }
    out.push_str(&regex_lite::escape(rest));
    out.push('$');
    Regex::new(&out).map_err(|e| format!("{line}: {e}"))
}

/// What a line of a report but its first begins with: the library's `report::DETAIL`.
const DETAIL: &str = "toft:   ";

fn lines_differ(expected: &[String], no_details: bool, finished: &Finished) -> Option<String> {
    let all = no_details || expected.iter().any(|line| line.starts_with(DETAIL));
    let said: Vec<&str> =
        finished.stderr.lines().filter(|line| all || !line.starts_with(DETAIL)).collect();
    if said.len() != expected.len() {
        return Some(format!("{} lines on stderr, {} expected", said.len(), expected.len()));
    }
    expected.iter().zip(said).find_map(|(line, said)| match pattern(line, &finished.stdout) {
        Ok(re) if re.is_match(said) => None,
        Ok(_) => Some(format!("stderr line\n  expected: {line}\n  said:     {said}")),
        Err(e) => Some(e),
    })
}

/// Says what is wrong with a run, or nothing.
pub fn judge(source: &Source, finished: &Finished) -> Result<(), String> {
    let mut wrong = Vec::new();
    if finished.timed_out {
        wrong.push(format!("not done after {} s", source.timeout.as_secs()));
    } else if finished.ending != source.ending {
        wrong.push(format!("ended with {:?}, expected {:?}", finished.ending, source.ending));
    }
    if let Stderr::Lines(lines) = &source.stderr {
        wrong.extend(lines_differ(lines, source.no_details, finished));
    }
    if wrong.is_empty() { Ok(()) } else { Err(finished.describe(&wrong.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn placeholders() {
        let re = pattern("free({addr}): {n} b {x|} in {p}", "p=0x10\n").unwrap();
        assert!(re.is_match("free(0xfe): 12 b x in 0x10"));
        assert!(re.is_match("free(0xfe): 12 b  in 0x10"));
        assert!(!re.is_match("free(0xfe): 12 b  in 0x11"));
        assert!(!re.is_match("free(fe): 12 b x in 0x10"));
        assert!(!re.is_match("free(0xfe): 12 b x in 0x10 and more"));
        assert!(pattern("{q}", "p=0x10\n").is_err());
    }
}
