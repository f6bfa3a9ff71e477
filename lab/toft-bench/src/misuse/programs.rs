//! The programs of the corpus, compiled.

use super::class::{Class, HEADER, SOURCES};
use crate::files;
use crate::peer_cache::locked;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `-fno-builtin`, because a compiler that knows malloc folds away what is being tested; `-O1`,
/// because programs are not run unoptimised.
const FLAGS: [&str; 9] = [
    "-O1",
    "-g",
    "-fno-builtin",
    "-fno-omit-frame-pointer",
    "-U_FORTIFY_SOURCE",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pthread",
];

/// Warnings about exactly the mistakes that these programs make on purpose.
const QUIET: [&str; 5] = [
    "-Wno-unknown-warning-option",
    "-Wno-use-after-free",
    "-Wno-free-nonheap-object",
    "-Wno-alloc-size-larger-than",
    "-Wno-deprecated-declarations",
];

/// Where the programs are, by source and language.
#[derive(Debug)]
pub struct Programs(BTreeMap<(String, String), PathBuf>);

impl Programs {
    /// Compiles what these classes need into a folder; what is there and was made of the same text
    /// by the same command stays.
    ///
    /// # Errors
    /// The compiler is missing, or what it said.
    pub fn build(folder: &Path, classes: &[Class]) -> Result<Self, String> {
        files::make_folder(folder)?;
        let _alone = locked(folder).map_err(files::at(folder))?;
        files::write(&folder.join("corpus.h"), HEADER)?;
        let mut wanted: Vec<(String, String)> = classes
            .iter()
            .flat_map(|class| {
                class.languages().iter().map(|language| (class.source.clone(), language.clone()))
            })
            .collect();
        wanted.sort();
        wanted.dedup();
        let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some(key) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let program = compile(folder, &key.0, &key.1).map(|path| (key.clone(), path));
                made.lock().expect("no thread panics with the lock").push(program);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
        let made = made.into_inner().expect("no thread panics with the lock");
        made.into_iter().collect::<Result<_, _>>().map(Self)
    }

    /// The program of a class.
    pub(crate) fn of(&self, class: &Class, language: &str) -> &Path {
        self.0.get(&(class.source.clone(), language.to_owned())).expect("built for this class")
    }
}

fn compile(folder: &Path, source: &str, language: &str) -> Result<PathBuf, String> {
    let text = SOURCES.iter().find(|(name, _)| *name == source).map_or("", |(_, text)| *text);
    let stem = source.trim_end_matches(".c");
    let (variable, default) = if language == "c" { ("CC", "cc") } else { ("CXX", "c++") };
    let compiler = std::env::var_os(variable).unwrap_or_else(|| default.into());
    let program = folder.join(format!("{stem}-{}", if language == "c" { "c" } else { "cxx" }));
    let file = folder.join(source);
    let mut command = Command::new(&compiler);
    command.args(FLAGS).args(QUIET);
    match language {
        "c" => command.args(["-x", "c", "-std=gnu11"]),
        _ => command.args(["-x", "c++", "-std=c++20", "-Wno-mismatched-new-delete"]),
    };
    command.arg("-I").arg(folder).arg("-o").arg(&program).arg(&file);
    let made_of = format!("{command:?}\n{HEADER}{text}");
    let stamp = program.with_extension("made-of");
    if program.exists() && std::fs::read_to_string(&stamp).is_ok_and(|old| old == made_of) {
        return Ok(program);
    }
    // Both languages read one file, which may just be read by the compiler of the other.
    if !std::fs::read_to_string(&file).is_ok_and(|old| old == text) {
        files::write(&file, text)?;
    }
    let output = command.output().map_err(|error| {
        format!("{}: {error}: a C and a C++ compiler are needed", compiler.display())
    })?;
    if !output.status.success() {
        return Err(format!("{command:?}\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    files::write(&stamp, &made_of)?;
    Ok(program)
}
