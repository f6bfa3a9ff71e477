//! Tests of the numbers of sites, alone and while threads compete for them, and of a full table.

use super::*;
use crate::os::fake::{Fake, Machine};
use crate::region::{Partition, Site};

fn table(partitions: usize, bytes: usize) -> (Fake, Sites) {
    let fake = Fake::new(Machine::LARGE);
    let tables = fake.address_space().start.next_multiple_of(1 << 40);
    fake.map(tables, 4096).unwrap();
    let start = tables + (1 << 30);
    // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
    let sites = unsafe { Sites::new((start, start + bytes), partitions, 0x1234_5679, tables) };
    (fake, sites)
}

fn number(sites: &Sites, fake: &Fake, site: usize) -> usize {
    sites.number(fake, Site::at(site), || None)
}

#[test]
fn each_site_has_a_partition_of_its_own_until_they_are_used_up() {
    let (fake, sites) = table(256, 1 << 24);
    let own = 256 - 1 - 4;
    let mut seen = std::collections::HashSet::new();
    for i in 0..own {
        let number = number(&sites, &fake, 0x5555_0000_0000 + 16 * i);
        assert!((5..256).contains(&number) && seen.insert(number), "{i}: {number}");
    }
    assert_eq!((sites.counts(), sites.rows(256)), ((own, 0), 256));
    // No later site has one of these.
    let mut shared = std::collections::HashSet::new();
    for i in 0..1000 {
        let number = number(&sites, &fake, 0x6666_0000_0000 + 16 * i);
        assert!((1..5).contains(&number));
        shared.insert(number);
    }
    assert_eq!((shared.len(), sites.counts()), (4, (own, 1000)));
    // All earlier sites still have theirs.
    for i in 0..own {
        assert_eq!(number(&sites, &fake, 0x5555_0000_0000 + 16 * i), 5 + i);
    }
    assert_eq!(sites.counts(), (own, 1000));
    sites.check().unwrap();
}

#[test]
fn it_grows_as_far_as_there_is_room_and_says_what_it_could_not_keep() {
    let (fake, sites) = table(4096, 7 * FIRST * size_of::<Entry>());
    assert_eq!(sites.levels, 3);
    let count = |limit: usize| {
        for i in 0..limit {
            number(&sites, &fake, 0x7000_0000_0000 + 5 * i);
        }
    };
    count(6 * FIRST);
    let full = sites.counts();
    assert_eq!(full.0 + full.1 + sites.state().unknown.load(Relaxed) as usize, 6 * FIRST);
    count(100_000);
    let full = sites.counts();
    assert!(full.0 + full.1 <= 7 * FIRST && full.0 + full.1 > 6 * FIRST, "{full:?}");
    assert!(sites.state().unknown.load(Relaxed) > 90_000);
    sites.check().unwrap();
}

#[test]
fn threads_that_bring_the_same_sites_agree() {
    let (fake, sites) = table(4096, 1 << 24);
    let all: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let run = || (0..3000).map(|i| number(&sites, &fake, 0x5000 + 4 * i)).collect();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // A thread does not wait for another one that was stopped while it mapped a level. It shares a
    // partition that time.
    let mut shared = 0;
    for site in 0..3000 {
        let own = number(&sites, &fake, 0x5000 + 4 * site);
        for other in all.iter().map(|numbers| numbers[site]).filter(|&other| other != own) {
            assert_eq!(other, sites.shared_number(Site::at(0x5000 + 4 * site)));
            shared += 1;
        }
    }
    assert!(shared <= sites.state().unknown.load(Relaxed), "{shared}");
    sites.check().unwrap();
}

#[test]
fn tokens_are_sites_that_no_code_has() {
    let tokens = [0, 1, 2, 0x5555_5555_4000, (1 << 47) - 1, 1 << 47, u64::MAX];
    let keys: std::collections::HashSet<u64> =
        tokens.iter().map(|&token| key_of(Site::of_token(token))).collect();
    assert_eq!(keys.len(), tokens.len());
    assert!(tokens.iter().all(|&token| key_of(Site::of_token(token)) >> 63 == 1));
    assert_ne!(key_of(Site::at(0x5555_5555_4000)), key_of(Site::of_token(0x5555_5555_4000)));
    for token in [0, 17, (1 << 47) - 1] {
        assert_eq!(Site::of_token(token).token(), Some(token));
    }
    assert!(Site::of_token(u64::MAX).token().is_some_and(|token| token < 1 << 47));
    assert_eq!([0x5555_5555_4000, 1 << 63, 1 << 47].map(|site| Site::at(site).token()), [None; 3]);
}

