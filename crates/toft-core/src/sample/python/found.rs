//! The interpreter of this process, once a search has found it.

use super::Python;
use super::layout::LAYOUTS;
use crate::sync::AtomicUsize;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// Lives in the metadata tables, zero at first. Threads that find an interpreter at the same time
/// write the same values, so no thread waits.
#[repr(C)]
#[derive(Debug, Default)]
pub(in crate::sample) struct Found {
    /// The number of samples without an interpreter.
    without: AtomicUsize,
    /// The number of the interpreter's layout, from one on. Written last.
    layout: AtomicUsize,
    runtime: AtomicUsize,
    code_type: AtomicUsize,
    run: [AtomicUsize; 2],
}

impl Found {
    /// Returns the interpreter, if it was found.
    pub(in crate::sample) fn get(&self) -> Option<Python> {
        let layout = LAYOUTS.get(self.layout.load(Acquire).checked_sub(1)?)?;
        let [runtime, code_type, start, end] =
            [&self.runtime, &self.code_type, &self.run[0], &self.run[1]]
                .map(|word| word.load(Relaxed));
        Some(Python { layout, runtime, code_type, run: (start, end) })
    }

    /// Searches for an interpreter. Makes unusual system calls: the caller holds a permit.
    #[cold]
    #[inline(never)]
    pub(in crate::sample) fn search(&self) -> Option<Python> {
        let python = Python::find()?;
        self.set(&python);
        Some(python)
    }

    /// Counts a sample without an interpreter. Searches at the first, second, fourth, eighth ...
    /// because a library may have been loaded since. Makes unusual system calls: the caller holds a
    /// permit.
    #[cold]
    #[inline(never)]
    pub(in crate::sample) fn search_again(&self) -> Option<Python> {
        let number = self.without.fetch_add(1, Relaxed).wrapping_add(1);
        if number.is_power_of_two() { self.search() } else { None }
    }

    fn set(&self, python: &Python) {
        let Python { layout, runtime, code_type, run: (start, end) } = python;
        let number = LAYOUTS.iter().position(|known| known.version == layout.version);
        let words = [&self.runtime, &self.code_type, &self.run[0], &self.run[1]];
        for (word, value) in words.into_iter().zip([runtime, code_type, start, end]) {
            word.store(*value, Relaxed);
        }
        self.layout.store(number.map_or(0, |number| number + 1), Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_returned() {
        let found = Found::default();
        assert!(found.get().is_none());
        assert!(found.search().is_none(), "there is no interpreter in this program");
        for layout in &LAYOUTS {
            found.set(&Python { layout, runtime: 1, code_type: 2, run: (3, 4) });
            let python = found.get().unwrap();
            assert_eq!(python.layout.version, layout.version);
            assert_eq!((python.runtime, python.code_type, python.run), (1, 2, (3, 4)));
        }
    }
}
