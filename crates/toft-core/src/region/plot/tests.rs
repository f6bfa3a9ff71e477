//! Plots on a fake machine: slabs that were unmapped again, and the view of a late thread.

use super::*;
use crate::os::Memory;
use crate::os::fake::{Fake, Fault, Machine, Request};
use crate::region::SMALL;
use crate::sync::AtomicUsize;
use crate::sync::Ordering::Relaxed;
use std::boxed::Box;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::vec::Vec;
extern crate std;

/// A descriptor of 64 bytes, always open.
#[repr(C, align(64))]
#[derive(Debug)]
struct Any([u8; 64]);

// SAFETY: (1) bytes; (2) they are never written.
unsafe impl Descriptor for Any {
    fn is_open(&self) -> bool {
        true
    }

    fn extent(&self) -> (usize, usize) {
        (0, 0)
    }
}

/// The bytes of the first step of a small plot.
const SMALL_STEP: usize = Tier::of(SMALL).first_step;

/// Bytes of address space for everything of one test.
const ALL: usize = 1 << 40;

/// Returns the plots of a tier of `span` bytes, and the address of its first descriptor.
fn plots(fake: &Fake, span: usize, partitions: usize) -> (Plots<SMALL, Any>, usize) {
    let base = fake.address_space().start.next_multiple_of(ALL);
    let (tables, slabs) = (base + 8 * ALL, base + 4 * ALL);
    let bytes = Plots::<SMALL, Any>::table_bytes(span, partitions);
    fake.map(tables, bytes.next_multiple_of(4096)).unwrap();
    // SAFETY: (1) mapped above; (2) the fake's address space is not used otherwise.
    let plots = unsafe { Plots::new(fake, base, span, partitions, slabs, tables) };
    (plots.unwrap(), slabs)
}

/// Slabs that were unmapped are mapped again, and a partition whose plots are full goes on in
/// others' plots. Every slab is handed out once before memory is refused, even after earlier
/// refusals.
#[test]
fn every_slab_is_had_before_memory_is_refused() {
    for partitions in [1, 8, 64] {
        let fake = Fake::new(Machine::LARGE);
        let os = &fake;
        let span = 1 << 26;
        let (plots, _) = plots(os, span, partitions);
        let mut all = BTreeSet::new();
        // One of many partitions gets all slabs.
        while let Ok((_, address)) = plots.take(os, Partition::new(partitions / 2), |_, _| {}) {
            assert!(all.insert(address), "{address:#x} was handed out twice");
            if all.len() % 3 == 0 {
                plots.retract(os);
                assert_eq!(plots.mapped_bytes().0, all.len() << Plots::<SMALL, Any>::SHIFT);
                assert_eq!(plots.mapped_at_most(), plots.mapped_bytes().0);
            }
        }
        // Each slab is found by its addresses, and by no other address: also not by one that
        // differs in a bit above those that choose the entry.
        for &address in all.iter().step_by(97) {
            assert!(plots.slab_at(address + 4095).is_some());
            assert_eq!((48..64).find(|bit| plots.slab_at(address | 1 << bit).is_some()), None);
            assert!((48..64).all(|bit| plots.slab_at(1 << bit).is_none()));
        }
        // The first plots of other partitions are not used while there are plots that were never
        // used.
        assert_eq!(all.len(), span >> Plots::<SMALL, Any>::SHIFT, "{partitions}");
    }
}

/// A thread stopped for ever while it grew a plot, or something foreign is there. Other threads go
/// on in another plot, and the plot is no longer chosen. In the child of a fork it grows again.
#[test]
fn a_plot_that_cannot_grow_is_passed_by() {
    let fake = Fake::new(Machine::LARGE);
    let os = &fake;
    let (plots, _) = plots(os, 1 << 41, 1);
    let take = || plots.take(os, Partition::new(0), |_, _| {}).unwrap().1;
    let first = take();
    plots.retract(os);
    plots.growth(0).counts.stop_growing_for_ever();
    let second = take();
    assert!(second >> GRANULE_SHIFT != first >> GRANULE_SHIFT);
    assert!(!plots.has_room(0) && plots.has_room(1));
    plots.repair(os, 1);
    assert!(plots.has_room(0));
    // A foreign mapping hits the second plot once. The partition goes on in its first plot, and
    // does not try the second again while that has room.
    plots.retract(os);
    let next = second + (1 << Plots::<SMALL, Any>::SHIFT);
    assert!(os.occupy(next..next + 4096));
    let collisions = os.collisions();
    let third = take();
    assert_eq!(first >> GRANULE_SHIFT, third >> GRANULE_SHIFT);
    let plots_then = plots.begun();
    (0..SHORT - 2).for_each(|_| assert_eq!(first >> GRANULE_SHIFT, take() >> GRANULE_SHIFT));
    assert_eq!((os.collisions(), plots.begun()), (collisions + 1, plots_then));
    // Used up and blocked: the partition gets a third plot.
    let fourth = take();
    assert!(![first, second].iter().any(|slab| slab >> GRANULE_SHIFT == fourth >> GRANULE_SHIFT));
    assert_eq!((os.collisions(), plots.begun()), (collisions + 1, plots_then + 1));
}

