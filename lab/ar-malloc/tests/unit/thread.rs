//! Unit tests of `src/thread.rs`, which use what is private to it.

use super::*;

#[test]
fn threads_are_dealt_in_turn_and_a_record_is_used_again() {
    let threads = Threads::new();
    let four = [(); 4].map(|()| threads.enter(3).unwrap());
    assert_eq!(four.map(Thread::arena), [0, 1, 2, 0]);
    four[1].counts.locks.add_one();
    threads.leave(four[1]);
    let again = threads.enter(3).unwrap();
    assert!(std::ptr::eq(again, four[1]));
    assert_eq!(again.arena(), 1);
    assert_eq!(threads.sums().0.locks, 1);
}
