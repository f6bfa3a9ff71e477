//! IsoAlloc's comparison with other allocators: arrays of 16 to 65 536 objects, each with every
//! size from 16 to 42 000, every second object freed at once and the others in the end; through
//! `malloc`, `calloc` or `realloc`. And its test of threads: three of them, one for each of these
//! entries, that write each object from end to end, free three of five at once and the others in
//! the end.
//!
//! As in the original, what comes from `malloc` and `calloc` is not touched in the first, so that
//! it measures address space as much as memory; and the array that is largest needs 1.4 GB. The
//! number `array` leaves out arrays that hold more bytes than that. Random sizes come from a stated
//! seed, and the figure is wall time instead of processor time, which the runner adds.

use super::prelude::*;

pub const WORKLOAD: Workload = workload!("isoalloc", run);

const SIZES: [usize; 13] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 42000];
const LENGTHS: [usize; 13] =
    [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
const THREAD_SIZES: &[usize] = SIZES.split_at(10).0;
const THREAD_LENGTHS: [usize; 8] = [16, 32, 256, 512, 1024, 2048, 8192, 16384];

/// What an object comes from.
#[derive(Clone, Copy)]
enum Entry {
    Malloc,
    Calloc,
    /// An object of half the size, written, then resized.
    Realloc,
}

impl Entry {
    fn of(number: u64) -> Self {
        match number {
            0 => Self::Malloc,
            1 => Self::Calloc,
            2 => Self::Realloc,
            other => panic!("there is no entry {other}"),
        }
    }

    #[inline(always)]
    fn object<H: Heap>(self, heap: H, size: usize) -> *mut u8 {
        let there = |block: *mut u8| {
            assert!(!block.is_null(), "no memory for {size} bytes");
            launder(block)
        };
        match self {
            Self::Malloc => there(heap.malloc(size)),
            Self::Calloc => there(heap.calloc(size)),
            Self::Realloc => {
                let half = there(heap.malloc(size / 2));
                // SAFETY: the block is live, that long, and replaced by the next call.
                there(unsafe {
                    half.write_bytes(0x41, size / 2);
                    heap.realloc(half, size)
                })
            }
        }
    }
}

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let most = params.size("array", 1_500_000_000);
    let seed = params.get("seed", 1);
    match params.size("threads", 1) {
        1 => {
            let entry = Entry::of(params.get("entry", 0));
            let mut objects = Mapped::<*mut u8>::new(LENGTHS[LENGTHS.len() - 1]);
            let start = Instant::now();
            let mut ops = 0;
            for (length, size) in arrays(Rng::new(seed), most) {
                every_second(heap, &mut objects[..length], size, entry);
                ops += length as u64;
            }
            Outcome::timed(ops, start.elapsed().as_secs_f64())
        }
        threads => {
            let times = params.get("times", 1);
            let (seconds, counts) = together(threads, Placed::Anywhere, |index| {
                let entry = Entry::of(index as u64 % 3);
                let mut rng = Rng::new(seed + index as u64);
                let mut objects = Mapped::<*mut u8>::new(THREAD_LENGTHS[THREAD_LENGTHS.len() - 1]);
                let mut ops = 0;
                for (length, size) in (0..times).flat_map(|_| thread_arrays(most)) {
                    three_of_five(heap, &mut objects[..length], size, entry, &mut rng);
                    ops += length as u64;
                }
                ops
            });
            Outcome::timed(counts.iter().sum(), seconds)
        }
    }
}

/// The length and the size of each array of the sweep. For each length the last is of a random
/// size, which is drawn also when it is left out: what remains does not depend on `most`.
fn arrays(mut rng: Rng, most: usize) -> impl Iterator<Item = (usize, usize)> {
    LENGTHS.into_iter().flat_map(move |length| {
        let random = SIZES[rng.below(SIZES.len())] + rng.below(32);
        SIZES
            .into_iter()
            .chain([random])
            .map(move |size| (length, size))
            // Half of the objects are live in the end.
            .filter(move |(length, size)| length * size / 2 <= most)
    })
}

/// The lengths and sizes for each thread of the other test.
fn thread_arrays(most: usize) -> impl Iterator<Item = (usize, usize)> {
    THREAD_LENGTHS.into_iter().flat_map(move |length| {
        let all = THREAD_SIZES.iter().map(move |&size| (length, size));
        all.filter(move |(length, size)| length * size / 5 * 2 <= most)
    })
}

#[inline(never)]
fn every_second<H: Heap>(heap: H, objects: &mut [*mut u8], size: usize, entry: Entry) {
    for (index, slot) in objects.iter_mut().enumerate() {
        *slot = entry.object(heap, size);
        if index % 2 == 1 {
            // SAFETY: allocated just now; the slot is skipped below.
            unsafe { heap.free(*slot) };
        }
    }
    for object in objects.iter().step_by(2) {
        // SAFETY: the loop above left these alive.
        unsafe { heap.free(*object) };
    }
}

