//! A place in code: the return address of a call, the file that contains it, and its functions.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Frames, label};

/// A function that a call site is in, or is inlined into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// Its demangled name.
    pub function: String,
    /// The source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in the source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Frame {
    /// Formats it as `function at file.c:12`. A file of a package or of a runtime has its folders
    /// there: `flask/app.py:902`.
    pub fn words(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => {
                format!("{} at {}:{line}", self.function, label::shown_file(file))
            }
            _ => self.function.clone(),
        }
    }
}

/// A call site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// The address that the call returns to.
    #[serde(with = "address")]
    pub site: u64,
    /// The mapped file that contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The file's build-id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// The site as an address of the file's own tables.
    #[serde(default, with = "address_or_none", skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The name that the program was started by, if the site is in the program's file and that has
    /// another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The functions at the site, innermost first. All but the first have it inlined.
    #[serde(default, skip_serializing_if = "Frames::is_none")]
    pub frames: Frames,
}

impl Location {
    /// Returns the file's name without its folders.
    pub fn module_name(&self) -> &str {
        self.module.as_deref().map_or("no file", file_name)
    }

    /// Returns the name to show for the file: that of the program, or else of the file.
    pub fn shown_module(&self) -> &str {
        self.program.as_deref().unwrap_or_else(|| self.module_name())
    }

    /// Returns the function that names the site, as [`label`] chooses and shortens it.
    pub fn label(&self) -> Option<Frame> {
        self.frames.label().cloned()
    }

    /// Returns true if all functions at the site belong to libraries, or if its file is an
    /// interpreter: several callers may share the site.
    pub fn is_library_code(&self) -> bool {
        self.module.is_some() && label::is_interpreter(self.module_name())
            || !self.frames.is_empty() && self.frames.first_own().is_none()
    }

    /// Returns true if a language runtime has named the function: it is interpreted or generated.
    pub fn is_of_runtime(&self) -> bool {
        self.module.is_none() && self.frames.iter().any(|frame| frame.file.is_some())
    }

    /// Returns the function that names the site, or else the file and the offset.
    pub fn function(&self) -> String {
        self.label().map_or_else(|| self.address(), |label| label.function)
    }

    /// Formats the site in one line: `function at file.c:12`, or less where less is known.
    pub fn place(&self) -> String {
        let has_line = self.frames.label().is_some_and(|label| label.line.is_some());
        match self.frames.label_words() {
            Some(words) if has_line => words.to_owned(),
            Some(words) => format!("{words} in {}", self.shown_module()),
            None => self.address(),
        }
    }

    /// Returns [`Location::place`] of each of several places, with the file added where the same
    /// function and line are in several files.
    pub fn places<'a>(all: impl Iterator<Item = &'a Location>) -> Vec<String> {
        let shown = |location: &Location| (location.shown_module().to_owned(), location.place());
        let keys: Vec<_> = all.map(shown).collect();
        let mut files: HashMap<&str, HashSet<&str>> = HashMap::new();
        for (file, place) in &keys {
            files.entry(place).or_default().insert(file);
        }
        let one = |(file, place): &(String, String)| match files[place.as_str()].len() {
            1 => place.clone(),
            _ => format!("{place} in {file}"),
        };
        keys.iter().map(one).collect()
    }

    /// Returns all functions at the site in full, innermost first, or else the file and the offset.
    pub fn words(&self) -> Vec<String> {
        match self.frames.as_slice() {
            [] => vec![self.address()],
            frames => frames.iter().map(Frame::words).collect(),
        }
    }

    /// Returns the functions at the site from its label outwards. Those inside the label belong to
    /// libraries.
    pub fn frames_from_label(&self) -> &[Frame] {
        let all = self.frames.as_slice();
        let label = self.frames.first_own().unwrap_or(all.len().saturating_sub(1));
        all.get(label..).unwrap_or(&[])
    }

    /// Returns the file and the place, which identify a site in another run.
    pub fn key(&self) -> (String, String) {
        (self.module_name().to_owned(), self.place())
    }

    pub(crate) fn address(&self) -> String {
        match self.offset.filter(|_| self.module.is_some()) {
            Some(offset) => format!("{}+{offset:#x}", self.shown_module()),
            None => format!("{:#x}", self.site),
        }
    }
}

pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Addresses as hexadecimal text: they do not fit into the numbers of JSON.
mod address {
    use super::*;

    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:#x}"))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or("");
        u64::from_str_radix(digits, 16).map_err(|_| serde::de::Error::custom("no address"))
    }
}

/// Addresses that may be absent, in the form of [`address`].
mod address_or_none {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => address::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        address::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_as_much_as_is_known() {
        let frame = |function: &str, line| Frame {
            function: function.into(),
            file: Some("/src/sample.c".into()),
            line,
        };
        let mut location = Location {
            site: 0x5555_0012,
            module: Some("/bin/sample".into()),
            offset: Some(0x12),
            frames: vec![frame("push", Some(18)), frame("main", None)].into(),
            ..Location::default()
        };
        assert_eq!(location.place(), "push at sample.c:18");
        assert_eq!(location.words(), ["push at sample.c:18", "main"]);
        location.frames.remove(0);
        assert_eq!(location.place(), "main in sample");
        location.frames.clear();
        assert_eq!(location.place(), "sample+0x12");
        location.module = None;
        assert_eq!((location.place().as_str(), location.words().len()), ("0x55550012", 1));
    }
}
