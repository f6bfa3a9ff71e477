//! What every verb says and takes in the same way: text on stdout, the number of a process, how often.

use std::io::{self, Write};

use crate::run::{REFUSED, say};

/// Prints, for a reader who may have seen enough before its end.
pub fn print(bytes: &[u8]) -> Result<(), String> {
    print_on(bytes).map(|_| ())
}

/// The same, and says whether there still is a reader: for who has more to say.
pub fn print_on(bytes: &[u8]) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write: {error}")),
    }
}

/// The same as the last thing that a verb does, which ends with `status` if that works.
pub fn printed(text: &str, status: i32) -> i32 {
    match print(text.as_bytes()) {
        Ok(()) => status,
        Err(why) => {
            say(&why);
            REFUSED
        }
    }
}

/// The number of a process, as it is given on the command line.
pub fn pid(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err("not the number of a process, which `pgrep -x NAME` prints".into()),
    }
}

/// How long it is from one look to the next.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.05 to 86400".into()),
    }
}
