//! What the variants do, counted: chunks filed, sorted, walked past, merged, and returned memory.
//! The counts are the same on every machine.

use crate::page::Section;
use crate::table::{row, table};
use toft_bench::heap::Heap;
use toft_bench::params::Params;
use toft_bench::workloads::{malloc_thread, simple_malloc, unlikely_hit, uns_filler};
use toft_small_bins::variant::*;
use toft_small_bins::{Allocator, Counts, Variant};

/// A counted variant as the heap of a workload in this process.
#[derive(Debug)]
struct Engine<V: Variant>(&'static Allocator<Counted<V>>);

impl<V: Variant> Clone for Engine<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Variant> Copy for Engine<V> {}

impl<V: Variant> Heap for Engine<V> {
    fn malloc(self, size: usize) -> *mut u8 {
        self.0.malloc(size)
    }
    fn calloc(self, size: usize) -> *mut u8 {
        self.0.zeroed(1, size)
    }
    unsafe fn realloc(self, block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() {
            return self.0.malloc(size);
        }
        // SAFETY: the caller keeps realloc's contract.
        unsafe { self.0.realloc(block, 1, size) }
    }
    fn aligned(self, align: usize, size: usize) -> *mut u8 {
        self.0.aligned(align, size)
    }
    unsafe fn free(self, block: *mut u8) {
        // SAFETY: the caller keeps free's contract.
        unsafe { self.0.free(block) }
    }
    fn purge(self) {}
}

/// A workload that is counted: its name in the table, and its numbers.
#[derive(Clone, Copy, Debug)]
enum Work {
    Filler(&'static str),
    Unlikely(&'static str),
    Simple(&'static str),
    Threads(&'static str),
}

const WORKS: [(&str, Work); 5] = [
    ("uns_filler", Work::Filler("ops=100k")),
    ("unlikely_hit many", Work::Unlikely("remainders=1000 ops=60k")),
    ("simple 128 x 25", Work::Simple("scenario=1 size=128 count=25 ops=50k")),
    ("simple 2048 x 1600", Work::Simple("scenario=1 size=2048 count=1600 ops=64k")),
    ("malloc-thread 1", Work::Threads("threads=1 ops=200k")),
];

/// Runs a workload on a fresh allocator. Returns what it counted, and the pairs that were timed.
/// Warming up is counted too, so figures are per thousand pairs of all.
fn counted<V: Variant>(work: Work) -> (Counts, u64) {
    let engine = Engine::<V>(Box::leak(Box::new(Allocator::new())));
    let of = |numbers: &str| Params::parse(numbers.split_whitespace()).expect("constant numbers");
    let outcome = match work {
        Work::Filler(numbers) => uns_filler::run(engine, &of(numbers)),
        Work::Unlikely(numbers) => unlikely_hit::run(engine, &of(numbers)),
        Work::Simple(numbers) => simple_malloc::run(engine, &of(numbers)),
        Work::Threads(numbers) => malloc_thread::run(engine, &of(numbers)),
    };
    (engine.0.counts(), outcome.ops)
}

/// The variants that differ in what they count. Hints change no count.
fn rows() -> Vec<(&'static str, Vec<(Counts, u64)>)> {
    let mut rows = Vec::new();
    macro_rules! add {
        ($($type:ident)*) => {$(
            rows.push(($type::NAME, WORKS.iter().map(|(_, work)| counted::<$type>(*work)).collect()));
        )*};
    }
    add!(Original Mod Remainders FirstOut Runs Hysteresis);
    rows
}

/// A count for a thousand pairs of malloc and free.
fn rate(count: u64, pairs: u64) -> String {
    format!("{:.0}", 1000.0 * count as f64 / pairs as f64)
}

/// The table.
pub fn section() -> Section {
    let head = ["per 1000 pairs"].into_iter().chain(WORKS.iter().map(|(name, _)| *name));
    let head: Vec<&str> = head.collect();
    let rows: Vec<Vec<String>> = rows()
        .into_iter()
        .map(|(name, counts)| {
            let cells = counts.into_iter().map(|(counts, pairs)| {
                let of = |count| rate(count, pairs);
                let (filed, listed) = (of(counts.filed), of(counts.unsorted));
                let (sorted, walked) = (of(counts.sorted), of(counts.walked));
                format!("{filed}/{listed}/{sorted}/{walked}/{}", counts.trims)
            });
            row(name, cells)
        })
        .collect();
    let title = "Chunks filed/put on the list/sorted/sizes passed, and trims of the whole run";
    Section::new("counts", title, table(&head, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_repeat_and_show_what_a_variant_is() {
        let once = counted::<Original>(WORKS[0].1);
        assert_eq!(once, counted::<Original>(WORKS[0].1));
        let (original, patched) = (once.0, counted::<Mod>(WORKS[0].1).0);
        // The patch takes small chunks off the list, and all else stays.
        assert!(original.filed == 0 && original.sorted > 0);
        assert!(patched.filed > 0 && patched.sorted < original.sorted);
        assert_eq!(original.merged, patched.merged);
        assert_eq!(counted::<OnlyUnlikely>(WORKS[0].1), once);
        assert_eq!(counted::<Inverted>(WORKS[0].1), counted::<ModUnlikely>(WORKS[0].1));
        assert_eq!(counted::<FirstOut>(WORKS[0].1).0.sorted, 0);
    }

    #[test]
    fn hysteresis_trims_less() {
        let trims = |counts: (Counts, u64)| counts.0.trims;
        let (fixed, learned) =
            (trims(counted::<Parking>(WORKS[3].1)), trims(counted::<Hysteresis>(WORKS[3].1)));
        assert!(learned < 10 && learned < fixed / 2, "{learned} {fixed}");
    }

    /// The page has the counts of this revision, since no machine changes them.
    #[test]
    fn the_table_has_a_row_for_each_variant_that_counts_and_is_on_the_page() {
        let text = section().text;
        assert!(super::super::PAGE.read().unwrap().contains(&text), "{text}");
        assert_eq!(text.lines().count(), 2 + 6);
        assert!(text.contains("| original | 0/"), "{text}");
    }
}
