//! A program that has Toft built in, as its Rust allocator, is found and explained: by itself.

use toft_profile::{Error, Process, Rss};

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

const BLOCKS: u64 = 5_000;

#[inline(never)]
fn hoard() -> Vec<Vec<u8>> {
    (0..BLOCKS).map(|i| vec![i as u8; 700]).collect()
}

#[test]
fn a_program_with_toft_built_in_explains_itself() {
    let kept = hoard();
    let process = Process::open(std::process::id() as i32).unwrap();
    for one_by_one in [false, true] {
        if one_by_one {
            process.read_pages_one_by_one();
        }
        let rss = Rss::of(&process).unwrap();
        assert_eq!(rss.version, toft_core::VERSION);
        // Class 704. Nothing else here asks for that so often.
        let most = rss.account.pins.iter().map(|pin| pin.live_blocks).max().unwrap();
        assert!((BLOCKS..2 * BLOCKS).contains(&most), "{most}");
        assert!(rss.account.slabs.live >= BLOCKS * 704);
        let sum = rss.account.resident() + rss.others.sum();
        assert_eq!(rss.remainder(), rss.counts.rss as i64 - sum as i64);
        // Tests run beside this one, and it is this very process that reads.
        assert!(rss.remainder().unsigned_abs() < 1 << 20, "{}", rss.remainder());
        let mine = nix::unistd::gettid().as_raw();
        let heap = rss.holders.iter().position(|holder| *holder == Some(mine));
        assert!(rss.account.threads[heap.unwrap()].live_bytes >= BLOCKS * 704, "{:?}", rss.holders);
    }
    drop(kept);
}

#[test]
fn a_program_without_is_not_ours() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id() as i32;
    // Until the child has executed `sleep` it is a copy of this program.
    let answer = loop {
        let answer = Process::open(pid).and_then(|process| Rss::of(&process));
        if !matches!(answer, Ok(_) | Err(Error::Ended(_))) {
            break answer;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answer.unwrap_err(), Error::NotToft(pid));
}
