//! After glibc's bench-malloc-tcache: a ring of slots; a block is allocated into one slot and the
//! block of the next is freed. A cache of a thread answers every call as long as it takes the size
//! and as many blocks as are freed in a row, which is `burst`: glibc's program frees one at a
//! time, up to 1024 bytes. Larger sizes and longer bursts show what is beyond the cache.

use super::prelude::*;
use super::replace::drain;

pub const WORKLOAD: Workload = workload!("malloc-tcache", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let size = params.size("size", 64);
    let burst = params.size("burst", 1);
    let mut ring = Mapped::<*mut u8>::new(params.size("slots", 4));
    assert!(
        burst > 0 && ring.len().is_multiple_of(burst),
        "a ring of {} slots is not filled by bursts of {burst}",
        ring.len()
    );
    let steps = params.size("ops", 1_000_000).div_ceil(burst);
    turn(heap, &mut ring, size, burst, steps / 20);
    let start = Instant::now();
    turn(heap, &mut ring, size, burst, steps);
    Outcome::timed((steps * burst) as u64, start.elapsed().as_secs_f64())
}

/// `steps` times: fill the next `burst` slots, and empty as many after those. Ends with an empty
/// ring.
#[inline(never)]
fn turn<H: Heap>(heap: H, ring: &mut [*mut u8], size: usize, burst: usize, steps: usize) {
    let len = ring.len();
    let after = |place| if place + burst == len { 0 } else { place + burst };
    let mut place = 0;
    for _ in 0..steps {
        let next = after(place);
        for slot in &mut ring[place..place + burst] {
            *slot = take(heap, size);
        }
        for slot in &mut ring[next..next + burst] {
            // SAFETY: the slot holds a live block or null, and is emptied at once.
            unsafe { heap.free(std::mem::replace(slot, std::ptr::null_mut())) };
        }
        place = next;
    }
    drain(heap, ring);
}

#[cfg(test)]
mod tests {
    use super::super::test_heaps::{Call, recorded};
    use super::*;

    #[test]
    fn one_slot_is_filled_and_the_next_is_emptied() {
        let of = |words: &str| recorded(run, words).0.calls();
        let (ask, free) = (Call::Malloc(64), |number| Call::Free(number, 1));
        assert_eq!(of("slots=1 ops=2"), [ask, free(0), ask, free(1)]);
        // Three blocks stay behind the one that is filled; what is left is freed at the end.
        let ring = of("slots=4 ops=5");
        assert_eq!(ring[..7], [ask, ask, ask, ask, free(0), ask, free(1)]);
        let bursts = of("slots=4 burst=2 ops=6");
        assert_eq!(bursts[..6], [ask, ask, ask, ask, free(0), free(1)]);
        assert_eq!(of("slots=1 ops=1 size=9")[0], Call::Malloc(9));
    }
}
