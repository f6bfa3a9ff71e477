//! The quarantine of one heap: what its thread has freed and what is not free yet.
//!
//! ```text
//! for each class   line[l + b - 1]  what comes stands in line
//!                  random[r]        the b oldest of a full line take the places of as many of these, by a throw of dice
//!                                   each; and those leave, together
//! ```
//!
//! `l` is what 16 KiB hold, but 1024 at most: so many more blocks of its class does a block see
//! freed before it leaves, at least. Of up to 256 bytes `r` is 96: how long a block stays there
//! then has 8 bits of entropy. Of more it is what 8 KiB hold, four at least where 16 KiB hold them.
//! Both are one at least, so no block is free at once. `b` is what 4 KiB hold, 32 at most and one
//! at least: so often does a free do more than to write a word, and then it does it for so many,
//! whose slabs are fetched side by side. All places together hold [`Quarantine::BYTES_MOST`] bytes
//! of blocks, and a smaller `Options::quarantine` makes them fewer in proportion.
//!
//! An entry is a word of the caller's that is not zero. The holder of the heap uses the places with
//! its seat, but for the usual way, which writes to an empty place that it has taken by one
//! instruction. Another thread may empty them where it has *shut* the quarantine first, has made
//! every thread pass a barrier, and has seen the seat empty then. A thread that sits down later
//! finds it shut, and goes another way. So the usual way takes no atomic. Each thread that empties
//! it shuts it, its holder as well: it is emptied by one at a time.

use crate::harden::Dice;
use crate::policy::QUARANTINE;
use crate::slab::CLASSES;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU16, AtomicU32, AtomicUsize, Seat, compiler_fence};
pub(crate) use leaving::Leaving;
use shape::{LAYOUT, SHAPES, TOGETHER_MOST};

mod leaving;
mod shape;

/// All shares are of this many.
pub(crate) const WHOLE: usize = 1 << 16;

/// What is needed of a class at each free. Holder of the heap. All zero until the class is first
/// asked for; and for ever, where nothing of it stands in line.
#[derive(Debug)]
#[repr(C, align(32))]
struct Row {
    /// The address of the place of who comes next, and of the one at which others must leave before
    /// that.
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

/// The quarantine of a heap: after its bins, zero at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Quarantine {
    /// Not zero while another thread empties it. Any thread, by exchange.
    shut: AtomicU32,
    /// Not zero since a class got its places. Holder of the heap.
    used: AtomicU32,
    rows: [Row; CLASSES],
    /// Entries, or zero. Holder of the heap; or who has shut it.
    places: [AtomicUsize; LAYOUT.1],
}

