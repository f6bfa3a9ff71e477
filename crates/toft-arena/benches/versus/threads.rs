//! Several threads on one allocator, each with its own blocks. The other allocators share one kind
//! of lock: a mutex that sleeps, because there may be more threads than processors. `Striped` has a
//! lock for each stripe.

use super::Figures;
use super::peers::{self, Peer, Region};
use super::workloads::{MAXIMA, Rng, talcs_actions};
use parking_lot::{Mutex, RawMutex};
use std::alloc::{GlobalAlloc, Layout};
use std::sync::Barrier;
use std::time::Instant;
use toft_arena::source::Once;
use toft_arena::{Anywhere, Fast, LockApi, Shared, Striped};

/// Stripes: four for each of two processors.
const STRIPES: usize = 8;

/// An allocator that threads share.
type Together = dyn GlobalAlloc + Sync;

// SAFETY, of all: workloads free and resize what they have, once, and sizes are never zero.
impl Peer for &Together {
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.alloc(layout) }
    }
    fn free(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.dealloc(block, layout) };
    }
    fn resize(&mut self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.realloc(block, layout, size) }
    }
}

/// What does not lock by itself.
struct Locked(Mutex<Box<dyn Peer>>);

// SAFETY: the peers are heaps over the region, bound to no thread, and used under the mutex.
unsafe impl Sync for Locked {}

// SAFETY: as the peers.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.lock().allocate(layout)
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.0.lock().free(block, layout);
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.0.lock().resize(block, layout, size)
    }
}

type Talc = talc::TalcLock<RawMutex, talc::source::Manual>;

/// Named as in [`peers::PEERS`]; `None` for what is left out here.
fn make(name: &str, region: &Region) -> Option<Box<Together>> {
    Some(match name {
        "fast" => {
            // SAFETY: the region is used by one allocator at a time.
            let once = unsafe { Once::new(region.start, region.size) };
            let lock = LockApi::<RawMutex>::new();
            Box::new(Shared::<Fast, _, _>::new(Anywhere, once, lock))
        }
        "striped fast" => {
            let locks = [const { LockApi::<RawMutex>::new() }; STRIPES];
            // SAFETY: as above.
            Box::new(unsafe { Striped::<Fast, _, STRIPES>::new(region.start, region.size, locks) })
        }
        "talc" => {
            let talc = Talc::new(talc::source::Manual);
            // SAFETY: as above.
            unsafe { talc.lock().claim(region.start, region.size) }.unwrap();
            Box::new(talc)
        }
        "rlsf" => {
            let (_, make) = peers::PEERS.iter().find(|(known, _)| *known == name)?;
            Box::new(Locked(Mutex::new(make(region))))
        }
        _ => return None,
    })
}

/// The names that `random` knows.
pub const NAMES: &[&str] = &["fast", "striped fast", "talc", "rlsf"];

/// Talc's random actions by this many threads, each with around 300 blocks: millions of actions per
/// second of all threads together, for each largest size.
pub fn random(name: &str, region: &Region, round: u64, threads: u64) -> Figures {
    let rates = MAXIMA.iter().map(|&(title, max)| {
        let shared = make(name, &region.first(128 << 20)).expect("a name of `NAMES`");
        let (shared, barrier) = (&*shared, &Barrier::new(threads as usize));
        let rate = std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads)
                .map(|thread| {
                    scope.spawn(move || {
                        let (mut live, mut rng) = (Vec::new(), Rng::new(round * 64 + thread));
                        barrier.wait();
                        let mut shared: &Together = shared;
                        let start = Instant::now();
                        let rate = talcs_actions(&mut shared, &mut live, &mut rng, max);
                        let end = Instant::now();
                        (start, end, rate * (end - start).as_secs_f64())
                    })
                })
                .collect();
            let all = all.into_iter().map(|thread| thread.join().expect("a thread panics"));
            let all: Vec<_> = all.collect();
            // One that has ended early, or begun late, has had it to itself meanwhile.
            let start = all.iter().map(|one| one.0).min().expect("a thread");
            let end = all.iter().map(|one| one.1).max().expect("a thread");
            all.iter().map(|one| one.2).sum::<f64>() / (end - start).as_secs_f64()
        });
        (title, rate)
    });
    rates.collect()
}
