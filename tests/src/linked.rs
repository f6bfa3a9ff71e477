//! Programs that are linked to the library instead of having it preloaded.

use crate::compile::compiler;
use crate::directives::Source;
use crate::judge::judge;
use crate::library::{scratch_dir, workspace};
use crate::process::{command, run};
use std::path::{Path, PathBuf};

/// How a program gets the library.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    /// `libtoft.so`, found by a run path.
    Shared,
    /// `libtoft.a` in an executable that has the C library shared.
    Archive,
    /// `libtoft.a` in a fully static executable.
    Static,
}

/// The header's folder.
pub fn include_dir() -> PathBuf {
    workspace().join("crates/toft-preload/include")
}

/// Compiles `abi/linked/api.c` against the header in either language, links it so, and runs it.
pub fn links(library: &Path, link: Link, cpp: bool) -> Result<(), String> {
    let source = Source::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/linked/api.c"))?;
    let stem = library.file_stem().ok_or("the library has no name")?.to_string_lossy();
    let archive = library.with_extension("a");
    let scratch = scratch_dir("linked");
    let binary = scratch.join(format!("{link:?}-{}", if cpp { "cpp" } else { "c" }));
    let mut compile = compiler(cpp);
    compile
        .args(["-Werror", "-I"])
        .arg(include_dir())
        .arg("-I")
        .arg(env!("CARGO_MANIFEST_DIR"))
        .args(["-x", if cpp { "c++" } else { "c" }])
        .arg(&source.path)
        .args(["-x", "none"]);
    match link {
        Link::Shared => {
            // A program asks for the soname, which a build folder does not have.
            let object = scratch.join(format!("{stem}.so.0"));
            let next = scratch.join(format!("{stem}.so.0-{cpp}"));
            std::fs::copy(library, &next).map_err(|e| format!("{}: {e}", next.display()))?;
            std::fs::rename(&next, &object).map_err(|e| format!("{}: {e}", object.display()))?;
            compile.arg(&object).arg(format!("-Wl,-rpath,{}", scratch.display()));
        }
        Link::Archive => {
            compile.arg(&archive);
        }
        Link::Static => {
            compile.arg("-static").arg(&archive);
        }
    }
    compile.arg("-o").arg(&binary);
    let out = compile.output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("{compile:?}\n{}", String::from_utf8_lossy(&out.stderr)));
    }
    judge(&source, &run(command(&binary), &[], source.timeout))
}
