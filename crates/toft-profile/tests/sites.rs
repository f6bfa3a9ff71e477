//! Call sites of a real process, as the reader sees them from outside.

use std::cell::Cell;

use toft_profile::{Error, Mapping, Memory, Process, Run, Share, Tables, find, take};

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

#[inline(never)]
fn hoard(bytes: usize) -> Vec<Vec<u8>> {
    (0..100).map(|_| Vec::with_capacity(bytes)).collect()
}

/// A process of which some addresses cannot be read, as of a core file that was cut off.
struct Cut<'a> {
    whole: &'a Process,
    from: u64,
    to: u64,
}

impl Memory for Cut<'_> {
    fn pid(&self) -> i32 {
        self.whole.pid()
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Error> {
        self.whole.mappings()
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        if (self.from..self.to).contains(&address) { 0 } else { self.whole.read(address, into) }
    }

    fn pages(&self, start: u64, end: u64) -> Result<Vec<Run>, Error> {
        self.whole.pages(start, end)
    }
}

/// A process that exits once its mappings were read a number of times.
struct Exits<'a> {
    whole: &'a Process,
    left: Cell<u32>,
}

impl Memory for Exits<'_> {
    fn pid(&self) -> i32 {
        self.whole.pid()
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Error> {
        let left = self.left.get().checked_sub(1).ok_or(Error::Ended(self.pid()))?;
        self.left.set(left);
        self.whole.mappings()
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        if self.left.get() > 0 { self.whole.read(address, into) } else { 0 }
    }

    fn pages(&self, start: u64, end: u64) -> Result<Vec<Run>, Error> {
        self.whole.pages(start, end)
    }
}

/// What could not be read must not look like an empty heap.
#[test]
fn a_process_that_exits_while_it_is_read_has_no_profile() {
    let process = Process::open(std::process::id() as i32).unwrap();
    let exits = |after| Exits { whole: &process, left: Cell::new(after) };
    assert!(take(&exits(10)).is_ok());
    for after in 0..3 {
        assert_eq!(take(&exits(after)).unwrap_err(), Error::Ended(process.pid()), "{after}");
    }
}

/// Runs itself again, because a process reads its options when it starts.
#[test]
fn each_slab_s_site_is_the_site_of_its_partition() {
    const NAME: &str = "each_slab_s_site_is_the_site_of_its_partition";
    let partitions = std::env::var_os("TOFT_PARTITIONS");
    if partitions.is_none() {
        for partitions in ["exact", "64"] {
            let program = std::env::current_exe().unwrap();
            let mut again = std::process::Command::new(program);
            again.args([NAME, "--exact"]).env("TOFT_PARTITIONS", partitions);
            assert!(again.status().unwrap().success());
        }
    }
    let kept = (hoard(100), hoard(5000), hoard(300_000));
    let process = Process::open(std::process::id() as i32).unwrap();
    let tables = Tables { root: find(&process).unwrap().root };
    let exact = match &partitions {
        Some(partitions) => partitions == "exact",
        None => toft_core::policy::SECURE || cfg!(target_arch = "x86_64"),
    };
    assert_eq!(tables.sites_are_exact(), exact);
    if !exact || partitions.is_none() {
        return;
    }
    let sites = tables.sites(&process).unwrap();
    // All of Rust's own calls come from one function in a debug build; libc and the test have
    // others.
    assert!(sites.len() >= 2 && sites.iter().all(|site| site.own && site.partition != 0));
    let mut partitions: Vec<u32> = sites.iter().map(|site| site.partition).collect();
    partitions.dedup();
    assert_eq!(partitions.len(), sites.len(), "two sites of one partition");
    let of = |partition: u32| sites.iter().find(|site| site.partition == partition).unwrap();
    let mappings = toft_profile::Memory::mappings(&process).unwrap();
    let mut slabs = 0;
    tables
        .for_each_slab(&process, &mappings, |slab, _| {
            assert_eq!(of(slab.partition()).address, slab.site());
            slabs += 1;
        })
        .unwrap();
    let (blocks, _) = tables.blocks(&process, &mappings).unwrap();
    for block in blocks.iter().filter(|block| block.live) {
        assert_eq!(of(block.partition).address, block.site);
    }
    assert!(slabs > 10 && blocks.len() >= 100);
    // A process that has ended is not one whose tables make no sense.
    let gone = Exits { whole: &process, left: Cell::new(0) };
    assert_eq!(tables.sites(&gone), Err(Error::Ended(process.pid())));
    assert_eq!(tables.tally(&gone), Err(Error::Ended(process.pid())));
    // Without the table of sites the profile has what is known.
    let whole = take(&process).unwrap();
    assert!(whole.notes.is_empty() && whole.rows.iter().any(|row| row.size != 0));
    assert!(whole.exact());
    let from = tables.root.sites;
    let part = take(&Cut { whole: &process, from, to: from + 4096 }).unwrap();
    assert!(part.notes[0].contains("the table of call sites cannot be read"), "{:?}", part.notes);
    assert!(part.rows.iter().all(|row| row.size == 0 || row.share != Share::Exact));
    assert!(part.bytes > 100 * 300_000);
    drop(kept);
}
