//! Forks of a process that has a heap. The kernel copies page tables and mappings for each child,
//! and a page for each that the child writes to; all of it is freed when the child exits.
//!
//! The heap is that of a small server: some thousand blocks of 48 call sites, of which most ask for
//! one size. A child exits at once (`work=0`), or allocates `work` blocks and frees them.

use super::prelude::*;
use crate::outcome::{Outcome, megabytes, status_kib};
use crate::thunks::Thunks;

pub const WORKLOAD: Workload = workload!("fork", run);

const SITES: usize = 48;

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let (count, work) = (params.get("count", 100), params.size("work", 0));
    let mut blocks = Mapped::<*mut u8>::new(params.size("blocks", 9000));
    let mut temporary = Mapped::<*mut u8>::new(work.max(1));
    let mut sites = CallSites::new(heap, params.get("seed", 1));
    blocks.iter_mut().for_each(|slot| *slot = sites.take(heap));
    for _ in 0..2 * blocks.len() {
        let slot = sites.rng.below(blocks.len());
        // SAFETY: allocated above, and replaced at once.
        unsafe { heap.free(blocks[slot]) };
        blocks[slot] = sites.take(heap);
    }
    let tables = megabytes(status_kib("self", "VmPTE"));
    let before = faults_of_children();
    let start = Instant::now();
    for _ in 0..count {
        // SAFETY: this process has one thread; the child calls the heap and `_exit` only.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "no process to be had");
        if child == 0 {
            temporary.iter_mut().take(work).for_each(|slot| *slot = sites.take(heap));
            // SAFETY: allocated in the line above, each freed once.
            temporary.iter().take(work).for_each(|&block| unsafe { heap.free(block) });
            // SAFETY: ends this process, and nothing else of it runs.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(ended == child && status == 0, "a child ended with {status:#x}");
    }
    let seconds = start.elapsed().as_secs_f64();
    let faults = faults_of_children() - before;
    // SAFETY: every slot has a block, and none is used again.
    blocks.iter().for_each(|&block| unsafe { heap.free(block) });
    Outcome::timed(count, seconds)
        .with("us", seconds * 1e6 / count as f64)
        .with("faults_per_child", faults as f64 / count as f64)
        .with("tables_mb", tables)
}

/// Page faults without disk of all children that have ended.
fn faults_of_children() -> i64 {
    // SAFETY: numbers only, for which zeros are values.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes to the structure alone.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut used) };
    used.ru_minflt
}

/// Call sites, and what each asks for.
struct CallSites {
    code: Thunks,
    sizes: [usize; SITES],
    rng: Rng,
}

impl CallSites {
    fn new(heap: impl Heap, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let sizes = std::array::from_fn(|_| match rng.below(20) {
            0..12 => 16 + rng.below(112),
            12..19 => 128 + rng.below(384),
            _ => 512 + rng.below(4096),
        });
        Self { code: Thunks::new(SITES, heap.entry()), sizes, rng }
    }

    /// A block of any site; of one site in eight it is a string of any length.
    fn take<H: Heap>(&mut self, heap: H) -> *mut u8 {
        let site = self.rng.below(SITES);
        let size = if site.is_multiple_of(8) { 1 + self.rng.below(256) } else { self.sizes[site] };
        // SAFETY: `entry` is a function of a size and of this heap.
        touched(unsafe { self.code.call(site, size, &raw const heap) }, size)
    }
}
