//! The extent of a verification: the whole heap, or as much as a time limit allows. It counts the
//! parts that were covered.

use core::cell::Cell;

/// The end of a verification, and the number of parts that it has covered. A part is a slab, a
/// large block or a quarantine, with its contents.
pub struct Extent<'a> {
    clock: Option<Clock<'a>>,
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
        Extent { clock: None, covered: Cell::new(0), left: Cell::new(0) }
    }

    /// Returns an extent that ends when the clock `now` shows `end`.
    pub fn until(now: &'a dyn Fn() -> u64, end: u64) -> Extent<'a> {
        Extent { clock: Some(Clock { now, end }), ..Extent::all() }
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
        let extent = Extent::until(&now, 3);
        assert_eq!([(); 5].map(|()| extent.covers()), [true, true, true, false, false]);
        assert_eq!(extent.figures(), (3, 5));
        assert!(Extent::all().covers());
    }
}
