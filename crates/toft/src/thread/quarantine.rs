//! The quarantine of one heap: what its thread has freed and what is not free yet.
//!
//! ```text
//! for each class   line[l + b - 1]  what comes stands in line
//!                  random[r]        the b oldest of a full line take the places of as many of these, by a throw of dice
//!                                   each; and those leave, together
//! ```
//!
//! `l` is what 16 KiB hold, but 1024 at most: so many more blocks of its class does a block see freed before it leaves,
//! at least. Of up to 256 bytes `r` is 96: how long a block stays there then has 8 bits of entropy. Of more it is what
//! 8 KiB hold, four at least where 16 KiB hold them. Both are one at least, so no block is free at once. `b` is what
//! 4 KiB hold, 32 at most and one at least: so often does a free do more than to write a word, and then it does it for so
//! many, whose slabs are fetched side by side. All places together hold [`Quarantine::BYTES_MOST`] bytes of blocks, and
//! `TOFT_QUARANTINE` makes them fewer in proportion.
//!
//! An entry is a word of the caller's that is not zero. The holder of the heap uses the places with its
//! seat, but for the usual way, which writes to an empty place that it has taken by one instruction. Another thread may
//! empty them where it has *shut* the quarantine first, has made every thread pass
//! a barrier, and has seen the seat empty then: whoever sits down later finds it shut, and goes another
//! way. So the usual way takes no atomic. Whoever empties it shuts it, its holder as well: it is emptied by one at a time.

use crate::harden::Dice;
use crate::policy::QUARANTINE;
use crate::slab::{CLASSES, Class};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU16, AtomicU32, AtomicUsize, Seat, compiler_fence};
use core::mem::MaybeUninit;

/// Bytes of blocks of a class that stand in line.
const PART: usize = 16 << 10;
/// Blocks of up to so many bytes stay for a time of 8 bits of entropy.
const SMALLEST: usize = 256;
/// So many that how long a block stays has 8 bits of entropy: a geometric distribution with this mean.
const RANDOM_OF_SMALLEST: usize = 96;
/// Bytes of larger blocks at random places, and the fewest places, if 16 KiB hold as many.
const RANDOM_PART: usize = 8 << 10;
const RANDOM_LEAST: usize = 4;
const LINE_MOST: usize = 1024;
/// Bytes of blocks that leave the line together, and the most blocks.
const TOGETHER: usize = 4 << 10;
const TOGETHER_MOST: usize = 32;

/// Where the places of a class are.
#[derive(Clone, Copy, Debug)]
struct Shape {
    first: u16,
    random: u16,
    line: u16,
    together: u16,
}

/// The shape of every class, how many places there are, and bytes of blocks in all of them.
const LAYOUT: ([Shape; CLASSES], usize, usize) = {
    let mut shapes = [Shape { first: 0, random: 0, line: 0, together: 0 }; CLASSES];
    let (mut places, mut bytes, mut class) = (0, 0, 0);
    while class < CLASSES {
        let size = Class::size_of(class);
        let fit = if PART / size == 0 { 1 } else { PART / size };
        let random = match size {
            ..=SMALLEST => RANDOM_OF_SMALLEST,
            _ if RANDOM_PART / size > RANDOM_LEAST => RANDOM_PART / size,
            _ if fit < RANDOM_LEAST => fit,
            _ => RANDOM_LEAST,
        };
        let line = if fit < LINE_MOST { fit } else { LINE_MOST };
        let together = together(TOGETHER / size);
        shapes[class] = Shape {
            first: places as u16,
            random: random as u16,
            line: line as u16,
            together: together as u16,
        };
        places += random + line + together - 1;
        bytes += (random + line + together - 1) * size;
        class += 1;
    }
    assert!(places <= u16::MAX as usize);
    (shapes, places, bytes)
};

const fn together(fit: usize) -> usize {
    match fit {
        0 => 1,
        1..=TOGETHER_MOST => fit,
        _ => TOGETHER_MOST,
    }
}

static SHAPES: [Shape; CLASSES] = LAYOUT.0;

/// All shares are of this many.
pub(crate) const WHOLE: usize = 1 << 16;

