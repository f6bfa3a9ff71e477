//! What the tests share.

use std::os::fd::FromRawFd;
use toft_small_bins::{Cache, Counts, Heap, Variant};

/// A heap, and the cache of the only thread that uses it if its variant has caches.
pub struct Cached<V: Variant> {
    heap: Heap<V>,
    cache: Cache,
}

/// A heap of at most 16 MiB.
pub fn heap<V: Variant>() -> Cached<V> {
    of_at_most(16 << 20)
}

pub fn of_at_most<V: Variant>(most: usize) -> Cached<V> {
    Cached { heap: Heap::new(Some(most)), cache: Cache::default() }
}

impl<V: Variant> Cached<V> {
    pub fn allocate(&mut self, request: usize) -> *mut u8 {
        let Some(size) = Cache::size::<V>(request) else { return self.heap.allocate(request) };
        // SAFETY: the cache is used with this heap alone.
        unsafe {
            let found = self.cache.take::<V>(size);
            found.unwrap_or_else(|| self.cache.fill(&mut self.heap, size))
        }
    }

    pub fn allocate_aligned(&mut self, align: usize, request: usize) -> *mut u8 {
        self.heap.allocate_aligned(align, request)
    }

    /// # Safety
    /// 1. As `Heap::free`.
    pub unsafe fn free(&mut self, block: *mut u8) {
        // SAFETY: (1), and the cache is used with this heap alone.
        unsafe {
            if !V::CACHES {
                self.heap.free(block);
            } else if !self.cache.put::<V>(block) {
                self.cache.flush(&mut self.heap, block);
            }
        }
    }

    /// # Safety
    /// 1. As `Heap::resize`.
    pub unsafe fn resize(&mut self, block: *mut u8, request: usize) -> bool {
        // SAFETY: (1).
        unsafe { self.heap.resize(block, request) }
    }

    /// # Safety
    /// 1. As `Heap::usable_size`.
    pub unsafe fn usable_size(&self, block: *mut u8) -> usize {
        // SAFETY: (1).
        unsafe { self.heap.usable_size(block) }
    }

    /// Gives what is in the cache back to the heap.
    pub fn empty_cache(&mut self) {
        // SAFETY: the cache is used with this heap alone.
        unsafe { self.cache.empty(&mut self.heap) };
    }

    pub fn counts(&self) -> Counts {
        self.heap.counts()
    }

    /// Checks every invariant. Returns the number of blocks in the cache.
    pub fn check(&self) -> Result<usize, String> {
        self.heap.check()?;
        // SAFETY: the cache is used with this heap alone.
        unsafe { self.cache.check::<V>() }
    }
}

/// Takes a block, which must be there.
pub fn take<V: Variant>(heap: &mut Cached<V>, size: usize) -> *mut u8 {
    let block = heap.allocate(size);
    assert!(!block.is_null(), "no block of {size} bytes");
    block
}

/// Frees blocks of these sizes between live ones, in order, and returns them.
pub fn freed<V: Variant>(
    heap: &mut Cached<V>,
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
