//! The extent of a verification: the whole heap, or as much as a time limit allows, from a random
//! place on. It counts the parts that were covered.

use core::cell::Cell;

/// The end of a verification, and the number of parts that it has covered. A part is a slab, a
/// large block or a quarantine, with its contents.
pub struct Extent<'a> {
    clock: Option<Clock<'a>>,
    /// The share of the parts before the first one, in units of 2^-64.
    start: u64,
    covered: Cell<usize>,
    left: Cell<usize>,
}

struct Clock<'a> {
    now: &'a dyn Fn() -> u64,
    end: u64,
}

impl<'a> Extent<'a> {
    /// Returns an extent without a time limit.
    pub const fn all() -> Extent<'static> {
        Extent { clock: None, start: 0, covered: Cell::new(0), left: Cell::new(0) }
    }

    /// Returns an extent that ends when the clock `now` shows `end`. Its first part is a random one
    /// if `start` is a random number.
    pub fn until(now: &'a dyn Fn() -> u64, end: u64, start: u64) -> Extent<'a> {
        Extent { clock: Some(Clock { now, end }), start, ..Extent::all() }
    }

    /// Calls `each` with every part that `visit` visits: first those from the start on, then those
    /// before it. If another thread opens a part meanwhile, one part may be left out.
    pub fn visit<T>(&self, visit: impl Fn(&mut dyn FnMut(&T)), mut each: impl FnMut(&T)) {
        let mut count = 0;
        if self.start != 0 {
            visit(&mut |_| count += 1);
        }
        let first = ((u128::from(self.start) * count as u128) >> 64) as usize;
        let mut pass = |is_before: bool| {
            let mut number = 0;
            visit(&mut |part| {
                if (number < first) == is_before {
                    each(part);
                }
                number += 1;
            });
        };
        pass(false);
        if first != 0 {
            pass(true);
        }
    }

    /// Returns true if the verification may end before all is covered.
    pub fn is_bounded(&self) -> bool {
        self.clock.is_some()
    }

    /// Returns true if there is time for more.
    pub fn goes_on(&self) -> bool {
        self.clock.as_ref().is_none_or(|clock| (clock.now)() < clock.end)
    }

    /// Returns true if there is time for more, and counts one part as covered or as left.
    pub fn covers(&self) -> bool {
        let goes_on = self.goes_on();
        let count = if goes_on { &self.covered } else { &self.left };
        count.set(count.get() + 1);
        goes_on
    }

    /// Returns the number of parts covered, and the number of all parts.
    pub fn figures(&self) -> (usize, usize) {
        (self.covered.get(), self.covered.get() + self.left.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_one_covers_what_there_is_time_for() {
        let ticks = Cell::new(0);
        let now = || ticks.replace(ticks.get() + 1);
        let extent = Extent::until(&now, 3, 0);
        assert_eq!([(); 5].map(|()| extent.covers()), [true, true, true, false, false]);
        assert_eq!(extent.figures(), (3, 5));
        assert!(Extent::all().covers());
    }

    #[test]
    fn every_part_is_visited_once_from_any_start() {
        let parts = [0, 1, 2, 3, 4];
        for (start, first) in [(0, 0), (1, 0), (1 << 62, 1), (1 << 63, 2), (u64::MAX, 4)] {
            let seen = Cell::new((first, 0));
            let now = || 0;
            let each = |&part: &usize| {
                let (next, count) = seen.get();
                assert_eq!(part, next);
                seen.set(((next + 1) % parts.len(), count + 1));
            };
            let visit = |each: &mut dyn FnMut(&usize)| parts.iter().for_each(each);
            Extent::until(&now, 1, start).visit(visit, each);
            assert_eq!(seen.get(), (first, parts.len()));
        }
    }
}
