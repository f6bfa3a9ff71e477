//! Where the allocator's tables are: the anchor, found in the data of whatever file it was linked
//! into, and the root after it.
//!
//! The anchor begins with bytes that nothing else begins with, and has its own address. So it is
//! found under any name of the library, and in programs that have Toft built in. It is also found
//! where a file is stripped, was replaced or is in another container, and in a core file. What is
//! searched is what a file's own headers, as mapped, say that can be written: a few hundred KiB in
//! most processes.

use toft_core::stats::{Anchor, MAGIC, Root, VERSION};

use crate::format::units::plain;
use crate::memory::read_u64;
use crate::module::{Image, Kind};
use crate::{Error, Memory};

/// Bytes that are searched at a time.
const PIECE: usize = 1 << 20;
/// The most that is searched of one process: files may say that there is more than anybody could
/// read.
const SEARCH_MOST: u64 = 4 << 30;
/// Where every address space ends.
const SPACE: u64 = 1 << 56;
/// An anchor begins at a multiple of this.
const ALIGN: usize = align_of::<Anchor>();
const ANCHOR: usize = size_of::<Anchor>();

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where everything lies.
    pub root: Root,
    /// The library's version.
    pub version: String,
    /// The file that it is in.
    pub file: String,
}

/// Finds Toft in a process.
pub fn find(memory: &impl Memory) -> Result<Found, Error> {
    let pid = memory.pid();
    let mappings = memory.mappings()?;
    let mut problem = Error::NotToft(pid);
    let mut narrow = false;
    let mut wide = false;
    let mut left = SEARCH_MOST;
    for mapping in &mappings {
        if mapping.offset != 0 || !mapping.readable || !mapping.path.starts_with('/') {
            continue;
        }
        let image = match Image::at(memory, mapping) {
            Kind::Wide(image) => {
                wide = true;
                image
            }
            Kind::Narrow => {
                narrow = true;
                continue;
            }
            Kind::Other => continue,
        };
        for (start, end) in image.writable {
            match search(memory, start, end, &mut left) {
                Some(Ok((root, version))) => {
                    return Ok(Found { root, version, file: mapping.path.clone() });
                }
                Some(Err(error)) => problem = error,
                None => {}
            }
        }
    }
    // An exited process has nothing to find.
    memory.still_there()?;
    // A 64-bit program may have a 32-bit file mapped, as a linker does.
    Err(if narrow && !wide { Error::Narrow(pid) } else { problem })
}

/// Searches for an anchor, and follows it. Subtracts the searched bytes from `left`.
fn search(
    memory: &impl Memory,
    start: u64,
    end: u64,
    left: &mut u64,
) -> Option<Result<(Root, String), Error>> {
    if end > SPACE {
        return None;
    }
    let mut at = start.checked_next_multiple_of(ALIGN as u64)?;
    let end = end.min(at.saturating_add(*left));
    *left -= end.saturating_sub(at);
    let mut buffer = vec![0; PIECE];
    let mut problem = None;
    while at < end {
        let bytes = (end - at).min(PIECE as u64) as usize;
        let got = memory.read(at, &mut buffer[..bytes]);
        for (i, anchor) in buffer[..got].chunks(ALIGN).enumerate() {
            if anchor.len() == ANCHOR && anchor.starts_with(&MAGIC) {
                match follow(memory, at + (i * ALIGN) as u64, anchor) {
                    Some(Err(error)) => problem = Some(Err(error)),
                    None => {}
                    found => return found,
                }
            }
        }
        at += bytes as u64;
    }
    problem
}

/// The root behind an anchor; `None` where it only looks like one.
fn follow(memory: &impl Memory, at: u64, bytes: &[u8]) -> Option<Result<(Root, String), Error>> {
    const { assert!(ANCHOR == ALIGN, "an anchor is searched for in pieces of its own length") };
    let word = |field: usize| bytes.get(field..field + 8)?.try_into().ok().map(u64::from_le_bytes);
    let version = word(core::mem::offset_of!(Anchor, version))?;
    let words = word(core::mem::offset_of!(Anchor, words))?;
    if word(core::mem::offset_of!(Anchor, this))? != at {
        return None;
    }
    let root = word(core::mem::offset_of!(Anchor, root))?;
    let library = bytes.get(core::mem::offset_of!(Anchor, library)..)?;
    let library = library.split(|&byte| byte == 0).next().unwrap_or(&[]);
    let library = plain(&String::from_utf8_lossy(library));
    let pid = memory.pid();
    if version != VERSION || words < Root::NAMES.len() as u64 {
        return Some(Err(Error::OtherVersion(pid, library, version)));
    }
    let words =
        (0..Root::NAMES.len() as u64).map_while(|i| read_u64(memory, root.checked_add(8 * i)?));
    let Some(root) = Root::from_words(words) else {
        return Some(Err(memory.unread("the root cannot be read")));
    };
    if root.ready == 0 {
        return Some(Err(Error::NotStarted(pid)));
    }
    Some(match check(&root) {
        Ok(()) => Ok((root, library)),
        Err(what) => Err(Error::Nonsense(pid, what)),
    })
}

