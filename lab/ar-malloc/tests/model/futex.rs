//! The kernel's side of a futex as a model for `src/lock.rs`. A wake before the sleep wakes no
//! thread. The comparison and the sleep are one step.

use super::{Lock, Ordering};
use loom::sync::{Condvar, Mutex};

#[derive(Debug)]
pub struct Bed(Mutex<()>, Condvar);

impl Default for Bed {
    fn default() -> Bed {
        Bed(Mutex::new(()), Condvar::new())
    }
}

pub fn wait(lock: &Lock, value: u32) {
    let awake = lock.bed.0.lock().unwrap();
    if lock.word.load(Ordering::Relaxed) == value {
        drop(lock.bed.1.wait(awake).unwrap());
    }
}

pub fn wake_one(lock: &Lock) {
    let _awake = lock.bed.0.lock().unwrap();
    lock.bed.1.notify_one();
}
