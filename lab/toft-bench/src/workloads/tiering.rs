//! Cold blocks beside hot ones, after btmalloc: many blocks are written and then left alone, the
//! kernel is asked to page them out, and a few small blocks are replaced over and over. Does the
//! work on the hot blocks bring back pages of the cold ones, and how many pages are they on at all?
//!
//! btmalloc pages out by itself; here the workload does it for every allocator, with `MADV_PAGEOUT`
//! on each page that holds a byte of a cold block. Without swap the kernel has nowhere to put such
//! pages (`swap_mb` is 0 then) and the resident sizes before and after tell nothing. What remains
//! is what the allocator answers for: the pages that the blocks are spread over (`span_mb`), and
//! how many hot blocks live on such a page (`shared_blocks`).

use super::prelude::*;
use super::replace::drain;
use crate::resident::{page_size, resident};

pub const WORKLOAD: Workload = workload!("tiering", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let size = params.size("size", 512);
    let hot_size = params.size("hot_size", 64);
    let rounds = params.get("rounds", 4);
    let mut cold = Mapped::<*mut u8>::new(params.size("blocks", 120_000));
    let mut hot = Mapped::<*mut u8>::new(params.size("hot", 1024));
    let mut spare = Mapped::<*mut u8>::new(cold.len());
    let ranges = Mapped::new(2 * cold.len());
    let fresh = resident();
    for (index, slot) in cold.iter_mut().enumerate() {
        *slot = take(heap, size);
        // SAFETY: the block is live and `size` bytes long.
        unsafe { slot.write_bytes(mark(index), size) };
    }
    hot.fill_with(|| take(heap, hot_size));

    spare.copy_from_slice(&cold);
    let pages = Pages::under(ranges, &mut spare, size);
    let refused = pages.page_out();
    let start = Instant::now();
    for _ in 0..rounds {
        for slot in hot.iter_mut() {
            // SAFETY: the slot holds a live block, and gets another.
            unsafe { heap.free(*slot) };
            *slot = take(heap, hot_size);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let after = resident();
    for (index, block) in cold.iter().enumerate() {
        // SAFETY: the block is live, and was written from end to end above.
        let bytes = unsafe { std::slice::from_raw_parts(*block, size) };
        assert!(bytes.iter().all(|&byte| byte == mark(index)), "cold block {index} has changed");
    }
    let ops = cold.len() as u64 + hot.len() as u64 * (rounds + 1);
    drain(heap, &mut cold);
    drain(heap, &mut hot);
    let mega = |bytes: u64| bytes as f64 / 1e6;
    let mut outcome = Outcome::timed(hot.len() as u64 * rounds, seconds)
        .with("paged_mb", mega(after.saturating_sub(fresh)))
        .with("span_mb", mega(pages.count() * page_size()))
        .with("refused", refused as f64);
    outcome.ops = ops;
    outcome
}

/// What a cold block is filled with.
fn mark(index: usize) -> u8 {
    index as u8
}

/// Pages, as disjoint ranges in ascending order, none next to another. The table holds the start
/// and the end of each range in turn.
struct Pages {
    ranges: Mapped<usize>,
    len: usize,
}

impl Pages {
    /// The pages on which blocks of `size` bytes lie, which it sorts. The table, two cells for each
    /// block, is the caller's: it must be there before memory is measured.
    fn under(ranges: Mapped<usize>, blocks: &mut [*mut u8], size: usize) -> Self {
        let page = page_size() as usize;
        blocks.sort_unstable();
        let mut pages = Self { ranges, len: 0 };
        for block in blocks {
            let start = block.addr() / page * page;
            let end = (block.addr() + size).next_multiple_of(page);
            match pages.len {
                0 => pages.push(start, end),
                len if start > pages.ranges[2 * len - 1] => pages.push(start, end),
                len => {
                    let last = &mut pages.ranges[2 * len - 1];
                    *last = end.max(*last);
                }
            }
        }
        pages
    }

    fn push(&mut self, start: usize, end: usize) {
        self.ranges[2 * self.len] = start;
        self.ranges[2 * self.len + 1] = end;
        self.len += 1;
    }

    /// The start and the end of each range.
    fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.ranges[..2 * self.len].chunks(2).map(|range| (range[0], range[1]))
    }

    fn count(&self) -> u64 {
        self.iter().map(|(start, end)| (end - start) as u64 / page_size()).sum()
    }

    /// Asks the kernel to page them out; returns how many of the ranges it refused.
    fn page_out(&self) -> usize {
        let refused = |&(start, end): &(usize, usize)| {
            let address = std::ptr::with_exposed_provenance_mut(start);
            // SAFETY: paging out changes no byte of a mapping, and an address that is not mapped is
            // refused.
            unsafe { libc::madvise(address, end - start, libc::MADV_PAGEOUT) != 0 }
        };
        self.iter().filter(refused).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: usize) -> *mut u8 {
        std::ptr::without_provenance_mut(address)
    }

    fn under(blocks: &mut [*mut u8], size: usize) -> Pages {
        Pages::under(Mapped::new(2 * blocks.len()), blocks, size)
    }

    #[test]
    fn cold_blocks_come_once_and_hot_ones_again_in_every_round() {
        use crate::workloads::test_heaps::recorded;
        let words = "blocks=300 size=700 hot=50 hot_size=40 rounds=3";
        let (heap, outcome) = recorded(run, words);
        let sizes = heap.sizes();
        assert_eq!(sizes[..300], [700; 300]);
        assert_eq!(sizes[300..], [40; 200]);
        let figure = |key: &str| outcome.metrics[key];
        // 210 kB lie on no less than that and, at two pages for each block, no more than this.
        assert!((0.21..2.5).contains(&figure("span_mb")), "{outcome:?}");
        // Every page is mapped, so a refusal would be the kernel's, for want of the request itself.
        assert_eq!(figure("refused"), 0.0);
    }

    #[test]
    fn ranges_are_whole_pages_and_neighbours_are_joined() {
        let page = page_size() as usize;
        // Two on one page, one over a border, one on the page after that, one far away.
        let mut blocks = [10 * page + 8, 9 * page - 4, page, page + 512, 40 * page].map(at);
        let pages = under(&mut blocks, 16);
        let ranges: Vec<(usize, usize)> = pages.iter().collect();
        assert_eq!(ranges, [(page, 2 * page), (8 * page, 11 * page), (40 * page, 41 * page)]);
        assert_eq!(pages.count(), 5);
    }

    #[test]
    fn pages_that_are_not_there_are_refused_and_those_that_are_keep_their_bytes() {
        let page = page_size() as usize;
        let mut table = Mapped::<u8>::new(4 * page);
        table.fill(7);
        let start = table.as_mut_ptr();
        assert_eq!(under(&mut [start], 4 * page).page_out(), 0);
        assert!(table.iter().all(|&byte| byte == 7));
        drop(table);
        // The lowest pages are never mapped.
        assert_eq!(under(&mut [at(page)], 16).page_out(), 1);
    }
}
