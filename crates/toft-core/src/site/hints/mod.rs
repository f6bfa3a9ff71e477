//! Hints from an earlier run: which call sites get separate partitions, and which share one.
//!
//! ```text
//! text      the file (docs/hints.md), read once at the start
//! modules   build-id, name                 of each `module` line
//! entries   module, offset -> rule         of each site, sorted
//! ranges    (start, end) of code that is mapped here -> module, bias
//! ```
//!
//! A new site is found by its offset in the file that it was mapped from. The offset is the same
//! wherever the file is mapped. The kernel's list of mappings names that file, once for each range
//! of code. It is read at the first site in the range, so files that are loaded later are known,
//! too.
//!
//! One thread writes everything except the ranges (`ranges.rs`), which is read-only afterwards.

mod line;
mod ranges;

pub use line::{BuildId, Line, Rule, is_first, parse};

use crate::os::process;
use crate::reclaim::heap_sort;
use crate::region::Site;
use crate::report::{Module as Mapped, module_of};
use ranges::Ranges;

/// The bytes of the shortest line that names a module or a site, with its newline.
const LINE_LEAST: usize = "own 0x1\n".len();
/// No code of a program is above this address. Sites above it are [tokens](Site::of_token).
const CODE_END: usize = 1 << 47;

/// A file that contains sites. All zero is a file without a name.
#[derive(Clone, Copy, Debug)]
struct Module {
    id: BuildId,
    /// The range of its name in the text, without folders.
    name: (usize, usize),
}

/// A site that a line names. All zero is a valid entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    module: u32,
    /// The number of its line. If two lines name a site, the last one counts.
    line: u32,
    offset: usize,
    /// The group, or `OWN`.
    rule: u16,
}

const OWN: u16 = u16::MAX;

/// The contents of a file of hints.
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

/// What is known of the file that code was mapped from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The file of the module with this number.
    Module(usize),
    /// Another build of a file that a line names.
    OtherBuild,
    /// A file that no line names.
    Nothing,
}

impl Hints {
    /// Returns no hints.
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

    /// Returns true if there are hints.
    pub fn are_there(&self) -> bool {
        self.ranges.is_some()
    }

    /// Returns the number of groups of sites. Sites that no line names may be a group, too.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Returns the number of sites that get separate partitions, or `None` if any site may get one.
    pub fn own(&self) -> Option<usize> {
        (self.others != Rule::Own).then_some(self.own)
    }

    /// Reads a text of hints. Passes the number of each invalid line to `report`, with the reason,
    /// and skips the line. Returns a reason if the text is not one of hints, or there is no memory.
    /// Called once.
    pub fn read(
        text: &'static [u8],
        mut report: impl FnMut(usize, &'static str),
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
            // The first line is read above.
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
                    _ => report(number, "no line `module` before it"),
                },
                Err(why) => report(number, why),
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

    /// Finds for each module the first one that is the same, because the text may name a file
    /// several times. `order` is scratch memory.
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

    /// Returns the rule for a site. If its code is new, makes unusual system calls, if `permit`
    /// allows them. If that code is another build of a file that lines name, passes the file's name
    /// to `other_build`.
    #[cold]
    #[inline(never)]
    pub fn rule_of<P>(
        &self,
        site: Site,
        permit: impl FnOnce() -> Option<P>,
        other_build: impl FnOnce(&[u8]),
    ) -> Rule {
        let Some(ranges) = self.ranges else { return Rule::Own };
        let address = site.address();
        if address >= CODE_END {
            // A token: the program itself keeps these blocks apart.
            return Rule::Own;
        }
        let (module, offset) = match ranges.find(address) {
            Some(found) => found,
            None => {
                let Some(_permit) = permit() else { return self.others };
                let Some(mapped) = module_of(address) else { return self.others };
                let known = self.identify(&mapped);
                let module = if let Known::Module(number) = known { Some(number) } else { None };
                let bias = address.wrapping_sub(mapped.offset);
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
                // Without a build-id only the name identifies a file.
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

/// Exchanges two elements. Unlike `swap` it cannot panic: no code of the library does.
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
/// 1. All-zero is a valid value of the type, and its values are never dropped.
unsafe trait Zero {}
// SAFETY: (1) numbers.
unsafe impl Zero for Module {}
// SAFETY: (1) numbers.
unsafe impl Zero for Entry {}
// SAFETY: (1) a number.
unsafe impl Zero for u32 {}

/// Returns `count` zeroed elements, in memory that is mapped for ever.
fn table<T: Zero>(count: usize) -> Option<&'static mut [T]> {
    let address = process::scratch(count.checked_mul(size_of::<T>())?)?;
    let first: *mut T = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: `count * size_of::<T>()` bytes of zeros were mapped at the start of a page a moment
    // ago, for this slice alone, and are never unmapped; zero is a `T`.
    Some(unsafe { core::slice::from_raw_parts_mut(first, count) })
}

#[cfg(test)]
mod tests;