/// What is needed of a class at each free. Holder of the heap. All zero until the class is first asked for; and for
/// ever, where nothing of it stands in line.
#[derive(Debug)]
#[repr(C, align(32))]
struct Row {
    /// The address of the place of who comes next, and of the one at which others must leave before that.
    next: AtomicUsize,
    stop: AtomicUsize,
    /// Where the line begins, and where it ends: places by their numbers.
    begin: AtomicU16,
    end: AtomicU16,
    /// How many leave the line together.
    together: AtomicU16,
    /// The first of the places at random, which come before the line, and how many there are.
    first: AtomicU16,
    random: AtomicU16,
}

/// Lies behind a heap's bins, zero at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Quarantine {
    /// Not zero while another thread empties it. Any thread, by exchange.
    shut: AtomicU32,
    rows: [Row; CLASSES],
    /// Entries, or zero. Holder of the heap; or who has shut it.
    places: [AtomicUsize; LAYOUT.1],
}

/// What leaves together.
#[derive(Debug)]
pub(crate) struct Leaving {
    entries: MaybeUninit<[usize; TOGETHER_MOST]>,
    /// How many of the entries there are. What lies behind them nobody has written.
    count: usize,
}

impl Leaving {
    #[inline(always)]
    pub(crate) fn nothing() -> Leaving {
        let mut leaving = MaybeUninit::<Leaving>::uninit();
        // SAFETY: all but the entries is written, which need not be. Not as one value: the compiler would make zeros of what
        // need not be written, for each batch.
        unsafe {
            (&raw mut (*leaving.as_mut_ptr()).count).write(0);
            leaving.assume_init()
        }
    }

    #[inline(always)]
    fn write(&mut self, place: usize, entry: usize) {
        debug_assert!(place < TOGETHER_MOST);
        // SAFETY: `set` writes the first; `let_go` as many as leave together, which are no more than there is room for.
        unsafe { self.entries.as_mut_ptr().cast::<usize>().add(place).write(entry) };
    }

    /// Makes it one entry.
    pub(crate) fn set(&mut self, entry: usize) {
        self.write(0, entry);
        self.count = 1;
    }

    /// What stands in a part of the line goes to random places, and who had those leave: here, or, where `leaves` is done
    /// with them, at once.
    #[inline(never)]
    fn let_go(
        &mut self,
        line: &[AtomicUsize],
        random: &[AtomicUsize],
        mut drawn: u32,
        leaves: impl Fn(usize) -> bool,
    ) {
        let mut left = 0;
        for place in line {
            let mut entry = place.load(Relaxed);
            if entry == 0 {
                continue;
            }
            // In this order: a fork in between loses some blocks, and frees none twice.
            place.store(0, Relaxed);
            compiler_fence(SeqCst);
            if !random.is_empty() {
                // Of one throw so many numbers are made, and of each its highest bits are used.
                drawn = drawn.wrapping_mul(GENERATOR).wrapping_add(1);
                let number = ((u64::from(drawn) * random.len() as u64) >> 32) as usize;
                // SAFETY: 32 bits of a product by the length are less than that.
                let place = unsafe { random.get_unchecked(number) };
                let before = place.load(Relaxed);
                // put in: who looks from outside finds the block cleared.
                place.store(entry, Release);
                if before == 0 {
                    continue;
                }
                entry = before;
            }
            if !leaves(entry) {
                self.write(left, entry);
                left += 1;
            }
        }
        self.count = left;
    }

    /// What has left, the one first that left first.
    #[inline(always)]
    fn all(&self) -> impl Iterator<Item = usize> {
        // SAFETY: `set` and `let_go` count what they have written, which is no more than there is room for.
        (0..self.count)
            .map(|place| unsafe { self.entries.as_ptr().cast::<usize>().add(place).read() })
    }

    /// The entries, the one first that left first.
    #[inline(always)]
    pub(crate) fn each(&self, each: impl FnMut(usize)) {
        self.all().for_each(each);
    }
}

