//! Being interrupted: what stands for a process goes as it does with the process's end.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigHandler, Signal, signal};

/// Written by the handler, read by the loops. Relaxed: nothing else is told by it.
static CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: i32) {
    CAME.store(true, Ordering::Relaxed);
}

/// From now on INT, TERM and HUP end the loops of this verb rather than the command.
pub fn expect() {
    for which in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler stores to an atomic, and no more.
        let before = unsafe { signal(which, SigHandler::Handler(note)) };
        if matches!(before, Ok(SigHandler::SigIgn)) {
            // SAFETY: no handler: ignored as it was, as nohup has it.
            let _ = unsafe { signal(which, SigHandler::SigIgn) };
        }
    }
}

pub fn came() -> bool {
    CAME.load(Ordering::Relaxed)
}
