//! One line of a file of hints (docs/hints.md).
//!
//! ```text
//! toft-hints 1                        the first line
//! others together                     other sites share one; `others own`: each has its own
//! module 0a1b2c3d /usr/bin/program    the next lines are for this file; `-` if it has no build-id
//! own 0x1234                          the site at this offset has a separate partition
//! group 3 0x1240   # a comment        the site shares a partition with all others of group 3
//! ```

/// The number of bytes of a build-id that are compared: a SHA-1 has 20.
pub const BUILD_ID: usize = 20;
/// The highest number of a group.
pub const GROUPS_MOST: usize = 255;
/// The version of the format.
const VERSION: &[u8] = b"1";

/// The rule for a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The site has its own partition.
    Own,
    /// The site shares a partition with all others of this group. Group 0 has the sites that no
    /// line names.
    Group(u8),
}

/// A build-id, as far as it is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuildId {
    bytes: [u8; BUILD_ID],
    len: u8,
}

impl BuildId {
    /// Returns a build-id from its bytes.
    pub fn of(id: &[u8]) -> BuildId {
        let mut known = BuildId::default();
        known.len = known.bytes.iter_mut().zip(id).map(|(to, &from)| *to = from).count() as u8;
        known
    }

    /// Returns true if there is no build-id.
    pub fn is_none(&self) -> bool {
        self.len == 0
    }

    fn parse(text: &[u8]) -> Option<BuildId> {
        if text == b"-" {
            return Some(BuildId::default());
        }
        let mut known = BuildId::default();
        for pair in text.chunks(2) {
            let &[high, low] = pair else { return None };
            let byte = digit(high)? << 4 | digit(low)?;
            if let Some(place) = known.bytes.get_mut(known.len as usize) {
                *place = byte;
                known.len += 1;
            }
        }
        (known.len != 0).then_some(known)
    }
}

/// The meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// An empty line or a comment.
    Nothing,
    /// The rule for sites that no line names.
    Others(Rule),
    /// The file that the next lines are for.
    Module {
        /// Its build-id.
        id: BuildId,
        /// Its name.
        name: &'a [u8],
    },
    /// The rule for the site at this offset of the file.
    Site(Rule, usize),
}

/// Verifies that a file that begins with this line is a file of hints. Returns the reason if it is
/// not.
pub fn is_first(line: &[u8]) -> Result<(), &'static str> {
    let mut words = words(line);
    match (words.next(), words.next()) {
        (Some(b"toft-hints"), Some(VERSION)) => Ok(()),
        (Some(b"toft-hints"), _) => Err("another version than 1"),
        _ => Err("its first line is not `toft-hints 1`"),
    }
}

/// Parses a line. Returns the reason if the line is invalid.
pub fn parse(line: &[u8]) -> Result<Line<'_>, &'static str> {
    let line = before_comment(line);
    let mut words = words(line);
    let Some(kind) = words.next() else { return Ok(Line::Nothing) };
    let parsed = match kind {
        b"others" => match words.next() {
            Some(b"own") => Line::Others(Rule::Own),
            Some(b"together") => Line::Others(Rule::Group(0)),
            _ => return Err("neither `others own` nor `others together`"),
        },
        b"module" => {
            let id = words.next().and_then(BuildId::parse).ok_or("no build-id, and no `-`")?;
            let name = words.next().ok_or("no name of a file")?;
            // A name may have spaces, so it is the rest of the line.
            let begin = name.as_ptr().addr() - line.as_ptr().addr();
            let name = line.get(begin..).unwrap_or(name).trim_ascii_end();
            return Ok(Line::Module { id, name });
        }
        b"own" => Line::Site(Rule::Own, words.next().and_then(offset).ok_or(NO_OFFSET)?),
        b"group" => {
            let group = words.next().and_then(group).ok_or("no number of a group from 1 to 255")?;
            Line::Site(Rule::Group(group), words.next().and_then(offset).ok_or(NO_OFFSET)?)
        }
        b"toft-hints" => return Err("a first line in the middle"),
        _ => return Err("a word that no line begins with"),
    };
    if words.next().is_some() { Err("more than was expected") } else { Ok(parsed) }
}