/// Moves the address of a place on to the next, and says which it was: no signal comes in between. Only its thread writes
/// it.
#[inline(always)]
fn take_one(next: &AtomicUsize) -> usize {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    {
        let mut step = size_of::<usize>();
        // SAFETY: adds to an integer of which we have a reference, and that may be written through it: in one
        // instruction, which no signal comes into. No other thread writes it, so it needs no lock.
        unsafe {
            core::arch::asm!("xadd qword ptr [{0}], {1}", in(reg) next.as_ptr(), inout(reg) step,
                options(nostack));
        }
        step
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
    next.fetch_add(size_of::<usize>(), Relaxed)
}

/// Multiplier of a generator of 32 bits, of which the highest are used; each few that leave together begin it anew.
const GENERATOR: u32 = 747796405;

impl Quarantine {
    /// Bytes that it takes.
    pub(crate) const BYTES: usize = if QUARANTINE { size_of::<Quarantine>() } else { 0 };
    /// Bytes of blocks that it may hold.
    pub(crate) const BYTES_MOST: usize = LAYOUT.2;

    /// Bytes of it that every free reads, from its address on.
    pub(crate) const ROWS: usize = core::mem::offset_of!(Quarantine, places);

    /// Where it lies.
    pub(crate) fn address(&self) -> usize {
        (&raw const *self).expose_provenance()
    }

    /// The share of the places that hold so many bytes of blocks at most.
    pub(crate) fn share(bytes: usize) -> usize {
        let bytes = bytes.min(Self::BYTES_MOST);
        (bytes as u128 * WHOLE as u128 / Self::BYTES_MOST as u128) as usize
    }

    /// The quarantine at an address.
    ///
    /// # Safety
    /// 1. There are `BYTES` bytes for it alone that live for ever, and were zero at first.
    #[inline(always)]
    pub(crate) unsafe fn at(address: usize) -> &'static Quarantine {
        // SAFETY: duty 1; zero bytes are one.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Lets something stand in line, where nothing has to leave for it. The usual way of a free, and the only one without
    /// the seat: the place is this call's alone, whatever a signal handler does in between, and it is empty, so that
    /// another thread that empties the places finds this entry or lets it be. Says no where there is no such place; then
    /// `exchange` puts right that one was asked for. A signal handler in between that lets the whole line pass by loses
    /// the block: it is then as a thread that was stopped in the middle of a free leaves it.
    #[inline(always)]
    pub(crate) fn line_up(&self, class: usize, entry: usize) -> bool {
        debug_assert!(class < CLASSES);
        // SAFETY: a class's number is less than there are classes.
        let row = unsafe { self.rows.get_unchecked(class) };
        let next = take_one(&row.next);
        if next >= row.stop.load(Relaxed) {
            return false;
        }
        // SAFETY: what is below `stop` is one of the places: `exchange_first` and `make_room` write both.
        let place: &AtomicUsize = unsafe { &*core::ptr::with_exposed_provenance(next) };
        // put in: who looks from outside finds the block cleared.
        place.store(entry, Release);
        true
    }

    /// The same, whatever has to leave for it: of that `leaves` says whether it is done with it, and what it is not done
    /// with is left to the caller. No, where another thread is at it.
    #[inline(always)]
    pub(crate) fn exchange(
        &self,
        seat: &Seat,
        class: usize,
        entry: usize,
        (share, dice): (usize, &Dice),
        leaving: &mut Leaving,
        leaves: impl Fn(usize) -> bool,
    ) -> bool {
        let Some(row) = self.rows.get(class) else { return false };
        let (next, stop) = (row.next.load(Relaxed), row.stop.load(Relaxed));
        if next > stop {
            // Places were asked for in vain. Nobody gets one meanwhile: a signal handler finds it so, too.
            row.next.store(stop, Relaxed);
        }
        // pairs: open.
        if self.shut.load(Acquire) != 0 {
            return false;
        }
        if row.end.load(Relaxed) == 0 {
            return self.exchange_first(seat, class, entry, (share, dice), leaving);
        }
        if next < stop {
            // A signal handler has made room since.
            return self.line_up(class, entry);
        }
        self.make_room(row, dice, entry, leaving, leaves);
        true
    }

    /// The line has come to where the oldest stand: some of them go to random places, and who had those leave. The first
    /// place becomes the entry's.
    #[inline(always)]
    fn make_room(
        &self,
        row: &Row,
        dice: &Dice,
        entry: usize,
        leaving: &mut Leaving,
        leaves: impl Fn(usize) -> bool,
    ) {
        let (first, random) = (row.first.load(Relaxed) as usize, row.random.load(Relaxed) as usize);
        let end = row.end.load(Relaxed) as usize;
        let stop = match row.stop.load(Relaxed) {
            // In the child of a fork that came below, or into `exchange_first`: the line begins anew.
            0 => end,
            stop => self.number_of(stop),
        };
        let next = if stop == end { row.begin.load(Relaxed) as usize } else { stop };
        let stop = (next + row.together.load(Relaxed) as usize).min(end);
        let count = stop.saturating_sub(next).min(TOGETHER_MOST);
        let line = self.places.get(next..next + count).unwrap_or(&[]);
        let random = self.places.get(first..first + random).unwrap_or(&[]);
        leaving.let_go(line, random, dice.throw() as u32, leaves);
        // In this order: a signal handler finds no place until all is done, and what it asks for in vain is forgotten.
        row.stop.store(0, Relaxed);
        compiler_fence(SeqCst);
        // put in: as above.
        self.place(next).store(entry, Release);
        row.next.store(self.address_of(next + 1), Relaxed);
        compiler_fence(SeqCst);
        row.stop.store(self.address_of(stop), Relaxed);
    }

    /// The class's first block, or one of a class of which the share leaves no line.
    #[cold]
    fn exchange_first(
        &self,
        _seat: &Seat,
        class: usize,
        entry: usize,
        (share, dice): (usize, &Dice),
        leaving: &mut Leaving,
    ) -> bool {
        let (Some(shape), Some(row)) = (SHAPES.get(class), self.rows.get(class)) else {
            return false;
        };
        let of = |places: u16| places as usize * share / WHOLE;
        let (first, random) = (shape.first as usize, of(shape.random));
        let (line, together) = (of(shape.line), of(shape.together).max(1));
        if line == 0 {
            let throw = |random| first + dice.below(random);
            let left = if random == 0 { entry } else { self.replace(throw(random), entry) };
            if left != 0 {
                leaving.set(left);
            }
            return true;
        }
        let begin = first + random;
        row.first.store(first as u16, Relaxed);
        row.random.store(random as u16, Relaxed);
        row.together.store(together as u16, Relaxed);
        row.begin.store(begin as u16, Relaxed);
        row.next.store(self.address_of(begin), Relaxed);
        // In this order: who finds an end finds a line, though a fork may have come before it was opened.
        compiler_fence(SeqCst);
        row.end.store((begin + line + together - 1) as u16, Relaxed);
        // Last: before that, a signal handler finds no place.
        compiler_fence(SeqCst);
        row.stop.store(self.address_of(begin + together), Relaxed);
        self.line_up(class, entry)
    }

    /// The address of a place, or of the end.
    #[inline(always)]
    fn address_of(&self, place: usize) -> usize {
        self.places.as_ptr().expose_provenance() + place * size_of::<usize>()
    }

    /// The number of the place at an address.
    #[inline(always)]
    fn number_of(&self, address: usize) -> usize {
        (address - self.places.as_ptr().expose_provenance()) / size_of::<usize>()
    }

    #[inline(always)]
    fn place(&self, place: usize) -> &AtomicUsize {
        debug_assert!(place < LAYOUT.1);
        // SAFETY: `exchange_first` writes rows, from the shapes, whose places end with the last there is.
        unsafe { self.places.get_unchecked(place) }
    }

    #[inline(always)]
    fn replace(&self, place: usize, entry: usize) -> usize {
        let place = self.place(place);
        let before = place.load(Relaxed);
        // put in: as above.
        place.store(entry, Release);
        before
    }

    /// Names everything that is in it, where it stays; nothing, where another thread is at it. Holder of the heap.
    pub(crate) fn each(&self, _seat: &Seat, mut each: impl FnMut(usize)) {
        // pairs: open.
        if self.shut.load(Acquire) != 0 {
            return;
        }
        for place in &self.places {
            let entry = place.load(Relaxed);
            if entry != 0 {
                each(entry);
            }
        }
    }

    /// What is in it at this moment, each by the number of its place. Any thread.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let entry = |place: usize| (place, self.entry_at(place));
        (0..self.places.len()).map(entry).filter(|(_, entry)| *entry != 0)
    }

    /// What is at a place at this moment, or zero. Any thread: what its holder has done to the block before, it sees.
    pub(crate) fn entry_at(&self, place: usize) -> usize {
        // pairs: put in.
        self.places.get(place).map_or(0, |place| place.load(Acquire))
    }

    /// Takes everything out, an entry at a time. Who has shut it: its holder, with the seat; or another thread, behind the
    /// barrier.
    pub(crate) fn empty(&self, mut each: impl FnMut(usize)) {
        for place in &self.places {
            // Away before it is used: a fork in between loses one block, and frees none twice. Acquire: `line_up` may have
            // put it in just now.
            let entry = place.load(Acquire);
            if entry != 0 {
                place.store(0, Relaxed);
                each(entry);
            }
        }
    }

    /// Keeps everybody else out: its holder from the next time that every thread has passed a barrier. Whether nobody
    /// else does.
    pub(crate) fn shut(&self) -> bool {
        self.shut.compare_exchange(0, 1, AcqRel, Relaxed).is_ok()
    }

    /// Ends that; or what a thread has begun that is no more.
    pub(crate) fn open(&self) {
        // open: who finds it open again sees what was taken out.
        self.shut.store(0, Release);
    }
}

