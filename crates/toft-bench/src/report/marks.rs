//! The two lines of a page between which generated text stands.

/// What a section begins and ends with.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// The beginning of its first line, by which it is found; the rest is a warning to people.
    pub begin: &'static str,
    /// That line as it is written.
    pub begin_line: &'static str,
    /// Its last line.
    pub end: &'static str,
}

impl Marks {
    /// A text with the section in place of the one that it has.
    ///
    /// # Errors
    /// When there is no place for it.
    pub fn placed(&self, text: &str, section: &str) -> Result<String, String> {
        let (start, end) = self.place(text)?;
        Ok(format!("{}{section}{}", &text[..start], &text[end..]))
    }

    /// The section that a text has.
    ///
    /// # Errors
    /// When it has none.
    pub fn section_of<'a>(&self, text: &'a str) -> Result<&'a str, String> {
        self.place(text).map(|(start, end)| &text[start..end])
    }

    fn place(&self, text: &str) -> Result<(usize, usize), String> {
        let Self { begin, begin_line, end } = self;
        let start = text.find(begin).ok_or(format!("there is no line `{begin_line}`"))?;
        let length = text[start..].find(end).ok_or(format!("there is no line `{end}`"))?;
        Ok((start, start + length + end.len()))
    }
}
