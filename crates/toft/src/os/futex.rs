//! Waiting for a word to change, for the locks of the experiment about parallelism. Nothing else of
//! this crate waits for another thread.

use super::syscall::syscall;
use crate::sync::AtomicU32;

/// Sleeps while the word is `value`, or less long.
pub fn wait(word: &AtomicU32, value: u32) {
    let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let args = [word.as_ptr() as usize, operation, value as usize, 0, 0, 0];
    // SAFETY: the kernel only reads the word.
    unsafe { syscall(libc::SYS_futex, args) };
}

/// Wakes one thread that sleeps on the word.
pub fn wake_one(word: &AtomicU32) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the kernel does not touch the word.
    unsafe { syscall(libc::SYS_futex, [word.as_ptr() as usize, operation, 1, 0, 0, 0]) };
}