#[cfg(all(test, feature = "hardened"))]
mod tests {
    use super::*;
    use crate::sync::Busy;
    use std::boxed::Box;
    use std::collections::BTreeSet;
    use std::vec::Vec;
    extern crate std;

    fn quarantine() -> Box<Quarantine> {
        // SAFETY: memory of its layout, if there is any; zero bytes are one.
        unsafe {
            Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<Quarantine>()).cast())
        }
    }

    /// As a free does: what leaves for an entry, if the quarantine takes it.
    fn exchange(
        quarantine: &Quarantine,
        class: Class,
        entry: usize,
        (share, dice): (usize, &Dice),
    ) -> Option<Vec<usize>> {
        let (busy, mut leaving) = (Busy::new(), Leaving::nothing());
        let seat = busy.sit().unwrap();
        // One of three is left to the caller.
        let left = core::cell::RefCell::new(Vec::new());
        let leaves = |entry: usize| {
            let done = !entry.is_multiple_of(3);
            if done {
                left.borrow_mut().push(entry);
            }
            done
        };
        let (class, drawn) = (class.index(), (share, dice));
        let taken = quarantine.line_up(class, entry)
            || quarantine.exchange(&seat, class, entry, drawn, &mut leaving, leaves);
        let mut left = left.into_inner();
        leaving.each(|entry| left.push(entry));
        taken.then_some(left)
    }

    /// A fork may come while a line is opened, or room is made in it: in the child there is no place then, until it begins
    /// anew, and nothing is lost or leaves twice.
    #[test]
    fn a_line_that_was_cut_off_while_room_was_made_begins_anew() {
        let dice = Dice::new();
        dice.seed(5);
        for class in Class::all() {
            let quarantine = quarantine();
            let mut inside = BTreeSet::new();
            for entry in 1..=5_000usize {
                if entry % 700 == 0 {
                    quarantine.rows[class.index()].stop.store(0, Relaxed);
                }
                inside.insert(entry);
                for left in exchange(&quarantine, class, entry, (WHOLE, &dice)).unwrap() {
                    assert!(inside.remove(&left), "{class:?}: {left} leaves and is not there");
                }
            }
            quarantine.empty(|entry| assert!(inside.remove(&entry), "{class:?}: {entry}"));
            assert!(inside.is_empty(), "{class:?}: {inside:?} are lost");
        }
    }

    /// Law 4, and promise 13: so many others are freed before a block leaves, and as many as there is
    /// room for are in it.
    #[test]
    fn a_block_stays_for_as_many_frees_as_are_promised() {
        let dice = Dice::new();
        dice.seed(77);
        for class in Class::all() {
            let quarantine = quarantine();
            let least = (PART / class.size()).clamp(1, LINE_MOST);
            let (mut inside, mut sum, mut most) = (BTreeSet::new(), 0, 0);
            for entry in 1..=20_000usize {
                for left in exchange(&quarantine, class, entry, (WHOLE, &dice)).unwrap() {
                    assert!(entry - left >= least, "{class:?}: {left} leaves at {entry}");
                    assert!(inside.remove(&left), "{class:?}: {left} leaves and is not there");
                    sum += entry - left;
                }
                inside.insert(entry);
                most = most.max(inside.len());
            }
            let shape = SHAPES[class.index()];
            let (all, together) = (
                (shape.random + shape.line + shape.together - 1) as usize,
                shape.together as usize,
            );
            assert!(most == all && inside.len() > all - together, "{class:?}: {most} of {all}");
            let mean = sum / (20_000 - inside.len());
            assert!(mean.abs_diff(all - together / 2) <= all / 4 + 2, "{class:?}: {mean} of {all}");
            let mut there = BTreeSet::new();
            let busy = Busy::new();
            quarantine.each(&busy.sit().unwrap(), |entry| assert!(there.insert(entry)));
            assert_eq!(there, inside);
            quarantine.empty(|entry| assert!(there.remove(&entry)));
            assert!(there.is_empty());
            quarantine.empty(|_| panic!("it is empty"));
        }
    }

    /// Somebody else has emptied it in the middle of a line: nothing comes twice, and it goes on.
    #[test]
    fn what_was_emptied_fills_again() {
        let dice = Dice::new();
        dice.seed(78);
        for class in Class::all() {
            let (quarantine, mut inside) = (quarantine(), BTreeSet::new());
            for entry in 1..=5000usize {
                for left in exchange(&quarantine, class, entry, (WHOLE, &dice)).unwrap() {
                    assert!(inside.remove(&left));
                }
                inside.insert(entry);
                if entry % 777 == 0 {
                    quarantine.empty(|entry| assert!(inside.remove(&entry)));
                    assert!(inside.is_empty());
                }
            }
        }
    }

    /// Promise 13: of n places each is thrown with the same chance, so that a block stays for k frees with the
    /// chance (1 - 1/n)^(k-1) / n.
    #[test]
    fn how_long_a_small_block_stays_has_eight_bits_of_entropy() {
        for class in Class::all().filter(|class| class.size() <= SMALLEST) {
            let chance = 1.0 / f64::from(SHAPES[class.index()].random);
            let other = 1.0 - chance;
            let entropy = -(other * other.log2() + chance * chance.log2()) / chance;
            assert!(entropy >= 8.0, "{class:?}: {entropy}");
        }
    }

    /// For how many throws each of many blocks stays at a random place.
    fn stays(class: Class, seed: u64, blocks: usize) -> Vec<usize> {
        let (busy, dice, quarantine) = (Busy::new(), Dice::new(), quarantine());
        dice.seed(seed);
        // So many throws find nobody, one for each place; by then it is in the order of coming.
        let empty = SHAPES[class.index()].random as usize;
        let (mut stays, mut passed) = (Vec::new(), 0);
        for entry in 1.. {
            let (seat, mut leaving) = (busy.sit().unwrap(), Leaving::nothing());
            let class = class.index();
            if !quarantine.line_up(class, entry) {
                let drawn = (WHOLE, &dice);
                assert!(quarantine.exchange(&seat, class, entry, drawn, &mut leaving, |_| false));
            }
            for left in leaving.all() {
                passed += 1;
                // Not of those that found free places.
                if left > 20_000 {
                    stays.push(passed + empty - left);
                }
            }
            if stays.len() >= blocks {
                stays.truncate(blocks);
                return stays;
            }
        }
        stays
    }

    /// Promise 13: the stays are as they must be, by a chi-square test over 32 intervals that are equally likely. Of 31
    /// degrees of freedom one in ten thousand is above 70.
    #[test]
    fn how_long_blocks_stay_is_distributed_as_it_must_be() {
        const CELLS: usize = 32;
        const BLOCKS: usize = 64_000;
        let chi_square = |stays: &[usize], places: usize| {
            let other = 1.0 - 1.0 / places as f64;
            let after = |stay: usize| 1.0 - other.powi(stay as i32);
            let (mut counts, mut chances) = ([0usize; CELLS], [0.0; CELLS]);
            let cell = |stay: usize| ((after(stay) * CELLS as f64) as usize).min(CELLS - 1);
            stays.iter().for_each(|&stay| counts[cell(stay)] += 1);
            // The intervals are of whole numbers, so not quite equally likely.
            (1..100 * places).for_each(|stay| {
                chances[cell(stay)] += after(stay) - after(stay - 1);
            });
            let term = |(&count, chance): (&usize, f64)| {
                let expected = chance * stays.len() as f64;
                (count as f64 - expected) * (count as f64 - expected) / expected
            };
            counts.iter().zip(chances).map(term).sum::<f64>()
        };
        for class in Class::all().filter(|class| class.size() <= SMALLEST) {
            let places = SHAPES[class.index()].random as usize;
            for seed in [3, 1 << 40, u64::MAX / 7] {
                let stays = stays(class, seed, BLOCKS);
                let sum = chi_square(&stays, places);
                assert!(sum < 70.0, "{class:?}, seed {seed}: {sum}");
                // One place more or less would be seen: the test is as sharp as that.
                assert!(chi_square(&stays, places + 4) > 70.0, "{class:?}, seed {seed}");
                let mean = stays.iter().sum::<usize>() as f64 / BLOCKS as f64;
                assert!((mean - places as f64).abs() < 2.0, "{class:?}, seed {seed}: {mean}");
            }
        }
    }

    #[test]
    fn the_bytes_are_bounded_and_can_be_fewer() {
        const { assert!(Quarantine::BYTES_MOST <= 3 << 20) };
        assert_eq!(Quarantine::share(usize::MAX), WHOLE);
        assert_eq!(Quarantine::share(0), 0);
        let (dice, quarantine) = (Dice::new(), quarantine());
        let share = Quarantine::share(1 << 20);
        let mut bytes = 0;
        for class in Class::all() {
            let mut inside = 0;
            for entry in 1..5000 {
                let left = exchange(&quarantine, class, entry, (share, &dice)).unwrap();
                inside += 1 - left.len() as isize;
            }
            bytes += class.size() * inside as usize;
        }
        // Of the largest, a part of one place is none.
        assert!(bytes <= 1 << 20 && bytes > 300 << 10, "{bytes}");
    }

    #[test]
    fn nobody_comes_in_while_it_is_shut() {
        let (dice, quarantine) = (Dice::new(), quarantine());
        let class = Class::new(0);
        assert!(quarantine.shut() && !quarantine.shut());
        assert_eq!(exchange(&quarantine, class, 9, (WHOLE, &dice)), None);
        quarantine.open();
        assert_eq!(exchange(&quarantine, class, 9, (WHOLE, &dice)), Some(Vec::new()));
        assert!(quarantine.shut());
        // But where there are places left, until there is none.
        let mut more = 0;
        while exchange(&quarantine, class, 8, (WHOLE, &dice)) == Some(Vec::new()) {
            more += 1;
        }
        assert_eq!(more + 1, SHAPES[0].together);
        for _ in 0..9 {
            assert_eq!(exchange(&quarantine, class, 8, (WHOLE, &dice)), None);
        }
        let busy = Busy::new();
        quarantine.each(&busy.sit().unwrap(), |_| panic!("what is in it is another's"));
        quarantine.open();
        let mut seen = 0;
        quarantine.each(&busy.sit().unwrap(), |entry| seen += entry);
        assert_eq!(seen, 9 + 8 * usize::from(more));
        // What was asked for in vain is forgotten.
        for _ in 0..SHAPES[0].together {
            assert_eq!(exchange(&quarantine, class, 7, (WHOLE, &dice)), Some(Vec::new()));
        }
    }
}
