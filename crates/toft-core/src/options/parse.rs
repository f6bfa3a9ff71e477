//! Reading `NAME=value` without allocating.

use super::library_functions::{of_c, of_cxx, of_libc, of_rust};
use super::table::REPORT;
use super::{Entry, GUARDED_MAX, LimitTo, PARTITIONS_MAX, Report, SIGNAL_MAX, SiteMode, TABLE};
use core::ffi::CStr;

/// An option found in the environment.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    /// Its row in the table.
    pub entry: &'static Entry,
    /// What stands behind the equals sign.
    pub value: &'a [u8],
}

/// Why a variable was not taken.
#[derive(Clone, Copy, Debug)]
pub enum Problem {
    /// No option has this name.
    Unknown,
    /// The value is not one that this option can have.
    BadValue(&'static Entry),
    /// The secure build is not made weaker.
    Weaker(&'static Entry),
    /// What it would do the secure build does anyway, or better.
    Needless(&'static Entry),
}

/// The option that a variable names; `Ok(None)` when the variable is not ours.
pub(super) fn find(variable: &[u8]) -> Result<Option<Parsed<'_>>, Problem> {
    if !variable.starts_with(b"TOFT_") {
        return Ok(None);
    }
    let equals = variable.iter().position(|&byte| byte == b'=').unwrap_or(variable.len());
    let name = variable.get(..equals).unwrap_or(&[]);
    let value = variable.get(equals + 1..).unwrap_or(&[]);
    match TABLE.iter().find(|entry| entry.name.as_bytes() == name) {
        Some(entry) => Ok(Some(Parsed { entry, value })),
        None => Err(Problem::Unknown),
    }
}

/// A whole number.
pub fn parse_number(text: &[u8]) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0usize, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(digit as usize)
    })
}

/// A number of partitions that sites are hashed into, `exact`, or `exact:` and the number of
/// partitions that there can be. Numbers are rounded up to a power of two; zero is the default one.
pub fn parse_partitions(text: &[u8]) -> Option<(SiteMode, usize)> {
    let number = |digits| {
        let number = parse_number(digits).filter(|n| (1..=PARTITIONS_MAX).contains(n));
        number.map(usize::next_power_of_two)
    };
    match text.strip_prefix(b"exact") {
        Some(b"") => Some((SiteMode::Exact, 0)),
        Some(rest) => Some((SiteMode::Exact, number(rest.strip_prefix(b":")?)?)),
        None => Some((SiteMode::Hash, number(text)?)),
    }
}

/// Bytes, with an optional suffix.
pub fn parse_size(text: &[u8]) -> Option<usize> {
    let (digits, shift) = match text.split_last()? {
        (b'k' | b'K', digits) => (digits, 10),
        (b'm' | b'M', digits) => (digits, 20),
        (b'g' | b'G', digits) => (digits, 30),
        _ => (text, 0),
    };
    parse_number(digits)?.checked_mul(1 << shift)
}

/// The least limit in bytes. A smaller one is a number whose unit was forgotten.
const LEAST_LIMIT: usize = 1 << 20;

/// Bytes, with an optional suffix and at least a mebibyte, or percent, at least one.
pub fn parse_share(text: &[u8]) -> Option<LimitTo> {
    match text.split_last()? {
        (b'%', digits) => match parse_number(digits)? {
            percent @ 1..=100 => Some(LimitTo::Percent(percent as u8)),
            _ => None,
        },
        _ => parse_size(text).filter(|&bytes| bytes >= LEAST_LIMIT).map(LimitTo::Bytes),
    }
}

/// What the text stands for, if it is one of `words`.
pub fn parse_word<T: Copy>(text: &[u8], words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(word, _)| word.as_bytes() == text).map(|&(_, value)| value)
}

/// The bits of those of `words` that are in a list with commas; at least one.
pub fn parse_list(text: &[u8], words: &[(&str, u32)]) -> Option<u32> {
    text.split(|&byte| byte == b',').try_fold(0, |bits, word| Some(bits | parse_word(word, words)?))
}

/// At which signal and after how many bytes of growth a profile is written: `signal:NUMBER`,
/// `growth:SIZE`, or both with a comma between them. Zero stands for the one that is not named.
pub fn parse_moments(text: &[u8]) -> Option<(usize, usize)> {
    text.split(|&byte| byte == b',').try_fold((0, 0), |(signal, growth), moment| {
        if let Some(number) = moment.strip_prefix(b"signal:") {
            let number = parse_number(number).filter(|n| (1..=SIGNAL_MAX).contains(n))?;
            return Some((number, growth));
        }
        let size = parse_size(moment.strip_prefix(b"growth:")?).filter(|&size| size != 0)?;
        Some((signal, size))
    })
}

/// Whether reads of unwritten memory are reported, and one allocation in how many is a guarded
/// block: a number; `uninit`, which is every one; or `uninit:` and a number.
pub fn parse_guarded(text: &[u8]) -> Option<(bool, usize)> {
    let number = |digits| parse_number(digits).filter(|&n| n <= GUARDED_MAX);
    match text.strip_prefix(b"uninit") {
        Some(b"") => Some((true, 1)),
        Some(rest) => Some((true, number(rest.strip_prefix(b":")?)?)),
        None => Some((false, number(text)?)),
    }
}

