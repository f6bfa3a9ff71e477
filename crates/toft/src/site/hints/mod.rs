//! What an earlier run showed of call sites: which are to have a partition of their own, and which are to share one.
//!
//! ```text
//! text      the file (docs/hints.md), read once at the start
//! modules   build-id, name                 of each `module` line
//! entries   module, offset -> rule         of each site, in order
//! ranges    (start, end) of code that is mapped here -> module, bias
//! ```
//!
//! A site that is new is looked for by its offset in the file that it was mapped from, which is the same wherever the
//! file lies. Which file that is the kernel's list of mappings tells, once for each piece of code: at the first site in
//! it, so that what is loaded later is known, too.
//!
//! All but the ranges is written while one thread builds it, and read-only from then on. Ranges are only ever added; one
//! whose end is zero is not written yet. Two threads may both add one: it is there twice then, and that is all.

mod line;

pub use line::{BuildId, Line, Rule, is_first, parse};

use crate::os::process;
use crate::reclaim::heap_sort;
use crate::report::{Module as Mapped, module_of};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// Pieces of code that are remembered. Sites in others are looked up each for itself.
const RANGES: usize = 256;
/// Bytes of the shortest line that names a module, or a site, with its end.
const LINE_LEAST: usize = "own 0x1\n".len();
/// No code of a program lies above: these are [tokens](super::site_of_token).
const CODE_END: usize = 1 << 47;

/// A file that sites are of. All zero is one of no name.
#[derive(Clone, Copy, Debug)]
struct Module {
    id: BuildId,
    /// Where its name stands in the text, without folders.
    name: (usize, usize),
}

/// A site that a line names. All zero is a valid one.
#[derive(Clone, Copy, Debug)]
struct Entry {
    module: u32,
    /// Which line it is: of two for one site the last counts.
    line: u32,
    offset: usize,
    /// The group, or `OWN`.
    rule: u16,
}

const OWN: u16 = u16::MAX;

/// Code that is mapped here.
#[derive(Debug)]
struct Range {
    start: AtomicUsize,
    /// Written last.
    end: AtomicUsize,
    /// What is to be taken from an address to have the offset.
    bias: AtomicUsize,
    /// The module's number and one; zero, if no line is of it.
    module: AtomicU32,
}

/// All of it. All zero at first.
#[derive(Debug)]
struct Ranges {
    /// Records taken. Any thread.
    count: AtomicU32,
    /// Any thread, each once.
    ranges: [Range; RANGES],
}

/// Everything that a file of hints says.
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    text: &'static [u8],
    modules: &'static [Module],
    entries: &'static [Entry],
    others: Rule,
    groups: usize,
    own: usize,
    ranges: Option<&'static Ranges>,
}

/// What code was mapped from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The file of that module.
    Module(usize),
    /// Another build of it.
    OtherBuild,
    /// A file that no line is of.
    Nothing,
}

impl Hints {
    /// Nobody has said anything.
    pub const fn none() -> Hints {
        Hints {
            text: &[],
            modules: &[],
            entries: &[],
            others: Rule::Own,
            groups: 0,
            own: 0,
            ranges: None,
        }
    }

    /// Whether there are any.
    pub fn are_there(&self) -> bool {
        self.ranges.is_some()
    }

    /// Groups of sites, that of the sites which no line names included.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Sites that are to have a partition of their own; `None`, where any may want one.
    pub fn own(&self) -> Option<usize> {
        (self.others != Rule::Own).then_some(self.own)
    }

