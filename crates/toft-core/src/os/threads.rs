//! Threads: those that Toft starts, sleep and wake-up, signals, and time.

use super::thread::Run;
use super::{Linux, process, share, thread};
use crate::sync::AtomicU32;

/// The part of [`super::Os`] for threads and time.
///
/// # Safety
///
/// An implementation promises:
/// 1. when `barrier` returns true, each running thread has passed a full memory barrier since the
///    call;
/// 2. no method allocates through this allocator or panics, and only `sleep_on` and `wait_briefly`
///    wait, for a bounded time.
pub unsafe trait Threads {
    /// Returns the time in ticks of 10 to 40 milliseconds, from an arbitrary moment on. It wraps
    /// round. Makes no system call.
    fn ticks(&self) -> u32;

    /// Returns the processor's counter, in units of less than 50 nanoseconds. Makes no system call.
    fn counter(&self) -> u64;

    /// Returns the number of the process.
    fn process(&self) -> u32;

    /// Starts a thread that runs `run(argument, top)`, and returns false on failure. The thread's
    /// number is in `number` before it runs. The program does not know the thread, and nothing of
    /// libc may be used in it. It takes no signals if the caller has blocked them.
    ///
    /// # Safety
    /// 1. `run` may be called with the argument from another thread, for as long as the process
    ///    lives.
    unsafe fn spawn(&self, run: Run, argument: usize, number: &AtomicU32) -> bool;

    /// Prepares a thread that `spawn` made. It calls this first.
    fn prepare_own_thread(&self);

    /// Makes every running thread of the process pass a full memory barrier before this returns.
    /// Returns false if the system cannot do that.
    fn barrier(&self) -> bool;

    /// Sleeps while the word is `value`, for at most the given number of milliseconds.
    fn sleep_on(&self, word: &AtomicU32, value: u32, milliseconds: u32);

    /// Wakes all threads that sleep on the word.
    fn wake(&self, word: &AtomicU32);

    /// Blocks all signals of the calling thread. A handler might write to memory whose writers the
    /// thread itself has stopped. Returns the argument for `restore_signals`.
    fn block_signals(&self) -> u64 {
        share::block_signals()
    }

    /// Ends `block_signals`.
    fn restore_signals(&self, before: u64) {
        share::set_mask(before);
    }

    /// Lets about a millisecond pass, so that an interrupted thread can go on.
    fn wait_briefly(&self);
}

// SAFETY: (1) the kernel promises it of `membarrier`; (2) raw system calls.
unsafe impl Threads for Linux {
    fn ticks(&self) -> u32 {
        process::ticks()
    }

    fn counter(&self) -> u64 {
        process::counter()
    }

    fn process(&self) -> u32 {
        process::pid() as u32
    }

    unsafe fn spawn(&self, run: Run, argument: usize, number: &AtomicU32) -> bool {
        thread::spawn(run, argument, number)
    }

    fn prepare_own_thread(&self) {
        thread::prepare_own_thread(c"toft-reclaimer");
    }

    fn barrier(&self) -> bool {
        thread::barrier()
    }

    fn sleep_on(&self, word: &AtomicU32, value: u32, milliseconds: u32) {
        thread::sleep_on(word, value, milliseconds);
    }

    fn wake(&self, word: &AtomicU32) {
        thread::wake(word);
    }

    fn wait_briefly(&self) {
        // No thread wakes this futex. Of the calls that let time pass, it is the one that a filter
        // made for malloc allows.
        thread::sleep_on(&AtomicU32::new(0), 0, 1);
    }
}
