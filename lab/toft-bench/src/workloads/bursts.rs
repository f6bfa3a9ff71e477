//! Bursts beside what another thread does: memory is taken, touched and freed, and is idle until
//! its turn comes again.
//!
//! Each burst has the sizes of one doubling, and the next burst those of the next. So what a burst
//! has freed waits for all the others before it is used again: long enough for an allocator that
//! gives idle memory back by time. Whether it did so is seen by the page faults of the second and
//! later turns, which an allocator that keeps everything does not have.

use super::prelude::*;
use super::replace::drain;
use crate::resident::{Faults, faults, page_size};
use std::sync::atomic::{AtomicUsize, Ordering::Acquire};
use std::time::Duration;

/// 16 bytes and twice that, to 256 KiB.
const FIRST: usize = 16;
const DOUBLINGS: usize = 14;

/// How threads of bursts work.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    /// How many threads; may be none.
    pub threads: usize,
    bytes: usize,
    /// Between two bursts.
    pause: Duration,
}

impl Bursts {
    /// Reads `bursts`, `burst_bytes` and `pause_us`.
    pub fn of(params: &Params) -> Self {
        Self {
            threads: params.size("bursts", 0),
            bytes: params.size("burst_bytes", 16 << 20),
            pause: Duration::from_micros(params.get("pause_us", 100_000)),
        }
    }

    /// Bursts as long as `working` is not 0. Returns the page faults of this thread after each
    /// doubling had its first turn.
    pub fn run<H: Heap>(self, heap: H, working: &AtomicUsize) -> u64 {
        let mut slots = Mapped::<*mut u8>::new(self.bytes / FIRST + 1);
        let mut rng = Rng::new(7);
        let mut first = None;
        for turn in 0.. {
            if turn == DOUBLINGS {
                first = Some(faults(Faults::OfThread));
            }
            if working.load(Acquire) == 0 {
                break;
            }
            self.burst(heap, &mut slots, FIRST << (turn % DOUBLINGS), &mut rng);
            std::thread::sleep(self.pause);
        }
        first.map_or(0, |first| faults(Faults::OfThread) - first)
    }

    /// Blocks of `low` bytes to twice that, every page touched, and all freed.
    fn burst<H: Heap>(self, heap: H, slots: &mut [*mut u8], low: usize, rng: &mut Rng) {
        let mut left = self.bytes;
        let mut used = 0;
        while left > 0 {
            let size = low + rng.below(low);
            let block = take(heap, size);
            for offset in (0..size).step_by(page_size() as usize) {
                // SAFETY: the block is live, and as long as that.
                unsafe { block.add(offset).write_volatile(1) };
            }
            slots[used] = block;
            used += 1;
            left = left.saturating_sub(size);
        }
        drain(heap, &mut slots[..used]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::test_heaps::Recorder;

    #[test]
    fn a_burst_is_of_one_doubling_and_of_so_many_bytes() {
        let params = Params::of("bursts=1 burst_bytes=64ki");
        let bursts = Bursts::of(&params);
        let mut slots = Mapped::new(bursts.bytes / FIRST + 1);
        for turn in [0, 5, DOUBLINGS - 1] {
            let (heap, low) = (Recorder::new(), FIRST << turn);
            bursts.burst(heap, &mut slots, low, &mut Rng::new(3));
            let sizes = heap.sizes();
            assert!(sizes.iter().all(|size| (low..2 * low).contains(size)), "{sizes:?}");
            let sum = sizes.iter().sum::<usize>();
            assert!((65_536..65_536 + 2 * low).contains(&sum), "{sum}");
            assert_eq!(heap.calls().len(), 2 * sizes.len());
        }
        assert_eq!(FIRST << DOUBLINGS, 256 << 10);
    }

    #[test]
    fn without_such_threads_there_are_none() {
        assert_eq!(Bursts::of(&Params::default()).threads, 0);
    }
}
