//! The allocator for all threads: caches that come and go, and forks.

use crate::common::in_a_child;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, mpsc};
use toft_small_bins::{Allocator, Variant, each_variant, variant::*};

/// An allocator that lives as long as the process, as threads need it.
fn new<V: Variant>() -> &'static Allocator<V> {
    Box::leak(Box::new(Allocator::new()))
}

/// Checks the heap, while other threads wait or have exited. Returns the number of cached blocks.
fn checked<V: Variant>(allocator: &'static Allocator<V>) -> Result<usize, String> {
    // SAFETY: no other thread is in a call.
    unsafe { allocator.check() }
}

/// Runs `work` on a thread that ends.
fn on_a_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Threads free what other threads have allocated.
fn handed_over<V: Variant>() {
    let allocator = new::<Counted<V>>();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for seed in 0..3_usize {
            let (give, have) = mpsc::channel::<(usize, usize, u8)>();
            threads.push(scope.spawn(move || {
                for n in 0..3000_usize {
                    let size =
                        1 + (n * 7919 + seed * 104_729) % if n % 50 == 0 { 200_000 } else { 1500 };
                    let block = allocator.malloc(size);
                    assert!(!block.is_null());
                    // SAFETY: a fresh block of this size.
                    unsafe { block.write_bytes(n as u8, size) };
                    give.send((block.expose_provenance(), size, n as u8)).unwrap();
                }
            }));
            threads.push(scope.spawn(move || {
                for (block, size, fill) in have {
                    let block = std::ptr::with_exposed_provenance_mut::<u8>(block);
                    // SAFETY: a live block of this size, which no other thread has.
                    unsafe {
                        let bytes = std::slice::from_raw_parts(block, size);
                        assert!(bytes.iter().all(|byte| *byte == fill));
                        allocator.free(block);
                    }
                }
            }));
        }
        // A thread that is joined has exited, with its destructors.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // Threads that exited have given back what was in their caches.
    assert_eq!(checked(allocator), Ok(0));
}

#[test]
fn any_thread_frees_any_block() {
    macro_rules! call {
        ($type:ident) => {
            handed_over::<$type>();
        };
    }
    each_variant!(call);
}

/// Sizes and alignments of layouts, in the heap and beyond it; contents follow.
#[test]
fn layouts_are_kept_and_contents_move_with_blocks() {
    let allocator = new::<Hysteresis>();
    for align in [1, 16, 64, 4096, 1 << 16] {
        for size in [1, 100, 5000, 300_000] {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: sizes are not 0; each block is used as its layout says.
            unsafe {
                let mut block = allocator.alloc_zeroed(layout);
                assert!(block.addr().is_multiple_of(align));
                assert!(std::slice::from_raw_parts(block, size).iter().all(|byte| *byte == 0));
                block.write_bytes(7, size);
                for (from, to) in [(size, size * 3), (size * 3, size / 2 + 1)] {
                    let layout = Layout::from_size_align(from, align).unwrap();
                    block = GlobalAlloc::realloc(&allocator, block, layout, to);
                    assert!(block.addr().is_multiple_of(align));
                    let bytes = std::slice::from_raw_parts(block, to.min(size));
                    assert!(bytes.iter().all(|byte| *byte == 7));
                }
                let last = Layout::from_size_align(size / 2 + 1, align).unwrap();
                allocator.dealloc(block, last);
            }
        }
    }
    checked(allocator).unwrap();
}

/// Puts `count` blocks of 104 bytes into the cache of this thread. Returns the lowest address.
fn fill_cache<V: Variant>(allocator: &'static Allocator<V>, count: usize) -> usize {
    let blocks: Vec<_> = (0..count).map(|_| allocator.malloc(104)).collect();
    let lowest = blocks.iter().map(|block| block.addr()).min();
    // SAFETY: live, and freed once.
    blocks.into_iter().for_each(|block| unsafe { allocator.free(block) });
    lowest.unwrap()
}

/// The lock is taken meanwhile: a hit that took it would wait for ever.
#[test]
fn a_hit_takes_no_lock() {
    let allocator = new::<Hysteresis>();
    let (filled, locked, done) = (Barrier::new(2), Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            fill_cache(allocator, 16);
            filled.wait();
            locked.wait();
            fill_cache(allocator, 16);
            done.wait();
        });
        filled.wait();
        allocator.before_fork();
        locked.wait();
        done.wait();
        allocator.after_fork();
    });
}

