//! A link or a size that was written over is named, and the process stops before the chunk is
//! handed out. Each test has a twin that shows no false alarm.

use crate::common::{Cached, freed, heap, in_a_child, said_when_stopped, take};
use toft_small_bins::{Variant, each_variant, variant::*};

/// Writes a word of a block, as a program with a defect does.
fn poke(block: *mut u8, word: isize, value: usize) {
    // SAFETY: the callers name words of the heap's memory.
    unsafe { block.cast::<usize>().offset(word).write(value) };
}

fn peek(block: *mut u8, word: isize) -> usize {
    // SAFETY: as `poke`.
    unsafe { block.cast::<usize>().offset(word).read() }
}

/// A small block and a large one, whose chunks have no byte more than the word before the block.
const SIZES: [usize; 2] = [104, 2008];

/// A heap with 36 free blocks of a size between live ones. Of a small size a cache holds the first
/// 24 and the last 4: it was full at the 33rd. The others are in a list.
fn with_free<V: Variant>(size: usize) -> (Cached<V>, Vec<*mut u8>) {
    let mut heap = heap::<V>();
    let all = freed(&mut heap, std::iter::repeat_n(size, 36));
    heap.check().unwrap();
    (heap, all)
}

/// Asks for every free block, and for a large one, which sorts what is not sorted.
fn use_all<V: Variant>(heap: &mut Cached<V>, size: usize) {
    for _ in 0..36 {
        take(heap, size);
    }
    take(heap, 100_000);
}

/// Writes over a word of one of the free blocks. The next calls stop the process, and name it.
fn stops<V: Variant>(size: usize, which: usize, word: isize, value: usize, what: &str) {
    let (mut heap, all) = with_free::<V>(size);
    poke(all[which], word, value);
    let said = said_when_stopped(|| use_all(&mut heap, size));
    let start = format!("toft-small-bins: {}: ", V::NAME);
    assert!(said.starts_with(&start) && said.ends_with('\n'), "{said:?}");
    assert!(said.contains(what), "{size} {which} {word} {value:#x}: {said:?}");
}

/// A test that is run for every variant.
macro_rules! each {
    ($($(#[$doc:meta])* fn $test:ident<V>() $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $test() {
            fn one<V: Variant>() $body
            macro_rules! call {
                ($type:ident) => { one::<$type>() };
            }
            each_variant!(call);
        }
    )*};
}

