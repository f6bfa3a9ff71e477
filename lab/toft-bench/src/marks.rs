//! Pages with parts that are made: what stands between a pair of marks is replaced, all else is
//! left alone. Every page and README of this repository that has such a part has it through this
//! file.

use crate::machine::Machine;

/// What a part begins and ends with.
#[derive(Clone, Copy, Debug)]
pub struct Marks<'a> {
    /// The beginning of its first line, by which it is found; the rest is a warning to people.
    pub begin: &'a str,
    /// That line as it is written.
    pub begin_line: &'a str,
    /// Its last line.
    pub end: &'a str,
}

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

impl Marks<'_> {
    /// A text with the part, marks and all, in place of the one that it has.
    ///
    /// # Errors
    /// When there is no place for it.
    pub fn placed(&self, text: &str, part: &str) -> Result<String, String> {
        let (start, end) = self.place(text)?;
        Ok(format!("{}{part}{}", &text[..start], &text[end..]))
    }

    /// The part that a text has.
    ///
    /// # Errors
    /// When it has none.
    pub fn section_of<'t>(&self, text: &'t str) -> Result<&'t str, String> {
        self.place(text).map(|(start, end)| &text[start..end])
    }

    fn place(&self, text: &str) -> Result<(usize, usize), String> {
        let Self { begin, begin_line, end } = self;
        let start = text.find(begin).ok_or(format!("there is no line `{begin_line}`"))?;
        let length = text[start..]
            .find(end)
            .ok_or(format!("`{begin_line}` has no end: there is no line `{end}`"))?;
        Ok((start, start + length + end.len()))
    }
}

/// A page with other text between one pair of marks; `file` is what the page is called.
///
/// # Errors
/// The page does not have the marks.
pub fn replaced(page: &str, file: &str, name: &str, text: &str) -> Result<String, String> {
    let begin = begin(name);
    let marks = Marks { begin: &begin, begin_line: begin.trim_end(), end: END };
    let part = format!("{begin}{text}{END}");
    marks.placed(page, &part).map_err(|error| format!("{file}: {error}"))
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