#[test]
fn a_thread_gives_its_cache_back_when_it_exits_or_uses_another_allocator() {
    let (one, other) = (new::<Hysteresis>(), new::<OriginalParking>());
    let lowest = on_a_thread(|| fill_cache(one, 10));
    on_a_thread(|| {
        assert_eq!(fill_cache(one, 10), lowest, "these blocks were lost");
        on_a_thread(|| {
            fill_cache(one, 5);
            assert_eq!(checked(one), Ok(15));
        });
        assert_eq!(checked(one), Ok(10));
        fill_cache(other, 3);
        assert_eq!((checked(one), checked(other)), (Ok(0), Ok(3)));
        assert_eq!(fill_cache(one, 1), lowest, "these blocks were lost");
        assert_eq!((checked(one), checked(other)), (Ok(1), Ok(0)));
    });
    assert_eq!((checked(one), checked(other)), (Ok(0), Ok(0)));
}

/// A destructor that runs after the cache was given back still allocates.
#[test]
fn an_exiting_thread_allocates_without_a_cache() {
    static ALLOCATOR: Allocator<Hysteresis> = Allocator::new();
    static CACHED: AtomicBool = AtomicBool::new(true);
    unsafe extern "C" fn destructor(_: *mut c_void) {
        fill_cache(&ALLOCATOR, 16);
        CACHED.store(checked(&ALLOCATOR) != Ok(0), Relaxed);
    }
    on_a_thread(|| {
        // The first call makes the key of the cache, whose destructor runs first.
        fill_cache(&ALLOCATOR, 16);
        let mut key = 0;
        // SAFETY: a live local, and a function of this type.
        unsafe {
            assert_eq!(libc::pthread_key_create(&raw mut key, Some(destructor)), 0);
            libc::pthread_setspecific(key, (&raw const ALLOCATOR).cast());
        }
        assert_eq!(checked(&ALLOCATOR), Ok(16));
    });
    assert!(!CACHED.load(Relaxed), "the destructor did not run, or had a cache");
}

#[test]
fn a_double_free_in_two_threads_is_named() {
    let allocator = new::<Hysteresis>();
    let block = allocator.malloc(104).expose_provenance();
    let (free, done) = (Barrier::new(2), Barrier::new(2));
    let address = || std::ptr::with_exposed_provenance_mut::<u8>(block);
    let (status, said) = std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: live, and not used any more.
            unsafe { allocator.free(address()) };
            free.wait();
            done.wait();
        });
        free.wait();
        // SAFETY: the second free is the mistake that has to be seen.
        let ended = in_a_child(|| unsafe { allocator.free(address()) });
        done.wait();
        ended
    });
    assert!(libc::WIFSIGNALED(status) && said.contains("double free of block 0x"), "{said:?}");
}

/// Forks. Stops the child if its heap is not sound, has blocks in caches, or lacks this lowest
/// block. Returns how the child ended.
fn fork<V: Variant>(allocator: &'static Allocator<V>, lowest: Option<usize>) -> (i32, String) {
    allocator.before_fork();
    let ended = in_a_child(|| {
        allocator.after_fork_in_child();
        let before = checked(allocator);
        let found = fill_cache(allocator, 100);
        let lost = lowest.is_some_and(|lowest| lowest != found);
        if before != Ok(0) || lost || checked(allocator).is_err() {
            std::process::abort();
        }
    });
    allocator.after_fork();
    ended
}

#[test]
fn a_fork_gives_back_what_threads_have_cached() {
    let allocator = new::<Hysteresis>();
    let (filled, done) = (Barrier::new(2), Barrier::new(2));
    let lowest = on_a_thread(|| fill_cache(allocator, 1));
    let (before, ended, after) = std::thread::scope(|scope| {
        scope.spawn(|| {
            fill_cache(allocator, 16);
            filled.wait();
            done.wait();
        });
        // The lowest block is in the cache of the other thread.
        filled.wait();
        fill_cache(allocator, 4);
        let found = (checked(allocator), fork(allocator, Some(lowest)), checked(allocator));
        done.wait();
        found
    });
    assert_eq!(ended, (0, String::new()));
    assert_eq!((before, after), (Ok(20), Ok(16)), "in the parent, that of this thread goes back");
}

/// Wherever a thread is in a call, its cache is whole in a child.
#[test]
fn threads_use_their_caches_while_others_fork() {
    let allocator = new::<Hysteresis>();
    let stop = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        let stop = &stop;
        let threads = [1, 32, 80].map(|count| {
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    fill_cache(allocator, count);
                }
            })
        });
        let ended: Vec<_> = (0..100).map(|_| fork(allocator, None)).collect();
        stop.store(true, Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        ended
    });
    assert!(ended.iter().all(|ended| *ended == (0, String::new())), "{ended:?}");
    assert_eq!(checked(allocator), Ok(0));
}
