//! The metrics of a process in the text format of Prometheus (0.0.4), defined once for all writers.
//! The library writes the format from inside (`toft_metrics`). `toft metrics` writes it for a
//! process that it reads.
//!
//! Names end with their units, which are base units. No label has an unlimited number of values.
//! Only the largest call sites have separate samples, by name. The sample `other` is the sum of all
//! remaining sites, so the sum of all samples is the live total.

use crate::os::digits;
use crate::report::Writer;

/// A metric: its name and its description. Neither contains a character that has to be escaped.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name.
    pub name: &'static str,
    /// The description.
    pub help: &'static str,
}

macro_rules! families {
    ($($family:ident $name:literal $help:literal)*) => {
        $(
            #[doc = $help]
            pub const $family: Family = Family { name: $name, help: $help };
        )*
        /// All families, in the order in which they are written.
        pub const FAMILIES: &[Family] = &[$($family),*];
    };
}

families! {
    INFO "toft_info" "The process, and the version of Toft that it runs on."
    LIVE_BYTES "toft_live_bytes"
        "Bytes that the program has, as malloc_usable_size counts them, in slots of slabs and in large blocks."
    LIVE_BLOCKS "toft_live_blocks" "Blocks that the program has."
    FREE_BYTES "toft_free_bytes"
        "Bytes that are free: in slabs that a thread has, in empty slabs, in large blocks; resident or not."
    FREE_RESIDENT "toft_free_resident_bytes"
        "The resident part of toft_free_bytes: memory that the process holds and the program does not use."
    SLABS "toft_slabs" "Slabs: those that a thread has, and empty ones that wait for their next use."
    HEAPS "toft_heaps" "Heaps: of threads that run, and of threads that have ended, for the next ones."
    RESIDENT "toft_process_resident_bytes" "Resident bytes of the whole process, as the kernel counts them."
    ALLOCATIONS "toft_allocations_total" "Blocks that were ever allocated."
    FREES "toft_frees_total" "Blocks that were ever freed."
    MISUSES "toft_misuses_total" "Invalid calls that were ignored, such as a second free of a block."
    RETURNED "toft_returned_bytes_total"
        "Bytes of free memory that sweeps have returned to the kernel, resident before or not."
    PARTITIONS "toft_partitions" "Partitions that there can be."
    CALL_SITES "toft_call_sites" "Call sites that have live blocks."
    SITE_BYTES "toft_site_live_bytes" "Bytes that the program has, by the call site that allocated them."
    SITE_BLOCKS "toft_site_live_blocks" "Blocks that the program has, by the call site that allocated them."
    DOUBTFUL "toft_doubtful_descriptors"
        "Descriptors that made no sense when they were read, and are not counted."
    DESCRIPTORS "toft_descriptors" "Descriptors of slabs and large blocks that were read."
    DURATION "toft_scrape_duration_seconds" "How long it took to read this, where it was read from outside."
}

/// The default number of call sites that have separate samples.
pub const TOP: usize = 20;

/// A destination of the text.
pub trait Page {
    /// Appends bytes unchanged. Text is only split between whole characters.
    fn put(&mut self, bytes: &[u8]);

    /// Appends a number in decimal.
    fn number(&mut self, number: u64);
}

impl<const BYTES: usize> Page for Writer<BYTES> {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes(bytes);
    }

    fn number(&mut self, number: u64) {
        self.digits(number, 10);
    }
}

impl Family {
    /// Returns Prometheus' word for the type. A name of a counter ends in `_total`.
    fn kind(self) -> &'static str {
        if self.name.ends_with("_total") { " counter\n" } else { " gauge\n" }
    }
}

/// Writes the head of a family.
#[inline(never)]
pub fn head(page: &mut impl Page, family: Family) {
    let kind = family.kind();
    for text in ["# HELP ", family.name, " ", family.help, "\n# TYPE ", family.name, kind] {
        page.put(text.as_bytes());
    }
}

/// Writes a sample of a family with its labels.
#[inline(never)]
pub fn sample(page: &mut impl Page, family: Family, labels: &[(&str, &[u8])], value: u64) {
    page.put(family.name.as_bytes());
    for (number, (label, text)) in labels.iter().enumerate() {
        page.put(if number == 0 { b"{" } else { b"," });
        page.put(label.as_bytes());
        page.put(b"=\"");
        escaped(page, text);
        page.put(b"\"");
    }
    page.put(if labels.is_empty() { b" " } else { b"} " });
    page.number(value);
    page.put(b"\n");
}

/// Writes a label's value. Backslashes, quotes and line ends are escaped, and invalid UTF-8 is
/// replaced.
fn escaped(page: &mut impl Page, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for piece in chunk.valid().as_bytes().split_inclusive(|byte| b"\\\"\n".contains(byte)) {
            let (rest, end): (_, &[u8]) = match piece.split_last() {
                Some((b'\\', rest)) => (rest, b"\\\\"),
                Some((b'"', rest)) => (rest, b"\\\""),
                Some((b'\n', rest)) => (rest, b"\\n"),
                _ => (piece, b""),
            };
            page.put(rest);
            page.put(end);
        }
        if !chunk.invalid().is_empty() {
            page.put("\u{fffd}".as_bytes());
        }
    }
}

