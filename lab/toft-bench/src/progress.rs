//! Progress on a terminal: one line, which shows how much of a long run is done.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// The progress of a number of steps, on standard error if that is a terminal.
pub fn bar(steps: usize) -> ProgressBar {
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(steps as u64)
    } else {
        ProgressBar::hidden()
    };
    bar.with_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} eta {eta}  {msg}")
            .expect("the template is constant"),
    )
}
