//! That the address sanitizer sees into a heap, with the feature `sanitizer`: what it reports, each
//! in a separate process, which ends there; and beside each the same without the defect. `cargo
//! xtask arena` runs it.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each is the defect that is tested, or its twin"
)]

use crate::common::words::{heap, heap_within, layout};
use std::process::Command;
use std::ptr::NonNull;
use toft_arena::shape::{Bare, Narrow, Packed, Shape, Standard};
use toft_arena::{Anywhere, Fast, Heap};

const VARIABLE: &str = "TOFT_ARENA_DEFECT";

/// A defect; it gets a heap with a block of 100 bytes and another above, and does it only if it is
/// asked to.
type Defect<S> = unsafe fn(&mut Heap<S>, NonNull<u8>, bool);

unsafe fn read(block: NonNull<u8>, place: usize) {
    // SAFETY: in the heap's memory, whosever it is.
    std::hint::black_box(unsafe { block.add(place).read_volatile() });
}

fn defects<S: Shape>() -> [(&'static str, Defect<S>); 5] {
    // SAFETY, of all: a defect of a program is what is tested; the twin has none.
    [
        ("beyond the end", |heap, block, defect| unsafe {
            read(block, heap.usable_size(block) - usize::from(!defect));
        }),
        ("the word before", |_, block, defect| unsafe {
            std::hint::black_box(block.sub(usize::from(defect)).read_volatile());
        }),
        ("after it was freed", |heap, block, defect| unsafe {
            if defect {
                heap.deallocate(block);
            }
            read(block, 50);
        }),
        ("what a smaller one has given up", |heap, block, defect| unsafe {
            heap.shrink_in_place(block, 10);
            read(block, if defect { 99 } else { 9 });
        }),
        ("what a larger one has left", |heap, block, defect| unsafe {
            let new = heap.reallocate(block, layout(100), 2000).unwrap();
            read(new, 1999);
            read(if defect { block } else { new }, 50);
        }),
    ]
}

/// Runs one in this process.
fn commit<S: Shape>(mut heap: Heap<S>, number: usize, defect: bool) {
    let block = heap.allocate(layout(100)).unwrap();
    let above = heap.allocate(layout(100)).unwrap();
    // SAFETY: live blocks; the rest is the defect's.
    unsafe {
        block.write_bytes(1, 100);
        above.write_bytes(2, 100);
        (defects::<S>()[number].1)(&mut heap, block, defect);
    }
    heap.check().unwrap();
    println!("went on");
}

/// What the others start: a process with a defect.
#[test]
fn one() {
    let Ok(asked) = std::env::var(VARIABLE) else { return };
    let words: Vec<&str> = asked.split(' ').collect();
    let (number, defect) = (words[1].parse().unwrap(), words[2] == "true");
    match words[0] {
        "packed" => commit(heap::<Packed>(), number, defect),
        "standard" => commit(heap::<Standard>(), number, defect),
        "fast" => commit(heap::<Fast>(), number, defect),
        "bare" => commit(heap::<Bare>(), number, defect),
        _ => commit(heap_within::<u32, Narrow>(1 << 16), number, defect),
    }
}

#[test]
fn each_defect_is_reported_and_its_twin_is_not() {
    for shape in ["packed", "standard", "fast", "bare", "narrow"] {
        for (number, (name, _)) in defects::<Packed>().iter().enumerate() {
            for defect in [true, false] {
                // Tags of four bytes share eight with the end of a block.
                if shape == "narrow" && number == 1 && defect {
                    continue;
                }
                let output = Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "sanitizer::one", "--nocapture"])
                    .env(VARIABLE, format!("{shape} {number} {defect}"))
                    .output()
                    .unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                // Where a poisoned word is half of what the sanitizer counts in, it has no name for
                // it.
                let names = ["use-after-poison", "unknown-crash"];
                let reported =
                    names.iter().any(|name| said.contains(&format!("AddressSanitizer: {name}")));
                assert_eq!(reported, defect, "{shape}: {name}: {said}");
                let went_on = String::from_utf8_lossy(&output.stdout).contains("went on");
                assert_eq!(went_on, !defect, "{shape}: {name}: {said}");
            }
        }
    }
}

/// What the heap has let go of is anybody's: given up, or with the heap itself.
#[test]
fn memory_that_is_not_the_heaps_any_more_is_open() {
    const SIZE: usize = 1 << 16;
    let mut memory = vec![0_u64; SIZE / 8];
    let start = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: the memory is the heap's until it is given up.
    unsafe {
        let mut heap = Heap::<Packed>::new(Anywhere);
        let span = heap.claim(start, SIZE).unwrap();
        let block = heap.allocate(layout(100)).unwrap();
        let least = heap.reserved(span).unwrap();
        let kept = heap.truncate(span, least).unwrap();
        start.add(SIZE / 2).write_bytes(1, SIZE / 2);
        heap.extend(kept, span).unwrap();
        heap.deallocate(block);
    }
    memory.fill(1);
}
