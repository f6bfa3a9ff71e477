//! The check that all engines have the same result: the named pages are gone, and no others.

use super::area::Area;
use super::engine::{Engine, Kind, Piece};

/// The engines that this kernel does not have, with the reasons.
pub type Refused = Vec<(Kind, String)>;

/// What one engine has left of an area.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    /// For each piece, whether its release was confirmed.
    done: Vec<bool>,
    /// For each page, whether it is resident, and whether it then reads as zero.
    resident: Vec<bool>,
    zero: Vec<bool>,
}

/// Releases the same pieces by each engine. Returns the engines that are refused here. Fails if the
/// results of two engines differ, or are not the pages that were named.
pub fn check() -> Result<Refused, String> {
    let mut refused = Vec::new();
    for kind in Kind::ALL {
        let mut engine = match Engine::new(kind) {
            Ok(engine) => engine,
            Err(why) => {
                println!("{} is left out: {why}", kind.name());
                refused.push((kind, why));
                continue;
            }
        };
        let (left, named) = outcome(&mut engine, &|_, _| ())?;
        let expected = named.iter().map(|named| !named).collect::<Vec<bool>>();
        if left.resident != expected || left.zero != named || left.done.contains(&false) {
            return Err(format!("{} has not released what was named: {left:?}", kind.name()));
        }
    }
    Ok(refused)
}

/// Releases pieces of 1 to 3 pages, more of them than one call takes, between pages that stay.
/// `prepare` may change the area first. Returns what is left, and for each page whether it was
/// named.
fn outcome(
    engine: &mut Engine,
    prepare: &dyn Fn(&Area, &[Piece]),
) -> Result<(Left, Vec<bool>), String> {
    const PIECES: usize = 150;
    let area = Area::new(PIECES * 4);
    (0..area.pages()).for_each(|page| area.touch(page));
    let mut pieces: Vec<Piece> = (0..PIECES)
        .map(|number| Piece { address: area.at(4 * number), pages: 1 + number % 3, done: true })
        .collect();
    let mut named = vec![false; area.pages()];
    for piece in &pieces {
        let first = area.page_of(piece.address);
        named[first..first + piece.pages].fill(true);
    }
    prepare(&area, &pieces);
    // SAFETY: (1) pages of the area, which no other thread knows.
    unsafe { engine.release(&mut pieces) }.map_err(|code| format!("release: error {code}"))?;
    // A hole cannot be read.
    let whole = pieces.iter().all(|piece| piece.done);
    let resident = if whole { area.resident() } else { Vec::new() };
    let zero = (0..resident.len()).map(|page| area.is_zero(page)).collect();
    Ok((Left { done: pieces.iter().map(|piece| piece.done).collect(), resident, zero }, named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::area::PAGE;

    fn engines() -> impl Iterator<Item = Engine> {
        Kind::ALL.into_iter().filter_map(|kind| match Engine::new(kind) {
            Ok(engine) => Some(engine),
            Err(why) => {
                eprintln!("not tested here: {why}");
                None
            }
        })
    }

    #[test]
    fn every_engine_releases_the_named_pages_and_no_others() {
        let refused = check().unwrap();
        assert!(refused.iter().all(|(kind, _)| *kind != Kind::Madvise), "{refused:?}");
    }

    /// In a child, because another thread could map memory in the holes.
    #[test]
    fn a_piece_that_is_not_mapped_is_the_only_one_not_done() {
        for number in [0, 63, 64, 149] {
            for mut engine in engines() {
                in_child(|| {
                    let hole = |area: &Area, pieces: &[Piece]| {
                        let first = area.page_of(pieces[number].address);
                        (first..first + pieces[number].pages).for_each(|page| area.cut(page));
                    };
                    let (left, _) = outcome(&mut engine, &hole).unwrap();
                    let failed: Vec<usize> = (0..150).filter(|&at| !left.done[at]).collect();
                    failed == [number]
                });
            }
        }
    }

    #[test]
    fn released_pages_read_as_zero_and_their_neighbours_do_not() {
        for mut engine in engines() {
            let area = Area::new(3);
            (0..3).for_each(|page| area.touch(page));
            let mut pieces = [Piece { address: area.at(1), pages: 1, done: false }];
            // SAFETY: (1) a page of the area, which no other thread knows.
            unsafe { engine.release(&mut pieces) }.unwrap();
            assert!(pieces[0].done);
            assert_eq!([0, 1, 2].map(|page| area.is_zero(page)), [false, true, false]);
        }
    }

    #[test]
    fn a_batch_is_one_call_of_the_two_that_take_lists() {
        for mut engine in engines() {
            let area = Area::new(128);
            let piece = |page: usize| Piece { address: area.at(2 * page), pages: 1, done: false };
            let mut pieces: Vec<Piece> = (0..64).map(piece).collect();
            let before = engine.calls();
            // SAFETY: (1) pages of the area, which no other thread knows.
            unsafe { engine.release(&mut pieces) }.unwrap();
            let calls = engine.calls() - before;
            match engine.kind() {
                Kind::Madvise => assert_eq!(calls, 64),
                // Kernels before 6.14 need a descriptor, which is opened and closed.
                Kind::ProcessMadvise => assert!(calls == 1 || calls == 4, "{calls}"),
                // The kernel may return before the last request is complete.
                Kind::IoUring => assert!((1..64).contains(&calls), "{calls}"),
            }
        }
    }

    fn in_child(test: impl FnOnce() -> bool) {
        // SAFETY: the child runs the test alone, and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(20);
                let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
                libc::_exit(i32::from(!passed.unwrap_or(false)));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(status, 0, "in the child");
        }
    }

    #[test]
    fn pages_have_the_size_that_the_kernel_says() {
        // SAFETY: no effect.
        assert_eq!(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }, PAGE as i64);
    }
}
