//! Several arenas over one range of memory, each with a separate lock.
//!
//! ```text
//! | stripe 0 |        | stripe 1     |    |                   | stripe 3 | 0      |
//! ```
//!
//! A stripe takes parts of the range when it has no memory (`parts.rs`), first those that would be
//! its share if all had the same. Before a request fails, all stripes give back the parts in which
//! nothing is live: so one stripe may have all of the memory, if the others do not need it.
//!
//! A thread begins with its home, and goes on to the next stripe while another thread has that. It
//! waits only if all are taken, or if none of those that were free has room. A block is freed in
//! the stripe where it is. So threads that free their own blocks never meet, and the others meet
//! only where their blocks are.
//!
//! [`Spread`] says where a thread is at home to begin with. Two that have the same home by chance
//! meet there again and again, so a thread that finds its home taken a few times moves on to the
//! next: threads come apart by themselves.
//!
//! What it costs: a part in which anything is live is one stripe's, and memory that is free in
//! parts of two stripes is not one piece. So a request may fail that one arena over all of the
//! range could meet.

use super::parts::Parts;
use super::{Exclusive, Shared};
use crate::arena::Arena;
use crate::fault::{NoMemory, SpanError};
use crate::heap::{Heap, Invariant, Span, Survey};
use crate::shape::Shape;
use crate::source::{Source, room_for};
use crate::space::Anywhere;
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Tells threads apart. Any number will do, and any other the next time: it is a matter of speed
/// only.
pub trait Spread {
    /// A number that is mostly the same in one thread, and mostly another in others.
    fn here() -> usize;
}

/// By where the stack is: each thread has a separate stack. For stacks of less than 64 KiB, as in
/// kernels, the number of the processor is better.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByStack;

impl Spread for ByStack {
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn here() -> usize {
        let local = 0_u8;
        // The upper half of a product is a good hash of its odd factor's partner.
        let hash =
            ((&raw const local).addr() >> 16).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
        hash >> (usize::BITS / 2)
    }
}

/// A stripe shares no cache line with another.
#[repr(align(128))]
struct Stripe<T>(T);

/// How often the home of the threads with one number was taken when they came to it.
///
/// Read by every request, written by a thread that passes its home over. Relaxed, and without a
/// locked instruction: no access depends on it, and of two that count at once one may be forgotten.
struct Taken([AtomicU8; 64]);

impl Taken {
    /// This many meetings move a home to the next stripe: a single one means little, since a home
    /// is also taken while another thread gives a block back to it.
    const BEFORE_MOVING: u8 = 8;

    const fn new() -> Self {
        Self([const { AtomicU8::new(0) }; 64])
    }

    #[inline]
    fn of(&self, thread: usize) -> &AtomicU8 {
        &self.0[thread % 64]
    }

