//! A saved profile: one JSON object, with a version.
//!
//! The library writes the same format at a program's end. A reader takes rows in any order, adds
//! the rows of one site, and ignores unknown fields. A new [`VERSION`] means that a field has
//! another meaning.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{Profile, Row};
use crate::{Frame, text_of_json};

/// The version of the format.
pub const VERSION: u32 = 1;

/// The reason why a file is not a profile.
#[derive(Debug, PartialEq, Eq)]
pub enum FileError {
    /// It is something else.
    NotAProfile,
    /// It is cut off, or damaged; where.
    Damaged(String),
    /// It has an unknown version.
    OtherVersion(u32),
    /// It contradicts itself; how.
    Senseless(String),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::NotAProfile => f.write_str(
                "it is no profile of Toft's (`toft heap -o FILE PID` and `toft run --profile FILE` \
                 write them)",
            ),
            FileError::Damaged(what) => write!(f, "the profile is damaged or cut off: {what}"),
            FileError::OtherVersion(version) => {
                write!(f, "the profile has version {version}, and this toft knows {VERSION}")
            }
            FileError::Senseless(what) => write!(f, "the profile contradicts itself: {what}"),
        }
    }
}

impl std::error::Error for FileError {}

impl Profile {
    /// Returns the saved form: one line.
    pub fn to_json(&self) -> String {
        // Maps with names for keys and numbers always have a form in JSON.
        serde_json::to_string(self).map_or_else(|error| error.to_string(), |text| text + "\n")
    }

    /// Reads the saved form.
    pub fn from_json(text: &[u8]) -> Result<Profile, FileError> {
        /// The beginning of every profile, of any version.
        const BEGIN: &[u8] = b"{\"toft_profile\":";
        // A program's name may have any bytes.
        let text = text_of_json(text);
        let text = text.trim().as_bytes();
        let digits = text.strip_prefix(BEGIN).ok_or(FileError::NotAProfile)?;
        // The version comes before the rest, which may have another form in another version.
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        if let Ok(version) = String::from_utf8_lossy(&digits[..end]).parse()
            && version != VERSION
        {
            return Err(FileError::OtherVersion(version));
        }
        let mut profile: Profile =
            serde_json::from_slice(text).map_err(|error| FileError::Damaged(error.to_string()))?;
        profile.check().map_err(FileError::Senseless)?;
        // Build-ids become parts of file names.
        let mut ids = profile.locations().filter_map(|location| location.build_id.as_deref());
        if let Some(id) = ids.find(|id| !id.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            let what = format!("{id:?} is no build-id: those are hexadecimal digits");
            return Err(FileError::Senseless(what));
        }
        drop(ids);
        profile.finish();
        Ok(profile)
    }
}

/// Writes rows with their labels. A reader ignores a label, because it follows from the frames.
pub(super) fn with_labels<S: Serializer>(rows: &[Row], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Labelled<'a> {
        #[serde(flatten)]
        row: &'a Row,
        #[serde(skip_serializing_if = "Option::is_none")]
        label: Option<Frame>,
    }
    serializer.collect_seq(rows.iter().map(|row| Labelled { label: row.location.label(), row }))
}

#[cfg(test)]
mod tests {
    use super::super::samples::*;
    use super::*;

    #[test]
    fn what_was_saved_is_read_again() {
        let mut profile = profile(vec![row("a \"b\" <c>", 1, 16, 3), row("b", 2, 32, 2)]);
        let location = &mut profile.rows[0].location;
        (location.module, location.offset, location.build_id) = (None, None, None);
        profile.notes.push("a note".into());
        let text = profile.to_json();
        assert_eq!(Profile::from_json(text.as_bytes()).unwrap(), profile);
        // A later version of this one may say more.
        let more = text.replacen("\"source\"", "\"unheard_of\":[{}],\"source\"", 1);
        assert_eq!(Profile::from_json(more.as_bytes()).unwrap(), profile);
    }

    #[test]
    fn what_is_no_profile_is_refused_with_the_reason() {
        let text = profile(vec![row("a", 1, 16, 3)]).to_json();
        let read = |text: &str| Profile::from_json(text.as_bytes()).unwrap_err();
        for other in ["", "{}", "[]", "\u{7f}ELF", "{\"toft\":1}"] {
            assert_eq!(read(other), FileError::NotAProfile, "{other}");
        }
        assert_eq!(read(&text.replace("profile\":1", "profile\":2")), FileError::OtherVersion(2));
        for cut in [20, text.len() / 2, text.len() - 3] {
            assert!(matches!(read(&text[..cut]), FileError::Damaged(_)), "{cut}");
        }
        let wrong = text.replace("\"bytes\":48}", "\"bytes\":49}");
        assert_ne!(wrong, text);
        assert!(read(&wrong).to_string().contains("contradicts itself"));
        for id in ["..", "\u{fc}\u{fc}", "a\u{fc}b", "../../x", "abc "] {
            let wrong = text.replace("\"abcd\"", &format!("\"{id}\""));
            assert_ne!(wrong, text);
            assert!(read(&wrong).to_string().contains("is no build-id"), "{id}");
        }
    }
}