/// Plots that threads take slabs from while others are stopped in the middle of a mapping.
struct Stopping {
    plots: Plots<SMALL, Any>,
    fake: Fake,
    /// The number of threads that have not begun yet.
    left: AtomicUsize,
    /// The addresses of the slabs that were handed out, and the number of searches that found each
    /// plot with room in the hands of another thread.
    slabs: Mutex<BTreeSet<usize>>,
    busy: AtomicUsize,
}

// SAFETY: the pointers in `Plots` lead to atomics that live for ever.
unsafe impl Send for Stopping {}
// SAFETY: as above; the rest is locked or atomic.
unsafe impl Sync for Stopping {}

impl Stopping {
    fn new(span: usize, partitions: usize) -> &'static Stopping {
        let fake = Fake::new(Machine::LARGE);
        let (plots, _) = plots(&fake, span, partitions);
        Box::leak(Box::new(Stopping {
            plots,
            fake,
            left: AtomicUsize::new(0),
            slabs: Mutex::default(),
            busy: AtomicUsize::new(0),
        }))
    }

    /// Takes a slab. Returns false if the system has refused memory.
    fn take(&self, partition: usize) -> bool {
        match self.plots.take(&self.fake, Partition::new(partition), |_, _| {}) {
            Ok((_, address)) => {
                assert!(self.plots.slab_at(address).is_some() && is_mapped(&self.fake, address));
                assert!(self.slabs.lock().unwrap().insert(address), "{address:#x} twice");
            }
            Err(Error::Busy) => drop(self.busy.fetch_add(1, Relaxed)),
            Err(error) => {
                assert_eq!(error, Error::NoMemory);
                return false;
            }
        }
        true
    }

    /// Takes a slab for each of `threads` threads, of which each is stopped in each of its mappings
    /// `where_to` until all others have what they can get. `of(n)` is the partition of the thread
    /// that is begun while `n` are left.
    fn take_by(
        &'static self,
        threads: usize,
        of: impl Fn(usize) -> usize + Send + Sync + 'static,
        where_to: impl Fn(usize) -> bool + Send + Sync + 'static,
    ) {
        self.left.store(threads - 1, Relaxed);
        let first = of(0);
        self.fake.at_map(move |range| {
            while let Some(left) = self.left.load(Relaxed).checked_sub(1)
                && where_to(range.start)
            {
                self.left.store(left, Relaxed);
                assert!(self.take(of(left)), "refused, with {left} threads to come");
            }
        });
        assert!(self.take(first), "the first thread was refused");
        // The closure has a handle of the fake.
        self.fake.at_map(|_| {});
    }
}

fn is_mapped(fake: &Fake, address: usize) -> bool {
    fake.page(address) == crate::os::fake::PageState::Mapped
}

/// Each of many threads of one partition is stopped while it grows a plot. The partition gets a
/// plot for each of them, and uses these plots when the same happens again: stalls use up no more
/// plots than threads were stopped at once.
#[test]
fn stopped_threads_use_up_one_plot_each() {
    const THREADS: usize = 40;
    let all = Stopping::new(1 << 41, 8);
    let before = all.plots.begun();
    for round in 0..200 {
        if round % 3 != 0 {
            all.plots.retract(&all.fake);
        }
        all.take_by(THREADS, |_| 3, |_| true);
        let more = all.plots.begun() - before;
        // All 40 are beyond the first plot once that is used up.
        assert!(more <= THREADS && (more != 0 || round != 0), "{more} plots in round {round}");
    }
    assert_eq!(all.busy.load(Relaxed), 0);
    // Threads of different partitions are not in each other's way, once each has descriptors.
    (0..8).for_each(|partition| assert!(all.take(partition)));
    let before = all.plots.begun();
    for _ in 0..200 {
        all.plots.retract(&all.fake);
        all.take_by(8, |number| number, |_| true);
    }
    assert!(all.plots.begun() - before <= 8, "{}", all.plots.begun() - before);
}

