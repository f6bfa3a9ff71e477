//! The quarantine of one heap: the slots that its thread has freed and that are not free yet.
//!
//! ```text
//! for each class   line[l + b - 1]  a freed slot enters the line
//!                  random[r]        in a full line, the b oldest entries move to random places,
//!                                   and the entries that they replace leave together
//! ```
//!
//! | number | places for each class | purpose |
//! |---|---|---|
//! | `l` | the slots in 16 KiB, 1 to 1024 | a slot leaves after `l` or more frees of its class |
//! | `b` | the slots in 4 KiB, 1 to 32 | only one free in `b` does more than to write a word |
//! | `r` | 96, for slots up to 256 bytes | the delay there has 8 bits of entropy |
//! | `r` | the slots in 8 KiB, for larger slots | at least 4, or `l` if that is less |
//!
//! The slabs of the entries that leave together are fetched side by side. All places together hold
//! [`Quarantine::BYTES_MOST`] bytes of blocks. A smaller `Options::quarantine` reduces the numbers
//! in proportion. A class may then have no place, and its blocks become free at once.
//!
//! An entry is a word of the caller that is not zero. The holder of the heap uses the places with
//! its reentrancy guard, except on the common path ([`Quarantine::enqueue`]). That path takes an
//! empty place by one instruction, and then writes to it.
//!
//! Another thread may empty the places after three steps. It has *shut* the quarantine, has made
//! every thread pass a barrier, and has then seen that the guard is not taken. A thread that takes
//! its guard later finds the quarantine shut, and puts its entry elsewhere. The common path
//! therefore needs no atomic operation. Each thread that empties the quarantine shuts it first,
//! including its holder, so one thread at a time empties it.

use crate::harden::Dice;
use crate::policy::{QUARANTINE, SLAB_BYTES};
use crate::slab::{CLASSES, SLOTS_MAX, Slab, SlotIndex};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU16, AtomicU32, AtomicUsize, ReentrancyGuard, compiler_fence};
use crate::thread::Patrol;
pub(crate) use leaving::Leaving;
use shape::{LAYOUT, SHAPES, TOGETHER_MOST};

mod leaving;
mod shape;

/// The number of parts into which a share divides the places: a share of `WHOLE` is all of them.
pub(crate) const WHOLE: usize = 1 << 16;

const _: () = assert!(SLOTS_MAX <= SLAB_BYTES);

/// The slot that an entry of a quarantine stands for.
#[inline(always)]
pub(crate) fn entry_slot(entry: usize) -> (&'static Slab, SlotIndex) {
    debug_assert!(entry >= SLAB_BYTES);
    // SAFETY: `Quarantines::wait` makes entries, from a slab and a slot, of which the number is
    // less than a descriptor has bytes; descriptors live for ever.
    let slab = unsafe { &*core::ptr::with_exposed_provenance(entry & !(SLAB_BYTES - 1)) };
    (slab, SlotIndex::new(entry & (SLAB_BYTES - 1)))
}

/// The line of one class, as each free needs it. Holder of the heap. All zero until the first free
/// of the class, and for ever if the class has no line.
#[derive(Debug)]
#[repr(C, align(32))]
struct Row {
    /// The address of the next place to fill.
    next: AtomicUsize,
    /// The address of the place at which entries must leave first.
    stop: AtomicUsize,
    /// The number of the line's first place.
    begin: AtomicU16,
    /// The number of the place after the line's last.
    end: AtomicU16,
    /// The number of entries that leave the line together.
    together: AtomicU16,
    /// The number of the first random place. The random places are before the line.
    first: AtomicU16,
    /// The number of random places.
    random: AtomicU16,
}

/// The quarantine of a heap. It is after the heap's bins, and zero at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Quarantine {
    /// Not zero while a thread empties it. Any thread, by exchange.
    shut: AtomicU32,
    /// Not zero after a class has got its places. Holder of the heap.
    used: AtomicU32,
    /// Where free slots are checked next.
    pub(super) patrol: Patrol,
    rows: [Row; CLASSES],
    /// Entries, or zero. Holder of the heap, or the thread that has shut the quarantine.
    places: [AtomicUsize; LAYOUT.1],
}

