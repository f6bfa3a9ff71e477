//! Text on stdout, for a reader who may have seen enough before its end.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether stdout is for one object alone. Set before anything is printed, by the only thread that
/// prints.
static KEPT: AtomicBool = AtomicBool::new(false);

/// From here on stdout has nothing but what [`one`] prints.
pub fn keep_for_one() {
    KEPT.store(true, Relaxed);
}

/// Prints what stdout was kept for.
pub fn one(text: &str) {
    print(format_args!("{text}"));
}

/// Prints a line. If the reader has closed the pipe, the process exits with 0. If the line cannot
/// be written otherwise, the process says so and exits with 2.
pub fn line(text: Arguments<'_>) {
    if !KEPT.load(Relaxed) {
        print(text);
    }
}

fn print(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit(0),
        Err(error) => {
            eprintln!("toft-bench: cannot write: {error}");
            exit(2)
        }
    }
}

/// As `println`, by [`line()`].
macro_rules! outln {
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}
pub(crate) use outln;
