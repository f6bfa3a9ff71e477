//! Tests on the running kernel. If the kernel cannot stop writers, the tests report that and leave
//! out what needs it.

extern crate std;

use super::*;
use crate::os::process::thread_number;
use crate::sync::{AtomicU64, Ordering::SeqCst};
use std::vec::Vec;

const LEN: usize = 64 << 10;

fn private(len: usize) -> usize {
    let both = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: (1) a new mapping.
    unsafe { call(libc::SYS_mmap, [0, len, both, kind, usize::MAX, 0]) }.unwrap()
}

fn word(address: usize) -> &'static AtomicU64 {
    // SAFETY: mappings of these tests are never unmapped.
    unsafe { &*core::ptr::with_exposed_provenance(address) }
}

fn copy(from: usize, to: usize, len: usize) {
    let (from, to) = (
        core::ptr::with_exposed_provenance::<u8>(from),
        core::ptr::with_exposed_provenance_mut::<u8>(to),
    );
    // SAFETY: mapped, and without overlap.
    unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
}

#[test]
fn threads_are_counted() {
    let (before, filter) = threads_and_filter().unwrap();
    assert!(before >= 1 && !filter);
    let (say, hear) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let now = threads_and_filter().unwrap().0;
        hear.recv().unwrap();
        (now, thread_number())
    });
    say.send(()).unwrap();
    assert!(thread.join().unwrap().0 >= 2);
}

/// Two ranges become views of one store, are written to through either, and become private again.
#[test]
fn ranges_share_a_store_and_part() {
    let kept = AtomicU32::new(0);
    let (a, b) = (private(LEN), private(LEN));
    word(a).store(1, SeqCst);
    word(b + 8).store(2, SeqCst);
    let mut sharing = Sharing::begin(Some(u32::MAX), &kept, LEN).unwrap();
    // SAFETY: the ranges are this test's.
    unsafe {
        sharing.move_to_store(0, a, LEN, |to| copy(a, to, 8)).unwrap();
        sharing.join(a, b, LEN, |to| copy(b + 8, to + 8, 8)).unwrap();
    }
    sharing.end();
    assert_eq!((word(a).load(SeqCst), word(a + 8).load(SeqCst)), (1, 2));
    word(b + 4096).store(3, SeqCst);
    assert_eq!(word(a + 4096).load(SeqCst), 3);
    // SAFETY: the ranges are this test's.
    unsafe { empty(b + 4096, 4096).unwrap() };
    assert_eq!(word(a + 4096).load(SeqCst), 0);
    let mut sharing = Sharing::begin(Some(u32::MAX), &kept, 0).unwrap();
    // SAFETY: the ranges are this test's.
    unsafe {
        sharing.make_private(a, LEN, |to| copy(a, to, 8)).unwrap();
        renew(b, 4096).unwrap();
    }
    sharing.end();
    assert_eq!(
        (word(a).load(SeqCst), word(a + 8).load(SeqCst), word(b + 8).load(SeqCst)),
        (1, 0, 0)
    );
    word(a).store(7, SeqCst);
    assert_eq!(word(b).load(SeqCst), 0);
    assert_eq!(kept.load(SeqCst), 0, "no descriptor where there are no writers");
}

/// No write is lost while a range moves to a store and back again many times. This includes writes
/// to pages that were never touched before.
#[test]
fn no_write_is_lost_on_the_way() {
    let kept = AtomicU32::new(0);
    match Sharing::begin(None, &kept, 0) {
        Ok(mut sharing) => sharing.end(),
        Err(_) => return std::eprintln!("left out: this system lets us stop no writers"),
    }
    let at = private(LEN);
    let words: Vec<usize> = (0..LEN / 4096).map(|page| at + page * 4096 + 8 * page).collect();
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|half| {
                let (words, done) = (&words, &done);
                scope.spawn(move || {
                    let mut rounds = 0;
                    while done.load(SeqCst) == 0 || rounds == 0 {
                        for &place in words.iter().skip(half).step_by(2) {
                            let before = word(place).fetch_add(1, SeqCst);
                            assert_eq!(before, rounds, "a write was lost");
                        }
                        rounds += 1;
                    }
                    rounds
                })
            })
            .collect();
        for _ in 0..300 {
            let mut sharing = Sharing::begin(None, &kept, LEN).unwrap();
            // SAFETY: the range is this test's, and all of it is copied.
            unsafe {
                sharing.move_to_store(0, at, LEN, |to| copy(at, to, LEN)).unwrap();
                sharing.make_private(at, LEN, |to| copy(at, to, LEN)).unwrap();
            }
            sharing.end();
        }
        done.store(1, SeqCst);
        for writer in writers {
            assert!(writer.join().unwrap() > 1);
        }
    });
    forget(&kept);
    assert_eq!(kept.load(SeqCst), 0);
}

/// A descriptor that the program has closed is replaced.
#[test]
fn a_lost_descriptor_is_made_anew() {
    let kept = AtomicU32::new(0);
    let Ok(first) = watch(&kept) else { return };
    assert!(first as usize >= DESCRIPTOR_LEAST);
    assert_eq!(watch(&kept), Ok(first), "kept");
    process::close(first);
    assert!(userfaultfd::is_open(watch(&kept).unwrap()));
    forget(&kept);
}
