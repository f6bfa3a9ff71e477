//! What the tests share.

use std::os::fd::FromRawFd;
use toft_small_bins::{Heap, Variant};

/// A heap of at most 16 MiB.
pub fn heap<V: Variant>() -> Heap<V> {
    Heap::of_at_most(16 << 20)
}

/// Takes a block, which must be there.
pub fn take<V: Variant>(heap: &mut Heap<V>, size: usize) -> *mut u8 {
    let block = heap.allocate(size);
    assert!(!block.is_null(), "no block of {size} bytes");
    block
}

/// Frees blocks of these sizes between live ones, in order, and returns them.
pub fn freed<V: Variant>(
    heap: &mut Heap<V>,
    sizes: impl IntoIterator<Item = usize>,
) -> Vec<*mut u8> {
    let made: Vec<_> = sizes
        .into_iter()
        .map(|size| {
            let block = take(heap, size);
            take(heap, 16);
            block
        })
        .collect();
    for block in &made {
        // SAFETY: live, and freed once.
        unsafe { heap.free(*block) };
    }
    made
}

/// Runs `work` in a child process, which must end by `abort`. Returns what it says on its standard
/// error. `work` uses no lock and no memory of the test's own allocator.
pub fn said_when_stopped(work: impl FnOnce()) -> String {
    let (status, said) = in_a_child(work);
    assert!(libc::WIFSIGNALED(status), "not stopped; it said {said:?}");
    assert_eq!(libc::WTERMSIG(status), libc::SIGABRT, "{said:?}");
    said
}

/// Runs `work` in a child process. Returns its status, and what it says on its standard error.
pub fn in_a_child(work: impl FnOnce()) -> (i32, String) {
    let mut ends = [0; 2];
    // SAFETY: the child uses its own copy of everything, and leaves by `_exit` or `abort`.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::dup2(ends[1], 2);
            work();
            libc::_exit(0);
        }
        libc::close(ends[1]);
        let said = std::io::read_to_string(std::fs::File::from_raw_fd(ends[0])).unwrap();
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        (status, said)
    }
}
