//! A process that is watched until it ends, and the message about its end. Every verb that reads a
//! process more than once uses it.
//!
//! The end of the process is the end of the watch, and no failure: status 0. It is a failure before
//! the first reading, and where two readings make one answer.

/// A process, by its number and by when it began.
#[derive(Clone, Debug)]
pub struct Watched {
    pid: i32,
    /// When it began, in the kernel's clock ticks: another process may get its number. None if it
    /// was not there.
    began: Option<String>,
}

impl Watched {
    /// The process that has this number now.
    pub fn of(pid: i32) -> Watched {
        Watched { pid, began: began(pid) }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns true if it was there and has ended since.
    pub fn has_ended(&self) -> bool {
        self.began.is_some() && began(self.pid) != self.began
    }

    pub fn ended(&self) -> String {
        format!("process {} has ended", self.pid)
    }

    /// Returns the message for a failed scan. What fails while the process ends is its end.
    pub fn explain(&self, error: &toft_profile::Error) -> String {
        if self.has_ended() { self.ended() } else { error.to_string() }
    }
}

/// The 22nd field of a process's `stat`; none where it has ended, a zombie included.
fn began(pid: i32) -> Option<String> {
    let stat = toft_profile::read(pid, "stat").ok()?;
    // Behind the name, which may have anything in it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18).map(str::to_owned))?
}
