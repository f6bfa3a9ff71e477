//! Where the allocator's tables are: the anchor, found in the data of whatever file it was linked into,
//! and the root behind it.
//!
//! The anchor begins with bytes that nothing else begins with, and has its own address: so it is found
//! under any name of the library, in programs that have Toft built in, where a file is stripped, was
//! replaced or lies in another container, and in a core file. What is searched is what a file's own
//! headers, as mapped, say that can be written: a few hundred KiB in most processes.

use toft::stats::{Anchor, MAGIC, Root, VERSION};

use crate::memory::read_word;
use crate::module::{Image, Kind};
use crate::{Error, Memory};

/// Bytes that are searched at a time.
const PIECE: usize = 1 << 20;
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
            match search(memory, start, end) {
                Some(Ok((root, version))) => {
                    return Ok(Found { root, version, file: mapping.path.clone() });
                }
                Some(Err(error)) => problem = error,
                None => {}
            }
        }
    }
    // A 64-bit program may have a 32-bit file mapped, as a linker does.
    Err(if narrow && !wide { Error::Narrow(pid) } else { problem })
}

/// Looks for an anchor, and follows it.
fn search(memory: &impl Memory, start: u64, end: u64) -> Option<Result<(Root, String), Error>> {
    let mut buffer = vec![0; PIECE];
    let mut at = start.next_multiple_of(ALIGN as u64);
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
    let library = String::from_utf8_lossy(library).into_owned();
    let pid = memory.pid();
    if version != VERSION || words < Root::NAMES.len() as u64 {
        return Some(Err(Error::OtherVersion(pid, library, version)));
    }
    let words = (0..Root::NAMES.len() as u64).map_while(|i| read_word(memory, root + 8 * i));
    let Some(root) = Root::from_words(words) else {
        return Some(Err(Error::Nonsense(pid, "the root cannot be read")));
    };
    if root.ready == 0 {
        return Some(Err(Error::NotStarted(pid)));
    }
    Some(match check(&root) {
        Ok(()) => Ok((root, library)),
        Err(what) => Err(Error::Nonsense(pid, what)),
    })
}

/// Whether the numbers of a root can be what they say: everything that reads by them relies on this.
pub fn check(root: &Root) -> Result<(), &'static str> {
    let ensure = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
    let power =
        |value: u64, low: u64, high: u64| value.is_power_of_two() && (low..=high).contains(&value);
    const SPACE: u64 = 1 << 56;
    ensure(power(root.page_size, 4096, 1 << 20), "the page size")?;
    let spans = [root.data, root.span, root.large_span, root.end];
    ensure(spans.iter().all(|&value| value < SPACE), "the windows")?;
    let places =
        [root.tables, root.small_slabs, root.medium_slabs, root.large_blocks, root.heaps, root.end];
    ensure(places.is_sorted() && places.iter().all(|at| at % root.page_size == 0), "the metadata")?;
    ensure(power(root.small_slab, root.page_size, 1 << 30), "the small slabs")?;
    ensure(power(root.medium_slab, root.page_size, 1 << 30), "the medium slabs")?;
    ensure(power(root.unit, root.page_size, 1 << 30), "the units")?;
    ensure(power(root.slab_bytes, 64, root.page_size), "the descriptors of slabs")?;
    ensure(power(root.block_bytes, 16, root.page_size), "the descriptors of large blocks")?;
    ensure(root.heap_stride >= 8 && root.heap_stride < SPACE, "the heaps")?;
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
    ];
    ensure(slab.iter().all(|at| at.saturating_add(8) <= root.slab_bytes), "the fields of slabs")?;
    let block = [
        root.block_state,
        root.block_partition,
        root.block_usable,
        root.block_mapped,
        root.block_extent,
        root.block_site,
    ];
    ensure(
        block.iter().all(|at| at.saturating_add(8) <= root.block_bytes),
        "the fields of large blocks",
    )?;
    let control = [
        root.control_word,
        root.control_thread,
        root.control_asked,
        root.control_answered,
        root.control_given,
    ];
    ensure(
        (root.tables..root.end).contains(&root.control) && control.iter().all(|&at| at < 4096),
        "what can be asked",
    )?;
    let bits = root.site_partition_bits;
    let places = [root.sites, root.sites_mapped.saturating_add(8)];
    let inside = places.iter().all(|at| (root.tables..root.end).contains(at));
    ensure(
        root.sites == 0
            || inside && (8..4096).contains(&root.site_bytes) && (1..=32).contains(&bits),
        "the call sites",
    )?;
    ensure(root.heap_thread_block.saturating_add(8) <= root.heap_stride, "the fields of heaps")
}