/// The figures of one reading, except those of call sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Metrics<'a> {
    pub version: &'a [u8],
    pub process: &'a [u8],
    pub pid: u64,
    pub slab_live_bytes: u64,
    pub large_live_bytes: u64,
    pub slab_live_blocks: u64,
    pub large_live_blocks: u64,
    /// Bytes of the slots of slabs that have an owner. The slots are live or not.
    pub slot_bytes: u64,
    pub empty_slab_bytes: u64,
    pub large_free_bytes: u64,
    /// The resident parts of the free bytes: in slabs that have an owner, in empty slabs, in large
    /// blocks. `None` if the kernel cannot be asked.
    pub free_resident: Option<[u64; 3]>,
    pub slabs: u64,
    pub empty_slabs: u64,
    pub threads: u64,
    pub ended_threads: u64,
    pub resident: Option<u64>,
    /// The counters. They never fall while the process lives.
    pub allocations: u64,
    pub frees: u64,
    pub misuses: u64,
    pub returned_bytes: u64,
    pub partitions: u64,
    pub doubts: u64,
    pub descriptors: u64,
}

impl Metrics<'_> {
    /// Writes the part before the call sites.
    #[inline(never)]
    pub fn begin(&self, page: &mut impl Page) {
        head(page, INFO);
        let mut buffer = [0; 20];
        let pid = digits(self.pid, 10, &mut buffer);
        let labels = [("version", self.version), ("process", self.process), ("pid", pid)];
        sample(page, INFO, &labels, 1);
        by(
            page,
            LIVE_BYTES,
            "kind",
            &[("slab", self.slab_live_bytes), ("large", self.large_live_bytes)],
        );
        by(
            page,
            LIVE_BLOCKS,
            "kind",
            &[("slab", self.slab_live_blocks), ("large", self.large_live_blocks)],
        );
        by(
            page,
            FREE_BYTES,
            "where",
            &[
                ("slab", self.slot_bytes.saturating_sub(self.slab_live_bytes)),
                ("empty_slab", self.empty_slab_bytes),
                ("large", self.large_free_bytes),
            ],
        );
        if let Some([slab, empty_slab, large]) = self.free_resident {
            let values = [("slab", slab), ("empty_slab", empty_slab), ("large", large)];
            by(page, FREE_RESIDENT, "where", &values);
        }
        by(page, SLABS, "state", &[("owned", self.slabs), ("empty", self.empty_slabs)]);
        by(page, HEAPS, "thread", &[("running", self.threads), ("ended", self.ended_threads)]);
        if let Some(resident) = self.resident {
            one(page, RESIDENT, resident);
        }
        one(page, ALLOCATIONS, self.allocations);
        one(page, FREES, self.frees);
        one(page, MISUSES, self.misuses);
        one(page, RETURNED, self.returned_bytes);
        one(page, PARTITIONS, self.partitions);
    }

    /// Writes the part after the call sites.
    #[inline(never)]
    pub fn end(&self, page: &mut impl Page) {
        one(page, DOUBTFUL, self.doubts);
        one(page, DESCRIPTORS, self.descriptors);
    }
}

/// Writes a family with one sample.
pub fn one(page: &mut impl Page, family: Family, value: u64) {
    head(page, family);
    sample(page, family, &[], value);
}

/// Writes a family whose samples differ in one label.
#[inline(never)]
fn by(page: &mut impl Page, family: Family, label: &str, values: &[(&str, u64)]) {
    head(page, family);
    for &(text, value) in values {
        sample(page, family, &[(label, text.as_bytes())], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    struct Text(Vec<u8>);

    impl Page for Text {
        fn put(&mut self, bytes: &[u8]) {
            self.0.extend(bytes);
        }

        fn number(&mut self, number: u64) {
            self.0.extend(number.to_string().bytes());
        }
    }

    fn written(write: impl FnOnce(&mut Text)) -> String {
        let mut text = Text(Vec::new());
        write(&mut text);
        String::from_utf8(text.0).unwrap()
    }

    #[test]
    fn names_are_by_the_rules_and_each_is_there_once() {
        let mut names = std::collections::BTreeSet::new();
        for family in FAMILIES {
            let legal = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(family.name.starts_with("toft_") && family.name.bytes().all(legal));
            assert!(names.insert(family.name), "{} is there twice", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains(['\\', '\n']));
        }
    }

    #[test]
    fn what_a_label_may_contain_is_escaped() {
        let text =
            written(|page| sample(page, INFO, &[("a", b"x\"y\\z\nw\xff\xc3\xa9"), ("b", b"")], 7));
        assert_eq!(text, "toft_info{a=\"x\\\"y\\\\z\\nw\u{fffd}\u{e9}\",b=\"\"} 7\n");
    }

    #[test]
    fn all_but_the_sites_is_written_in_order() {
        let (resident, free_resident) = (Some(1), Some([2, 3, 4]));
        let metrics =
            Metrics { pid: 120, process: b"p", resident, free_resident, ..Metrics::default() };
        let text = written(|page| {
            metrics.begin(page);
            metrics.end(page);
        });
        let heads: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        let all = FAMILIES
            .iter()
            .map(|family| family.name)
            .filter(|name| !name.contains("site") && !name.contains("duration"));
        assert!(heads.iter().copied().eq(all), "{heads:?}");
        assert!(
            text.starts_with("# HELP toft_info ") && text.contains("pid=\"120\"} 1\n"),
            "{text}"
        );
        // The types are as the names say.
        for (name, kind) in [
            ("toft_allocations_total", "counter"),
            ("toft_returned_bytes_total", "counter"),
            ("toft_live_bytes", "gauge"),
        ] {
            assert!(text.contains(&std::format!("# TYPE {name} {kind}\n")), "{text}");
        }
    }
}
