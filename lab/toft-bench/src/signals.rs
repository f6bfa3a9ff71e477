//! Signals of the programs that a test or a measurement starts.

/// Makes children start with the default action of every signal, as they do from a terminal.
///
/// A child inherits the signals that its parent ignores: `nohup` ignores SIGHUP, and a shell's
/// background job SIGINT and SIGQUIT. A test that sends one would then wait for its deadline. Here
/// each ignored signal gets a handler that does nothing, which `exec` replaces by the default
/// action. This process survives the signal as before.
///
/// The standard library gives children the default action of SIGPIPE.
pub fn default_in_children() {
    for number in (1..=libc::SIGRTMAX()).filter(|&number| number != libc::SIGPIPE) {
        // SAFETY: zero is a `sigaction`, which is plain numbers.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: writes to a live local. It fails for a number that is no signal.
        let failed = unsafe { libc::sigaction(number, std::ptr::null(), &raw mut action) } != 0;
        if failed || action.sa_sigaction != libc::SIG_IGN {
            continue;
        }
        let handler: extern "C" fn(i32) = do_nothing;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: reads a live local; the handler does nothing.
        unsafe { libc::sigaction(number, &raw const action, std::ptr::null_mut()) };
    }
}

extern "C" fn do_nothing(_: i32) {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// The signal that ended a child that sends SIGHUP to itself.
    fn ends_by() -> Option<i32> {
        let status = Command::new("sh").args(["-c", "kill -HUP $$; exit 0"]).status().unwrap();
        status.signal()
    }

    #[test]
    fn children_do_not_inherit_ignored_signals() {
        // SAFETY: ignores a signal that no other test of this program expects.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        assert_eq!(ends_by(), None, "an ignored signal is inherited");
        default_in_children();
        assert_eq!(ends_by(), Some(libc::SIGHUP));
        // SAFETY: this process has a handler for it.
        unsafe { libc::raise(libc::SIGHUP) };
    }
}
