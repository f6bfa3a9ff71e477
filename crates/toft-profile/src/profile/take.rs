//! A profile of the tables of a process, or of a core file.

use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::format::units;
use crate::module::Modules;
use crate::profile::{Profile, Row, Share, Source};
use crate::{Error, Figures, Memory, Tables, find};

/// Live slots of one site, size and partition.
type Key = (u64, u64, u32);

/// Counts what is live in a process or in a core file, by call site. Nothing is stopped; the name, the time
/// and what else is known of the process is the caller's to fill in.
pub fn take(memory: &impl Memory) -> Result<Profile, Error> {
    take_with_figures(memory).map(|(profile, _)| profile)
}

/// The same, with the figures of the whole, as of the same look.
pub fn take_with_figures(memory: &impl Memory) -> Result<(Profile, Figures), Error> {
    let mut figures = Figures::default();
    let found = find(memory)?;
    let mappings = memory.mappings()?;
    let tables = Tables { root: found.root };
    let mut counts: HashMap<Key, (u64, u64)> = HashMap::new();
    // Every site that a slab is named by, live or not: empty slabs tell of sites, too.
    let mut sites: HashMap<u32, HashSet<u64>> = HashMap::new();
    let slabs = tables.for_each_descriptor(memory, &mappings, |slab| {
        let (site, partition) = (slab.site(), slab.partition());
        sites.entry(partition).or_default().insert(site);
        let live = slab.live();
        figures.add_slab(slab, live);
        if live > 0 {
            let count = counts.entry((site, slab.size, partition)).or_default();
            count.0 += live;
            count.1 += live * slab.size;
        }
    })?;
    let mut large: HashMap<(u64, u32), (u64, u64)> = HashMap::new();
    let (blocks, more) = tables.blocks(memory, &mappings)?;
    blocks.iter().for_each(|block| figures.add_block(block));
    tables.heaps(memory).iter().for_each(|heap| figures.add_heap(heap));
    figures.descriptors = slabs.read + more.read;
    for block in blocks.iter().filter(|block| block.live) {
        let count = large.entry((block.site, block.partition)).or_default();
        count.0 += 1;
        count.1 += block.usable;
    }

    let modules = Modules::of(memory, &mappings);
    let row = |site, partition, size, (objects, bytes), share| {
        let module = modules.of_return(site);
        Row {
            site,
            module: module.map(|module| module.path.clone()),
            build_id: module.and_then(|module| module.build_id.clone()),
            offset: module.map(|module| site.wrapping_sub(module.bias)),
            partition,
            size,
            objects,
            bytes,
            share,
            frames: Vec::new(),
        }
    };
    // A core file that was cut off may have the slabs, and not these: what is there is worth showing.
    let mut notes = Vec::new();
    let known = tables.sites(memory).unwrap_or_else(|_| {
        notes.push(
            "the table of call sites cannot be read: no call site's small blocks are known to be its alone".into(),
        );
        Vec::new()
    });
    let wrappers: HashSet<u64> = tables.wrappers(memory).unwrap_or_default().into_iter().collect();
    let own: HashSet<u32> =
        known.iter().filter(|site| site.own).map(|site| site.partition).collect();
    let share = |partition: &u32| match sites.get(partition).map_or(0, HashSet::len) {
        _ if own.contains(partition) => Share::Exact,
        0 | 1 => Share::Alone,
        _ => Share::Shared,
    };
    let mut rows: Vec<Row> = counts
        .iter()
        .map(|((site, size, partition), count)| {
            row(*site, *partition, *size, *count, share(partition))
        })
        .collect();
    // A large block is the site's that is written at it, whoever shares the partition.
    rows.extend(
        large
            .iter()
            .map(|((site, partition), count)| row(*site, *partition, 0, *count, Share::Exact)),
    );
    let early: Vec<&Row> = rows.iter().filter(|row| wrappers.contains(&row.site)).collect();
    if !early.is_empty() {
        let early = early.iter().map(|row| row.bytes).sum::<u64>();
        notes.push(format!(
            "{} are told as of wrappers of malloc: they were allocated before these were found to be such",
            units::bytes(early)
        ));
    }
    let mut profile = Profile {
        toft: found.version,
        source: Source::Process,
        time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        pid: memory.pid(),
        name: String::new(),
        partitions: found.root.partitions,
        resident: None,
        objects: 0,
        bytes: 0,
        doubts: slabs.senseless + more.senseless,
        notes,
        rows,
    };
    profile.finish();
    Ok((profile, figures))
}