/// There are more threads than plots, and each is stopped while it grows one. No thread learns
/// that there is no memory. Afterwards all slabs are had, each once.
#[test]
fn more_stopped_threads_than_plots_do_not_look_like_a_lack_of_memory() {
    for partitions in [1, 4] {
        let all = Stopping::new(1 << 26, partitions);
        let plots = all.plots.plots;
        // The first growth maps the descriptors that all plots share.
        assert!(all.take(0));
        for _ in 0..10 {
            all.plots.retract(&all.fake);
            all.take_by(2 * plots, move |number| number % partitions, |_| true);
            assert_eq!(all.busy.swap(0, Relaxed), plots);
        }
        while all.take(0) {}
        assert_eq!(all.slabs.lock().unwrap().len(), (1 << 26) >> Plots::<SMALL, Any>::SHIFT);
    }
}

/// A thread is stopped while it maps the descriptors that all plots share. Other threads use up at
/// most one plot, and find the plots busy.
#[test]
fn shared_descriptors_that_are_not_mapped_yet_use_up_one_plot() {
    let all = Stopping::new(1 << 26, 4);
    let before = all.plots.begun();
    let end = all.plots.base + (1 << 26);
    all.take_by(100, |number| number % 4, move |address| address >= end);
    // The stopped thread's partition gets one: its threads see only that its plot grows.
    assert_eq!((all.plots.begun(), all.busy.load(Relaxed)), (before + 1, 99));
    // A walk visits every slab that was handed out.
    let mut count = 0;
    all.plots.for_each(|_| count += 1);
    assert_eq!(count, all.slabs.lock().unwrap().len());
}

/// A thread is stopped while it maps descriptors of short plots. Each other partition gets one plot
/// more for as long as that lasts, and its short plot afterwards.
#[test]
fn short_descriptors_that_are_not_mapped_yet_use_up_one_plot_each() {
    let all = Stopping::new(1 << 41, 8);
    let before = all.plots.begun();
    let end = all.plots.base + (1 << 41);
    let short_end = all.plots.short + SHORT_STEP;
    all.take_by(701, |number| 1 + number % 7, move |at| (end..short_end).contains(&at));
    assert_eq!((all.plots.begun() - before, all.busy.load(Relaxed)), (7, 0));
    while all.plots.growth(3).counts.now().next == 0 {
        assert!(all.take(3));
    }
    assert_eq!(all.plots.begun() - before, 7);
}

/// The child of a fork repairs the plots of the partitions in use, and the extra plots. If all
/// plots are given out, it also repairs those of unused partitions, because other partitions may
/// use them.
#[test]
fn a_child_repairs_the_plots_that_may_be_in_use() {
    let fake = Fake::new(Machine::LARGE);
    let os = &fake;
    let (plots, _) = plots(os, 1 << 26, 8);
    let (used, unused, extra) = (4, 7, 8);
    // Partition 4 goes on in the first extra plot.
    plots.growth(used).counts.stop_growing_for_ever();
    plots.take(os, Partition::new(used), |_, _| {}).unwrap();
    plots.retract(os);
    plots.growth(unused).counts.stop_growing_for_ever();
    plots.growth(extra).counts.stop_growing_for_ever();
    plots.repair(os, used + 1);
    assert!(plots.has_room(used) && plots.has_room(extra) && !plots.has_room(unused));
    while plots.begun() < plots.plots {
        plots.take(os, Partition::new(used), |_, _| {}).unwrap();
    }
    plots.repair(os, used + 1);
    assert!(plots.has_room(unused));
}

/// While the system locks pages when they are mapped, plots map little ahead of need, and what was
/// mapped ahead before is unmapped. When that is over, steps are long again.
#[test]
fn locked_pages_are_not_mapped_ahead() {
    const SLAB: usize = 1 << Plots::<SMALL, Any>::SHIFT;
    let fake = Fake::new(Machine::LARGE);
    let (plots, _) = plots(&fake, 1 << 41, 8);
    let take = |partition| plots.take(&fake, Partition::new(partition), |_, _| {}).unwrap().1;
    let ahead = |taken: usize| plots.mapped_bytes().0 - taken * SLAB;
    let mut taken = 0;
    while plots.growth(8).counts.now().next != 200 {
        take(1);
        taken += 1;
    }
    for partition in 0..8 {
        take(partition);
    }
    taken += 8;
    assert!(ahead(taken) > 8 << 20);
    // A locked page cannot be discarded.
    fake.set_fault(Some(Fault::from(0).only(Request::Discard)));
    // The steps of small plots are not tested, and keep what they have.
    let least = 8 * SMALL_STEP;
    let first_step = plots.growth(8).counts.now().mapped as usize - 200;
    for number in 0..5000 {
        take(1);
        taken += 1;
        let most = least + taken * SLAB / 8;
        assert!(number <= first_step || ahead(taken) <= most, "{} of {taken}", ahead(taken));
        assert_eq!(plots.mapped_at_most(), plots.mapped_bytes().0);
    }
    assert_ne!(plots.totals().is_locked.load(Relaxed), 0);
    fake.set_fault(None);
    let mut longest = 0;
    for _ in 0..5000 {
        take(1);
        taken += 1;
        longest = longest.max(ahead(taken));
    }
    assert!(longest >= 60 << 20 && plots.totals().is_locked.load(Relaxed) == 0, "{longest}");
}

