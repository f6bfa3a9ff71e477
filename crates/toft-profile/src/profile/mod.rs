//! The profile: live memory by call site.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | [`Profile`] |
//! | `row.rs` | its [`Row`]s: what a call site has |
//! | `take.rs` | one made of the tables of a process or of a core file |
//! | `file.rs` | saved and read again: docs/profiles.md has the format |
//! | `breakdown.rs` | what the resident memory is made of, and its limits |
//! | `diff.rs` | what has grown between two |
//! | `sampled.rs` | the stacks of sampled allocations: [`Sampled`] |
//! | `samples.rs` | made up ones, for tests |
//!
//! Nothing was instrumented for it: the allocator's slabs belong to call sites, and their slots are
//! counted. Bytes are those of slots, or of what the program may use of a large block: what
//! `malloc_usable_size` says.
//!
//! | invariant | meaning |
//! |---|---|
//! | sums | the rows' objects and bytes are the profile's ([`Profile::check`]) |
//! | slots | a row of slots has as many bytes as objects times the slot |
//! | ever | no row has more live blocks than there ever were, where those are counted |

mod breakdown;
mod diff;
mod file;
mod row;
mod sampled;
mod take;

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::Location;

pub use breakdown::{Breakdown, MemoryLimit, Part};
pub use diff::{Change, Diff, StackChange};
pub use file::{FileError, VERSION};
pub use row::{Recent, Row, Share};
pub use sampled::{Sampled, SampledStack};
pub use take::{take, take_with_figures};

/// Where a profile is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A running process, read from outside.
    #[default]
    Process,
    /// A core file.
    Core,
    /// The library itself, at the program's end.
    Exit,
    /// The library itself, by a signal.
    Signal,
    /// The library itself, after the heap had grown.
    Growth,
    /// The library itself, because the program has asked for it.
    Call,
}

impl Source {
    /// For the heading of a report.
    pub fn words(self) -> &'static str {
        match self {
            Source::Process => "running",
            Source::Core => "from a core file",
            Source::Exit => "at its end",
            Source::Signal => "at a signal",
            Source::Growth => "as it grew",
            Source::Call => "when it asked for it",
        }
    }
}

/// The live memory of a process, by call site. The order of the fields is that of the saved form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The version of the saved form.
    #[serde(rename = "toft_profile")]
    pub version: u32,
    /// The version of Toft that the process ran on.
    pub toft: String,
    /// Where it is from.
    pub source: Source,
    /// When, in seconds since 1970; of a core file, when that was written.
    pub time: u64,
    /// The process's number.
    pub pid: i32,
    /// The process's name.
    pub name: String,
    /// Number of partitions.
    pub partitions: u64,
    /// Resident bytes of the whole process, if known.
    #[serde(default)]
    pub resident: Option<u64>,
    /// What the resident memory is made of, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breakdown: Option<Breakdown>,
    /// Descriptors that made no sense, or changed while they were read.
    #[serde(default)]
    pub doubts: u64,
    /// Caveats.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The memory of each site, most bytes first.
    #[serde(serialize_with = "file::with_labels")]
    pub rows: Vec<Row>,
    /// Estimates by whole stacks, if the process keeps those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Live blocks. They come after the rows, so that a file that was cut off has none.
    pub objects: u64,
    /// Bytes of the live blocks.
    pub bytes: u64,
    /// Blocks that were ever allocated; zero if the version of the profile did not count them.
    #[serde(skip)]
    pub allocations: u64,
    /// Bytes that were ever allocated.
    #[serde(skip)]
    pub allocated: u64,
}

impl Profile {
    /// Formats the process and the source in one line.
    pub fn title(&self) -> String {
        let source = self.source.words();
        format!("process {} ({})  Toft {}, {source}", self.pid, self.name, self.toft)
    }

    /// True if every site has a separate partition.
    pub fn exact(&self) -> bool {
        self.rows.iter().all(|row| row.share == Share::Exact)
    }

    /// Bytes of which the site is not the only one that drew from the partition.
    pub fn shared_bytes(&self) -> u64 {
        self.rows.iter().filter(|row| row.share == Share::Shared).map(|row| row.bytes).sum()
    }

    /// Live bytes of call sites at which all functions belong to libraries: several callers may
    /// share them.
    pub fn library_bytes(&self) -> u64 {
        self.rows.iter().filter(|row| row.location.is_library_code()).map(|row| row.bytes).sum()
    }

