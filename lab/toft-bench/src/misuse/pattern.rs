//! An expected line of text with places in it that differ from run to run.

use regex_lite::Regex;

/// A line is taken literally but for what stands in braces. `{addr}` is an address, `{n}` a number,
/// `{x|y}` one of these words (an empty one is allowed), `{re:...}` a regular expression. `{name}`
/// is the value that the program itself announced on standard output in a line `name=value`.
///
/// # Errors
/// When a brace is not closed, a name was not announced, or the expression is none.
pub fn pattern(line: &str, stdout: &str) -> Result<Regex, String> {
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
