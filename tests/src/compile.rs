//! Compiling a test source, unless the binary is newer than everything it is made of.

use crate::directives::Source;
use crate::library::scratch_dir;
use crate::platform::{Platform, platform};
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

/// Runs a compiler unless `output` was made by the same command, and is newer than all that it was
/// made of: the compiler has written down which sources, `linked` is what was linked.
fn make(mut command: Command, output: &Path, linked: &[PathBuf]) -> Result<(), String> {
    let [stamp, made_of] = ["cmd", "d"].map(|ending| beside(output, ending));
    command.args(["-MMD", "-MF"]).arg(&made_of);
    let line = format!("{command:?}");
    let is_older = |made: SystemTime| {
        let text = std::fs::read_to_string(&made_of).unwrap_or_default();
        let inputs = inputs(&text);
        let older = |input: &PathBuf| modified(input).is_some_and(|changed| changed < made);
        !inputs.is_empty() && inputs.iter().chain(linked).all(older)
    };
    let fresh = modified(output).is_some_and(is_older)
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

/// The file that says something about another.
fn beside(output: &Path, ending: &str) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// The files behind the colon of a rule that a compiler has written.
fn inputs(rule: &str) -> Vec<PathBuf> {
    let (_, behind) = rule.split_once(": ").unwrap_or_default();
    // A space within a name has a stroke before it.
    let names = behind.replace("\\\n", " ").replace("\\ ", "\0");
    names.split_whitespace().map(|name| name.replace('\0', " ").into()).collect()
}

/// The compiler for a file.
pub fn compiler(cpp: bool) -> Command {
    let mut command = platform().compiler(cpp);
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

/// A program ready to run, and the folder of its shared objects.
pub struct Program {
    /// The executable.
    pub binary: PathBuf,
    /// Where its `aux` objects are.
    pub aux_dir: PathBuf,
}

/// Builds a source and its auxiliary shared objects.
pub fn compile(suite: &str, source: &Source) -> Result<Program, String> {
    let dir = match platform() {
        Platform::Native => scratch_dir(suite),
        other => scratch_dir(&format!("{suite}-{}", other.word())),
    };
    let aux_dir = dir.join("aux");
    std::fs::create_dir_all(&aux_dir).map_err(|e| format!("{}: {e}", aux_dir.display()))?;
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
        command.args(Source::read(&from)?.flags);
        make(command, &to, &[])?;
    }
    let binary = dir.join(&source.name);
    let mut command = compiler(source.is_cpp());
    command.args(&source.flags).arg("-I").arg(tests_dir()).arg("-o").arg(&binary).arg(&source.path);
    let linked = platform().linked()?;
    command.args(&linked).args(&source.libs);
    make(command, &binary, &linked)?;
    Ok(Program { binary, aux_dir })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_rule_names_what_a_program_is_made_of() {
        let rule = "a/b: a/b.c \\\n ../with\\ space.h \\\n c.h\n";
        let names = ["a/b.c", "../with space.h", "c.h"].map(PathBuf::from);
        assert_eq!(inputs(rule), names);
        assert!(inputs("").is_empty());
    }

    #[test]
    fn what_a_source_includes_is_a_reason_to_build_anew() {
        let dir = scratch_dir("compile");
        let [source, other, to] = ["made.c", "included.c", "made.o"].map(|name| dir.join(name));
        std::fs::write(&source, "#include \"included.c\"\n").unwrap();
        let build = || {
            let mut command = compiler(false);
            command.arg("-c").arg("-o").arg(&to).arg(&source);
            make(command, &to, &[]).unwrap();
            modified(&to).unwrap()
        };
        std::fs::write(&other, "int a;\n").unwrap();
        let first = build();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(build(), first, "nothing has changed");
        std::fs::write(&other, "int b;\n").unwrap();
        assert_ne!(build(), first);
    }
}
