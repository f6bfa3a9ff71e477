//! Call sites of a real process, as the reader sees them from outside.

use toft_profile::{Process, Tables, find};

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

#[inline(never)]
fn hoard(bytes: usize) -> Vec<Vec<u8>> {
    (0..100).map(|_| Vec::with_capacity(bytes)).collect()
}

/// Runs itself again, because a process reads its options when it starts.
#[test]
fn each_slab_s_site_is_the_site_of_its_partition() {
    const NAME: &str = "each_slab_s_site_is_the_site_of_its_partition";
    if std::env::var_os("TOFT_SITES").is_none() {
        let program = std::env::current_exe().unwrap();
        let mut again = std::process::Command::new(program);
        let status = again.args([NAME, "--exact"]).env("TOFT_SITES", "exact").status().unwrap();
        assert!(status.success());
        let process = Process::open(std::process::id() as i32).unwrap();
        let tables = Tables { root: find(&process).unwrap().root };
        assert!(toft::policy::HARDENED || !tables.sites_are_exact());
        return;
    }
    let kept = (hoard(100), hoard(5000), hoard(300_000));
    let process = Process::open(std::process::id() as i32).unwrap();
    let tables = Tables { root: find(&process).unwrap().root };
    assert!(tables.sites_are_exact());
    let sites = tables.sites(&process).unwrap();
    // All of Rust's own calls come from one function in a debug build; libc and the test have others.
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
    drop(kept);
}