#[test]
fn sites_of_wrappers_take_no_partition() {
    let (fake, sites) = table(64, 1 << 24);
    let code = sites.number(&fake, Site::at(0x1000), || Some(STEP_FIRST + 5));
    assert_eq!((code, sites.counts(), sites.rows(64)), (STEP_FIRST + 5, (0, 0), 2));
    assert_eq!(sites.number(&fake, Site::at(0x1000), || panic!("it is known")), STEP_FIRST + 5);
    assert_eq!(number(&sites, &fake, 0x2000), 2);
    sites.check().unwrap();
}

#[test]
fn a_wrapper_s_site_becomes_an_ordinary_one() {
    let (fake, sites) = table(64, 1 << 24);
    assert_eq!((number(&sites, &fake, 0x1000), sites.find(Site::at(0x2000))), (2, None));
    let site = Site::at(0x2000);
    sites.number(&fake, site, || Some(STEP_FIRST + 5));
    let known = sites.find(site).unwrap();
    assert!(sites.turn_back(known, site));
    assert!(!sites.turn_back(known, site), "another was faster");
    assert_eq!((number(&sites, &fake, 0x2000), number(&sites, &fake, 0x3000)), (3, 4));
    sites.check().unwrap();
}

#[test]
fn sites_of_a_group_share_one_and_no_other_has_it() {
    let (fake, sites) = table(64, 1 << 24);
    sites.reserve(3);
    let group = |group, site| {
        let site = Site::at(site);
        sites.number(&fake, site, || Some(sites.group_number(group, site)))
    };
    let shared = [group(0, 0x1000), group(2, 0x2000), group(0, 0x3000), group(2, 0x2000)];
    assert_eq!((shared, sites.counts(), sites.grouped()), ([2, 4, 2, 4], (0, 0), 3));
    let own: std::collections::HashSet<usize> =
        (0..60).map(|i| number(&sites, &fake, 0x5000 + 16 * i)).collect();
    // Number 0 is unowned, late sites share number 1, and groups have three.
    assert!(own.contains(&1) && own.contains(&5) && own.contains(&63) && own.len() == 60);
    assert!((2..5).all(|number| !own.contains(&number)));
    // A number that sites share by a hint is no site's own.
    let is_own = |number| sites.is_own(Partition::new(number));
    assert!((0..5).all(|number| !is_own(number)) && is_own(5));
    assert_eq!((sites.counts(), sites.places().first_own), ((59, 1), 5));
    sites.check().unwrap();
    // A group without a number shares with late sites.
    assert_eq!(group(3, 0x9000), 1);
    assert_eq!((sites.counts(), sites.grouped()), ((59, 2), 3));
    sites.check().unwrap();
    sites.state().grouped.store(4, Relaxed);
    assert!(sites.check().unwrap_err().contains("T3"));
}

#[test]
fn threads_that_bring_the_same_sites_of_groups_take_nothing_back() {
    let (fake, sites) = table(4096, 1 << 24);
    sites.reserve(1);
    std::thread::scope(|scope| {
        let run = || {
            for site in (0..3000).map(|i| Site::at(0x5000 + 4 * i)) {
                sites.number(&fake, site, || Some(sites.group_number(0, site)));
            }
        };
        (0..4).for_each(|_| {
            scope.spawn(run);
        });
    });
    // Adds the sites that no thread could add, because another one was stopped while it mapped a
    // level.
    for site in (0..3000).map(|i| Site::at(0x5000 + 4 * i)) {
        sites.number(&fake, site, || Some(sites.group_number(0, site)));
    }
    assert_eq!((sites.counts(), sites.grouped()), ((0, 0), 3000));
    assert_eq!(number(&sites, &fake, 0x1), 1 + 64 + 1);
    sites.check().unwrap();
}

#[test]
fn a_table_without_memory_shares_for_now() {
    let (fake, sites) = table(4096, 0);
    assert!((1..65).contains(&number(&sites, &fake, 0x1234)));
    assert_eq!((sites.counts(), sites.levels), ((0, 0), 0));
}
