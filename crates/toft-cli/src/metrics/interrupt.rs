//! Being interrupted: what stands for a process goes as it does with the process's end.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigHandler, Signal, signal};

/// Written by the handler, read by the loops. Relaxed: nothing else depends on it.
static ARRIVED: AtomicBool = AtomicBool::new(false);

extern "C" fn record(_signal: i32) {
    ARRIVED.store(true, Ordering::Relaxed);
}

/// From now on INT, TERM and HUP end the loops of this verb rather than the command.
pub fn catch() {
    for which in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler stores to an atomic, and no more.
        let before = unsafe { signal(which, SigHandler::Handler(record)) };
        if matches!(before, Ok(SigHandler::SigIgn)) {
            // SAFETY: no handler: ignored as it was, as nohup has it.
            let _ = unsafe { signal(which, SigHandler::SigIgn) };
        }
    }
}

pub fn arrived() -> bool {
    ARRIVED.load(Ordering::Relaxed)
}
