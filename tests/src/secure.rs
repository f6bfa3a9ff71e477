//! Running a program with `AT_SECURE` set.
//!
//! The loader ignores a preload by path then, so the program is linked to the library and finds it
//! by an absolute run path; a copy of both, setuid, is run by another user.

use crate::compile::compiler;
use crate::directives::Source;
use crate::judge::judge;
use crate::library::library;
use crate::process::{command, open_folder, run};
use std::fs::{Permissions, copy, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

/// The user `nobody`.
const NOBODY: u32 = 65534;

/// Whether this process may make its own setuid programs and become another user.
pub fn can_run() -> bool {
    // SAFETY: a system call without arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Runs a source setuid root as `nobody`.
pub fn run_setuid(source: &Source) -> Result<(), String> {
    let said = |e: std::io::Error| format!("{}: {e}", source.path.display());
    let library = library().path().ok_or("needs the library")?;
    // The target directory may be closed to other users.
    let folder = open_folder().map_err(said)?;
    let dir = folder.path();
    let stem = library.file_stem().ok_or("the library has no name")?.to_string_lossy();
    let (object, binary) = (dir.join(format!("{stem}.so.0")), dir.join(&source.name));
    copy(library, &object).map_err(said)?;
    set_permissions(&object, Permissions::from_mode(0o755)).map_err(said)?;
    let out = compiler(source.is_cpp())
        .args(&source.flags)
        .arg("-I")
        .arg(env!("CARGO_MANIFEST_DIR"))
        .arg("-o")
        .arg(&binary)
        .arg(&source.path)
        .arg("-Wl,--no-as-needed")
        .arg(&object)
        .arg(format!("-Wl,-rpath,{}", dir.display()))
        .args(&source.libs)
        .output()
        .map_err(said)?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    set_permissions(&binary, Permissions::from_mode(0o4755)).map_err(said)?;
    let mut command = command(&binary);
    command.envs(source.env.iter().map(|(k, v)| (k, v))).uid(NOBODY).gid(NOBODY);
    judge(source, &run(command, &source.limits, source.timeout))
}
