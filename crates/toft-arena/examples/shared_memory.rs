//! An arena in memory that two processes share, each at another address. The heap writes distances,
//! and the heap itself is at the front of that memory.
//!
//! `cargo run -p toft-arena --features system --example shared_memory`

use std::alloc::Layout;
use std::ptr::null_mut;
use toft_arena::Heap;
use toft_arena::shape::{Narrow, Within};

const SIZE: usize = 1 << 20;
/// What is before the heap's own memory: the heap, and the place of a message.
const FRONT: usize = 64 << 10;

/// Where in the memory the heap and the message are.
struct Front {
    heap: Heap<Narrow>,
    message: usize,
}

/// Maps the file, wherever the system likes.
fn map(file: libc::c_int) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping.
    let start = unsafe { libc::mmap(null_mut(), SIZE, access, libc::MAP_SHARED, file, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start.cast()
}

fn main() {
    // SAFETY: calls of the system with arguments of the right types; the memory is used by one
    // process at a time, since the first waits for the second.
    unsafe {
        let file = libc::memfd_create(c"arena".as_ptr(), 0);
        assert!(file >= 0 && libc::ftruncate(file, SIZE as libc::off_t) == 0);
        let here = map(file);
        let front = here.cast::<Front>();
        let mut heap = Heap::<Narrow>::new(Within::new(here, SIZE));
        heap.claim(here.add(FRONT), SIZE - FRONT).expect("large enough");
        front.write(Front { heap, message: 0 });
        let child = libc::fork();
        if child == 0 {
            // Mapped again while the first mapping is there: at another address.
            let there = map(file);
            assert_ne!(there, here);
            let front = &mut *there.cast::<Front>();
            front.heap.space_mut().rebase(there);
            let text = b"written by the child, at another address";
            let block = front.heap.allocate(Layout::for_value(text)).expect("there is room");
            block.as_ptr().copy_from_nonoverlapping(text.as_ptr(), text.len());
            front.message = block.as_ptr().addr() - there.addr();
            libc::_exit(front.heap.check().is_err().into());
        }
        let mut status = 0;
        assert!(child > 0 && libc::waitpid(child, &raw mut status, 0) == child && status == 0);
        let front = &mut *front;
        front.heap.space_mut().rebase(here);
        front.heap.check().expect("sound");
        let text = std::slice::from_raw_parts(here.add(front.message), 40);
        println!("{}", String::from_utf8_lossy(text));
        assert_eq!(text, b"written by the child, at another address");
        let block = std::ptr::NonNull::new_unchecked(here.add(front.message));
        front.heap.deallocate(block);
        assert_eq!(front.heap.survey().live_blocks, 0);
    }
}