const NO_OFFSET: &str = "no offset such as 0x1a2b";

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Returns the line up to a `#` that begins it or follows a space.
fn before_comment(line: &[u8]) -> &[u8] {
    let mut space = true;
    let end = line.iter().position(|byte| {
        let begins = space && *byte == b'#';
        space = byte.is_ascii_whitespace();
        begins
    });
    line.get(..end.unwrap_or(line.len())).unwrap_or(line)
}

fn digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

fn offset(text: &[u8]) -> Option<usize> {
    let digits = text.strip_prefix(b"0x").filter(|digits| !digits.is_empty())?;
    digits.iter().try_fold(0usize, |number, &byte| {
        number.checked_mul(16)?.checked_add(digit(byte)? as usize)
    })
}

fn group(text: &[u8]) -> Option<u8> {
    let number = crate::options::parse_number(text)?;
    (1..=GROUPS_MOST).contains(&number).then_some(number as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_they_say() {
        let id = |bytes: &[u8]| BuildId::of(bytes);
        for (line, meaning) in [
            ("", Line::Nothing),
            ("  # own 0x12", Line::Nothing),
            ("others own", Line::Others(Rule::Own)),
            ("others together # as usual", Line::Others(Rule::Group(0))),
            ("own 0x1f", Line::Site(Rule::Own, 0x1f)),
            ("\tgroup 255\t0xABC # why", Line::Site(Rule::Group(255), 0xabc)),
            ("module 0aff /bin/a", Line::Module { id: id(&[0x0a, 0xff]), name: b"/bin/a" }),
            ("module - a b#c  # x", Line::Module { id: id(&[]), name: b"a b#c" }),
        ] {
            assert_eq!(parse(line.as_bytes()), Ok(meaning), "{line}");
        }
        // Bytes beyond the compared ones are cut off, on both sides.
        let long = parse(b"module 00112233445566778899aabbccddeeff00112233445566778899 x").unwrap();
        let bytes: std::vec::Vec<u8> =
            (0..16).map(|i| i * 0x11).chain((0..10).map(|i| i * 0x11)).collect();
        assert_eq!(long, Line::Module { id: id(&bytes), name: b"x" });
    }

    #[test]
    fn what_a_line_does_not_say_is_reported() {
        for (line, why) in [
            ("alone 0x12", "a word that no line begins with"),
            ("\u{1}\u{2}\u{ff}", "a word that no line begins with"),
            ("own", NO_OFFSET),
            ("own 12", NO_OFFSET),
            ("own 0x", NO_OFFSET),
            ("own 0x12345678123456789", NO_OFFSET),
            ("own 0x12 0x13", "more than was expected"),
            ("group 0 0x12", "no number of a group from 1 to 255"),
            ("group 256 0x12", "no number of a group from 1 to 255"),
            ("group 7", NO_OFFSET),
            ("others", "neither `others own` nor `others together`"),
            ("others apart", "neither `others own` nor `others together`"),
            ("module 0a1 x", "no build-id, and no `-`"),
            ("module zz x", "no build-id, and no `-`"),
            ("module 0a", "no name of a file"),
            ("toft-hints 1", "a first line in the middle"),
        ] {
            assert_eq!(parse(line.as_bytes()), Err(why), "{line}");
        }
        assert_eq!(is_first(b"toft-hints 1  # of python"), Ok(()));
        assert_eq!(is_first(b"toft-hints 2"), Err("another version than 1"));
        for line in ["", "toft", "{\"toft_profile\":1", "toft-hints1"] {
            assert_eq!(is_first(line.as_bytes()), Err("its first line is not `toft-hints 1`"));
        }
    }
}
