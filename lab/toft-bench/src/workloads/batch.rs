//! Many blocks, then none: allocate a whole batch and free it in some order; and the two other
//! entries that programs use, `calloc` and `realloc`. The order is made outside of the time.

use super::prelude::*;

pub const WORKLOAD: Workload = workload!("batch", run);

/// `repeat` batches of `blocks` blocks; allocating and freeing are also timed apart.
pub(super) fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let size = params.size("size", 64);
    let repeat = params.get("repeat", 10);
    let mut blocks = Mapped::<*mut u8>::new(params.size("blocks", 1000));
    let order = order(blocks.len(), params.get("order", 0), params.get("seed", 1));
    let entry = params.get("entry", 0);
    // The first time through, pages are mapped; that is another question.
    fill(heap, &mut blocks, size, entry);
    empty(heap, &blocks, &order);
    let (mut filling, mut emptying) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..repeat {
        let start = Instant::now();
        fill(heap, &mut blocks, size, entry);
        let filled = Instant::now();
        empty(heap, &blocks, &order);
        emptying += filled.elapsed();
        filling += filled - start;
    }
    let ops = blocks.len() as u64 * repeat;
    let per_block = |time: Duration| time.as_secs_f64() * 1e9 / ops as f64;
    Outcome::timed(ops, (filling + emptying).as_secs_f64())
        .with("alloc_ns", per_block(filling))
        .with("free_ns", per_block(emptying))
}

fn order(count: usize, kind: u64, seed: u64) -> Mapped<u32> {
    let mut order = Mapped::<u32>::new(count);
    for (index, place) in order.iter_mut().enumerate() {
        *place = index as u32;
    }
    match kind {
        0 => {}
        1 => order.reverse(),
        _ => {
            let mut rng = Rng::new(seed);
            for last in (1..count).rev() {
                order.swap(last, rng.below(last + 1));
            }
        }
    }
    order
}

fn fill<H: Heap>(heap: H, blocks: &mut [*mut u8], size: usize, entry: u64) {
    for block in blocks {
        *block = match entry {
            0 => take(heap, size),
            1 => touched(heap.calloc(size), size),
            2 => grown(heap, size),
            _ => touched(heap.aligned(64, size), size),
        };
    }
}

/// A buffer that doubles six times, as a string that is appended to.
fn grown<H: Heap>(heap: H, size: usize) -> *mut u8 {
    let mut block = take(heap, size);
    for step in 1..=6 {
        // SAFETY: a live block, which realloc replaces.
        block = touched(unsafe { heap.realloc(block, size << step) }, size << step);
    }
    block
}

fn empty<H: Heap>(heap: H, blocks: &[*mut u8], order: &[u32]) {
    for &index in order {
        // SAFETY: the order names each block once, and all are live.
        unsafe { heap.free(blocks[index as usize]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_names_each_block_once() {
        for kind in 0..3 {
            let order = order(1000, kind, 1);
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            assert!(sorted.iter().enumerate().all(|(at, &index)| at == index as usize));
            let steps = order.windows(2).filter(|w| w[0] + 1 == w[1]).count();
            assert_eq!(steps > 100, kind == 0, "kind {kind}: {steps}");
        }
    }
}
