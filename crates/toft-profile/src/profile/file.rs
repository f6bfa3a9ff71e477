//! A profile saved: one JSON object, with a version, that a later toft can name the call sites of.
//!
//! It is what the library itself writes at a program's end, too, so that there is one format. A
//! reader takes rows in any order and of any number for one site, and passes over what it does not
//! know; a new [`VERSION`] is a word that has changed its meaning.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Frame, Profile, Row, Sampled, Source};

/// Of the format.
pub const VERSION: u32 = 1;

/// The whole file.
#[derive(Serialize, Deserialize)]
struct Saved {
    toft_profile: u32,
    toft: String,
    source: Source,
    time: u64,
    pid: i32,
    name: String,
    partitions: u64,
    #[serde(default)]
    resident: Option<u64>,
    #[serde(default)]
    doubts: u64,
    #[serde(default)]
    notes: Vec<String>,
    rows: Vec<Labelled>,
    /// Estimates, beside the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sampled: Option<Sampled>,
    /// Behind the rows, so that a file that was cut off has none.
    objects: u64,
    bytes: u64,
}

/// A row, and what names it. The name follows from the frames, so that a reader passes over it.
#[derive(Serialize, Deserialize)]
struct Labelled {
    #[serde(flatten)]
    row: Row,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    label: Option<Frame>,
}

impl Labelled {
    fn of(row: &Row) -> Labelled {
        Labelled { label: row.label(), row: row.clone() }
    }
}

/// Why a file is no profile.
#[derive(Debug, PartialEq, Eq)]
pub enum FileError {
    /// It is something else.
    NotAProfile,
    /// It is cut off, or damaged; where.
    Damaged(String),
    /// It has a version that is not known.
    OtherVersion(u32),
    /// It contradicts itself.
    Senseless(String),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::NotAProfile => f.write_str(
                "it is no profile of Toft's (`toft heap -o FILE PID` and `toft run --profile FILE` write them)",
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
    /// To be saved: one line.
    pub fn to_json(&self) -> String {
        let saved = Saved {
            toft_profile: VERSION,
            toft: self.toft.clone(),
            source: self.source,
            time: self.time,
            pid: self.pid,
            name: self.name.clone(),
            partitions: self.partitions,
            resident: self.resident,
            doubts: self.doubts,
            notes: self.notes.clone(),
            rows: self.rows.iter().map(Labelled::of).collect(),
            sampled: self.sampled.clone(),
            objects: self.objects,
            bytes: self.bytes,
        };
        // Maps with names for keys and numbers always have a form in JSON.
        serde_json::to_string(&saved).map_or_else(|error| error.to_string(), |text| text + "\n")
    }

    /// From what was saved.
    pub fn from_json(text: &[u8]) -> Result<Profile, FileError> {
        /// What every profile begins with, of any version, which is known by it.
        const BEGIN: &[u8] = b"{\"toft_profile\":";
        // A program's name may have any bytes.
        let text = String::from_utf8_lossy(text);
        let text = text.trim().as_bytes();
        let digits = text.strip_prefix(BEGIN).ok_or(FileError::NotAProfile)?;
        // Before the rest, which another version may not have.
        let digits: String = digits
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .map(|&byte| char::from(byte))
            .collect();
        if let Ok(version) = digits.parse()
            && version != VERSION
        {
            return Err(FileError::OtherVersion(version));
        }
        let saved: Saved =
            serde_json::from_slice(text).map_err(|error| FileError::Damaged(error.to_string()))?;
        if saved.toft_profile != VERSION {
            return Err(FileError::OtherVersion(saved.toft_profile));
        }
        let mut profile = Profile {
            toft: saved.toft,
            source: saved.source,
            time: saved.time,
            pid: saved.pid,
            name: saved.name,
            partitions: saved.partitions,
            resident: saved.resident,
            objects: saved.objects,
            bytes: saved.bytes,
            allocations: 0,
            allocated: 0,
            doubts: saved.doubts,
            notes: saved.notes,
            rows: saved.rows.into_iter().map(|labelled| labelled.row).collect(),
            sampled: saved.sampled,
        };
        profile.check().map_err(FileError::Senseless)?;
        // It becomes a part of file names.
        let calls = profile.sampled.iter().flat_map(|s| &s.stacks).flat_map(|s| &s.calls);
        let mut ids = profile.rows.iter().filter_map(|row| row.build_id.as_deref());
        let mut ids = ids.by_ref().chain(calls.filter_map(|call| call.build_id.as_deref()));
        if let Some(id) = ids.find(|id| !id.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            let what = format!("{id:?} is no build-id: those are hexadecimal digits");
            return Err(FileError::Senseless(what));
        }
        profile.finish();
        Ok(profile)
    }
}

/// Addresses, which are too long for JSON's numbers.
pub mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:#x}"))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or("");
        u64::from_str_radix(digits, 16).map_err(|_| D::Error::custom("no address"))
    }
}

/// As [`hex`], where there may be no address.
pub mod hex_or_none {
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::hex::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        super::hex::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::*;
    use super::*;

    #[test]
    fn what_was_saved_is_read_again() {
        let mut profile = profile(vec![row("a \"b\" <c>", 1, 16, 3), row("b", 2, 32, 2)]);
        profile.rows[0].module = None;
        profile.rows[0].offset = None;
        profile.rows[0].build_id = None;
        profile.notes.push("a note".into());
        let text = profile.to_json();
        assert_eq!(Profile::from_json(text.as_bytes()).unwrap(), profile);
        // A later version of this one may say more.
        let more = text.replacen("\"source\"", "\"unheard_of\":[{}],\"source\"", 1);
        assert_eq!(Profile::from_json(more.as_bytes()).unwrap(), profile);
    }

    #[test]
    fn what_is_no_profile_is_told_why() {
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
