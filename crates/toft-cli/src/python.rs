//! CPython as a program: whether it is one, and whether its small objects are in its own pools.

use std::fs;
use std::path::Path;

/// Returns true if a file has the name of the interpreter CPython, with its global lock. The name
/// of a debug build ends in `d`.
pub fn is_python(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let version = name.strip_prefix("python").map(|version| version.trim_end_matches('d'));
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Returns true if a running process is CPython and keeps small objects in its own pools.
pub fn has_pools(pid: i32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    program.is_ok_and(|program| is_python(&program))
        && fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
            !environment
                .split(|&byte| byte == 0)
                .any(|entry| entry.starts_with(b"PYTHONMALLOC=malloc"))
        })
}
