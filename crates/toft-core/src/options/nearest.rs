//! The option that a misspelt name was probably meant for.

use super::{Entry, TABLE};

/// Longer names are not compared.
const LONGEST: usize = 40;
/// Number of changed, missing or surplus letters that a misspelt name may have.
const MOST_CHANGES: usize = 3;
/// Begins the name of each option.
const PREFIX: usize = "TOFT_".len();

/// Returns the option whose name differs least from `name`: by at most three letters, and by at
/// most half of those after `TOFT_`.
#[cold]
#[inline(never)]
pub fn nearest(name: &[u8]) -> Option<&'static Entry> {
    let changes = |entry: &Entry| distance(name, entry.name.as_bytes());
    let entries = TABLE.iter().filter_map(|entry| Some((changes(entry)?, entry)));
    let (changes, entry) = entries.min_by_key(|&(changes, _)| changes)?;
    let most = MOST_CHANGES.min(name.len().saturating_sub(PREFIX) / 2);
    (changes <= most).then_some(entry)
}

/// Number of letters to change, insert or leave out to get from `a` to `b` (Levenshtein). Returns
/// `None` if a name is too long.
fn distance(a: &[u8], b: &[u8]) -> Option<usize> {
    if a.len().max(b.len()) > LONGEST {
        return None;
    }
    // The row of the matrix for the letters of `a` so far, without its first column.
    let mut row = [0; LONGEST];
    row.iter_mut().zip(1..).for_each(|(cell, column)| *cell = column);
    for (above_left, letter) in a.iter().enumerate() {
        let (mut diagonal, mut left) = (above_left, above_left + 1);
        for (cell, other) in row.iter_mut().zip(b) {
            let changed = diagonal + usize::from(letter != other);
            diagonal = *cell;
            left = changed.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
    }
    match b.len().checked_sub(1) {
        Some(last) => row.get(last).copied(),
        None => Some(a.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_find_their_option() {
        let meant = |name: &str| nearest(name.as_bytes()).map(|entry| entry.name);
        assert_eq!(meant("TOFT_PARTITION"), Some("TOFT_PARTITIONS"));
        assert_eq!(meant("TOFT_LIMTI"), Some("TOFT_LIMIT"));
        assert_eq!(meant("TOFT_SOMETHING_ELSE"), None);
        assert_eq!(meant("TOFT_FOO"), None);
        assert_eq!(meant(&"TOFT_".repeat(20)), None);
        assert_eq!(meant(""), None);
    }

    #[test]
    fn letters_are_changed_inserted_and_left_out() {
        for (a, b, changes) in
            [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "b", 1)]
        {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), Some(changes), "{a} {b}");
        }
        assert!(TABLE.iter().all(|entry| entry.name.len() <= LONGEST));
    }
}