each! {
    fn a_link_of_a_list_is_named<V>() {
        for size in SIZES {
            // The link to the next chunk, and the one to the previous chunk.
            for word in [0, 1] {
                let (_heap, all) = with_free::<V>(size);
                // Places where no chunk is; the head of another list; another chunk.
                let others = [0, 0x10, 0x18 << 40, usize::MAX, usize::MAX & !15, 8];
                for value in others.into_iter().chain([peek(all[26], word)]) {
                    stops::<V>(size, 28, word, value, "corrupted link: ");
                }
            }
        }
    }

    /// Blocks of two sizes in one large bin: each size has a leader, with two links more.
    fn a_link_of_a_leader_is_named<V>() {
        for word in [2, 3] {
            for value in [0x10, 0x18 << 40, usize::MAX] {
                let mut heap = heap::<V>();
                let all = freed(&mut heap, [2008, 2024]);
                // Sorts the list, if there is one.
                take(&mut heap, 100_000);
                heap.check().unwrap();
                poke(all[1], word, value);
                let said = said_when_stopped(|| {
                    take(&mut heap, 2024);
                });
                assert!(said.contains("corrupted link: "), "{word} {value:#x} {said:?}");
            }
        }
    }

    fn a_link_of_the_cache_is_named<V>() {
        if V::CACHES {
            // Below the first chunk, at no place of a chunk, and beyond what is usable.
            for value in [0x10, 8, 0x18 << 40, usize::MAX, usize::MAX & !7] {
                stops::<V>(104, 4, 0, value, "corrupted link: ");
            }
            // A live block, and a free one that is in another list.
            let (_heap, all) = with_free::<V>(104);
            let live = peek(all[4], 0) + 112;
            for value in [live, live - 16, peek(all[28], 0)] {
                stops::<V>(104, 4, 0, value, "not free");
            }
            // The mark was written over, or the size.
            stops::<V>(104, 4, 1, 0, "not free");
            for tag in [112, 96 | 1, 224 | 1] {
                stops::<V>(104, 4, -1, tag, "not free");
            }
        }
    }

    fn a_size_of_a_free_block_is_named<V>() {
        for size in SIZES {
            // The size before the block, and the one in its last word.
            for word in [-1, size as isize / 8 - 1] {
                for value in [0, 16, 48, 1 << 40, usize::MAX & !15] {
                    stops::<V>(size, 28, word, value, "corrupted size of free block ");
                }
            }
            stops::<V>(size, 28, -1, (size + 8) | 1, "is in a list but not free");
        }
    }

    /// A free that merges checks the neighbour's links and sizes.
    fn a_corrupted_neighbour_is_named_by_a_merge<V>() {
        for (word, what) in [(0, "corrupted link: "), (250, "corrupted size")] {
            let mut heap = heap::<V>();
            let blocks = [2008; 4].map(|size| take(&mut heap, size));
            // SAFETY: live, and freed once.
            unsafe { heap.free(blocks[1]) };
            poke(blocks[1], word, 0x10);
            // SAFETY: live, and freed once.
            let said = said_when_stopped(|| unsafe { heap.free(blocks[0]) });
            assert!(said.contains(what), "{said:?}");
        }
    }

    /// The twin: the rest of a free block belongs to no list.
    fn what_else_is_in_a_free_block_is_not_read<V>() {
        for size in SIZES {
            let (mut heap, all) = with_free::<V>(size);
            // A large one has two links more.
            for word in 4..(size as isize / 8 - 1) {
                poke(all[28], word, usize::MAX);
            }
            heap.check().unwrap();
            use_all(&mut heap, size);
            heap.check().unwrap();
        }
    }

    fn a_double_free_is_named<V>() {
        for size in SIZES {
            let mut heap = heap::<V>();
            let block = take(&mut heap, size);
            take(&mut heap, 16);
            // SAFETY: the second free is the mistake that the heap has to see.
            let said = said_when_stopped(|| unsafe {
                heap.free(block);
                heap.free(block);
            });
            assert!(said.contains("double free of block 0x"), "{said:?}");
        }
    }

    /// The twin: no block has a mark when it is handed out, and no free memory has one. What a
    /// program writes is none, be it the mark of another block.
    fn a_mark_is_in_no_block_outside_of_a_cache<V>() {
        let mut heap = heap::<V>();
        let blocks: Vec<_> = (0..16).map(|_| take(&mut heap, 104)).collect();
        take(&mut heap, 16);
        let mut marks = Vec::new();
        for _ in 0..2 {
            for (block, mark) in blocks.iter().zip(marks.iter().cycle().skip(1)) {
                poke(*block, 1, *mark);
            }
            // SAFETY: live, and freed once.
            blocks.iter().for_each(|block| unsafe { heap.free(*block) });
            marks = blocks.iter().map(|block| peek(*block, 1)).collect();
            let again: Vec<_> = blocks.iter().map(|_| take(&mut heap, 104)).collect();
            assert!(!V::CACHES || again.iter().rev().eq(&blocks));
            let marked = |(block, mark): (&*mut u8, &usize)| peek(*block, 1) == *mark;
            assert!(!V::CACHES || !blocks.iter().zip(&marks).any(marked));
        }
        // SAFETY: live, and freed once.
        blocks.iter().for_each(|block| unsafe { heap.free(*block) });
        assert_eq!(heap.check(), Ok(if V::CACHES { 16 } else { 0 }));
        heap.empty_cache();
        assert_eq!(heap.check(), Ok(0));
        let marked = |(block, mark): (&*mut u8, &usize)| peek(*block, 1) == *mark;
        assert!(!V::CACHES || !blocks.iter().zip(&marks).any(marked));
    }

    fn a_pointer_into_a_block_is_named<V>() {
        let mut heap = heap::<V>();
        let block = take(&mut heap, 200);
        for at in [1_usize, 8] {
            // SAFETY: the free is the mistake that the heap has to see.
            let said = said_when_stopped(|| unsafe { heap.free(block.add(at)) });
            assert!(said.contains("is not a block of this heap"), "{said:?}");
        }
    }

    /// A block before this one was written beyond its end.
    fn a_size_of_a_live_block_is_named<V>() {
        for value in [1, 8 | 1, (1 << 40) | 1] {
            let mut heap = heap::<V>();
            let block = take(&mut heap, 2008);
            take(&mut heap, 16);
            poke(block, -1, value);
            // SAFETY: the block is live; its size was written over.
            let said = said_when_stopped(|| unsafe { heap.free(block) });
            assert!(said.contains("corrupted size before block 0x"), "{said:?}");
        }
    }

    /// The twin of all: the same calls without a mistake.
    fn a_child_without_a_mistake_ends_well<V>() {
        for size in SIZES {
            let (mut heap, _) = with_free::<V>(size);
            assert_eq!(in_a_child(|| use_all(&mut heap, size)), (0, String::new()));
        }
    }
}