fn address_of(descriptor: &Any) -> usize {
    (&raw const *descriptor).addr()
}

/// The descriptors of the first plots are adjacent, in the order in which these were begun. A
/// partition goes on in a plot of full size, in steps as large as what it has. Each slab is found.
#[test]
fn first_plots_are_short_and_have_adjacent_descriptors() {
    let fake = Fake::new(Machine::LARGE);
    let (plots, slabs) = plots(&fake, 1 << 41, 8);
    let take = |partition| plots.take(&fake, Partition::new(partition), |_, _| {}).unwrap();
    let order = [5, 0, 7, 1, 2];
    for (number, partition) in order.into_iter().enumerate() {
        let (descriptor, _) = take(partition);
        assert_eq!(address_of(descriptor), slabs + number * SHORT * size_of::<Any>());
    }
    assert_eq!(plots.mapped_bytes().1, SHORT_STEP);
    let all: Vec<_> = (1..SHORT + 9).map(|_| take(7)).collect();
    let in_short_plot = |address: usize| address >> GRANULE_SHIFT == all[0].1 >> GRANULE_SHIFT;
    assert_eq!(all.iter().filter(|&&(_, address)| in_short_plot(address)).count(), SHORT - 1);
    let short_end = slabs + short_bytes(1 << 41, size_of::<Any>());
    for &(descriptor, address) in &all {
        let found = plots.slab_at(address + 4095).expect("it was handed out");
        assert!(core::ptr::eq(found, descriptor));
        assert_eq!(address_of(descriptor) < short_end, in_short_plot(address));
    }
    // The next step after 64 slabs is as long.
    let mapped = plots.growth(plots.begun() - 1).counts.now().mapped;
    assert_eq!((plots.begun(), mapped as usize), (9, SHORT));
    let mut count = 0;
    plots.for_each(|_| count += 1);
    assert_eq!(count, order.len() + SHORT + 8);
    let mut from = 0;
    assert!(!plots.for_each_from(&mut from, |_| false));
    assert!(plots.for_each_from(&mut from, |_| true));
    assert_eq!(from, count);
}

/// A tier with too few plots for all partitions to have two has none that are short.
#[test]
fn partitions_that_need_all_plots_have_no_short_ones() {
    let fake = Fake::new(Machine::LARGE);
    let (plots, _) = plots(&fake, 1 << 41, 1024);
    assert!(plots.short == 0 && (0..plots.plots).all(|n| !plots.is_short(n)));
}

/// A thread stopped for ever while it mapped descriptors of short plots. Another partition goes on
/// in a plot of full size. In the child of a fork short plots are begun again.
#[test]
fn short_plots_are_begun_again_in_a_child() {
    let fake = Fake::new(Machine::LARGE);
    let (plots, slabs) = plots(&fake, 1 << 42, 256);
    let take = |partition| plots.take(&fake, Partition::new(partition), |_, _| {}).unwrap();
    let in_a_step = SHORT_STEP / (SHORT * size_of::<Any>());
    for partition in 0..in_a_step {
        take(partition);
    }
    plots.growth(0).descriptors.begin(SHORT_STEP);
    let is_short = |descriptor| address_of(descriptor) < slabs + 256 * SHORT * size_of::<Any>();
    assert!(!is_short(take(in_a_step).0));
    plots.repair(&fake, in_a_step + 1);
    let (descriptor, address) = take(in_a_step + 1);
    assert!(is_short(descriptor));
    assert!(core::ptr::eq(plots.slab_at(address).unwrap(), descriptor));
}

/// Threads that forks have ended took places for nothing, until there are none left.
#[test]
fn a_plot_without_a_place_for_its_descriptors_is_passed_by() {
    let fake = Fake::new(Machine::LARGE);
    let (plots, slabs) = plots(&fake, 1 << 41, 8);
    let places = short_bytes(1 << 41, size_of::<Any>()) / (SHORT * size_of::<Any>());
    plots.totals().short.store(places as u32 - 1, Relaxed);
    let take = |partition| plots.take(&fake, Partition::new(partition), |_, _| {}).unwrap();
    let end = slabs + places * SHORT * size_of::<Any>();
    let last = take(3).0;
    assert_eq!(address_of(last), end - SHORT * size_of::<Any>());
    assert!(address_of(take(4).0) >= end);
}