    /// What a text says. Each line that is not understood is told with its number, and skipped. The reason, if it is no
    /// text of hints, or there is no memory. Called once.
    pub fn read(
        text: &'static [u8],
        mut told: impl FnMut(usize, &'static str),
    ) -> Result<Hints, &'static str> {
        const NO_MEMORY: &str = "there is no memory for what it says";
        let mut lines = text.split(|&byte| byte == b'\n');
        is_first(lines.next().unwrap_or(&[]))?;
        let most = text.len() / LINE_LEAST + 1;
        let modules = table::<Module>(most).ok_or(NO_MEMORY)?;
        let entries = table::<Entry>(most).ok_or(NO_MEMORY)?;
        let mut hints = Hints { text, ..Hints::none() };
        let (mut known, mut count, mut current) = (0, 0, None);
        for (number, line) in lines.enumerate() {
            // The first line is the one before.
            let number = number + 2;
            match parse(line) {
                Ok(Line::Nothing) => {}
                Ok(Line::Others(rule)) => hints.others = rule,
                Ok(Line::Module { id, name }) => {
                    let name = base_name(name);
                    let at = name.as_ptr().addr() - text.as_ptr().addr();
                    current = modules.get_mut(known).map(|place| {
                        *place = Module { id, name: (at, at + name.len()) };
                        known += 1;
                        known - 1
                    });
                }
                Ok(Line::Site(rule, offset)) => match (current, entries.get_mut(count)) {
                    (Some(module), Some(place)) => {
                        let rule = match rule {
                            Rule::Own => OWN,
                            Rule::Group(group) => u16::from(group),
                        };
                        *place = Entry { module: module as u32, line: number as u32, offset, rule };
                        count += 1;
                        if rule == OWN {
                            hints.own += 1;
                        } else {
                            hints.groups = hints.groups.max(usize::from(rule) + 1);
                        }
                    }
                    _ => told(number, "no line `module` before it"),
                },
                Err(why) => told(number, why),
            }
        }
        if hints.others != Rule::Own {
            hints.groups = hints.groups.max(1);
        }
        hints.modules = modules.get(..known).unwrap_or(&[]);
        let entries = entries.get_mut(..count).ok_or(NO_MEMORY)?;
        if known > 1 {
            let (order, firsts) = (table::<u32>(known), table::<u32>(known));
            let (order, firsts) = (order.ok_or(NO_MEMORY)?, firsts.ok_or(NO_MEMORY)?);
            hints.find_firsts(order, firsts);
            for entry in entries.iter_mut() {
                entry.module = firsts.get(entry.module as usize).copied().unwrap_or(entry.module);
            }
        }
        let key = |entries: &[Entry], at: usize| entries.get(at).map(Entry::key);
        heap_sort(entries, |all, a, b| key(all, a) < key(all, b), exchange);
        hints.entries = entries;
        hints.ranges = Some(table::<Ranges>(1).and_then(|all| all.first()).ok_or(NO_MEMORY)?);
        Ok(hints)
    }

    /// For each module the first one that is the same: a file may be named as often as one likes. `order` is for its use.
    fn find_firsts(&self, order: &mut [u32], firsts: &mut [u32]) {
        for (place, number) in order.iter_mut().zip(0..) {
            *place = number;
        }
        let what = |number: u32| {
            let module = self.modules.get(number as usize)?;
            Some((module.id, self.name(module)))
        };
        let key = |order: &[u32], at: usize| order.get(at).map(|&number| (what(number), number));
        heap_sort(order, |all, a, b| key(all, a) < key(all, b), exchange);
        let mut first = 0;
        for &number in order.iter() {
            if what(number) != what(first) {
                first = number;
            }
            if let Some(place) = firsts.get_mut(number as usize) {
                *place = first;
            }
        }
    }

    fn name(&self, module: &Module) -> &'static [u8] {
        self.text.get(module.name.0..module.name.1).unwrap_or(&[])
    }

    /// What holds for a site. Where its code is new, unusual system calls are made, if `permit` gives leave; and if it
    /// is of another build than the lines that bear its file's name, that is told, with the name.
    #[cold]
    #[inline(never)]
    pub fn rule_of<P>(
        &self,
        site: usize,
        permit: impl FnOnce() -> Option<P>,
        other_build: impl FnOnce(&[u8]),
    ) -> Rule {
        let Some(ranges) = self.ranges else { return Rule::Own };
        if site >= CODE_END {
            // A token: the program has said itself who is apart.
            return Rule::Own;
        }
        let (module, offset) = match ranges.find(site) {
            Some(found) => found,
            None => {
                let Some(_permit) = permit() else { return self.others };
                let Some(mapped) = module_of(site) else { return self.others };
                let known = self.identify(&mapped);
                let module = if let Known::Module(number) = known { Some(number) } else { None };
                let bias = site.wrapping_sub(mapped.offset);
                if ranges.add(mapped.text, bias, module) && known == Known::OtherBuild {
                    other_build(base_name(mapped.path()));
                }
                (module, mapped.offset)
            }
        };
        module.and_then(|module| self.rule_at(module, offset)).unwrap_or(self.others)
    }

    fn identify(&self, mapped: &Mapped) -> Known {
        let (id, name) = (BuildId::of(mapped.build_id()), base_name(mapped.path()));
        let mut known = Known::Nothing;
        for (number, module) in self.modules.iter().enumerate() {
            if module.id.is_none() {
                // Nothing else tells files apart where there was no build-id.
                if self.name(module) == name {
                    return Known::Module(number);
                }
            } else if module.id == id {
                return Known::Module(number);
            } else if self.name(module) == name {
                known = Known::OtherBuild;
            }
        }
        known
    }

    fn rule_at(&self, module: usize, offset: usize) -> Option<Rule> {
        let wanted = (module as u32, offset);
        let behind = self.entries.partition_point(|entry| (entry.module, entry.offset) <= wanted);
        let entry = self.entries.get(behind.checked_sub(1)?)?;
        let found = (entry.module, entry.offset) == wanted;
        let rule = if entry.rule == OWN { Rule::Own } else { Rule::Group(entry.rule as u8) };
        found.then_some(rule)
    }
}

