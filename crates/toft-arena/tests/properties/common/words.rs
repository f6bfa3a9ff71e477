//! A heap in separate memory, blocks in it, and the words beside them, for the tests that break
//! things.

use std::alloc::Layout;
use std::ptr::NonNull;
use toft_arena::shape::Shape;
use toft_arena::{Anywhere, Heap};

pub fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// A heap of 64 KiB.
pub fn heap<S: Shape<Space = Anywhere>>() -> Heap<S> {
    heap_of(1 << 16)
}

pub fn heap_of<S: Shape<Space = Anywhere>>(size: usize) -> Heap<S> {
    let memory = Box::leak(vec![0_u64; size / 8].into_boxed_slice());
    let mut heap = Heap::new(Anywhere);
    // SAFETY: the memory is never used by anybody else.
    unsafe { heap.claim(memory.as_mut_ptr().cast(), size) }.unwrap();
    heap
}

/// Some live blocks, side by side.
pub fn blocks<S: Shape>(heap: &mut Heap<S>, count: usize, size: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| heap.allocate(layout(size)).unwrap()).collect()
}

/// Writes words beside a block, as a program with a defect would.
///
/// # Safety
/// 1. The word is in the heap's memory.
pub unsafe fn poke(block: NonNull<u8>, word: isize, value: usize) {
    // SAFETY: by 1.
    unsafe { block.as_ptr().cast::<usize>().offset(word).write(value) };
}

/// What is there.
///
/// # Safety
/// 1. As `poke`.
pub unsafe fn peek(block: NonNull<u8>, word: isize) -> usize {
    // SAFETY: by 1.
    unsafe { block.as_ptr().cast::<usize>().offset(word).read() }
}
