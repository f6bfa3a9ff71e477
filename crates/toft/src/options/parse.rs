//! Reading `NAME=value` without allocating.

use super::{Entry, LimitTo, TABLE};

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
    /// The hardened build is not made weaker.
    Weaker(&'static Entry),
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

/// Bytes, with an optional suffix, or percent; neither none.
pub fn parse_share(text: &[u8]) -> Option<LimitTo> {
    match text.split_last()? {
        (b'%', digits) => match parse_number(digits)? {
            percent @ 1..=100 => Some(LimitTo::Percent(percent as u8)),
            _ => None,
        },
        _ => parse_size(text).filter(|&bytes| bytes != 0).map(LimitTo::Bytes),
    }
}

/// Which of `words` the text is.
pub fn parse_word(text: &[u8], words: &[&str]) -> Option<usize> {
    words.iter().position(|word| word.as_bytes() == text)
}

/// `1` or `0`.
pub fn parse_flag(text: &[u8]) -> Option<bool> {
    parse_word(text, &["0", "1"]).map(|word| word == 1)
}