impl Entry {
    fn key(&self) -> (u32, usize, u32) {
        (self.module, self.offset, self.line)
    }
}

impl Ranges {
    /// The module, if there is one, and the offset of a site in code that is known.
    fn find(&self, site: usize) -> Option<(Option<usize>, usize)> {
        let count = (self.count.load(Relaxed) as usize).min(RANGES);
        self.ranges.iter().take(count).find_map(|range| {
            // find range: pairs with the store in `add`.
            let end = range.end.load(Acquire);
            let inside = (range.start.load(Relaxed)..end).contains(&site);
            let module = (range.module.load(Relaxed) as usize).checked_sub(1);
            inside.then(|| (module, site.wrapping_sub(range.bias.load(Relaxed))))
        })
    }

    /// Says whether there was room for it.
    fn add(&self, (start, end): (usize, usize), bias: usize, module: Option<usize>) -> bool {
        let next = |count: u32| ((count as usize) < RANGES).then_some(count + 1);
        let taken = self.count.fetch_update(Relaxed, Relaxed, next);
        let Some(range) = taken.ok().and_then(|number| self.ranges.get(number as usize)) else {
            return false;
        };
        range.start.store(start, Relaxed);
        range.bias.store(bias, Relaxed);
        range.module.store(module.map_or(0, |number| number as u32 + 1), Relaxed);
        // publish range: pairs with the load in `find`.
        range.end.store(end, Release);
        true
    }
}

