//! A profile of the tables of a process, or of a core file.

use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::format::units;
use crate::module::Modules;
use crate::profile::{Profile, Row, Sampled, SampledStack, Share, Source, VERSION};
use crate::{Error, Figures, Frame, Location, Memory, Tables, find};

/// A site, the bytes of its slots, or zero for large blocks, and the partition.
type Key = (u64, u64, u32);

/// What it has, and has ever had.
#[derive(Default)]
struct Counts {
    objects: u64,
    bytes: u64,
    allocations: u64,
    allocated: u64,
}

/// Counts what is live in a process or in a core file, by call site. Nothing is stopped; the name,
/// the time and what else is known of the process is the caller's to fill in.
pub fn take(memory: &impl Memory) -> Result<Profile, Error> {
    take_from(memory, false).map(|(profile, _)| profile)
}

/// As [`take`], with the figures of the whole. Which free memory is resident is read after the
/// tables.
pub fn take_with_figures(memory: &impl Memory) -> Result<(Profile, Figures), Error> {
    take_from(memory, true)
}

fn take_from(memory: &impl Memory, with_figures: bool) -> Result<(Profile, Figures), Error> {
    let mut figures = Figures::default();
    let found = find(memory)?;
    let mappings = memory.mappings()?;
    let tables = Tables { root: found.root };
    let mut counts: HashMap<Key, Counts> = HashMap::new();
    // Every site that a slab is named by, live or not: empty slabs tell of sites, too.
    let mut sites: HashMap<u32, HashSet<u64>> = HashMap::new();
    let slabs = tables.for_each_descriptor(memory, &mappings, |slab| {
        let (site, partition) = (slab.site(), slab.partition());
        sites.entry(partition).or_default().insert(site);
        let live = slab.live();
        figures.add_slab(slab, live);
        // Its owner may be at it.
        let allocations = slab.allocations().max(live);
        let count = counts.entry((site, slab.size, partition)).or_default();
        count.objects += live;
        count.bytes += live * slab.size;
        count.allocations += allocations;
        count.allocated = count.allocated.saturating_add(allocations.saturating_mul(slab.size));
    })?;
    let (blocks, more) = tables.blocks(memory, &mappings)?;
    blocks.iter().for_each(|block| figures.add_block(block));
    tables.heaps(memory).iter().for_each(|heap| figures.add_heap(heap));
    figures.descriptors = slabs.read + more.read;
    if with_figures {
        figures.add_resident(memory, &tables, &mappings, &blocks)?;
    }
    for block in blocks.iter().filter(|block| block.live) {
        let count = counts.entry((block.site, 0, block.partition)).or_default();
        count.objects += 1;
        count.bytes += block.usable;
    }
    let mut notes = Vec::new();
    match tables.tally(memory) {
        Ok(tally) => {
            for made in &tally.made {
                let count = counts.entry((made.site, 0, made.partition)).or_default();
                count.allocations += made.blocks;
                count.allocated += made.bytes;
            }
            if tally.missed > 0 {
                notes.push(format!(
                    "{} large blocks could not be counted for lack of memory: there were so many allocations more",
                    tally.missed
                ));
            }
        }
        Err(_) => notes.push(
            "the counts of large blocks cannot be read: allocations are those of small ones".into(),
        ),
    }

    let modules = Modules::of(memory, &mappings);
    let row = |&(site, size, partition): &Key, counts: &Counts, share| Row {
        location: modules.location(site),
        partition,
        size,
        objects: counts.objects,
        bytes: counts.bytes,
        // A large block counts before it lives; where that was missed, it lives all the same.
        allocations: counts.allocations.max(counts.objects),
        allocated: counts.allocated.max(counts.bytes),
        recent: None,
        share,
    };
    // A core file that was cut off may have the slabs, and not these: what is there is worth
    // showing.
    let known = tables.sites(memory).unwrap_or_else(|_| {
        notes.push(
            "the table of call sites cannot be read: no call site's small blocks are known to be its alone".into(),
        );
        Vec::new()
    });
    let wrappers: HashSet<u64> = tables.wrappers(memory).unwrap_or_default().into_iter().collect();
    let own: HashSet<u32> =
        known.iter().filter(|site| site.own).map(|site| site.partition).collect();
    // A large block is the site's that is written at it, even where other sites share the
    // partition.
    let share = |size, partition: &u32| match sites.get(partition).map_or(0, HashSet::len) {
        _ if size == 0 || own.contains(partition) => Share::Exact,
        0 | 1 => Share::Alone,
        _ => Share::Shared,
    };
    // Slabs that no call site has drawn from yet have nothing to say.
    let any = |counts: &Counts| counts.objects > 0 || counts.allocations > 0;
    let rows = counts.iter().filter(|(_, counts)| any(counts));
    let rows: Vec<Row> = rows.map(|(key, counts)| row(key, counts, share(key.1, &key.2))).collect();
    let early: u64 =
        rows.iter().filter(|row| wrappers.contains(&row.location.site)).map(|row| row.bytes).sum();
    if early > 0 {
        notes.push(format!(
            "{} are listed under wrappers of malloc: they were allocated before the wrappers were detected",
            units::bytes(early)
        ));
    }
    let sampled = sampled(memory, &tables, &modules).unwrap_or_else(|error| {
        notes.push(error.to_string());
        None
    });
    memory.still_there()?;
    let mut profile = Profile {
        version: VERSION,
        toft: found.version,
        source: Source::Process,
        time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        pid: memory.pid(),
        partitions: found.root.partitions,
        doubts: slabs.senseless + more.senseless,
        notes,
        rows,
        sampled,
        ..Profile::default()
    };
    profile.finish();
    figures.allocations = profile.allocations;
    figures.frees = profile.allocations.saturating_sub(profile.objects);
    Ok((profile, figures))
}

/// The stacks of sampled allocations, where such are kept.
fn sampled(
    memory: &impl Memory,
    tables: &Tables,
    modules: &Modules,
) -> Result<Option<Sampled>, Error> {
    let Some(interval) = tables.sample_interval() else { return Ok(None) };
    let (missed, samples) = tables.samples(memory)?;
    let bits = tables.root.sample_object_bits;
    // Functions that an interpreter runs are in many stacks.
    let mut named: HashMap<u64, Option<Frame>> = HashMap::new();
    let mut location = |site: u64| {
        let frame = named.entry(site).or_insert_with(|| tables.named_frame(memory, site));
        match frame {
            Some(frame) => {
                Location { site, frames: vec![frame.clone()].into(), ..Location::default() }
            }
            None => modules.location(site),
        }
    };
    let blocks = |count: u64| (count >> bits) + (count >> bits.saturating_sub(1) & 1);
    let stacks = samples.iter().map(|one| {
        let ([samples, had, allocated], freed) = (one.had, one.freed);
        // A thread may be changing it.
        let [live_samples, live, bytes] =
            [0, 1, 2].map(|i: usize| one.had[i].saturating_sub(freed[i]));
        SampledStack {
            calls: one.frames.iter().map(|&site| location(site)).collect(),
            truncated: one.truncated,
            samples,
            live_samples,
            objects: blocks(live),
            bytes,
            allocations: blocks(had),
            allocated,
        }
    });
    Ok(Some(Sampled { interval, missed, stacks: stacks.collect() }))
}
