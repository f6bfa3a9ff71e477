//! The life of the reclaimer's thread, in every interleaving: slow paths that start and wake it,
//! the thread that ends, and a call that stops it.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p toft-core --features loom --release --test loom_life`
//!
//! What runs here is `reclaim/life.rs` itself. A thread that starts the reclaimer's becomes it, and
//! a counter stands for idle memory. The sweep's barrier is a fence here, and one on the slow path
//! (`sync::light_barrier`), which promises less.
#![cfg(loom)]

use Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::thread;
use std::sync::Arc;
use toft_core::reclaim::{Life, LifeCycle};
use toft_core::sync::{AtomicU32, Ordering, fence, light_barrier, pause};

/// What is left out, to show that it is seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// The thread ends after the sweep that it began in Awake.
    NoLastSweep,
    /// A sweep makes no barrier.
    NoBarrier,
    /// A slow path that comes too late to wake the thread starts none.
    NotStartedAgain,
    /// The call that stops the thread does not wait for its end.
    NotWaitedFor,
    /// It does not start the thread again.
    NotResumed,
}

#[derive(Default)]
struct World {
    life: LifeCycle,
    /// Not zero if a thread has freed something whose pages are there.
    idle: [AtomicU32; 2],
    /// Threads of Toft's.
    threads: AtomicU32,
}

impl World {
    /// A slow path of a thread that has freed something.
    fn slow_path(&self, number: usize, planted: Planted) {
        self.idle[number].store(1, Relaxed);
        light_barrier();
        match self.life.state() {
            Life::Awake => {}
            Life::Asleep => {
                let woken = self.life.change(Life::Asleep, Life::Awake);
                let exists = matches!(self.life.state(), Life::Awake | Life::Asleep);
                if !woken && !exists && planted != Planted::NotStartedAgain {
                    self.start(planted);
                }
            }
            _ => self.start(planted),
        }
    }

    fn start(&self, planted: Planted) {
        if self.life.begin(0, |_| true) {
            assert_eq!(self.threads.fetch_add(1, AcqRel), 0, "L1");
            self.live(planted);
        }
    }

    /// Each turn but the last two has an event, so this ends without a pause. A pause would let the
    /// other thread run to its end.
    fn live(&self, planted: Planted) {
        loop {
            if planted != Planted::NoBarrier {
                fence(SeqCst);
            }
            if !self.life.is_held() && self.sweep() {
                self.life.change(Life::Asleep, Life::Awake);
            } else {
                if planted == Planted::NoLastSweep {
                    self.life.change(Life::Awake, Life::Asleep);
                }
                if self.leave(true) {
                    return;
                }
                self.life.change(Life::Awake, Life::Asleep);
            }
            if self.life.is_held() && self.leave(false) {
                return;
            }
        }
    }

    /// Returns true if something was idle.
    fn sweep(&self) -> bool {
        let mut found = false;
        for idle in &self.idle {
            if idle.load(Relaxed) != 0 {
                idle.store(0, Relaxed);
                found = true;
            }
        }
        found
    }

    fn is_returned(&self) -> bool {
        self.idle.iter().all(|idle| idle.load(Relaxed) == 0)
    }

    fn leave(&self, idle: bool) -> bool {
        self.threads.fetch_sub(1, AcqRel);
        let left = self.life.leave(idle);
        if !left {
            self.threads.fetch_add(1, AcqRel);
        }
        left
    }

    /// A call that changes credentials.
    fn credentials(&self, planted: Planted) {
        self.life.hold();
        while self.life.to_wait_for().is_some() && planted != Planted::NotWaitedFor {
            pause();
        }
        // Twice, because a thread might start in between.
        for _ in 0..2 {
            assert_eq!(self.threads.load(Acquire), 0, "L2");
        }
        if self.life.release() && planted != Planted::NotResumed {
            self.start(planted);
        }
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(5);
    builder.max_branches = 20_000;
    builder.check(body);
}

/// Two threads with a slow path each, one after what the other's has started.
fn two_slow_paths(planted: Planted) {
    model(move || {
        let world = Arc::new(World::default());
        let other = world.clone();
        let thread = thread::spawn(move || other.slow_path(1, planted));
        world.slow_path(0, planted);
        thread.join().unwrap();
        assert!(world.is_returned(), "idle memory stays");
        assert_eq!(world.life.state(), Life::Ended);
        assert_eq!(world.threads.load(Relaxed), 0);
    });
}

/// A slow path starts the thread, and a call stops it.
fn stopped(planted: Planted) {
    model(move || {
        let world = Arc::new(World::default());
        let other = world.clone();
        let thread = thread::spawn(move || other.slow_path(1, planted));
        world.credentials(planted);
        thread.join().unwrap();
        // A slow path during the hold starts nothing: the next one does.
        if world.life.state() != Life::None && planted != Planted::NotWaitedFor {
            assert!(world.is_returned(), "idle memory stays");
            assert_eq!(world.life.state(), Life::Ended);
        }
        assert_eq!(world.threads.load(Relaxed), 0);
    });
}

#[test]
fn no_idle_memory_is_forgotten() {
    two_slow_paths(Planted::Nothing);
}

#[test]
fn no_thread_is_there_during_a_call_that_stops_it() {
    stopped(Planted::Nothing);
}

/// What must not be left out, each left out: another symptom for each.
#[test]
#[should_panic(expected = "idle memory stays")]
fn no_last_sweep_is_seen() {
    two_slow_paths(Planted::NoLastSweep);
}

#[test]
#[should_panic(expected = "idle memory stays")]
fn no_barrier_is_seen() {
    two_slow_paths(Planted::NoBarrier);
}

#[test]
#[should_panic(expected = "idle memory stays")]
fn not_starting_again_is_seen() {
    two_slow_paths(Planted::NotStartedAgain);
}

#[test]
#[should_panic(expected = "L2")]
fn not_waiting_is_seen() {
    stopped(Planted::NotWaitedFor);
}

#[test]
#[should_panic(expected = "Stopped")]
fn not_resuming_is_seen() {
    stopped(Planted::NotResumed);
}