/// How much is reported, and into which file as JSON: a word, the name of a file, or both with a
/// comma between them. The name contains a `/`, so no misspelt word is taken for one.
pub fn parse_report(text: &[u8]) -> Option<(Report, Option<FileName>)> {
    let word = |text| parse_word(text, REPORT);
    let file = |text: &[u8]| parse_file(text).filter(|_| text.contains(&b'/'));
    if let Some(report) = word(text) {
        return Some((report, None));
    }
    let mut parts = text.splitn(2, |&byte| byte == b',');
    let (first, rest) = (parts.next().unwrap_or(&[]), parts.next().unwrap_or(&[]));
    match word(first) {
        Some(report) => Some((report, Some(file(rest)?))),
        None => Some((Report::Auto, Some(file(text)?))),
    }
}

/// Most bytes in the name of a file.
const FILE_NAME: usize = 255;

/// The name of a file, kept here: what the environment's own strings are made of, the program may
/// write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileName {
    /// Ended by a zero.
    bytes: [u8; FILE_NAME + 1],
}

impl FileName {
    /// The name, for the system.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

/// Names of functions, with commas between them, kept here for the same reason. A `*` in one stands
/// for anything, `rust`, `c++` and `c` for the functions of a language that allocate for their
/// caller (`library_functions.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    list: FileName,
}

impl Names {
    fn patterns(&self) -> impl Iterator<Item = &[u8]> {
        self.list.as_c_str().to_bytes().split(|&byte| byte == b',')
    }

    /// Whether a language is named: its programs call the C library, all of whose functions
    /// allocate for their caller then.
    pub fn pass_libc(&self) -> bool {
        self.patterns().any(|pattern| matches!(pattern, b"rust" | b"c++" | b"c"))
    }

    /// Whether one of them fits a function's name.
    pub fn fit(&self, name: &[u8]) -> bool {
        self.patterns().any(|pattern| match pattern {
            b"rust" => of_rust(name),
            b"c++" => of_cxx(name),
            b"c" => of_c(name) || of_libc(name),
            pattern => fits(pattern, name),
        })
    }
}

/// Whether a name is what a pattern says, in which `*` stands for anything.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where the last star was, and up to where in the name it reaches so far.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if Some(byte) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, reach)) = star else { return false };
                star = Some((at, reach + 1));
                (p, n) = (at + 1, reach + 1);
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|&byte| byte == b'*'))
}

/// Names of functions, each of something.
pub fn parse_names(text: &[u8]) -> Option<Names> {
    let named = |name: &[u8]| name.iter().any(|&byte| byte != b'*');
    let all = text.split(|&byte| byte == b',').all(named);
    Some(Names { list: parse_file(text).filter(|_| all)? })
}

/// The name of a file, not empty.
pub fn parse_file(text: &[u8]) -> Option<FileName> {
    let mut bytes = [0; FILE_NAME + 1];
    if text.is_empty() || text.contains(&0) {
        return None;
    }
    let places = bytes.get_mut(..FILE_NAME)?.get_mut(..text.len())?;
    places.iter_mut().zip(text).for_each(|(place, &byte)| *place = byte);
    Some(FileName { bytes })
}

/// `1` or `0`.
pub fn parse_flag(text: &[u8]) -> Option<bool> {
    parse_word(text, &[("0", false), ("1", true)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_whole_with_stars_for_anything() {
        let fit =
            |list: &str, name: &str| parse_names(list.as_bytes()).unwrap().fit(name.as_bytes());
        assert!(fit("xmalloc", "xmalloc") && fit("a,xmalloc,b", "xmalloc") && fit("a,b", "b"));
        assert!(!fit("xmalloc", "xmalloc2") && !fit("xmalloc", "axmalloc") && !fit("xmalloc", ""));
        assert!(fit("*malloc", "xmalloc") && fit("x*", "xmalloc") && fit("x*l*c", "xmalloc"));
        assert!(fit("*ab*ab", "abxabab") && !fit("*ab*ab", "ab") && !fit("x*d", "xmalloc"));
        assert!(fit("rust", "__rust_alloc") && fit("a,rust", "_ZN5alloc7raw_vec11finish_grow17hE"));
        assert!(!fit("rust", "rust") && !fit("rust", "malloc"));
        assert!(fit("c", "xmalloc") && fit("c++,c", "strdup") && fit("c++,c", "_Znwm"));
        assert!(!fit("c", "c") && !fit("c", "malloc") && !fit("c++", "xmalloc"));
        for bad in ["", ",", "a,", "*", "a,**,b"] {
            assert!(parse_names(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn names_of_files_are_whole_or_refused() {
        let name = parse_file(b"/tmp/a b").unwrap();
        assert_eq!(name.as_c_str(), c"/tmp/a b");
        assert_eq!(parse_file(&[b'x'; 255]).unwrap().as_c_str().to_bytes().len(), 255);
        assert!(parse_file(&[b'x'; 256]).is_none() && parse_file(b"").is_none());
    }
}
