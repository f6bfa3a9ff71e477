//! What a path is made of, and the page that is kept for review.

use super::image::{Image, Machine};
use super::path::fast_path;
use super::step::{Flow, Step};
use std::fmt::Write;

/// A path in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    counts: [usize; KINDS.len()],
    listing: Vec<String>,
    forbidden: Vec<String>,
}

/// What is counted.
const KINDS: [&str; 6] = ["instructions", "branches", "loads", "stores", "multiplications", "tls"];
const STORES: usize = 3;

impl Figures {
    /// The figures of an exported function's fast path.
    pub fn of(image: &Image, function: &str) -> Result<Figures, String> {
        let start = image.address_of(function).ok_or(format!("{function}: no such function"))?;
        Figures::at(image, start).map_err(|e| format!("{function}: {e}"))
    }

    /// The figures of the fast path from an address.
    pub fn at(image: &Image, start: u64) -> Result<Figures, String> {
        Ok(Figures::of_path(image, &fast_path(image, start)?))
    }

    fn of_path(image: &Image, path: &[Step]) -> Figures {
        let count = |what: &dyn Fn(&Step) -> bool| path.iter().filter(|step| what(step)).count();
        let tls = count(&|step| step.tls);
        let counts = [
            path.len(),
            count(&|step| matches!(step.flow, Flow::Branch(_))),
            count(&|step| step.loads),
            count(&|step| step.stores),
            count(&|step| step.multiplies),
            tls,
        ];
        let addresses: Vec<_> = path.iter().map(|step| step.address).collect();
        let listing = image.texts(&addresses);
        let mut forbidden: Vec<_> = path
            .iter()
            .zip(&listing)
            .filter_map(|(step, text)| Some(format!("{} in `{text}`", step.wrong?)))
            .collect();
        if tls > 1 {
            forbidden.push(format!("{tls} accesses to thread-local storage"));
        }
        Figures { counts, listing, forbidden }
    }

    /// What has no place on a fast path, in words.
    pub fn forbidden(&self) -> Vec<String> {
        self.forbidden.clone()
    }

    /// In what this path is worse. As many stores are expected as before: with fewer, the path that
    /// was found is another one.
    pub fn worse_than(&self, before: &Figures) -> Vec<String> {
        let each = KINDS.iter().zip(self.counts.iter().zip(before.counts)).enumerate();
        each.filter(|(i, (_, (now, then)))| *now > then || *i == STORES && *now != then)
            .map(|(_, (kind, (now, then)))| format!("{now} {kind} where {then} were recorded"))
            .collect()
    }

    /// The figures on one line.
    pub fn line(&self) -> String {
        let each: Vec<_> = KINDS.iter().zip(self.counts).map(|(k, n)| format!("{k} {n}")).collect();
        each.join("  ")
    }

    /// The page that is kept.
    pub fn text(&self, function: &str, machine: Machine, compiler: &str) -> String {
        let mut text = format!(
            "# The fast path of `{function}` in the release library, {machine}, by {compiler}.\n\
             # Written by `cargo xtask golden --bless`; a test compares the figures.\n\
             # {}\n",
            self.line()
        );
        for line in &self.listing {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Reads such a page: the figures, and the compiler.
    pub fn parse(text: &str) -> Option<(Figures, String)> {
        let mut lines = text.lines();
        let compiler = lines.next()?.rsplit_once(" by ")?.1.trim_end_matches('.').to_owned();
        let words: Vec<_> = lines.nth(1)?.trim_start_matches("# ").split_whitespace().collect();
        let mut figures = Figures::default();
        for (kind, count) in KINDS.iter().zip(&mut figures.counts) {
            let place = words.iter().position(|word| word == kind)?;
            *count = words.get(place + 1)?.parse().ok()?;
        }
        Some((figures, compiler))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mov [rdi],rax; ret
    const STORE_AND_RETURN: &[u8] = &[0x48, 0x89, 0x07, 0xC3];

    fn of(before: &[u8]) -> Figures {
        let code = [before, STORE_AND_RETURN].concat();
        Figures::at(&Image::of(Machine::X86, 0x1000, &code), 0x1000).unwrap()
    }

    #[test]
    fn plain_code_has_nothing_forbidden() {
        let plain = of(&[]);
        assert_eq!(plain.forbidden(), [""; 0]);
        assert_eq!(plain.counts, [2, 0, 0, 1, 0, 0]);
        // mov rax,fs:[0]
        assert_eq!(of(&[0x64, 0x48, 0x8B, 0x04, 0x25, 0, 0, 0, 0]).forbidden(), [""; 0]);
    }

    #[test]
    fn planted_regressions_are_found() {
        let tls = [0x64, 0x48, 0x8B, 0x04, 0x25, 0, 0, 0, 0];
        for (what, code) in [
            ("atomic", &[0xF0, 0x48, 0x0F, 0xC1, 0x07][..]), // lock xadd [rdi],rax
            ("atomic", &[0x48, 0x87, 0x07]),                 // xchg [rdi],rax
            ("call", &[0xE8, 0, 0, 0, 0]),                   // call next
            ("call", &[0xFF, 0xD0]),                         // call rax
            ("division", &[0x48, 0xF7, 0xF1]),               // div rcx
            ("fence", &[0x0F, 0xAE, 0xF0]),                  // mfence
            ("2 accesses to thread-local", &[tls, tls].concat()), // mov rax,fs:[0], twice
        ] {
            let found = of(code).forbidden();
            assert!(found.len() == 1 && found[0].starts_with(what), "{what}: {found:?}");
        }
    }

    #[test]
    fn a_longer_path_is_worse_and_a_shorter_one_is_not() {
        let (plain, longer) = (of(&[]), of(&[0x90]));
        assert_eq!(longer.worse_than(&plain), ["3 instructions where 2 were recorded"]);
        assert_eq!(plain.worse_than(&longer), [""; 0]);
        // cmp [rdi],rax; je +0: one load and one branch more
        assert_eq!(of(&[0x48, 0x39, 0x07, 0x74, 0x00]).worse_than(&plain).len(), 3);
        // Without one of its stores it is another path.
        let two_stores = of(&[0x48, 0x89, 0x07]);
        assert_eq!(plain.worse_than(&two_stores), ["1 stores where 2 were recorded"]);
    }

    #[test]
    fn the_page_says_what_the_figures_are() {
        let figures = of(&[0x90]);
        let (read, compiler) =
            Figures::parse(&figures.text("free", Machine::X86, "rustc 1.95.0")).unwrap();
        assert_eq!((read.counts, compiler.as_str()), (figures.counts, "rustc 1.95.0"));
        assert_eq!(Figures::parse("# nothing\n"), None);
    }

    #[test]
    fn ways_that_store_nothing_or_leave_are_not_the_path() {
        // test rdi,rdi; je to the last ret; mov [rdi],rax; ret; ret
        let code = [0x48, 0x85, 0xFF, 0x74, 0x04, 0x48, 0x89, 0x07, 0xC3, 0xC3];
        let image = Image::of(Machine::X86, 0x1000, &code);
        let path = fast_path(&image, 0x1000).unwrap();
        assert_eq!(path.len(), 4);
        assert!(fast_path(&Image::of(Machine::X86, 0, &[0xC3]), 0).is_err());
    }
}
