//! Programs that are linked to the library instead of having it preloaded.

use crate::compile::compiler;
use crate::directives::{Ending, PATIENCE, Source};
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
    /// `libtoft.a` in a fully static executable that may be anywhere.
    StaticPie,
}

/// The header's folder.
pub fn include_dir() -> PathBuf {
    workspace().join("crates/toft-preload/include")
}

/// Compiles a program of `abi/linked` against the headers in either language, links it so, and runs
/// it.
pub fn links(library: &Path, link: Link, program: &str, cpp: bool) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/linked");
    let source = Source::read(&folder.join(program))?;
    let stem = library.file_stem().ok_or("the library has no name")?.to_string_lossy();
    let archive = library.with_extension("a");
    let scratch = scratch_dir("linked");
    let binary = scratch.join(format!("{link:?}-{program}-{}", if cpp { "cpp" } else { "c" }));
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
            let next = scratch.join(format!("{stem}.so.0-{program}-{cpp}"));
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
        Link::StaticPie => {
            compile.arg("-static-pie").arg(&archive);
        }
    }
    compile.arg("-o").arg(&binary);
    let out = compile.output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("{compile:?}\n{}", String::from_utf8_lossy(&out.stderr)));
    }
    judge(&source, &run(command(&binary), &[], source.timeout))
}

/// Where a report says that code is: `called from` or `then`, and the functions, the innermost
/// first.
pub fn functions(binary: &Path, report: &str, heading: &str) -> Result<Vec<String>, String> {
    let begin = |line: &&str| !line.contains(&format!("toft:   {heading} "));
    let places = report.lines().skip_while(begin).enumerate();
    let places = places.take_while(|(number, line)| *number == 0 || line.contains("toft:   then "));
    let inside = format!("{}+", binary.display());
    let offsets =
        places.filter_map(|(_, line)| line.split_once(&inside)?.1.split_whitespace().next());
    // A return address is after its call.
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(1) - 1;
    let offsets: Vec<String> = offsets.map(|text| format!("{:#x}", hex(text))).collect();
    let mut command = command("addr2line");
    command.arg("-f").arg("-e").arg(binary).args(&offsets);
    let out = command.output().map_err(|e| format!("addr2line: {e}"))?;
    Ok(String::from_utf8_lossy(&out.stdout).lines().step_by(2).map(str::to_owned).collect())
}

/// Compiles `abi/linked/stack.c`, which frees a block twice, and checks whose stack the report
/// shows; then the correct program of the same shape, which says nothing.
pub fn stacks(library: &Path, link: Link, frame_pointers: bool) -> Result<(), String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/linked/stack.c");
    let kind = if frame_pointers { "" } else { "-no-frames" };
    let binary = scratch_dir("linked").join(format!("{link:?}-stack{kind}"));
    let mut compile = compiler(false);
    if !frame_pointers {
        compile.arg("-fomit-frame-pointer");
    }
    match link {
        Link::Shared | Link::Archive => {}
        Link::Static => _ = compile.arg("-static"),
        Link::StaticPie => _ = compile.arg("-static-pie"),
    }
    compile.arg("-I").arg(env!("CARGO_MANIFEST_DIR")).arg(&source);
    let out = compile.arg(library.with_extension("a")).arg("-o").arg(&binary).output();
    let out = out.map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("{compile:?}\n{}", String::from_utf8_lossy(&out.stderr)));
    }
    let timeout = PATIENCE * std::time::Duration::from_secs(60);
    for (settings, headings) in
        [(&[][..], &["called from"][..]), (&[("TOFT_GUARDED", "1")], &["called from", "freed at"])]
    {
        let start = |words: &[&str]| {
            let mut command = command(&binary);
            command.args(words).envs(settings.iter().copied());
            run(command, &[], timeout)
        };
        let right = start(&["once"]);
        if right.ending != Ending::Exit(0) || !right.stderr.is_empty() {
            return Err(right.describe("the correct program is reported, or fails"));
        }
        let wrong = start(&[]);
        for heading in headings {
            let found = functions(&binary, &wrong.stderr, heading)?;
            let expected = ["inner", "outer", "main"];
            if !found.iter().map(String::as_str).take(3).eq(expected)
                || found.iter().any(|name| name.contains("toft"))
            {
                return Err(
                    wrong.describe(&format!("{heading}: {found:?}, not {expected:?} and on"))
                );
            }
        }
    }
    Ok(())
}