    /// The callers of the library code that a row names, each with its part of the row's bytes,
    /// most first. Estimated from the sampled stacks; empty without them, and if a function of the
    /// program names the row. In stacks that a language runtime has named functions of, all code
    /// without such a name is library code.
    pub fn callers(&self, row: &Row) -> Vec<(String, u64)> {
        let Some(sampled) = self.sampled.as_ref().filter(|_| !row.location.is_of_runtime()) else {
            return Vec::new();
        };
        let is_library = row.location.is_library_code();
        let mut parts: HashMap<String, u64> = HashMap::new();
        let stacks = sampled.stacks.iter().filter(|stack| stack.bytes > 0);
        for stack in stacks.filter(|stack| is_library || stack.is_of_runtime()) {
            if let Some(caller) = stack.caller_of(row) {
                let part = parts.entry(caller).or_default();
                *part = part.saturating_add(stack.bytes);
            }
        }
        if parts.keys().all(|caller| caller == sampled::UNKNOWN) {
            return Vec::new();
        }
        let all = parts.values().fold(0_u64, |all, part| all.saturating_add(*part));
        let scaled = |part: u64| u128::from(row.bytes) * u128::from(part) / u128::from(all.max(1));
        let mut parts: Vec<_> = parts
            .into_iter()
            .map(|(caller, part)| (caller, u64::try_from(scaled(part)).unwrap_or(u64::MAX)))
            .collect();
        parts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        parts
    }

    /// Verifies the invariants.
    pub fn check(&self) -> Result<(), String> {
        let sum = |what: fn(&Row) -> u64| -> u128 {
            self.rows.iter().map(|row| u128::from(what(row))).sum()
        };
        let (bytes, objects) = (sum(|row| row.bytes), sum(|row| row.objects));
        if (bytes, objects) != (self.bytes.into(), self.objects.into()) {
            return Err(format!(
                "its rows have {bytes} bytes in {objects} blocks, and it says {} in {}",
                self.bytes, self.objects
            ));
        }
        for row in self.rows.iter().filter(|row| row.size != 0) {
            if row.size.checked_mul(row.objects) != Some(row.bytes) {
                return Err(format!(
                    "{} slots of {} bytes are not {} bytes",
                    row.objects, row.size, row.bytes
                ));
            }
        }
        self.sampled.as_ref().map_or(Ok(()), Sampled::check)?;
        // Of a version that did not count, there are none at all.
        let counted = self.rows.iter().any(|row| row.allocations > 0);
        if counted && let Some(row) = self.rows.iter().find(|row| row.allocations < row.objects) {
            return Err(format!(
                "{} live blocks are more than {} ever",
                row.objects, row.allocations
            ));
        }
        Ok(())
    }

    /// Rows of one place joined, whatever their slots and partitions, most bytes first.
    pub fn by_place(&self) -> Vec<Row> {
        let mut places: HashMap<(String, String), usize> = HashMap::new();
        let mut joined: Vec<Row> = Vec::new();
        for row in &self.rows {
            match places.entry(row.location.key()) {
                Entry::Occupied(at) => {
                    let known = &mut joined[*at.get()];
                    known.size = if known.size == row.size { row.size } else { 0 };
                    known.objects += row.objects;
                    known.bytes += row.bytes;
                    known.allocations += row.allocations;
                    known.allocated += row.allocated;
                    if let (Some(known), Some(row)) = (&mut known.recent, row.recent) {
                        known.objects_before += row.objects_before;
                        known.allocations += row.allocations;
                    }
                    known.share = known.share.max(row.share);
                }
                Entry::Vacant(place) => {
                    place.insert(joined.len());
                    joined.push(row.clone());
                }
            }
        }
        joined.sort_by(|a, b| {
            b.bytes.cmp(&a.bytes).then_with(|| a.location.site.cmp(&b.location.site))
        });
        joined
    }

    /// Returns the number of call sites with live memory.
    pub fn live_sites(&self) -> usize {
        let live = self.rows.iter().filter(|row| row.bytes > 0);
        live.map(|row| row.location.site).collect::<HashSet<_>>().len()
    }

    /// Returns the number of call sites with live memory at each place, by [`Location::key`].
    pub fn sites_by_place(&self) -> HashMap<(String, String), u64> {
        let mut known = HashSet::new();
        let mut sites = HashMap::new();
        let live = self.rows.iter().filter(|row| row.bytes > 0);
        for row in live.filter(|row| known.insert(row.location.site)) {
            *sites.entry(row.location.key()).or_default() += 1;
        }
        sites
    }

    /// Adds to each row what was allocated there since an earlier reading of the same process.
    pub fn since(&mut self, before: &Profile, milliseconds: u64) {
        let key = |row: &Row| (row.location.site, row.size, row.partition);
        let had: HashMap<_, (u64, u64)> =
            before.rows.iter().map(|row| (key(row), (row.objects, row.allocations))).collect();
        for row in &mut self.rows {
            let (objects_before, ever) = had.get(&key(row)).copied().unwrap_or_default();
            // Of a thread at work a reading may be one behind.
            let allocations = row.allocations.saturating_sub(ever);
            row.recent = Some(Recent { milliseconds, objects_before, allocations });
        }
    }

