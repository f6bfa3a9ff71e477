//! From the words on the command line to the file the kernel will execute: the search along `PATH`,
//! and `#!` lines.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};

use object::elf::ELFMAG;

use crate::launch::Launch;
use crate::verb::{Failure, NOT_EXECUTABLE, NOT_FOUND};

/// What the kernel reads of a script to find its interpreter.
const HEAD: usize = 256;
/// The kernel follows this many interpreters that are scripts themselves.
const DEPTH: usize = 5;

/// A program found, with everything needed to execute it.
#[derive(Clone)]
pub struct Resolved {
    /// The file that the user named.
    pub named: PathBuf,
    pub script: bool,
    pub program: PathBuf,
    /// What the program shall see as its name.
    pub name: OsString,
    /// Its arguments, after what an `env` line of a script put in front.
    pub arguments: Vec<OsString>,
    /// The binary that will run: the program, or the interpreter of the script.
    pub binary: PathBuf,
}

impl Resolved {
    /// Returns how to start the program with these variables in its environment.
    pub fn launch(&self, environment: Vec<(OsString, OsString)>) -> Launch {
        let Resolved { program, name, arguments, .. } = self.clone();
        Launch { program, name, arguments, environment, silent: false }
    }
}

/// Finds `program` and follows the scripts.
///
/// A script that says `#!/usr/bin/env NAME` is turned into a call of NAME: with the default scope
/// the library would otherwise load into `env`, take itself out of the environment there and be
/// gone when `env` turns into NAME.
pub fn resolve(
    program: &OsString,
    arguments: &[OsString],
    path: &OsStr,
) -> Result<Resolved, Failure> {
    let mut found = search(program, path)?;
    let mut name = program.clone();
    let mut arguments = arguments.to_vec();
    let named = found.clone();
    let mut script = false;
    let mut current = found.clone();
    for _ in 0..DEPTH {
        let (interpreter, argument) = match head(&current) {
            Head::Binary | Head::Unreadable => {
                let (program, binary) = (found, current);
                return Ok(Resolved { named, script, program, name, arguments, binary });
            }
            Head::Text => {
                let (script, program, binary) = (true, found, PathBuf::from("/bin/sh"));
                return Ok(Resolved { named, script, program, name, arguments, binary });
            }
            Head::Script { interpreter, argument } => (interpreter, argument),
        };
        script = true;
        if is_env(&interpreter)
            && current == found
            && let Some(wanted) = argument.as_deref().and_then(plain_env)
        {
            arguments.insert(0, found.into_os_string());
            found = search(&wanted, path)?;
            name = wanted;
            current.clone_from(&found);
            continue;
        }
        if !interpreter.exists() {
            let (script, interpreter) = (current.display(), interpreter.display());
            let why = format!("{script}: its interpreter {interpreter} is not there");
            return Err(Failure::new(NOT_FOUND, why));
        }
        executable(&interpreter)?;
        current = interpreter;
    }
    let why = format!("{}: too many levels of interpreters", program.display());
    Err(Failure::new(NOT_EXECUTABLE, why))
}

/// As `execvp` searches: a name with a slash is a path; a file that may not be executed is
/// remembered and passed over.
fn search(program: &OsStr, path: &OsStr) -> Result<PathBuf, Failure> {
    let not_found = || {
        let shown = program.display();
        let here = Path::new(program).is_file();
        let hint =
            if here { format!(" on the PATH; the file here is ./{shown}") } else { "".into() };
        Failure::new(NOT_FOUND, format!("{shown}: not found{hint}"))
    };
    if program.is_empty() {
        return Err(Failure::new(NOT_FOUND, "the name of the program is empty"));
    }
    if program.as_bytes().contains(&b'/') {
        let file = PathBuf::from(program);
        executable(&file)?;
        return Ok(file);
    }
    let mut denied = None;
    for directory in path.as_bytes().split(|&byte| byte == b':') {
        let directory =
            if directory.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(directory) };
        let file = Path::new(directory).join(program);
        match executable(&file) {
            Ok(()) => return Ok(file),
            // A directory of PATH that may not be looked into has nothing for us.
            Err(why) if why.status == NOT_EXECUTABLE && file.is_file() => {
                denied = denied.or(Some(why));
            }
            Err(_) => {}
        }
    }
    Err(denied.unwrap_or_else(not_found))
}

fn executable(file: &Path) -> Result<(), Failure> {
    let failed = |status, why| Err(Failure::new(status, format!("{}: {why}", file.display())));
    match fs::metadata(file) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            failed(NOT_EXECUTABLE, "permission denied")
        }
        Err(_) => failed(NOT_FOUND, "not found"),
        Ok(about) if about.is_dir() => failed(NOT_EXECUTABLE, "is a directory"),
        Ok(about) => {
            let may = faccessat(AT_FDCWD, file, AccessFlags::X_OK, AtFlags::AT_EACCESS).is_ok();
            if about.is_file() && may { Ok(()) } else { failed(NOT_EXECUTABLE, "not executable") }
        }
    }
}

enum Head {
    Binary,
    Script {
        interpreter: PathBuf,
        argument: Option<OsString>,
    },
    /// Neither: `execvp` hands such a file to the shell.
    Text,
    Unreadable,
}

fn head(file: &Path) -> Head {
    let mut bytes = Vec::with_capacity(HEAD);
    let Ok(opened) = File::open(file) else {
        return Head::Unreadable;
    };
    if opened.take(HEAD as u64).read_to_end(&mut bytes).is_err() {
        return Head::Unreadable;
    }
    if let Some(line) = bytes.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
        let cut = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
        if cut == 0 {
            return Head::Text;
        }
        let argument = line[cut..].trim_ascii();
        return Head::Script {
            interpreter: PathBuf::from(OsString::from_vec(line[..cut].to_vec())),
            argument: (!argument.is_empty()).then(|| OsString::from_vec(argument.to_vec())),
        };
    }
    let is_text = !bytes.starts_with(&ELFMAG) && !bytes.contains(&0);
    if is_text { Head::Text } else { Head::Binary }
}

fn is_env(interpreter: &Path) -> bool {
    interpreter.file_name() == Some(OsStr::new("env"))
}

/// The NAME of `env NAME`, where that is all there is.
fn plain_env(argument: &OsStr) -> Option<OsString> {
    let bytes = argument.as_bytes();
    let plain = !bytes.starts_with(b"-") && !bytes.iter().any(|byte| b" \t=".contains(byte));
    plain.then(|| argument.to_owned())
}
