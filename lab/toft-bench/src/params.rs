//! The numbers of a case, as text: `slots=1000 low=16 high=1016 ops=8m`.

use std::collections::BTreeMap;

/// Named numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(BTreeMap<String, u64>);

impl Params {
    /// Reads `key=value` words; values take the suffixes k (1000), m and ki, mi (powers of 1024).
    ///
    /// # Errors
    /// Names the word that is not of that form.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut map = BTreeMap::new();
        for word in words {
            let (key, value) = word
                .split_once('=')
                .and_then(|(key, value)| Some((key, number(value)?)))
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| format!("`{word}` is not of the form name=number"))?;
            map.insert(key.to_owned(), value);
        }
        Ok(Self(map))
    }

    /// The numbers of a text that is sound.
    #[cfg(test)]
    pub(crate) fn of(words: &str) -> Self {
        Self::parse(words.split_whitespace()).unwrap()
    }

    /// The names and their numbers, in the order of the names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(key, value)| (key.as_str(), *value))
    }

    /// Whether there is a number called `key`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// The number called `key`, or `default`.
    pub(crate) fn get(&self, key: &str, default: u64) -> u64 {
        self.0.get(key).copied().unwrap_or(default)
    }

    /// [`Params::get`] for sizes and counts.
    pub(crate) fn size(&self, key: &str, default: u64) -> usize {
        usize::try_from(self.get(key, default)).expect("a count beyond the address space")
    }

    /// The words that [`Params::parse`] reads back.
    pub(crate) fn words(&self) -> Vec<String> {
        self.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// These numbers with those of `other` on top.
    pub(crate) fn with(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().map(|(key, value)| (key.clone(), *value)));
        self
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "ki" => 1 << 10,
        "mi" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_scale_and_words_round_trip() {
        let params = Params::parse("ops=3m low=16 high=4mi".split(' ')).unwrap();
        assert_eq!(params.get("ops", 0), 3_000_000);
        assert_eq!(params.get("high", 0), 4 << 20);
        assert_eq!(params.get("absent", 9), 9);
        let words = params.words();
        assert_eq!(Params::parse(words.iter().map(String::as_str)).unwrap(), params);
    }

    #[test]
    fn later_numbers_win() {
        let base = Params::parse(["ops=1", "low=2"]).unwrap();
        let over = Params::parse(["ops=7"]).unwrap();
        assert_eq!(base.with(&over).words(), ["low=2", "ops=7"]);
    }

    #[test]
    fn what_is_not_a_number_is_named() {
        for word in ["ops", "ops=", "=3", "ops=3x", "ops=-1", "ops=99999999999999m"] {
            let error = Params::parse([word]).unwrap_err();
            assert!(error.contains(&format!("`{word}`")), "{error}");
        }
    }
}
