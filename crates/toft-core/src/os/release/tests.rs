//! Tests of every method on real memory.

use super::super::filter::Filter;
use super::super::{Linux, Memory};
use super::*;
use crate::os::seccomp::Calls;
use proptest::prelude::*;
use std::vec::Vec;

const PAGE: usize = 4096;

/// Memory of a test.
struct Area {
    start: usize,
    len: usize,
}

fn map(bytes: usize) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory, at any place.
    let start = unsafe { libc::mmap(core::ptr::null_mut(), bytes, access, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start.expose_provenance()
}

fn unmap(address: usize, bytes: usize) {
    // SAFETY: memory of `map`, which its test does not use any more.
    unsafe { libc::munmap(core::ptr::with_exposed_provenance_mut(address), bytes) };
}

impl Area {
    fn of(pages: usize) -> Area {
        Area { start: map(pages * PAGE), len: pages * PAGE }
    }

    fn at(&self, page: usize) -> usize {
        self.start + page * PAGE
    }

    fn piece(&self, page: usize, pages: usize) -> Piece {
        Piece::new(self.at(page), pages * PAGE)
    }

    fn bytes(&self, page: usize) -> &'static mut [u8] {
        let start: *mut u8 = core::ptr::with_exposed_provenance_mut(self.at(page));
        // SAFETY: tests pass mapped pages, one slice at a time.
        unsafe { core::slice::from_raw_parts_mut(start, PAGE) }
    }

    fn soil(&self) {
        (0..self.len / PAGE).for_each(|page| self.bytes(page).fill(page as u8 | 1));
    }

    /// Returns true if the page is zero. Panics if it is neither zero nor unchanged since `soil`.
    fn is_zero(&self, page: usize) -> bool {
        let bytes = self.bytes(page);
        let first = bytes[0];
        assert!(bytes.iter().all(|&byte| byte == first), "page {page} is mixed");
        assert!(first == 0 || first == page as u8 | 1, "page {page} is {first}");
        first == 0
    }

    /// Unmaps a page. Use it only if no other thread could map the same page.
    fn unmap(&self, page: usize) {
        unmap(self.at(page), PAGE);
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        unmap(self.start, self.len);
    }
}

fn filter() -> Filter {
    let filter = Filter::new();
    filter.watch();
    filter
}

/// Runs a test once for each method that can be used here.
fn each_method(mut test: impl FnMut(Method, &mut dyn FnMut(&mut [Piece]) -> Method)) {
    let filter = filter();
    let os = Linux::detect();
    let permit = filter.permit(&os, Calls::NONE, false);
    if permit.is_none() {
        std::eprintln!("only madvise is tested: this process runs under a filter of system calls");
    } else if !has_vector() {
        std::eprintln!("only madvise is tested: the kernel refuses the other way");
    }
    for method in [Method::Plain, Method::Vector] {
        if method == Method::Vector && (permit.is_none() || !has_vector()) {
            continue;
        }
        let mut release = Release { method };
        test(method, &mut |pieces| {
            // SAFETY: (1) the test's own memory, or unmapped.
            unsafe { os.discard_all(&mut release, pieces, permit.as_ref()) };
            release.method
        });
    }
}

/// Returns true if the kernel supports `process_madvise` for memory that must become zero.
fn has_vector() -> bool {
    let area = Area::of(1);
    // SAFETY: (1) (2) the test's own memory.
    unsafe { vector::discard_all(PAGE, &mut [area.piece(0, 1)]) }.is_ok()
}

/// Runs `test` in the child of a fork, which has no other thread.
fn in_child(test: impl FnOnce() -> bool) {
    // SAFETY: the child only runs the test, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            // The message of a failure may need a lock that a thread of the parent held.
            libc::alarm(10);
            let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
            libc::_exit(i32::from(!passed.unwrap_or(false)));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "in the child");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        max_shrink_iters: 3,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Ranges of any lengths, separate and adjacent, more of them than one call takes.
    #[test]
    fn exactly_the_named_pages_are_zero(
        lengths in prop::collection::vec((0usize..3, 1usize..4), 0..300),
        reversed: bool,
    ) {
        let pages = lengths.iter().map(|(gap, len)| gap + len).sum::<usize>() + 1;
        let area = Area::of(pages);
        each_method(|method, discard_all| {
            area.soil();
            let (mut pieces, mut named, mut page) = (Vec::new(), Vec::new(), 0);
            for &(gap, len) in &lengths {
                page += gap;
                pieces.push(area.piece(page, len));
                named.extend(page..page + len);
                page += len;
            }
            if reversed {
                pieces.reverse();
            }
            assert_eq!(discard_all(&mut pieces), method, "it has given up");
            assert!(pieces.iter().all(|piece| piece.done), "{method:?}");
            for page in 0..pages {
                assert_eq!(area.is_zero(page), named.binary_search(&page).is_ok(), "{method:?} {page}");
            }
        });
    }

    /// Any piece may be unmapped memory. Such pieces are not done, and all others are.
    #[test]
    fn what_is_not_mapped_is_not_done(holes in prop::collection::vec(prop::bool::weighted(0.2), 1..150)) {
        in_child(|| {
            each_method(|method, discard_all| {
                let area = Area::of(2 * holes.len());
                area.soil();
                for (number, _) in holes.iter().enumerate().filter(|(_, hole)| **hole) {
                    area.unmap(2 * number);
                }
                let mut pieces: Vec<_> = (0..holes.len()).map(|number| area.piece(2 * number, 1)).collect();
                assert_eq!(discard_all(&mut pieces), method, "it has given up");
                for (number, &hole) in holes.iter().enumerate() {
                    assert_eq!(pieces[number].done, !hole, "{method:?} {number}");
                    assert!(hole || area.is_zero(2 * number));
                    assert!(!area.is_zero(2 * number + 1));
                }
            });
            true
        });
    }
}

