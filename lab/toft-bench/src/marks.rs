//! Pages with parts that are made: what stands between a pair of marks is replaced, all else is
//! left alone. Every page and README of this repository that has such a part has it through this
//! file.

use crate::machine::Machine;

/// What ends each part with figures.
pub const END: &str = "<!-- /figures -->";

/// The line before a part with figures.
#[must_use]
pub fn begin(name: &str) -> String {
    format!("<!-- figures: {name} -->\n")
}

/// How many parts with figures a page has.
#[must_use]
pub fn count(page: &str) -> usize {
    page.matches("<!-- figures: ").count()
}

/// A page with other text between one pair of marks; `file` is what the page is called.
///
/// # Errors
/// The page does not have the marks.
pub fn replaced(page: &str, file: &str, name: &str, text: &str) -> Result<String, String> {
    let begin = begin(name);
    placed(page, &begin, begin.trim_end(), END, &format!("{begin}{text}{END}"))
        .map_err(|error| format!("{file}: {error}"))
}

/// What a part of a page of this lab begins and ends with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    pub name: &'static str,
    /// The command that makes the part, for people who would edit it.
    pub made_by: &'static str,
}

impl Marks {
    /// A text with this part, marks and all, in place of the one that it has.
    pub(crate) fn placed(self, text: &str, part: &str) -> Result<String, String> {
        let Self { name, made_by } = self;
        let (begin, end) = (format!("<!-- {name}"), format!("<!-- /{name} -->"));
        let line = format!("{begin}: made by `{made_by}`, do not edit -->");
        placed(text, &begin, &line, &end, &format!("{line}\n{part}{end}"))
    }
}

/// A text with a part in place of what goes from `begin`, which is written as `line`, to `end`.
fn placed(text: &str, begin: &str, line: &str, end: &str, part: &str) -> Result<String, String> {
    let start = text.find(begin).ok_or_else(|| format!("there is no line `{line}`"))?;
    let no_end = || format!("`{line}` has no end: there is no line `{end}`");
    let length = text[start..].find(end).ok_or_else(no_end)? + end.len();
    Ok(format!("{}{part}{}", &text[..start], &text[start + length..]))
}

/// Where and with which revision it was measured.
#[must_use]
pub fn machine(machine: &Machine) -> String {
    format!(
        "{} x {}, Linux {}, transparent huge pages {}, glibc {}; revision {}",
        machine.cpus, machine.cpu, machine.kernel, machine.thp, machine.libc, machine.revision,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_marks_is_replaced() {
        let page = format!("a\n{}old\n{END}\nb\n{}x\n{END}\n", begin("one"), begin("two"));
        let new = replaced(&page, "page", "one", "new\n").unwrap();
        assert_eq!(new, page.replace("old", "new"));
        assert_eq!(replaced(&new, "page", "one", "new\n").unwrap(), new);
        assert_eq!(count(&page), 2);
        let missing = replaced(&page, "page", "three", "").unwrap_err();
        assert!(missing.contains("page: ") && missing.contains("figures: three"), "{missing}");
        assert!(replaced(&begin("one"), "page", "one", "").unwrap_err().contains("no end"));
    }
}