    /// Which of `stripes` the threads of this number are at home in.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn home(&self, thread: usize, stripes: usize) -> usize {
        let moved = self.of(thread).load(Relaxed) / Self::BEFORE_MOVING;
        thread.wrapping_add(usize::from(moved)) % stripes
    }

    fn count(&self, thread: usize) {
        let taken = self.of(thread);
        taken.store(taken.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// `N` arenas over one range of memory: see the module.
pub struct Striped<S: Shape<Space = Anywhere>, L, const N: usize, H = ByStack> {
    stripes: [Stripe<Shared<S, ByStripes, L>>; N],
    taken: Stripe<Taken>,
    start: *mut u8,
    parts: Parts,
    spread: PhantomData<fn() -> H>,
}

// SAFETY: `start` is a number here, and the stripes are `Sync` if `Shared` is.
unsafe impl<S: Shape<Space = Anywhere>, L, const N: usize, H> Sync for Striped<S, L, N, H> where
    Shared<S, ByStripes, L>: Sync
{
}

// SAFETY: as above.
unsafe impl<S: Shape<Space = Anywhere>, L, const N: usize, H> Send for Striped<S, L, N, H> where
    Shared<S, ByStripes, L>: Send
{
}

/// The source of a stripe's arena: none, because the stripe takes parts of the range by hand. It is
/// not `Manual`, so that nothing else can be claimed there: an address must tell its stripe.
///
/// ```compile_fail,E0599
/// use toft_arena::{Fast, Spin, Striped};
/// fn claim(striped: &Striped<Fast, Spin, 2>) {
///     let memory = Box::leak(Box::new([std::mem::MaybeUninit::uninit(); 4096]));
///     let _ = striped.stripes().next().unwrap().claim(memory);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ByStripes;

// SAFETY: 1. and 2. it does nothing.
unsafe impl<S: Shape> Source<S> for ByStripes {
    unsafe fn more(&mut self, _: &mut Heap<S>, _: Layout) -> Result<(), NoMemory> {
        Err(NoMemory)
    }
}

impl<S: Shape<Space = Anywhere>, L: Exclusive, const N: usize, H: Spread> Striped<S, L, N, H> {
    const SOUND: () = assert!(N > 0 && N < 255, "a part belongs to one of at most 254");

    /// Arenas over a range of memory. Each takes parts of it when it needs them.
    ///
    /// # Safety
    /// 1. As [`Heap::claim`], from now on; and where the range is an allocation, all of it is one.
    #[must_use]
    pub const unsafe fn new(start: *mut u8, size: usize, locks: [L; N]) -> Self {
        () = Self::SOUND;
        let locks = ManuallyDrop::new(locks);
        let mut stripes: [MaybeUninit<Stripe<Shared<S, ByStripes, L>>>; N] =
            [const { MaybeUninit::uninit() }; N];
        let mut number = 0;
        while number < N {
            // SAFETY: each lock is taken out once, and never dropped in the array.
            let lock = unsafe { (&raw const locks).cast::<L>().add(number).read() };
            stripes[number] = MaybeUninit::new(Stripe(Shared::new(Anywhere, ByStripes, lock)));
            number += 1;
        }
        // SAFETY: all of them have been written; an array of `MaybeUninit` is laid out as one of
        // what it holds.
        let stripes =
            unsafe { (&raw const stripes).cast::<[Stripe<Shared<S, ByStripes, L>>; N]>().read() };
        let taken = Stripe(Taken::new());
        Self { stripes, taken, start, parts: Parts::new(size), spread: PhantomData }
    }

    /// The stripes, one by one.
    pub fn stripes(&self) -> impl Iterator<Item = &Shared<S, ByStripes, L>> {
        self.stripes.iter().map(|stripe| &stripe.0)
    }

    /// As [`Arena::check`], one after the other.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Invariant> {
        self.stripes().try_for_each(|stripe| stripe.check().unwrap_or(Ok(())))
    }

    /// The sums of all stripes, one after the other.
    #[must_use]
    pub fn survey(&self) -> Survey {
        self.stripes().filter_map(Shared::survey).fold(Survey::default(), |sums, one| Survey {
            spans: sums.spans + one.spans,
            claimed: sums.claimed + one.claimed,
            live_blocks: sums.live_blocks + one.live_blocks,
            live_bytes: sums.live_bytes + one.live_bytes,
            free_blocks: sums.free_blocks + one.free_blocks,
            free_bytes: sums.free_bytes + one.free_bytes,
            largest_free: sums.largest_free.max(one.largest_free),
        })
    }

    /// As [`Arena::allocate`], of whichever stripe has room.
    ///
    /// # Errors
    /// No stripe has.
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        let thread = H::here();
        let home = self.taken.0.home(thread, N);
        match self.stripes[home].0.try_hold(|arena| arena.allocate(layout)) {
            Some(Ok(new)) => Ok(new),
            Some(Err(_)) => self.elsewhere(home, layout),
            None => {
                self.taken.0.count(thread);
                self.elsewhere(home, layout)
            }
        }
    }

    /// First where no other thread is, then anywhere, then with what others give back.
    #[cold]
    #[inline(never)]
    fn elsewhere(&self, home: usize, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        let around = || (home..N).chain(0..home);
        let at = |stripe: usize| &self.stripes[stripe].0;
        let free = |stripe| {
            at(stripe)
                .try_hold(|arena| self.allocate_in(stripe, arena, layout))
                .and_then(Result::ok)
        };
        let any = |stripe| {
            at(stripe).hold(|arena| self.allocate_in(stripe, arena, layout)).and_then(Result::ok)
        };
        if let Some(new) = around().find_map(free).or_else(|| around().find_map(any)) {
            return Ok(new);
        }
        for stripe in around() {
            at(stripe).hold(|arena| self.give_back(stripe, arena));
        }
        any(home).ok_or(NoMemory)
    }

    /// A block of a stripe, which takes parts for it if it must.
    fn allocate_in(
        &self,
        stripe: usize,
        arena: &mut Arena<S, ByStripes>,
        layout: Layout,
    ) -> Result<NonNull<u8>, NoMemory> {
        arena.allocate(layout).or_else(|_| {
            // SAFETY: the heap stays where it is.
            self.take_parts(stripe, unsafe { arena.heap_mut() }, layout)?;
            arena.allocate(layout)
        })
    }

    /// Hands parts to the heap of a stripe in which a block of this layout finds room: as many as
    /// all would have, or else no more than it needs.
    fn take_parts(
        &self,
        stripe: usize,
        heap: &mut Heap<S>,
        layout: Layout,
    ) -> Result<(), NoMemory> {
        let least = self.parts.holding(room_for::<S>(layout)?);
        let share = self.parts.count() / N;
        let take = |many| self.parts.take(stripe, many, stripe * share);
        let more = least.max(share);
        let parts = take(more).or_else(|| take(least)).ok_or(NoMemory)?;
        let new = self.span(&parts);
        // They continue the span that ends before them, or the one that begins behind them.
        let own = |part: usize| {
            self.parts
                .is_of(part, stripe)
                .then(|| heap.span_of(self.span(&(part..part + 1))))
                .flatten()
        };
        let before = parts.start.checked_sub(1).and_then(own);
        let beside = before.or_else(|| own(parts.end));
        // SAFETY: by `new`, 1, the range is for the stripes, and these parts are this one's now.
        let done = unsafe {
            match beside {
                Some(span) => {
                    let start = if before.is_some() { span.start } else { new.start };
                    let size = new.end().max(span.end()) - start.addr();
                    heap.extend(span, Span::new(start, size))
                }
                None => heap.claim(new.start, new.size),
            }
        };
        if done.is_err() {
            self.parts.give(parts);
        }
        done.map(|_| ()).map_err(|_| NoMemory)
    }

    /// Gives back what parts of a stripe have nothing live in them, but for those between others of
    /// one span.
    fn give_back(&self, stripe: usize, arena: &mut Arena<S, ByStripes>) {
        // SAFETY: the heap stays where it is, and its memory is given back only to `parts`.
        let heap = unsafe { arena.heap_mut() };
        let mut part = 0;
        while part < self.parts.count() {
            let own = self.parts.is_of(part, stripe);
            let span = if own { heap.span_of(self.span(&(part..part + 1))) } else { None };
            part = match span {
                Some(span) => {
                    let all = self.parts_of(&span);
                    if let Ok(kept) = self.trimmed(heap, span) {
                        self.parts.give(all.start..kept.start);
                        self.parts.give(kept.end..all.end);
                    }
                    all.end
                }
                None => part + 1,
            };
        }
    }

    /// Lets a span go, but for parts between those in which something is live; returns which these
    /// are.
    fn trimmed(&self, heap: &mut Heap<S>, span: Span) -> Result<Range<usize>, SpanError> {
        let live = heap.reserved(span)?;
        if live.size == 0 {
            let first = self.parts_of(&span).start;
            return heap.release_span(span).map(|_| first..first);
        }
        let keep = self.span(&self.parts_of(&live));
        let start = if keep.start.addr() < span.start.addr() { span.start } else { keep.start };
        let size = keep.end().min(span.end()) - start.addr();
        heap.truncate(span, Span::new(start, size)).map(|kept| self.parts_of(&kept))
    }

    /// Where parts lie.
    fn span(&self, parts: &Range<usize>) -> Span {
        let places = self.parts.places(parts);
        Span::new(self.start.wrapping_add(places.start), places.len())
    }

    /// The parts in which a span has a byte.
    fn parts_of(&self, span: &Span) -> Range<usize> {
        let first = span.start.addr().wrapping_sub(self.start.addr());
        self.parts.number(first)..self.parts.holding(first + span.size)
    }

    /// As [`Arena::allocate_zeroed`].
    ///
    /// # Errors
    /// No stripe has room.
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<u8>, NoMemory> {
        let block = self.allocate(layout)?;
        // SAFETY: the block has that many bytes. The stripes do not know that any of them are zero.
        unsafe { block.as_ptr().write_bytes(0, layout.size()) };
        Ok(block)
    }

    /// The stripe that contains a block. For a pointer in none, the last one: where pointers are
    /// checked, it reports that.
    #[cfg_attr(not(feature = "small"), inline(always))]
    fn of(&self, block: NonNull<u8>) -> &Shared<S, ByStripes, L> {
        let offset = block.as_ptr().addr().wrapping_sub(self.start.addr());
        let stripe = self.parts.owner(offset).unwrap_or(N - 1);
        &self.stripes[stripe].0
    }

    /// As [`Shared::deallocate`].
    ///
    /// # Safety
    /// 1. As there.
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>) {
        // SAFETY: by 1, and it is this stripe's.
        unsafe { self.of(block).deallocate(block) };
    }

    /// As [`Shared::deallocate_sized`].
    ///
    /// # Safety
    /// 1. As there.
    #[inline]
    pub unsafe fn deallocate_sized(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: by 1, and it is this stripe's.
        unsafe { self.of(block).deallocate_sized(block, layout) };
    }

    /// As [`Shared::reallocate`]; into another stripe where its own has no room.
    ///
    /// # Errors
    /// No stripe has; the block is as it was.
    ///
    /// # Safety
    /// 1. As there.
    pub unsafe fn reallocate(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        size: usize,
    ) -> Result<NonNull<u8>, NoMemory> {
        let own = self.of(block);
        // SAFETY: by 1, and it is this stripe's. The new block is another one, at least as large as
        // what is copied; the right to the old one's bytes is the stripe's.
        unsafe {
            if let Ok(same) = own.reallocate(block, layout, size) {
                return Ok(same);
            }
            // What is no block is not copied from.
            let from = own.own(block, layout).ok_or(NoMemory)?;
            let wanted = Layout::from_size_align(size, layout.align()).map_err(|_| NoMemory)?;
            let new = self.allocate(wanted)?;
            new.as_ptr().copy_from_nonoverlapping(from.as_ptr(), layout.size().min(size));
            self.deallocate_sized(block, layout);
            Ok(new)
        }
    }
}

impl<S: Shape<Space = Anywhere>, L: Exclusive, const N: usize, H: Spread> fmt::Debug
    for Striped<S, L, N, H>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Striped").field("survey", &self.survey()).finish_non_exhaustive()
    }
}