/// Advances the address of a place to the next place, and returns the old address. No signal
/// handler runs between the two. Only the heap's thread writes the address.
#[inline(always)]
fn take_one(next: &AtomicUsize) -> usize {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    {
        let mut step = size_of::<usize>();
        // SAFETY: adds to an integer that this code has a reference to and may write. It is one
        // instruction, so no signal handler runs in between. No other thread writes the integer, so
        // no lock prefix is needed.
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
    /// The number of bytes of the quarantine.
    pub(crate) const BYTES: usize = if QUARANTINE { size_of::<Quarantine>() } else { 0 };
    /// The most bytes of blocks that it may hold.
    pub(crate) const BYTES_MOST: usize = LAYOUT.2;

    /// The number of bytes, from its address on, that an exited thread's quarantine keeps.
    pub(crate) const KEPT: usize = core::mem::offset_of!(Quarantine, rows);
    /// The number of bytes, from its address on, that every free reads.
    pub(crate) const ROWS: usize = core::mem::offset_of!(Quarantine, places);

    /// Returns the quarantine's address.
    pub(crate) fn address(&self) -> usize {
        (&raw const *self).expose_provenance()
    }

    /// Returns the share of the places that holds at most `bytes` bytes of blocks.
    pub(crate) fn share(bytes: usize) -> usize {
        let bytes = bytes.min(Self::BYTES_MOST);
        (bytes as u128 * WHOLE as u128 / Self::BYTES_MOST as u128) as usize
    }

    /// Returns the quarantine at an address.
    ///
    /// # Safety
    /// 1. There are `BYTES` bytes for it alone that live for ever, and were zero at first.
    #[inline(always)]
    pub(crate) unsafe fn at(address: usize) -> &'static Quarantine {
        // SAFETY: duty 1; zero bytes are a `Quarantine`.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Returns true if a class has its places. Holder of the heap.
    pub(crate) fn has_line(&self, class: usize) -> bool {
        self.rows.get(class).is_some_and(|row| row.end.load(Relaxed) != 0)
    }

    /// Returns the most bytes of blocks that wait at the places of a class, or zero if the share
    /// leaves the class no line.
    pub(crate) fn bytes_of(class: usize, share: usize) -> usize {
        let of = |shape: &shape::Shape| match shape.line as usize * share / WHOLE {
            0 => 0,
            _ => (u64::from(shape.bytes) * share as u64 / WHOLE as u64) as usize,
        };
        SHAPES.get(class).map_or(0, of)
    }

    /// Returns true if any class has its places. Any thread; a hint.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Relaxed) != 0
    }

    /// Gives up the places of all classes, which are empty. The caller holds the heap of a thread
    /// that has exited, and has shut the quarantine.
    pub(crate) fn close(&self) {
        for row in &self.rows {
            row.end.store(0, Relaxed);
            row.next.store(0, Relaxed);
            row.stop.store(0, Relaxed);
        }
        self.used.store(0, Relaxed);
    }

    /// Puts an entry into the line, if no other entry must leave first. Returns false otherwise.
    /// `exchange` then takes back the request for a place.
    ///
    /// This is the common path of a free, and the only one without the reentrancy guard. The place
    /// belongs to this call alone, whatever a signal handler does meanwhile. The place is empty, so
    /// another thread that empties the places either finds this entry or leaves it alone.
    ///
    /// A signal handler that interrupts this call may lose a block in two cases. It fills the whole
    /// line, or it frees a block between the two instructions that request the place. The block
    /// then stays as if its thread had been stopped in the middle of a free.
    #[inline(always)]
    pub(crate) fn enqueue(&self, class: usize, entry: usize) -> bool {
        debug_assert!(class < CLASSES);
        // SAFETY: the number of a class is less than the number of classes.
        let row = unsafe { self.rows.get_unchecked(class) };
        let next = take_one(&row.next);
        if next >= row.stop.load(Relaxed) {
            return false;
        }
        // SAFETY: an address below `stop` is that of a place: `exchange_first` and `make_room`
        // write both.
        let place: &AtomicUsize = unsafe { &*core::ptr::with_exposed_provenance(next) };
        // put in: a thread that reads the place from outside finds the block cleared.
        place.store(entry, Release);
        true
    }

    /// Puts an entry into the line, even if other entries must leave first. `leaves` receives each
    /// entry that leaves, and returns true if it has finished with it. The others are left to the
    /// caller in `leaving`. Returns false if the quarantine is shut.
    #[inline(always)]
    pub(crate) fn exchange(
        &self,
        guard: &ReentrancyGuard,
        class: usize,
        entry: usize,
        (share, dice): (usize, &Dice),
        leaving: &mut Leaving,
        leaves: impl Fn(usize) -> bool,
    ) -> bool {
        let Some(row) = self.rows.get(class) else { return false };
        let (next, stop) = (row.next.load(Relaxed), row.stop.load(Relaxed));
        if next > stop {
            // Places were requested in vain. A signal handler that runs here gets no place either.
            row.next.store(stop, Relaxed);
        }
        // pairs: open.
        if self.shut.load(Acquire) != 0 {
            return false;
        }
        if row.end.load(Relaxed) == 0 {
            return self.exchange_first(guard, class, entry, (share, dice), leaving);
        }
        if next < stop {
            // A signal handler has made room since.
            return self.enqueue(class, entry);
        }
        self.make_room(row, dice, entry, leaving, leaves);
        true
    }

    /// Makes room for an entry at the oldest part of the line, and puts the entry there. The old
    /// entries move to random places, and the entries that they replace leave.
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
            // In the child of a fork that interrupted the code below or `exchange_first`: the line
            // begins again.
            0 => end,
            stop => self.number_of(stop),
        };
        let next = if stop == end { row.begin.load(Relaxed) as usize } else { stop };
        let stop = (next + row.together.load(Relaxed) as usize).min(end);
        let count = stop.saturating_sub(next).min(TOGETHER_MOST);
        let line = self.places.get(next..next + count).unwrap_or(&[]);
        let random = self.places.get(first..first + random).unwrap_or(&[]);
        leaving.let_go(line, random, dice.roll() as u32, leaves);
        // In this order: a signal handler finds no place until all is done. Its requests meanwhile
        // are forgotten.
        row.stop.store(0, Relaxed);
        compiler_fence(SeqCst);
        // put in: a thread that reads the place from outside finds the block cleared.
        self.place(next).store(entry, Release);
        row.next.store(self.address_of(next + 1), Relaxed);
        compiler_fence(SeqCst);
        row.stop.store(self.address_of(stop), Relaxed);
    }

    /// Puts in the first entry of a class, or an entry of a class for which the share leaves no
    /// line.
    #[cold]
    fn exchange_first(
        &self,
        _guard: &ReentrancyGuard,
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
        // In this order: if `end` is set the class has a line, even if a fork came before `stop`
        // was set.
        compiler_fence(SeqCst);
        row.end.store((begin + line + together - 1) as u16, Relaxed);
        // Last, because a signal handler finds no place before that.
        compiler_fence(SeqCst);
        row.stop.store(self.address_of(begin + together), Relaxed);
        self.enqueue(class, entry)
    }

    /// Returns the address of a place, or of the end.
    #[inline(always)]
    fn address_of(&self, place: usize) -> usize {
        self.places.as_ptr().expose_provenance() + place * size_of::<usize>()
    }

    /// Returns the number of the place at an address.
    #[inline(always)]
    fn number_of(&self, address: usize) -> usize {
        (address - self.places.as_ptr().expose_provenance()) / size_of::<usize>()
    }

    #[inline(always)]
    fn place(&self, place: usize) -> &AtomicUsize {
        debug_assert!(place < LAYOUT.1);
        // SAFETY: `exchange_first` fills the rows from the shapes, whose places all exist.
        unsafe { self.places.get_unchecked(place) }
    }

    #[inline(always)]
    fn replace(&self, place: usize, entry: usize) -> usize {
        let place = self.place(place);
        let before = place.load(Relaxed);
        // put in: a thread that reads the place from outside finds the block cleared.
        place.store(entry, Release);
        before
    }

    /// Passes every entry to `each` and leaves it in place. Does nothing if the quarantine is shut.
    /// Holder of the heap.
    pub(crate) fn each(&self, _guard: &ReentrancyGuard, mut each: impl FnMut(usize)) {
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

    /// Returns the present entries, each with the number of its place. Any thread.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let entry = |place: usize| (place, self.entry_at(place));
        (0..self.places.len()).map(entry).filter(|(_, entry)| *entry != 0)
    }

    /// Returns the present entry of a place, or zero. Any thread: the caller sees what the holder
    /// did to the block before.
    pub(crate) fn entry_at(&self, place: usize) -> usize {
        // pairs: put in.
        self.places.get(place).map_or(0, |place| place.load(Acquire))
    }

    /// Takes out every entry and passes it to `each`. The caller has shut the quarantine. It is the
    /// holder with the reentrancy guard, or another thread after the barrier.
    pub(crate) fn empty(&self, mut each: impl FnMut(usize)) {
        for place in &self.places {
            // The place is cleared before the entry is used: a fork in between loses one block, and
            // frees none twice. Acquire: `enqueue` may have put the entry in just now.
            let entry = place.load(Acquire);
            if entry != 0 {
                place.store(0, Relaxed);
                each(entry);
            }
        }
    }

    /// Keeps all other threads out of the quarantine. The holder keeps out after every thread has
    /// passed a barrier. Returns true if the quarantine was not shut already.
    pub(crate) fn shut(&self) -> bool {
        self.shut.compare_exchange(0, 1, AcqRel, Relaxed).is_ok()
    }

    /// Ends `shut`. In the child of a fork, also that of a thread that does not exist any more.
    pub(crate) fn open(&self) {
        // open: a thread that finds it open again sees what was taken out.
        self.shut.store(0, Release);
    }
}

#[cfg(all(test, feature = "secure"))]
mod tests;
