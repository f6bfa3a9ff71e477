//! Figures into a file, which is always a whole one: written beside it, and renamed. What is no
//! file, as a pipe or a device, is written to as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Source;
use crate::verb::{is_standard, message, write as write_to};

/// Writes the first, and then, if they are wanted again and again, one after the other until the
/// process ends.
pub fn write(
    path: &Path,
    first: String,
    every: Option<Duration>,
    source: &mut Source,
) -> Result<(), String> {
    replace(path, &first)?;
    let Some(every) = every else {
        if is_standard(path) {
            return Ok(());
        }
        message(&format!("wrote {}; next: --every 15 keeps it fresh", path.display()));
        return Ok(());
    };
    message(&format!(
        "writing {} every {} s, until the process ends or an interrupt comes",
        path.display(),
        every.as_secs_f64()
    ));
    let mut next = Instant::now() + every;
    loop {
        // In short steps, so that old figures do not stay for long.
        while Instant::now() < next && source.is_running() {
            sleep(next.saturating_duration_since(Instant::now()).min(Duration::from_millis(200)));
        }
        next += every;
        // After an interrupt the process can still be read.
        let text = if source.is_running() { source.text() } else { Err(source.end_reason()) };
        match text {
            Ok(text) => replace(path, &text)?,
            Err(error) => {
                let gone = is_file(path);
                if gone {
                    let _ = fs::remove_file(path);
                }
                if source.is_running() {
                    return Err(error);
                }
                let gone = if gone {
                    format!(", and {} is removed", path.display())
                } else {
                    String::new()
                };
                message(&format!("{}{gone}", source.end_reason()));
                return Ok(());
            }
        }
        next = next.max(Instant::now());
    }
}

/// A file, or the name of one that can be; not a device that has it, which root could rename a file
/// onto.
fn is_file(path: &Path) -> bool {
    !is_standard(path) && fs::metadata(path).map_or(true, |there| there.is_file())
}

fn replace(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    if !is_file(path) {
        return write_to(path, text.as_bytes());
    }
    // A link stays, and leads to the new one.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let path = real.as_path();
    let name = path.file_name().ok_or_else(|| format!("{} is no file", path.display()))?;
    // A collector that reads all files with an ending must not read this one.
    let beside: PathBuf =
        path.with_file_name(format!(".{}.{}.new", name.to_string_lossy(), std::process::id()));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map_err(failed)
}
