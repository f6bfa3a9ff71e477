//! Replays what `toft record` has written down: the same sizes and alignments, on the same threads,
//! every block given back by the thread that gave it back then.
//!
//! The whole trace is decoded into mappings before the clock starts. What a trace does not hold is
//! not replayed: there is no work between the calls but to touch the first and the last byte. So a
//! time here is one of the allocator alone, in an order that a program has really had.

mod order;
mod script;

use super::On;
use crate::workloads::prelude::*;
use order::Order;
use script::{Call, Place, Script, Step};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

pub(crate) const WORKLOAD: Workload = workload!("trace", run);

/// The variable that names the file. A process that is measured inherits it from the one that
/// measures. It begins otherwise than the options of the peers, which complain about strange ones.
pub(crate) const VARIABLE: &str = "REPLAY_TRACE";

/// Replayed when no file is named.
static BUILT_IN: &[u8] = include_bytes!("../../../workloads/built-in.trace");

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    match load(std::env::var_os(VARIABLE).map(PathBuf::from).as_deref()) {
        Ok(script) => replayed(heap, &script, params),
        Err(why) => {
            eprintln!("toft-bench: {why}");
            std::process::exit(2);
        }
    }
}

/// Replays a file, whatever the environment says.
///
/// # Errors
/// Says why it cannot be read.
pub fn run_file(on: On, file: &Path, params: &Params) -> Result<Outcome, String> {
    let script = load(Some(file))?;
    Ok(match on {
        On::Libc(heap) => replayed(heap, &script, params),
        On::Probe(heap) => replayed(heap, &script, params),
    })
}

/// Reads the named file, or takes the one that is built in.
pub(crate) fn load(name: Option<&Path>) -> Result<Script, String> {
    let Some(name) = name else {
        return Script::of(BUILT_IN).map_err(|error| error.to_string());
    };
    let told = |what: String| format!("{}: {what}", name.display());
    let bytes = script::contents(name).map_err(|error| told(error.to_string()))?;
    Script::of(&bytes).map_err(|error| told(error.to_string()))
}

fn replayed<H: Heap>(heap: H, script: &Script, params: &Params) -> Outcome {
    let repeat = params.get("repeat", 1);
    // The peak is reset, so it is without what reading took. Without the file, reading counts too.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let mut seconds = 0.0;
    for _ in 0..repeat {
        seconds += replay(heap, script, params.get("window", 4096));
        // What the program left to the end of its process.
        give_back(heap, script);
    }
    Outcome::timed((script.events * repeat).max(1), seconds)
        .with("events", script.events as f64)
        .with("threads", script.threads().len() as f64)
        .with("skipped", script.skipped as f64)
        .with("script_mb", script.bytes() as f64 / 1e6)
}

/// Plays all threads, and returns the seconds until the last was done, with starting and ending
/// them: that is part of what the program did.
fn replay<H: Heap>(heap: H, script: &Script, window: u64) -> f64 {
    let threads = script.threads();
    let start = Instant::now();
    if let [one] = threads {
        play(heap, script, script.steps_of(one), None);
        return start.elapsed().as_secs_f64();
    }
    let order = Order::new(threads, window);
    std::thread::scope(|scope| {
        let mut running: Vec<Option<std::thread::ScopedJoinHandle<'_, ()>>> = Vec::new();
        for (index, thread) in threads.iter().enumerate() {
            order.will_start(thread.first);
            // Threads that had ended by then are not there any more.
            for (before, handle) in threads.iter().zip(&mut running) {
                if before.last < thread.first
                    && let Some(handle) = handle.take()
                {
                    handle.join().expect("a replaying thread panicked");
                }
            }
            order.wait_to_start(thread.first);
            let order = &order;
            order.begins(index, thread.first);
            running.push(Some(scope.spawn(move || {
                play(heap, script, script.steps_of(thread), Some((order, index)));
                order.ends(index);
            })));
        }
        order.all_started();
    });
    start.elapsed().as_secs_f64()
}

/// Plays the steps of one thread.
fn play<H: Heap>(heap: H, script: &Script, steps: &[Step], order: Option<(&Order, usize)>) {
    let mut look = 0;
    for step in steps {
        if let Some((order, index)) = order
            && step.sequence >= look
        {
            look = order.reaches(index, step.sequence);
        }
        let place = &script.places()[step.object as usize];
        if step.waits {
            place.wait_for(step.turn);
        }
        one(heap, step, place);
        if step.tells {
            // What was done to the block is there for the thread that Acquires this in `wait_for`.
            place.turn.store(step.turn + 1, Release);
        }
    }
}