/// Whether the numbers of a root can be what they say: everything that reads by them relies on
/// this.
pub fn check(root: &Root) -> Result<(), &'static str> {
    let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
    let power =
        |value: u64, low: u64, high: u64| value.is_power_of_two() && (low..=high).contains(&value);
    ensure(power(root.page_size, 4096, 1 << 20), "the page size")?;
    let spans = [root.data, root.span, root.large_span, root.end];
    ensure(spans.iter().all(|&value| value < SPACE), "the windows")?;
    let places = [
        root.metadata,
        root.tables,
        root.first_heap,
        root.slabs,
        root.page_map,
        root.more_slabs,
        root.heaps,
        root.end,
    ];
    ensure(places.is_sorted() && places.iter().all(|at| at % root.page_size == 0), "the metadata")?;
    let more = root.heaps - root.more_slabs;
    ensure(root.more_slabs_span <= more, "the descriptors of slabs")?;
    ensure((1..1 << 30).contains(&root.slab_most), "the longest slab")?;
    ensure(power(root.unit, root.page_size, 1 << 30), "the units")?;
    ensure(power(root.slab_bytes, 64, root.page_size), "the size of a descriptor of slabs")?;
    ensure(power(root.block_bytes, 16, root.page_size), "the descriptors of large blocks")?;
    let end = root.large_blocks_end;
    let is_page = end.is_multiple_of(root.page_size) && end < SPACE;
    ensure(is_page, "the descriptors of large blocks")?;
    ensure(root.heap_stride >= 8 && root.heap_stride < SPACE, "the heaps")?;
    ensure(root.heap_first_states < SPACE, "the states of heaps")?;
    // Fields of eight bytes within a record, and places within the tables.
    let fit = |fields: &[u64], size| fields.iter().all(|at| at.saturating_add(8) <= size);
    let in_tables = |places: &[u64]| places.iter().all(|at| (root.tables..root.end).contains(at));
    let slab = [
        root.slab_owner,
        root.slab_slots,
        root.slab_base,
        root.slab_site,
        root.slab_size,
        root.slab_partition,
        root.slab_claim,
        root.slab_claim_states,
        root.slab_remote,
        root.slab_states,
        root.slab_frees,
        root.slab_absorbed,
        root.slab_credit_start,
        root.slab_credit,
    ];
    ensure(fit(&slab, root.slab_bytes), "the fields of slabs")?;
    let batch = [root.slab_batch, root.batch_slab, root.batch_marks];
    ensure(batch.iter().all(|&at| at < 4096) && fit(&batch[..1], root.slab_bytes), "the batches")?;
    let block = [
        root.block_state,
        root.block_partition,
        root.block_usable,
        root.block_mapped,
        root.block_extent,
        root.block_site,
    ];
    ensure(fit(&block, root.block_bytes), "the fields of large blocks")?;
    let block = [root.block_bytes.saturating_sub(8), root.outside_at];
    let outside = in_tables(&[root.outside])
        && root.outside_chunks <= 4096
        && (1..=1 << 20).contains(&root.outside_chunk_bytes)
        && fit(&block, root.outside_bytes.min(4096));
    ensure(root.outside == 0 || outside, "the large blocks outside the window")?;
    let control = [
        root.control_word,
        root.control_thread,
        root.control_asked,
        root.control_answered,
        root.control_given,
    ];
    let control = in_tables(&[root.control]) && control.iter().all(|&at| at < 4096);
    ensure(control, "what can be asked")?;
    let bits = root.site_partition_bits;
    let sites = in_tables(&[root.sites, root.sites_mapped.saturating_add(8)])
        && (8..4096).contains(&root.site_bytes)
        && (1..=32).contains(&bits);
    ensure(root.sites == 0 || sites, "the call sites")?;
    let places = [root.tally, root.tally_mapped, root.tally_missed.saturating_add(8)];
    let fields = [root.tally_site, root.tally_blocks, root.tally_allocated];
    let first = root.tally_first_bytes;
    let tally = in_tables(&places)
        && (first == 0 || in_tables(&[root.tally_first]))
        && first <= 1 << 30
        && first.checked_rem(root.tally_bytes) == Some(0)
        && (8..4096).contains(&root.tally_bytes)
        && fit(&fields, root.tally_bytes)
        && (1..=32).contains(&root.tally_partition_bits);
    ensure(root.tally == 0 || tally, "the counts of large blocks")?;
    let places = [root.samples, root.samples_mapped.saturating_add(8), root.samples_missed];
    let pair = |at: u64| at.saturating_add(16);
    let fields = [root.sample_about, pair(root.sample_had), pair(root.sample_freed)];
    let samples = in_tables(&places)
        && (8..4096).contains(&root.sample_bytes)
        && fit(&fields, root.sample_bytes)
        && root.sample_frames <= root.sample_bytes
        && (1..64).contains(&root.sample_object_bits);
    ensure(root.samples == 0 || samples, "the sampled stacks")?;
    let fields = [root.named_line, root.named_function, root.named_file];
    let named = root.sample_named >= SPACE
        && (8..4096).contains(&root.named_bytes)
        && fit(&fields, root.named_bytes);
    ensure(root.sample_named == 0 || named, "the named frames")?;
    let filter = [
        root.filter_installed,
        root.filter_watched,
        root.filter_inherited,
        root.filter_probe,
        root.filter_safe,
        root.filter_works,
    ];
    let filter = in_tables(&[root.filter]) && filter.iter().all(|&at| at < 4096);
    ensure(filter, "the filters")?;
    ensure(root.heap_thread_block.saturating_add(8) <= root.heap_stride, "the fields of heaps")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{Mapping, Run};

    /// A process with one file mapped: only its headers can be read, and everything else is zeros.
    struct Odd {
        header: Vec<u8>,
        asked: Cell<u64>,
        /// Set if the process exits after its mappings were read once.
        exits: bool,
        mapped: Cell<bool>,
    }

    const START: u64 = 0x10000;

    impl Odd {
        /// With program headers of that many bytes each, all of which say the same.
        fn new(size: u16, count: u16, address: u64, bytes: u64) -> Odd {
            let mut header = vec![0; 4096];
            let mut put =
                |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
            put(0, b"\x7fELF\x02");
            put(32, &64u64.to_le_bytes());
            put(54, &size.to_le_bytes());
            put(56, &count.to_le_bytes());
            for i in 0..usize::from(count).min(70) {
                let at = 64 + i * usize::from(size);
                put(at, &1u32.to_le_bytes());
                put(at + 4, &2u32.to_le_bytes());
                // The first says where the file lies.
                let address = if i == 0 && size > 0 { START } else { address };
                put(at + 16, &address.to_le_bytes());
                put(at + 32, &bytes.to_le_bytes());
                put(at + 40, &bytes.to_le_bytes());
            }
            Odd { header, asked: Cell::new(0), exits: false, mapped: Cell::new(false) }
        }
    }

    impl Memory for Odd {
        fn pid(&self) -> i32 {
            7
        }

        fn mappings(&self) -> Result<Vec<Mapping>, Error> {
            if self.exits && self.mapped.replace(true) {
                return Err(Error::Ended(7));
            }
            Ok(vec![Mapping::of_line("10000-11000 rw-p 00000000 00:00 1 /odd").unwrap()])
        }

        fn read(&self, address: u64, into: &mut [u8]) -> usize {
            self.asked.set(self.asked.get() + into.len() as u64);
            assert!(self.asked.get() <= SEARCH_MOST + (1 << 30), "it reads without an end");
            if address == START {
                let bytes = into.len().min(self.header.len());
                into[..bytes].copy_from_slice(&self.header[..bytes]);
                return bytes;
            }
            0
        }

        fn pages(&self, _: u64, _: u64) -> Result<Vec<Run>, Error> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_segment_at_the_end_of_all_addresses_is_not_searched() {
        let odd = Odd::new(56, 2, u64::MAX - 10, 1000);
        assert_eq!(find(&odd).unwrap_err(), Error::NotToft(7));
        assert!(odd.asked.get() < 1 << 20, "{}", odd.asked.get());
        assert!(search(&odd, u64::MAX - 10, u64::MAX, &mut 1000).is_none());
    }

    #[test]
    fn one_segment_many_times_is_searched_within_bounds() {
        // Headers without a length are all the first.
        let odd = Odd::new(0, u16::MAX, START, 1 << 30);
        assert_eq!(find(&odd).unwrap_err(), Error::NotToft(7));
        assert!(odd.asked.get() <= 4096, "{}", odd.asked.get());
        // As many as fit into what is looked at.
        let odd = Odd::new(56, 70, START, 1 << 30);
        assert_eq!(find(&odd).unwrap_err(), Error::NotToft(7));
        assert!(odd.asked.get() > 2 << 30, "{}", odd.asked.get());
    }

    #[test]
    fn a_process_that_exits_during_the_search_has_ended() {
        let odd = Odd { exits: true, ..Odd::new(56, 2, START, 1 << 20) };
        assert_eq!(find(&odd).unwrap_err(), Error::Ended(7));
    }

    #[test]
    fn what_is_left_to_search_is_all_that_is_searched() {
        let odd = Odd::new(56, 1, START, 0);
        let mut left = 3 << 20;
        assert!(search(&odd, 0, 2 << 20, &mut left).is_none());
        assert_eq!((left, odd.asked.get()), (1 << 20, 2 << 20));
        assert!(search(&odd, 0, 1 << 30, &mut left).is_none());
        assert_eq!((left, odd.asked.get()), (0, 3 << 20));
    }
}
