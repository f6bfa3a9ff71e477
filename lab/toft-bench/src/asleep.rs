//! Threads that sleep in the kernel until they are called, and whether they were left alone.
//!
//! They wait on a word of our own: no lock of the C library, none of an allocator, and nothing that
//! could wake one of them but the call.

use crate::mapped::Mapped;
use crate::outcome::{status_field, with_status};
use std::ptr::null;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Release},
};
use std::time::{Duration, Instant};

/// A place where a number of threads sleep.
pub struct Asleep {
    /// 0 until they are called. Written by [`Asleep::call`] alone; the kernel compares it.
    called: AtomicU32,
    /// The kernel's number of each thread that went to sleep, or 0; each written once, by that
    /// thread.
    tasks: Mapped<AtomicUsize>,
}

impl Asleep {
    pub fn new(threads: usize) -> Self {
        Self { called: AtomicU32::new(0), tasks: Mapped::new(threads) }
    }

    /// Sleeps until [`Asleep::call`], as number `index`.
    pub fn sleep(&self, index: usize) {
        // SAFETY: the call has no preconditions.
        let task = unsafe { libc::syscall(libc::SYS_gettid) };
        self.tasks[index].store(task.cast_unsigned() as usize, Release);
        while self.called.load(Acquire) == 0 {
            self.futex(libc::FUTEX_WAIT, 0);
        }
    }

    /// Wakes all, for good.
    pub fn call(&self) {
        self.called.store(1, Release);
        self.futex(libc::FUTEX_WAKE, i32::MAX);
    }

    fn futex(&self, operation: i32, value: i32) {
        let forever = null::<libc::timespec>();
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word outlives the call, and both operations take these arguments. Whether a
        // wait was in vain is seen by the word, so the result does not matter.
        unsafe {
            libc::syscall(libc::SYS_futex, self.called.as_ptr(), operation, value, forever);
        }
    }

    /// Waits until the kernel says of every thread that it sleeps.
    pub fn wait_for_all(&self) {
        let start = Instant::now();
        while !self.tasks.iter().all(|task| sleeps(task.load(Acquire))) {
            assert!(start.elapsed() < Duration::from_secs(60), "a thread does not fall asleep");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How often the kernel has taken these threads off a processor so far. Each time that one of
    /// them is woken and sleeps again adds one.
    pub fn times(&self) -> u64 {
        self.tasks.iter().map(|task| switches(task.load(Acquire))).sum()
    }
}

fn sleeps(task: usize) -> bool {
    let state = |text: &str| text.contains("\nState:\tS");
    task != 0 && with_status(format_args!("self/task/{task}"), state) == Some(true)
}

fn switches(task: usize) -> u64 {
    let both = |text: &str| {
        let of = |kind| status_field(text, kind);
        of("voluntary_ctxt_switches") + of("nonvoluntary_ctxt_switches")
    };
    with_status(format_args!("self/task/{task}"), both).expect("a thread that sleeps has a status")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts two threads that sleep, and passes them to `look`.
    fn with_sleepers(look: impl Fn(&Asleep)) {
        let asleep = Asleep::new(2);
        std::thread::scope(|scope| {
            for index in 0..2 {
                let asleep = &asleep;
                scope.spawn(move || asleep.sleep(index));
            }
            asleep.wait_for_all();
            look(&asleep);
            asleep.call();
        });
    }

    #[test]
    fn threads_sleep_until_they_are_called_and_nobody_disturbs_them() {
        with_sleepers(|asleep| {
            let before = asleep.times();
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(asleep.times(), before);
        });
    }

    #[test]
    fn whoever_is_woken_is_counted_and_sleeps_on() {
        with_sleepers(|asleep| {
            let before = asleep.times();
            // The word is still 0, so both check it and sleep again.
            asleep.futex(libc::FUTEX_WAKE, i32::MAX);
            while asleep.times() < before + 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            // And they do sleep.
            asleep.wait_for_all();
        });
    }
}
