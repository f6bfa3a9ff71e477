//! Random words of the kernel. The allocator is built from some 10 to 20 of them, which come from
//! one call. Afterwards each word comes from its own call.

use super::Error;
use super::syscall::{result, syscall};
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU64, AtomicUsize};

/// The number of words that one call fetches. The full secure build needs 18 for its start.
const FETCHED: usize = 24;

/// The value of `left` if each word comes from its own call.
const SINGLE: usize = usize::MAX;

/// Words that were fetched and not handed out. Only the thread that builds the allocator uses them.
/// They are not in use after the start, when the allocator is read-only. So a fork copies none.
pub(super) struct Random {
    /// The number of words left, which are the first ones, or [`SINGLE`].
    left: AtomicUsize,
    words: [AtomicU64; FETCHED],
}

// Not derived: no line that shows an allocator may show its keys.
impl core::fmt::Debug for Random {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Random")
    }
}

impl Random {
    /// Returns an object that makes one call for each word.
    pub(super) const fn single() -> Random {
        Random { left: AtomicUsize::new(SINGLE), words: [const { AtomicU64::new(0) }; FETCHED] }
    }

    /// Returns an object that fetches many words in one call.
    pub(super) const fn many() -> Random {
        Random { left: AtomicUsize::new(0), ..Random::single() }
    }

    /// Returns a word that was not returned before.
    pub(super) fn word(&self) -> Result<u64, Error> {
        let left = match self.left.load(Relaxed) {
            SINGLE => {
                let word = AtomicU64::new(0);
                fill(core::slice::from_ref(&word))?;
                return Ok(word.into_inner());
            }
            0 => {
                fill(&self.words)?;
                FETCHED
            }
            left => left,
        };
        let word = self.words.get(left - 1).ok_or(Error::NoMemory)?;
        self.left.store(left - 1, Relaxed);
        // The word has one copy, which is the caller's.
        Ok(word.swap(0, Relaxed))
    }
}

/// Fills words with the kernel's random bytes.
fn fill(words: &[AtomicU64]) -> Result<(), Error> {
    let (start, bytes) = (words.as_ptr().expose_provenance(), size_of_val(words));
    let mut filled = 0;
    while filled < bytes {
        let args = [start + filled, bytes - filled, 0, 0, 0, 0];
        // SAFETY: (1) the kernel writes at most the rest of the words, which may be written through
        // a shared reference.
        let code = unsafe { syscall(libc::SYS_getrandom, args) };
        if code == -(libc::EINTR as isize) {
            continue;
        }
        filled += result(code)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn no_word_comes_twice() {
        for random in [Random::many(), Random::single()] {
            let words: BTreeSet<u64> = (0..3 * FETCHED).map(|_| random.word().unwrap()).collect();
            assert_eq!(words.len(), 3 * FETCHED);
            assert!(!words.contains(&0));
        }
    }

    #[test]
    fn what_was_handed_out_is_not_kept() {
        let random = Random::many();
        let word = random.word().unwrap();
        let kept: Vec<u64> = random.words.iter().map(|word| word.load(Relaxed)).collect();
        assert!(!kept.contains(&word));
        assert_eq!(kept.iter().filter(|&&word| word == 0).count(), 1);
        assert_eq!(std::format!("{random:?}"), "Random");
    }
}