/// Not by a swap that checks its places and panics: nothing in the library does.
fn exchange<T>(all: &mut [T], a: usize, b: usize) {
    if let Ok([a, b]) = all.get_disjoint_mut([a, b]) {
        core::mem::swap(a, b);
    }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Types of which all-zero is a valid value.
///
/// # Safety
/// 1. It is, and they are dropped by nobody.
unsafe trait Zero {}
// SAFETY: (1) numbers.
unsafe impl Zero for Module {}
// SAFETY: (1) numbers.
unsafe impl Zero for Entry {}
// SAFETY: (1) atomic numbers.
unsafe impl Zero for Ranges {}
// SAFETY: (1) a number.
unsafe impl Zero for u32 {}

/// So many of them in memory that is mapped for ever.
fn table<T: Zero>(count: usize) -> Option<&'static mut [T]> {
    let address = process::scratch(count.checked_mul(size_of::<T>())?)?;
    let first: *mut T = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: so many bytes of zeros were mapped at the start of a page a moment ago, for nobody else, and are never
    // unmapped; zero is a `T`.
    Some(unsafe { core::slice::from_raw_parts_mut(first, count) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    fn read(text: &str) -> (Hints, Vec<(usize, &'static str)>) {
        let text: &'static str = String::from(text).leak();
        let mut told = Vec::new();
        let hints = Hints::read(text.as_bytes(), |line, why| told.push((line, why))).unwrap();
        (hints, told)
    }

    /// The file of this test, as it would stand in a file of hints; and an address of code with its offset.
    fn here() -> (String, usize, usize) {
        let site = here as *const () as usize;
        let mapped = module_of(site).unwrap();
        let id: String = mapped.build_id().iter().map(|byte| format!("{byte:02x}")).collect();
        let id = if id.is_empty() { String::from("-") } else { id };
        (format!("{id} {}", str::from_utf8(mapped.path()).unwrap()), site, mapped.offset)
    }

    fn rule(hints: &Hints, site: usize) -> Rule {
        hints.rule_of(site, || Some(()), |_| panic!("it is this build"))
    }

    #[test]
    fn sites_are_found_wherever_their_file_lies() {
        let (module, site, offset) = here();
        let (hints, told) = read(&format!(
            "toft-hints 1\nothers together\nmodule 00ff /lib/other\nown {offset:#x}\nmodule {module}\n\
             own {offset:#x}\ngroup 7 {:#x}\n# end",
            offset + 5
        ));
        assert_eq!(told, []);
        assert_eq!((hints.groups(), hints.own()), (8, Some(2)));
        assert_eq!(rule(&hints, site), Rule::Own);
        assert_eq!(rule(&hints, site + 5), Rule::Group(7));
        assert_eq!(rule(&hints, site + 6), Rule::Group(0));
        // It is known now: nobody is asked again.
        let known = |site| hints.rule_of(site, || -> Option<()> { panic!("it is known") }, |_| {});
        assert_eq!(known(site + 5), Rule::Group(7));
        // What is of no file, and what a file is that no line is of.
        let local = 0u64;
        assert_eq!(rule(&hints, (&raw const local).addr()), Rule::Group(0));
        assert_eq!(rule(&hints, libc::getpid as *const () as usize), Rule::Group(0));
        assert_eq!(rule(&hints, super::super::site_of_token(7)), Rule::Own);
    }

    #[test]
    fn without_leave_nobody_is_asked_and_nothing_is_remembered() {
        let (module, site, offset) = here();
        let (hints, _) = read(&format!("toft-hints 1\nmodule {module}\ngroup 1 {offset:#x}"));
        assert_eq!(hints.rule_of(site, || None::<()>, |_| {}), Rule::Own, "others are own");
        assert_eq!(rule(&hints, site), Rule::Group(1));
    }

    #[test]
    fn another_build_of_a_file_is_told_once_and_not_followed() {
        let (module, site, offset) = here();
        let name = module.split_once(' ').unwrap().1;
        let (hints, _) =
            read(&format!("toft-hints 1\nothers together\nmodule 0102 {name}\nown {offset:#x}"));
        let mut told = Vec::new();
        for _ in 0..2 {
            let rule = hints.rule_of(site, || Some(()), |name| told.push(name.to_vec()));
            assert_eq!(rule, Rule::Group(0));
        }
        assert_eq!(told, [base_name(name.as_bytes()).to_vec()]);
        // Without a build-id the name is all there is.
        let (hints, _) =
            read(&format!("toft-hints 1\nothers together\nmodule - {name}\nown {offset:#x}"));
        assert_eq!(rule(&hints, site), Rule::Own);
    }

    #[test]
    fn what_is_not_understood_is_told_and_the_rest_holds() {
        let (module, site, offset) = here();
        let (hints, told) = read(&format!(
            "toft-hints 1\nown 0x12\nothers togther\nmodule {module}\nown 0x{{}}\n\n\u{0}\n\
             group 2 {offset:#x}\nown {offset:#x}\nothers together"
        ));
        let lines: Vec<usize> = told.iter().map(|&(line, _)| line).collect();
        assert_eq!(lines, [2, 3, 5, 7], "{told:?}");
        assert_eq!(told[0].1, "no line `module` before it");
        assert_eq!(rule(&hints, site), Rule::Own, "the last line of a site counts");
        assert_eq!(rule(&hints, site + 1), Rule::Group(0));
    }

    #[test]
    fn a_module_that_comes_twice_is_one() {
        let (module, site, offset) = here();
        let (hints, _) = read(&format!(
            "toft-hints 1\nothers together\nmodule {module}\nown {offset:#x}\nmodule 11 x\nmodule {module}\nown {:#x}",
            offset + 9
        ));
        assert_eq!((rule(&hints, site), rule(&hints, site + 9)), (Rule::Own, Rule::Own));
        assert_eq!(hints.entries.iter().filter(|entry| entry.module == 0).count(), 2);
    }

    /// A program waits for as long as its hints are read.
    #[test]
    #[cfg_attr(miri, ignore = "it would take hours")]
    fn many_modules_are_read_in_a_moment() {
        let (module, site, offset) = here();
        let mut text = format!("toft-hints 1\nothers together\nmodule {module}\nown {offset:#x}\n");
        (0..150_000).for_each(|number| text += &format!("module 0a /lib/{number}\n"));
        text += &format!("module {module}\nown {:#x}\n", offset + 9);
        let begin = std::time::Instant::now();
        let (hints, told) = read(&text);
        assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
        assert_eq!((told.len(), hints.entries.len()), (0, 2));
        assert_eq!((rule(&hints, site), rule(&hints, site + 9)), (Rule::Own, Rule::Own));
    }

    #[test]
    fn code_beyond_what_can_be_remembered_is_looked_up_again() {
        let (module, site, offset) = here();
        let (hints, _) =
            read(&format!("toft-hints 1\nothers together\nmodule {module}\nown {offset:#x}"));
        for number in 0..RANGES {
            assert!(hints.ranges.unwrap().add((number, number + 1), 0, None));
        }
        for _ in 0..2 {
            assert_eq!(rule(&hints, site), Rule::Own);
        }
        assert!(!hints.ranges.unwrap().add((1, 2), 0, None));
    }

    #[test]
    fn texts_that_are_none_of_hints_are_refused() {
        for text in ["", "\n", "toft-hints 3\n", "\u{7f}ELF", "own 0x12"] {
            assert!(Hints::read(text.as_bytes(), |_, _| {}).is_err(), "{text}");
        }
        // Every prefix of one is one, or is not: nothing else happens.
        let text = "toft-hints 1\nothers together\nmodule 0a /x\nown 0x1\ngroup 2 0x2\n";
        for end in 0..text.len() {
            let text: &'static str = String::from(&text[..end]).leak();
            assert_eq!(Hints::read(text.as_bytes(), |_, _| {}).is_ok(), end >= 12, "{end}");
        }
    }
}
