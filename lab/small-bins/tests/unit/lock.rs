//! Unit tests of `src/lock.rs`, which use what is private to it.

use super::*;
use std::cell::UnsafeCell;

/// Two additions at once would lose one.
#[test]
fn threads_take_turns() {
    struct Shared(Lock, UnsafeCell<u64>);
    // SAFETY: the number is used under the lock.
    unsafe impl Sync for Shared {}
    let shared = Shared(Lock::new(), UnsafeCell::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let shared = &shared;
                for _ in 0..20_000 {
                    // SAFETY: the lock is held.
                    shared.0.with(|| unsafe { *shared.1.get() += 1 });
                }
            });
        }
    });
    assert_eq!(shared.1.into_inner(), 80_000);
}