/// Moves the address of a place on to the next, and says which it was: no signal comes in between.
/// Only its thread writes it.
#[inline(always)]
fn take_one(next: &AtomicUsize) -> usize {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    {
        let mut step = size_of::<usize>();
        // SAFETY: adds to an integer of which we have a reference, and that may be written through
        // it: in one instruction, which no signal comes into. No other thread writes it, so it
        // needs no lock.
        unsafe {
            core::arch::asm!("xadd qword ptr [{0}], {1}", in(reg) next.as_ptr(), inout(reg) step,
                options(nostack));
        }
        step
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
    next.fetch_add(size_of::<usize>(), Relaxed)
}

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

    /// The share of the places that hold at most `bytes` bytes of blocks.
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

    /// Whether a class has its places. Holder of the heap.
    pub(crate) fn has_line(&self, class: usize) -> bool {
        self.rows.get(class).is_some_and(|row| row.end.load(Relaxed) != 0)
    }

    /// Bytes of blocks that wait at the places of a class, at most; zero for a class of which the
    /// share leaves no line.
    pub(crate) fn bytes_of(class: usize, share: usize) -> usize {
        let of = |shape: &shape::Shape| match shape.line as usize * share / WHOLE {
            0 => 0,
            _ => (u64::from(shape.bytes) * share as u64 / WHOLE as u64) as usize,
        };
        SHAPES.get(class).map_or(0, of)
    }

    /// Whether any class has its places. Any thread; a hint.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Relaxed) != 0
    }

    /// Gives up the places of all classes, which are empty. The caller holds the heap of a thread
    /// that has ended, and has shut the quarantine.
    pub(crate) fn close(&self) {
        for row in &self.rows {
            row.end.store(0, Relaxed);
            row.next.store(0, Relaxed);
            row.stop.store(0, Relaxed);
        }
        self.used.store(0, Relaxed);
    }

    /// Lets something stand in line, where nothing has to leave for it. The usual way of a free,
    /// and the only one without the seat. The place is this call's alone, whatever a signal handler
    /// does in between. It is empty, so that another thread that empties the places finds this
    /// entry or lets it be. Returns false if there is no such place; then `exchange` puts right
    /// that one was asked for. A signal handler in between that lets the whole line pass by loses
    /// the block. So may one whose free comes between the two instructions that ask for the place.
    /// The block is then as a thread that was stopped in the middle of a free leaves it.
    #[inline(always)]
    pub(crate) fn line_up(&self, class: usize, entry: usize) -> bool {
        debug_assert!(class < CLASSES);
        // SAFETY: a class's number is less than there are classes.
        let row = unsafe { self.rows.get_unchecked(class) };
        let next = take_one(&row.next);
        if next >= row.stop.load(Relaxed) {
            return false;
        }
        // SAFETY: what is below `stop` is one of the places: `exchange_first` and `make_room` write
        // both.
        let place: &AtomicUsize = unsafe { &*core::ptr::with_exposed_provenance(next) };
        // put in: who looks from outside finds the block cleared.
        place.store(entry, Release);
        true
    }

    /// As `line_up`, whatever has to leave for it. For each that leaves, `leaves` returns true if
    /// it is done with it; what it is not done with is left to the caller. Returns false if another
    /// thread is at it.
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
            // Places were requested in vain. No caller gets one meanwhile: a signal handler finds
            // it so, too.
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

    /// The line has reached the oldest: some of them go to random places, and those that were there
    /// leave. The first place becomes the entry's.
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
            // In the child of a fork that came below, or into `exchange_first`: the line begins
            // again.
            0 => end,
            stop => self.number_of(stop),
        };
        let next = if stop == end { row.begin.load(Relaxed) as usize } else { stop };
        let stop = (next + row.together.load(Relaxed) as usize).min(end);
        let count = stop.saturating_sub(next).min(TOGETHER_MOST);
        let line = self.places.get(next..next + count).unwrap_or(&[]);
        let random = self.places.get(first..first + random).unwrap_or(&[]);
        leaving.let_go(line, random, dice.throw() as u32, leaves);
        // In this order: a signal handler finds no place until all is done, and what it asks for in
        // vain is forgotten.
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
        self.used.store(1, Relaxed);
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
        // In this order: who finds an end finds a line, though a fork may have come before it was
        // opened.
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
        // SAFETY: `exchange_first` writes rows, from the shapes, whose places end with the last
        // there is.
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

    /// Names everything that is in it, where it stays; nothing, where another thread is at it.
    /// Holder of the heap.
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

    /// What is at a place at this moment, or zero. Any thread: what its holder has done to the
    /// block before, it sees.
    pub(crate) fn entry_at(&self, place: usize) -> usize {
        // pairs: put in.
        self.places.get(place).map_or(0, |place| place.load(Acquire))
    }

    /// Takes everything out, an entry at a time. Who has shut it: its holder, with the seat; or
    /// another thread, behind the barrier.
    pub(crate) fn empty(&self, mut each: impl FnMut(usize)) {
        for place in &self.places {
            // Away before it is used: a fork in between loses one block, and frees none twice.
            // Acquire: `line_up` may have put it in just now.
            let entry = place.load(Acquire);
            if entry != 0 {
                place.store(0, Relaxed);
                each(entry);
            }
        }
    }

    /// Keeps all other threads out: its holder from the next time that every thread has passed a
    /// barrier. Returns true if it was not shut already.
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
mod tests;