    /// Returns the location of each row and of each call of the sampled stacks.
    pub fn locations(&self) -> impl Iterator<Item = &Location> {
        let stacks = self.sampled.iter().flat_map(|sampled| &sampled.stacks);
        let rows = self.rows.iter().map(|row| &row.location);
        rows.chain(stacks.flat_map(|stack| &stack.calls))
    }

    /// Returns the same locations, to give them names, with true if it is one of a call site. The
    /// other calls of a stack are no calls of an allocating function.
    pub fn locations_mut(&mut self) -> impl Iterator<Item = (bool, &mut Location)> {
        let stacks = self.sampled.iter_mut().flat_map(|sampled| &mut sampled.stacks);
        let rows = self.rows.iter_mut().map(|row| (true, &mut row.location));
        let calls = stacks.flat_map(|stack| stack.calls.iter_mut().enumerate());
        rows.chain(calls.map(|(number, call)| (number == 0, call)))
    }

    /// Puts the rows in order, and counts them.
    fn finish(&mut self) {
        // Rows are large, so each is moved once only.
        self.rows.sort_by_cached_key(|row| {
            (Reverse(row.bytes), row.location.site, row.size, row.partition)
        });
        if let Some(sampled) = &mut self.sampled {
            sampled.finish();
        }
        self.bytes = self.rows.iter().map(|row| row.bytes).sum();
        self.objects = self.rows.iter().map(|row| row.objects).sum();
        self.allocations = self.rows.iter().map(|row| row.allocations).sum();
        self.allocated = self.rows.iter().map(|row| row.allocated).sum();
    }
}

#[cfg(test)]
pub(crate) mod samples;

#[cfg(test)]
mod tests {
    use super::samples::*;
    use super::*;

    #[test]
    fn sums_that_do_not_fit_are_found() {
        let mut profile = profile(vec![row("a", 1, 16, 3), row("b", 2, 32, 2)]);
        assert_eq!((profile.bytes, profile.objects), (112, 5));
        assert_eq!(profile.check(), Ok(()));
        profile.bytes += 1;
        assert!(profile.check().unwrap_err().contains("112 bytes in 5 blocks, and it says 113"));
        profile.rows[0].bytes += 1;
        profile.rows[0].objects += 1;
        profile.objects += 1;
        assert!(profile.check().unwrap_err().contains("are not"), "{:?}", profile.check());
    }

    #[test]
    fn a_place_is_one_row_whatever_its_sizes() {
        let mut other = row("a", 1, 32, 1);
        other.share = Share::Shared;
        let profile = profile(vec![row("a", 1, 16, 3), other, row("b", 2, 16, 1)]);
        let joined = profile.by_place();
        assert_eq!(profile.live_sites() as u64, profile.sites_by_place().values().sum::<u64>());
        assert_eq!(joined.len(), 2);
        assert_eq!((joined[0].bytes, joined[0].objects, joined[0].size), (80, 4, 0));
        assert_eq!((joined[0].share, joined[1].share), (Share::Shared, Share::Alone));
        assert_eq!(profile.shared_bytes(), 32);
    }

    #[test]
    fn lifetimes_are_known_from_two_readings_only() {
        let before = profile(vec![row("a", 1, 16, 10), row("b", 2, 16, 10)]);
        let mut after = before.clone();
        assert_eq!(after.rows[0].lifetime(), None);
        // 100 came in two seconds while 10 lived, and then 30: 20 on average.
        (after.rows[0].objects, after.rows[0].allocations) = (30, 120);
        // A slot size that was not there: ten came, and five of them live.
        let mut other = row("a", 1, 32, 5);
        other.allocations = 10;
        after.rows.push(other);
        after.since(&before, 2000);
        assert_eq!(after.rows[0].lifetime(), Some(0.4));
        assert_eq!(after.rows[1].lifetime(), None, "nothing came");
        assert_eq!(after.rows[2].lifetime(), Some(0.5));
        let joined =
            after.by_place().into_iter().find(|row| row.location.function() == "a").unwrap();
        assert_eq!(joined.lifetime(), Some((10.0 + 35.0) / 2.0 * 2.0 / 110.0));
        // And it is kept.
        after.finish();
        after.rows.iter_mut().for_each(|row| row.bytes = row.size * row.objects);
        after.finish();
        let again = Profile::from_json(after.to_json().as_bytes()).unwrap();
        let kept = again.rows.iter().find(|row| row.lifetime() == Some(0.4));
        assert!(kept.is_some(), "{}", after.to_json());
    }
}
