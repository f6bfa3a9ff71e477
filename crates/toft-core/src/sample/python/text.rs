//! Strings of CPython as UTF-8.

use super::layout::{LENGTH, Layout, STATE};
use crate::sample::words::Words;

/// In the state of a string: the bytes of a character, 3 bits; if the characters are in the object;
/// and if all of them are ASCII.
const KIND: u32 = 2;
const COMPACT: u8 = 1 << 5;
const ASCII: u8 = 1 << 6;
/// The most characters of a string that is believed.
const MOST: usize = 1 << 16;

/// Copies the end of a string, as much of it as surely fits into `to`. Returns `None` if there is
/// no string at this address.
pub(super) fn copy(words: &mut Words, layout: &Layout, string: usize, to: &mut [u8]) -> Option<()> {
    let state = words.byte(string.wrapping_add(STATE))?;
    let length = words.at(string.wrapping_add(LENGTH)).filter(|&length| length <= MOST)?;
    let kind = usize::from(state >> KIND & 7);
    // The most bytes that a character needs.
    let width = match (kind, state & ASCII) {
        (1, ASCII) => 1,
        (1, _) => 2,
        (2, _) => 3,
        (4, _) => 4,
        _ => return None,
    };
    if state & COMPACT == 0 {
        return None;
    }
    let [ascii, other] = layout.characters;
    let start = string.wrapping_add(if width == 1 { ascii } else { other });
    let mut end = 0;
    for number in length.saturating_sub(to.len() / width)..length {
        let at = start.wrapping_add(number * kind);
        let code = match kind {
            1 => words.byte(at)?.into(),
            2 => words.pair(at)?.into(),
            _ => words.half(at)?,
        };
        let character = char::from_u32(code).filter(|&c| c != '\0').unwrap_or('?');
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).as_bytes();
        to.get_mut(end..)?.iter_mut().zip(bytes).for_each(|(place, &byte)| *place = byte);
        end += bytes.len();
    }
    Some(())
}
