//! A heap in separate memory, blocks in it, and the words beside them, for the tests that break
//! things.

use std::alloc::Layout;
use std::ptr::NonNull;
use toft_arena::shape::{Shape, Space, Within, Word};
use toft_arena::source::Once;
use toft_arena::{Anywhere, Heap, Span};

pub fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// Memory for one heap, aligned to 64 bytes: it is never freed.
pub fn memory(size: usize) -> *mut u8 {
    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Line(#[expect(dead_code, reason = "it is memory")] [u8; 64]);
    vec![Line([0; 64]); size.div_ceil(64)].leak().as_mut_ptr().cast()
}

/// A new mapping of pages that are not there before they are used.
#[cfg(target_os = "linux")]
pub fn mapped(size: usize) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, where the kernel chooses.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start.cast()
}

/// A heap of 64 KiB.
pub fn heap<S: Shape<Space = Anywhere>>() -> Heap<S> {
    heap_of(1 << 16)
}

pub fn heap_of<S: Shape<Space = Anywhere>>(size: usize) -> Heap<S> {
    let mut heap = Heap::new(Anywhere);
    claim(&mut heap, size);
    heap
}

/// A heap behind the origin of its memory.
pub fn heap_within<W: Word, S: Shape<Space = Within<W>>>(size: usize) -> Heap<S>
where
    Within<W>: Space,
{
    let memory = memory(size);
    // SAFETY: one allocation, which is used by this heap only.
    unsafe {
        let mut heap = Heap::new(Within::new(memory, size));
        heap.claim(memory, size).unwrap();
        heap
    }
}

/// Hands new memory to a heap.
pub fn claim<S: Shape<Space = Anywhere>>(heap: &mut Heap<S>, size: usize) -> Span {
    // SAFETY: the memory is used by this heap only.
    unsafe { heap.claim(memory(size), size) }.unwrap()
}

/// A source of new memory.
pub fn once(size: usize) -> Once {
    let memory = memory(size);
    // SAFETY: the memory is used by one heap only.
    unsafe {
        memory.write_bytes(0xEE, size);
        Once::new(memory, size)
    }
}

/// Some live blocks, side by side.
pub fn blocks<S: Shape>(heap: &mut Heap<S>, count: usize, size: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| heap.allocate(layout(size)).unwrap()).collect()
}

/// A heap, and some live blocks in it, side by side.
pub fn filled<S: Shape<Space = Anywhere>>(
    count: usize,
    size: usize,
) -> (Heap<S>, Vec<NonNull<u8>>) {
    let mut heap = heap();
    let all = blocks(&mut heap, count, size);
    (heap, all)
}

/// Whether all of these bytes are this one.
///
/// # Safety
/// 1. The block has as many bytes, which have been written.
pub unsafe fn is_full_of(byte: u8, block: NonNull<u8>, size: usize) -> bool {
    // SAFETY: by 1.
    unsafe { std::slice::from_raw_parts(block.as_ptr(), size) }.iter().all(|&own| own == byte)
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
