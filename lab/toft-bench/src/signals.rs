//! Signals of the programs that a test or a measurement starts.

/// Makes children start with the default action of every signal, and with none blocked, as they do
/// from a terminal. Call it before there is a second thread.
///
/// What a tool around the tests blocks is inherited, too: `perf record` blocks SIGWINCH.
///
/// A child inherits the signals that its parent ignores: `nohup` ignores SIGHUP, and a shell's
/// background job SIGINT and SIGQUIT. A test that sends one would then wait for its deadline. Here
/// each ignored signal gets a handler that does nothing, which `exec` replaces by the default
/// action. This process survives the signal as before.
///
/// The standard library gives children the default action of SIGPIPE.
pub fn default_in_children() {
    // SAFETY: zero is a set, which is plain numbers.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes to a live local.
    unsafe { libc::sigemptyset(&raw mut none) };
    // SAFETY: reads a live local.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
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
    fn children_do_not_inherit_blocked_signals() {
        let blocked = || {
            let shown = Command::new("grep").args(["SigBlk", "/proc/self/status"]).output();
            String::from_utf8(shown.unwrap().stdout).unwrap().trim().to_owned()
        };
        // SAFETY: a set of one signal, which only this thread blocks.
        unsafe {
            let mut one: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut one, libc::SIGWINCH);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const one, std::ptr::null_mut());
        }
        assert!(!blocked().ends_with("\t0000000000000000"), "{}", blocked());
        default_in_children();
        assert!(blocked().ends_with("\t0000000000000000"), "{}", blocked());
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