#[inline(always)]
fn one<H: Heap>(heap: H, step: &Step, place: &Place) {
    let size = step.size as usize;
    match step.call {
        Call::Malloc => place.block.store(fresh(heap.malloc(size), size), Relaxed),
        Call::Calloc => place.block.store(fresh(heap.calloc(size), size), Relaxed),
        Call::Aligned => {
            let block = heap.aligned(1 << step.align, size);
            if step.zeroed && !block.is_null() {
                // SAFETY: the block has as many bytes.
                unsafe { block.write_bytes(0, size) };
            }
            place.block.store(fresh(block, size), Relaxed);
        }
        Call::Realloc => {
            let old = place.block.load(Relaxed);
            // At size 0, allocators differ on whether there is still a block.
            let size = size.max(1);
            // SAFETY: the place holds a live block, and the order of the trace makes it ours now.
            let block = unsafe { heap.realloc(old, size) };
            place.block.store(fresh(block, size), Relaxed);
        }
        Call::Free => {
            let old = place.block.load(Relaxed);
            place.block.store(std::ptr::null_mut(), Relaxed);
            // SAFETY: as above.
            unsafe { heap.free(old) };
        }
    }
}

/// Touches the first and last byte, if there are any.
#[inline(always)]
fn fresh(block: *mut u8, size: usize) -> *mut u8 {
    if size == 0 { launder(block) } else { touched(block, size) }
}

/// Frees what is left, and makes everything as it was before the first step.
fn give_back<H: Heap>(heap: H, script: &Script) {
    for place in script.places() {
        let block = place.block.swap(std::ptr::null_mut(), Acquire);
        // SAFETY: a live block or null, and all threads have ended.
        unsafe { heap.free(block) };
        place.turn.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use toft_trace::{Action, Writer};

    fn malloc(size: u64) -> Action {
        Action::Allocate { size, align: 1, site: 0, zeroed: false }
    }

    /// Two threads that hand a block to and fro, and one that runs long before they start.
    fn handed() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), 1).unwrap();
        let mut event = |thread, action| writer.event(thread, action).unwrap();
        event(7, Action::Start);
        for _ in 0..500 {
            let block = event(7, malloc(10));
            event(7, Action::Free { object: block });
        }
        event(7, Action::End);
        // One that does little and would hold up the others if it told so only now and then.
        event(3, malloc(1));
        for round in 0..300 {
            let object = event(1, malloc(round));
            event(2, Action::Resize { object, size: round * 2, site: 0 });
            event(1, Action::Resize { object, size: 5, site: 0 });
            event(2, Action::Free { object });
        }
        event(3, malloc(1));
        event(2, Action::Allocate { size: 100, align: 64, site: 0, zeroed: true });
        writer.finish().unwrap()
    }

    #[test]
    fn steps_wait_for_what_another_thread_did_and_for_nothing_else() {
        let script = Script::of(&handed()).unwrap();
        assert_eq!((script.events, script.skipped), (1000 + 1200 + 3, 0));
        let [alone, _, first, second] = script.threads() else { panic!("four threads") };
        assert!(script.steps_of(alone).iter().all(|step| !step.waits && !step.tells));
        let flags = |step: &Step| (step.call, step.turn, step.waits, step.tells);
        let of_first: Vec<_> = script.steps_of(first)[..2].iter().map(flags).collect();
        assert_eq!(of_first, [(Call::Malloc, 0, false, true), (Call::Realloc, 2, true, true)]);
        let of_second: Vec<_> = script.steps_of(second)[..2].iter().map(flags).collect();
        assert_eq!(of_second, [(Call::Realloc, 1, true, true), (Call::Free, 3, true, false)]);
    }

    #[test]
    fn handed_blocks_survive_with_any_window_and_everything_can_be_played_again() {
        let script = Script::of(&handed()).unwrap();
        for window in [0, 1, 50, 64, 100_000] {
            assert!(replay(Libc, &script, window) > 0.0);
            let left = || script.places().iter().filter(|p| !p.block.load(Relaxed).is_null());
            assert_eq!(left().count(), 3);
            assert_eq!(left().last().unwrap().block.load(Relaxed).addr() % 64, 0);
            give_back(Libc, &script);
            assert_eq!(left().count(), 0);
        }
    }

    #[test]
    fn what_no_program_can_have_done_is_skipped() {
        let mut writer = Writer::new(Vec::new(), 1).unwrap();
        writer.event(0, Action::Start).unwrap();
        let block = writer.event(0, malloc(10)).unwrap();
        for object in [block, block, block - 1] {
            writer.event(1, Action::Free { object }).unwrap();
        }
        writer.event(0, Action::Resize { object: block, size: 3, site: 0 }).unwrap();
        writer.event(0, malloc(u64::MAX)).unwrap();
        let script = Script::of(&writer.finish().unwrap()).unwrap();
        assert_eq!((script.events, script.skipped), (2, 4));
        replay(Libc, &script, 0);
        assert!(script.places().iter().all(|place| place.block.load(Relaxed).is_null()));
    }

    #[test]
    fn an_empty_trace_and_what_is_none_do_no_harm() {
        let empty = Writer::new(Vec::new(), 1).unwrap().finish().unwrap();
        let script = Script::of(&empty).unwrap();
        assert_eq!((script.events, script.threads().len()), (0, 0));
        assert!(replay(Libc, &script, 64) >= 0.0);
        assert!(Script::of(b"something else").is_err());
        let error = load(Some("/nowhere/at all".as_ref())).err().unwrap();
        assert!(error.contains("/nowhere/at all"), "{error}");
    }
}