#[inline(never)]
fn three_of_five<H: Heap>(
    heap: H,
    objects: &mut [*mut u8],
    size: usize,
    entry: Entry,
    rng: &mut Rng,
) {
    let mut kept = 0;
    for _ in 0..objects.len() {
        let object = entry.object(heap, size);
        // SAFETY: the object is live and `size` bytes long; it is kept only if it is not freed.
        unsafe {
            object.write_bytes(0x41, size);
            if rng.below(5) < 3 {
                heap.free(launder(object));
                continue;
            }
        }
        objects[kept] = object;
        kept += 1;
    }
    for object in &objects[..kept] {
        // SAFETY: what was kept is live.
        unsafe { heap.free(*object) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::test_heaps::{Call, Recorder, recorded};

    #[test]
    fn without_a_limit_the_counts_are_those_of_the_original() {
        let sweep = |most| arrays(Rng::new(1), most).map(|(length, _)| length).sum::<usize>();
        assert_eq!(sweep(usize::MAX), 1_834_784);
        assert!(sweep(1 << 20) < 1_834_784);
        let thread = |most| thread_arrays(most).map(|(length, _)| length).sum::<usize>();
        assert_eq!(thread(usize::MAX), 284_640);
        assert!(thread(1 << 20) < 284_640);
    }

    #[test]
    fn every_second_object_goes_at_once_and_the_others_in_the_end() {
        let heap = Recorder::new();
        every_second(heap, &mut Mapped::new(5), 64, Entry::Calloc);
        let (ask, free) = (Call::Calloc(64), |number| Call::Free(number, 0));
        // The second and the fourth are the newest when they go.
        let wanted = [ask, ask, free(1), ask, ask, free(3), ask, free(0), free(2), free(4)];
        assert_eq!(heap.calls(), wanted);
    }

    #[test]
    fn each_entry_is_the_one_that_is_asked_for() {
        for (number, calls) in [
            (0, &[Call::Malloc(64)][..]),
            (1, &[Call::Calloc(64)]),
            (2, &[Call::Malloc(32), Call::Realloc(64)]),
        ] {
            let heap = Recorder::new();
            let object = Entry::of(number).object(heap, 64);
            assert_eq!(heap.calls(), calls);
            // SAFETY: allocated above.
            unsafe { heap.free(object) };
        }
    }

    #[test]
    fn the_sweep_is_through_one_entry_and_threads_repeat_theirs() {
        let seen = |words: &str| {
            let (heap, outcome) = recorded(run, words);
            let counts = heap.calls().iter().fold([0, 0, 0], |[m, c, r], event| match event {
                Call::Malloc(..) => [m + 1, c, r],
                Call::Calloc(..) => [m, c + 1, r],
                Call::Realloc(..) => [m, c, r + 1],
                _ => [m, c, r],
            });
            (outcome.ops, counts)
        };
        let (ops, counts) = seen("entry=0 array=1024");
        assert_eq!(counts, [ops, 0, 0]);
        assert_eq!(seen("entry=1 array=1024"), (ops, [0, ops, 0]));
        assert_eq!(seen("entry=2 array=1024"), (ops, [ops, 0, ops]));
        // One thread for each entry.
        let (ops, counts) = seen("threads=3 array=1024");
        assert_eq!(counts, [ops / 3 * 2, ops / 3, ops / 3]);
        assert_eq!(seen("threads=3 array=1024 times=2").0, 2 * ops);
    }

    #[test]
    fn three_of_five_objects_go_at_once() {
        let heap = Recorder::new();
        three_of_five(heap, &mut Mapped::new(1000), 64, Entry::Malloc, &mut Rng::new(1));
        let events = heap.calls();
        let last = events.iter().rposition(|event| matches!(event, Call::Malloc(..))).unwrap();
        let at_once = events[..=last + 1].iter().filter(|call| call.frees()).count();
        assert!((550..=650).contains(&at_once), "{at_once}");
        assert_eq!(events.len(), 2000);
    }

    #[test]
    fn a_limit_leaves_out_arrays_and_changes_none() {
        let all: Vec<_> = arrays(Rng::new(7), usize::MAX).collect();
        let some: Vec<_> = arrays(Rng::new(7), 100_000).collect();
        assert!(some.iter().all(|(length, size)| length * size <= 200_001));
        let small = |(length, size): &(usize, usize)| length * size <= 200_001;
        assert_eq!(some, all.into_iter().filter(small).collect::<Vec<_>>());
    }
}
