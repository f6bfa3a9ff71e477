//! Random calls against a shadow heap, with every invariant checked after each call.

use crate::common::{Cached, heap, of_at_most, take};
use proptest::prelude::*;
use toft_small_bins::{Variant, each_variant};

/// A call. Blocks are chosen by number, among those that are live.
#[derive(Clone, Debug)]
enum Call {
    Allocate(usize),
    Aligned(u32, usize),
    Free(usize),
    Resize(usize, usize),
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..200_usize, 3 => 0..1100_usize, 2 => 900..6000_usize, 1 => 0..120_000_usize]
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        5 => sizes().prop_map(Call::Allocate),
        1 => (4..14_u32, sizes()).prop_map(|(align, size)| Call::Aligned(align, size)),
        5 => any::<usize>().prop_map(Call::Free),
        2 => (any::<usize>(), sizes()).prop_map(|(block, size)| Call::Resize(block, size)),
    ];
    proptest::collection::vec(call, 1..250)
}

/// What the heap should hold: live blocks, their sizes, and the byte that fills each.
struct Shadow<V: Variant> {
    heap: Cached<V>,
    live: Vec<(*mut u8, usize, u8)>,
    next: u8,
    /// The address of the first block.
    first: Option<usize>,
}

impl<V: Variant> Shadow<V> {
    fn step(&mut self, call: &Call) {
        match *call {
            Call::Allocate(size) => {
                let block = self.heap.allocate(size);
                self.add(block, size, 16);
            }
            Call::Aligned(align, size) => {
                let block = self.heap.allocate_aligned(1 << align, size);
                self.add(block, size, 1 << align);
            }
            Call::Free(number) if !self.live.is_empty() => {
                let (block, size, fill) = self.live.swap_remove(number % self.live.len());
                holds(block, size, fill);
                // SAFETY: live, and forgotten.
                unsafe { self.heap.free(block) };
            }
            Call::Resize(number, size) if !self.live.is_empty() => {
                let number = number % self.live.len();
                let (block, old, fill) = self.live[number];
                // SAFETY: live.
                if unsafe { self.heap.resize(block, size) } {
                    holds(block, old.min(size), fill);
                    self.live[number].1 = size;
                    self.fill(number);
                }
            }
            Call::Free(_) | Call::Resize(..) => {}
        }
        self.heap.check().unwrap();
    }

    fn add(&mut self, block: *mut u8, size: usize, align: usize) {
        assert!(!block.is_null() && block.addr().is_multiple_of(align), "{block:?} {align}");
        self.live.push((block, size, self.next));
        self.next = self.next.wrapping_add(1);
        let (start, end) = (block.addr(), block.addr() + size.max(1));
        let others = &self.live[..self.live.len() - 1];
        let apart = |(other, size, _): &(*mut u8, usize, u8)| {
            other.addr() + (*size).max(1) <= start || end <= other.addr()
        };
        assert!(others.iter().all(apart), "two blocks overlap");
        self.fill(self.live.len() - 1);
    }

    fn fill(&mut self, number: usize) {
        let (block, size, fill) = self.live[number];
        // SAFETY: live; every usable byte may be written.
        unsafe {
            let usable = self.heap.usable_size(block);
            assert!(usable >= size);
            block.write_bytes(fill, usable);
        }
    }
}

/// No byte of a live block has changed.
fn holds(block: *mut u8, size: usize, fill: u8) {
    // SAFETY: live, and written when it was allocated.
    let bytes = unsafe { std::slice::from_raw_parts(block, size) };
    assert!(bytes.iter().all(|byte| *byte == fill), "a block has changed");
}

/// Runs the calls, then frees every block: one chunk remains, and it is the end of the heap.
fn run<V: Variant>(calls: &[Call]) {
    let mut shadow = Shadow::<V> { heap: heap(), live: Vec::new(), next: 1, first: None };
    let first = take(&mut shadow.heap, 1);
    shadow.first = Some(first.addr());
    shadow.add(first, 1, 16);
    for call in calls {
        shadow.step(call);
    }
    for (block, size, fill) in std::mem::take(&mut shadow.live) {
        holds(block, size, fill);
        // SAFETY: live, and freed once.
        unsafe { shadow.heap.free(block) };
    }
    shadow.heap.check().unwrap();
    shadow.heap.empty_cache();
    assert_eq!(shadow.heap.check(), Ok(0));
    let lowest = shadow.heap.allocate(1);
    assert_eq!(Some(lowest.addr()), shadow.first, "memory is lost");
}

/// A module for each variant, with the name of its type.
#[allow(non_snake_case)]
mod variant {
    use super::*;

    macro_rules! model {
        ($type:ident) => {
            mod $type {
                use super::*;

                proptest! {
                    #![proptest_config(ProptestConfig {
                        failure_persistence: None,
                        ..ProptestConfig::with_cases(60)
                    })]
                    #[test]
                    fn is_a_sound_heap(calls in calls()) {
                        run::<toft_small_bins::variant::$type>(&calls);
                    }
                }
            }
        };
    }

    each_variant!(model);
}

/// Memory that runs out is a null pointer, and what is freed then is used again.
#[test]
fn a_full_heap_refuses_and_goes_on() {
    fn fills<V: Variant>() {
        let mut heap = of_at_most::<V>(1 << 20);
        let mut all = Vec::new();
        loop {
            let block = heap.allocate(5000);
            if block.is_null() {
                break;
            }
            all.push(block);
        }
        assert!(all.len() > 180, "{}: {}", V::NAME, all.len());
        heap.check().unwrap();
        // SAFETY: live, and freed once.
        unsafe { heap.free(all[100]) };
        assert_eq!(heap.allocate(5000), all[100]);
        for size in [usize::MAX, isize::MAX as usize, 1 << 40] {
            assert!(heap.allocate(size).is_null() && heap.allocate_aligned(64, size).is_null());
        }
        heap.check().unwrap();
    }
    macro_rules! fill {
        ($type:ident) => {
            fills::<toft_small_bins::variant::$type>();
        };
    }
    each_variant!(fill);
}
