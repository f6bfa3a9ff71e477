//! Unit tests of `src/lock.rs`, which use what is private to it.

use super::*;
use std::sync::atomic::AtomicU64;

#[test]
fn no_increment_is_lost_and_a_wait_is_seen() {
    let (lock, sum) = (Lock::new(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    let _held = lock.take();
                    sum.store(sum.load(Relaxed) + 1, Relaxed);
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), 40_000);
    assert!(!lock.take().contended);
}

#[test]
fn a_thread_that_waits_says_so() {
    let lock = Lock::new();
    let held = lock.take();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| lock.take().contended);
        while lock.word.load(Relaxed) != AWAITED {
            std::thread::yield_now();
        }
        drop(held);
        assert!(other.join().unwrap());
    });
}
