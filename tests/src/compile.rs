//! Compiling a test source, unless the binary is newer than everything it is made of.

use crate::directives::Source;
use crate::library::scratch_dir;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// `-fno-builtin`, because a compiler that knows malloc folds away what is being tested.
const FLAGS: [&str; 7] =
    ["-O1", "-g", "-fno-builtin", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-D_GNU_SOURCE"];

/// Warnings about exactly the mistakes that these programs make on purpose.
const QUIET: [&str; 5] = [
    "-Wno-use-after-free",
    "-Wno-free-nonheap-object",
    "-Wno-mismatched-new-delete",
    "-Wno-alloc-size-larger-than",
    "-Wno-deprecated-declarations",
];

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|m| m.modified()).ok()
}

/// Runs a compiler unless `output` is newer than `inputs` and was made by the same command.
fn make(mut command: Command, inputs: &[&Path], output: &Path) -> Result<(), String> {
    let stamp = output.with_extension("cmd");
    let line = format!("{command:?}");
    let fresh = modified(output)
        .is_some_and(|made| inputs.iter().all(|i| modified(i).is_some_and(|m| m < made)))
        && std::fs::read_to_string(&stamp).is_ok_and(|old| old == line);
    if fresh {
        return Ok(());
    }
    let out = command.output().map_err(|e| format!("{line}: {e}"))?;
    if !out.status.success() {
        return Err(format!("{line}\n{}", String::from_utf8_lossy(&out.stderr)));
    }
    std::fs::write(&stamp, line).map_err(|e| format!("{}: {e}", stamp.display()))
}

/// The compiler for a file.
pub fn compiler(cpp: bool) -> Command {
    let (variable, name) = if cpp { ("CXX", "c++") } else { ("CC", "cc") };
    let mut command = Command::new(std::env::var_os(variable).unwrap_or_else(|| name.into()));
    command.args(FLAGS).args(QUIET);
    if cpp {
        command.args(["-std=c++20", "-faligned-new", "-fsized-deallocation"]);
    } else {
        command.arg("-std=gnu11");
    }
    command
}

fn tests_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a source of the suite may include.
fn headers(suite: &str) -> Vec<PathBuf> {
    [tests_dir().to_owned(), tests_dir().join(suite)]
        .iter()
        .flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "h"))
        .collect()
}

fn with<'a>(headers: &'a [PathBuf], source: &'a Path) -> Vec<&'a Path> {
    headers.iter().map(PathBuf::as_path).chain([source]).collect()
}

/// A program ready to run, and the folder of its shared objects.
pub struct Program {
    /// The executable.
    pub binary: PathBuf,
    /// Where its `aux` objects are.
    pub aux_dir: PathBuf,
}

/// Builds a source and its auxiliary shared objects.
pub fn compile(suite: &str, source: &Source) -> Result<Program, String> {
    let dir = scratch_dir(suite);
    let aux_dir = dir.join("aux");
    std::fs::create_dir_all(&aux_dir).map_err(|e| format!("{}: {e}", aux_dir.display()))?;
    let headers = headers(suite);
    for aux in &source.aux {
        let from = source.path.with_file_name("aux").join(aux);
        let to = aux_dir.join(aux).with_extension("so");
        // Two programs may share an object and are compiled in parallel: each makes its own.
        let to = to.with_file_name(format!(
            "{}-{}",
            source.name,
            to.file_name().unwrap_or_default().to_string_lossy()
        ));
        let mut command = compiler(false);
        command.args(["-shared", "-fPIC", "-I"]).arg(tests_dir()).arg("-o").arg(&to).arg(&from);
        make(command, &with(&headers, &from), &to)?;
    }
    let binary = dir.join(&source.name);
    let mut command = compiler(source.is_cpp());
    command
        .args(&source.flags)
        .arg("-I")
        .arg(tests_dir())
        .arg("-o")
        .arg(&binary)
        .arg(&source.path)
        .args(&source.libs);
    make(command, &with(&headers, &source.path), &binary)?;
    Ok(Program { binary, aux_dir })
}