#[test]
fn what_is_not_whole_pages_is_left_alone() {
    each_method(|method, discard_all| {
        let area = Area::of(8);
        area.soil();
        let mut pieces = [
            area.piece(0, 1),
            // The kernel would round this up to the whole page.
            Piece::new(area.at(1), PAGE - 1),
            Piece::new(area.at(2) + 1, PAGE),
            Piece::new(area.at(3), 0),
            Piece::new(0usize.wrapping_sub(PAGE), 2 * PAGE),
            area.piece(7, 1),
        ];
        assert_eq!(discard_all(&mut pieces), method);
        assert_eq!(pieces.map(|piece| piece.done), [true, false, false, false, false, true]);
        let zero: Vec<_> = (0..8).filter(|&page| area.is_zero(page)).collect();
        assert_eq!(zero, [0, 7], "{method:?}");
    });
}

#[test]
fn a_piece_may_be_larger_than_any_call_takes() {
    const PAGES: usize = (5 << 30) / PAGE;
    let area = Area::of(PAGES + 8);
    each_method(|method, discard_all| {
        // Pieces of 5 GiB, of 1 GiB, and of 1 GiB and a page. One call takes them with no or few
        // others.
        for (first, len) in [(1, PAGES), (1, PAGES / 5), (1, PAGES / 5 + 1)] {
            let ends = [0, 1, len, len + 1, len + 2];
            ends.iter().for_each(|&page| area.bytes(page).fill(page as u8 | 1));
            let mut pieces = [area.piece(first, len), area.piece(len + 2, 1)];
            assert_eq!(discard_all(&mut pieces), method);
            assert!(pieces.iter().all(|piece| piece.done), "{method:?} {len}");
            assert_eq!(
                ends.map(|page| area.is_zero(page)),
                [false, true, true, false, true],
                "{method:?}"
            );
            ends.iter().for_each(|&page| area.bytes(page).fill(0));
        }
    });
}

#[test]
fn an_old_answer_does_not_count() {
    in_child(|| {
        each_method(|_, discard_all| {
            let area = Area::of(2);
            area.unmap(1);
            let mut pieces = [Piece { done: true, ..area.piece(1, 1) }, area.piece(0, 1)];
            discard_all(&mut pieces);
            assert_eq!(pieces.map(|piece| piece.done), [false, true]);
            discard_all(&mut []);
        });
        true
    });
}

#[test]
fn without_a_permit_only_madvise_is_called() {
    in_child(|| {
        let area = Area::of(1);
        area.soil();
        let mut release = Release::new();
        let mut pieces = [area.piece(0, 1)];
        // A call that is refused would change the method.
        let refused = refuse(libc::EPERM);
        // SAFETY: (1) (2) the test's own memory.
        unsafe { release.discard_all(PAGE, &mut pieces, None) };
        // There may be a permit the next time, so the method stays.
        refused && pieces[0].done && area.is_zero(0) && release.method == Method::Vector
    });
}

/// Releases one page. Returns true if only that page is zero and marked as done.
fn works(release: &mut Release, permit: &Permit<'_>) -> bool {
    let area = Area::of(3);
    area.soil();
    let mut pieces = [area.piece(1, 1)];
    // SAFETY: (1) (2) the test's own memory.
    unsafe { release.discard_all(PAGE, &mut pieces, Some(permit)) };
    pieces[0].done && [0, 1, 2].map(|page| area.is_zero(page)) == [false, true, false]
}

#[test]
fn no_descriptor_stays_open() {
    let open = || {
        // SAFETY: only a query.
        let is_open = |number: &i32| unsafe { libc::fcntl(*number, libc::F_GETFD) } >= 0;
        (0..200).filter(is_open).count()
    };
    each_method(|method, discard_all| {
        // This uses a child, because other tests open files.
        in_child(|| {
            let before = open();
            let area = Area::of(2);
            area.soil();
            let mut pieces = [area.piece(0, 1)];
            discard_all(&mut pieces) == method && pieces[0].done && open() == before
        });
    });
}

/// Makes the kernel refuse `process_madvise` with this code from now on.
fn refuse(code: i32) -> bool {
    let step =
        |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, k, jt, jf };
    let is = |number: i64, skip: u8| step(libc::BPF_JMP | libc::BPF_JEQ, number as u32, skip, 0);
    let give = |what: u32| step(libc::BPF_RET, what, 0, 0);
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        is(libc::SYS_process_madvise, 1),
        give(libc::SECCOMP_RET_ALLOW),
        give(libc::SECCOMP_RET_ERRNO | code as u32),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel reads the program.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    }
}

#[test]
fn where_the_kernel_refuses_it_is_done_by_madvise() {
    for code in [libc::EPERM, libc::ENOSYS, libc::EINVAL] {
        in_child(|| {
            let filter = filter();
            let Some(permit) = filter.permit(&Linux::detect(), Calls::NONE, false) else {
                return true;
            };
            let mut release = Release::new();
            refuse(code) && works(&mut release, &permit) && release.method == Method::Plain
        });
    }
}
