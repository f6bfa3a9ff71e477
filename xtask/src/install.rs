//! `cargo xtask install`: the command, the libraries, the header and what belongs to them, where a system has such things.
//!
//! | below the prefix | what |
//! |---|---|
//! | `bin/toft` | the command, which carries the library that it preloads |
//! | `lib/libtoft.so.0` | for programs that are linked to it or preload it; `libtoft.so` and `.so.0.1.0` are the same; `libtoft.a` |
//! | `lib/libtoft-secure.so.0` | the hardened build in the same way |
//! | `lib/libtoft_checked.so.0` | checked copies |
//! | `include/toft.h` | |
//! | `lib/pkgconfig` | `toft.pc` and `toft-secure.pc` |
//! | `share` | the manual page, completions for bash, zsh and fish, licences |

use crate::{place, secure};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The version of the interface: what the libraries are asked for by.
const INTERFACE: &str = "0";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where it goes.
#[derive(clap::Args, Debug)]
pub struct Place {
    /// The folder that it is to be used in
    #[arg(long, value_name = "FOLDER", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Put in front of the prefix where files are written, and known to none of them: for who makes a package
    #[arg(long, value_name = "FOLDER")]
    destdir: Option<PathBuf>,
}

/// Builds all and puts it there.
pub fn main(to: &Place) -> Result<ExitCode, String> {
    let mut cargo = place::cargo();
    cargo.args(["build", "--release", "--package", "toft-preload", "--package", "toft-checked"]);
    cargo.args(["--package", "toft-cli"]);
    if !cargo.status().is_ok_and(|status| status.success()) {
        return Err("it does not build".into());
    }
    secure::build()?;
    for path in install(&place::target_dir().join("release"), to)? {
        println!("{}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// What is written, below the prefix; returns where it is.
fn install(built: &Path, to: &Place) -> Result<Vec<PathBuf>, String> {
    if !to.prefix.is_absolute() {
        return Err(format!("--prefix {}: a whole path is needed", to.prefix.display()));
    }
    let root = match &to.destdir {
        Some(before) => before.join(to.prefix.strip_prefix("/").unwrap_or(&to.prefix)),
        None => to.prefix.clone(),
    };
    let mut there = Files { root, written: Vec::new() };
    there.copy(&built.join("toft"), "bin/toft", 0o755)?;
    for name in ["libtoft", "libtoft-secure", "libtoft_checked"] {
        let whole = format!("{name}.so.{VERSION}");
        let asked_for = format!("{name}.so.{INTERFACE}");
        there.copy(&built.join(name).with_extension("so"), &format!("lib/{whole}"), 0o755)?;
        there.link(&whole, &format!("lib/{asked_for}"))?;
        there.link(&asked_for, &format!("lib/{name}.so"))?;
    }
    for (name, about) in [
        ("toft", "A memory allocator in which every call site gets its own"),
        ("toft-secure", "The same, hardened"),
    ] {
        let archive = format!("lib{name}.a");
        there.copy(&built.join(&archive), &format!("lib/{archive}"), 0o644)?;
        let text = pkg_config(&to.prefix, name, about);
        there.write(text.as_bytes(), &format!("lib/pkgconfig/{name}.pc"), 0o644)?;
    }
    let header = place::root().join("crates/toft-preload/include/toft.h");
    there.copy(&header, "include/toft.h", 0o644)?;
    for (words, file) in [
        (&["man"][..], "man/man1/toft.1"),
        (&["completions", "bash"], "bash-completion/completions/toft"),
        (&["completions", "zsh"], "zsh/site-functions/_toft"),
        (&["completions", "fish"], "fish/vendor_completions.d/toft.fish"),
    ] {
        there.write(&said(&built.join("toft"), words)?, &format!("share/{file}"), 0o644)?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        there.copy(&place::root().join(licence), &format!("share/doc/toft/{licence}"), 0o644)?;
    }
    Ok(there.written)
}

/// What the command prints.
fn said(toft: &Path, words: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(toft).args(words).output();
    let output = output.map_err(|error| format!("{}: {error}", toft.display()))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("toft {}: {}", words.join(" "), output.status)),
    }
}

/// A static program takes the archive, which needs what the C library has apart on older systems.
fn pkg_config(prefix: &Path, name: &str, about: &str) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: {name}\nDescription: {about}\nVersion: {VERSION}\n\
         Libs: -L${{libdir}} -l{name}\nLibs.private: -lpthread -ldl\nCflags: -I${{includedir}}\n",
        prefix.display()
    )
}

/// A folder that is filled.
struct Files {
    root: PathBuf,
    written: Vec<PathBuf>,
}

impl Files {
    fn copy(&mut self, from: &Path, to: &str, mode: u32) -> Result<(), String> {
        let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        self.write(&bytes, to, mode)
    }

    /// A new file takes the name, because a program may be running on the old one.
    fn write(&mut self, bytes: &[u8], to: &str, mode: u32) -> Result<(), String> {
        self.put(to, |next| {
            fs::write(next, bytes)?;
            fs::set_permissions(next, fs::Permissions::from_mode(mode))
        })
    }

    fn link(&mut self, target: &str, to: &str) -> Result<(), String> {
        self.put(to, |next| {
            let _ = fs::remove_file(next);
            symlink(target, next)
        })
    }

    fn put(
        &mut self,
        to: &str,
        make: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> Result<(), String> {
        let path = self.root.join(to);
        let mut next = path.clone().into_os_string();
        next.push(".next");
        let next = PathBuf::from(next);
        let folder = path.parent().unwrap_or(&self.root);
        let made = fs::create_dir_all(folder)
            .and_then(|()| make(&next))
            .and_then(|()| fs::rename(&next, &path));
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        self.written.push(path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as cargo fills it, with a command that says what it was asked.
    fn built(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        for name in ["libtoft", "libtoft-secure", "libtoft_checked"] {
            fs::write(folder.join(name).with_extension("so"), name).unwrap();
            fs::write(folder.join(name).with_extension("a"), format!("{name} archive")).unwrap();
        }
        fs::write(folder.join("toft"), "#!/bin/sh\necho \"$@\"\n").unwrap();
        fs::set_permissions(folder.join("toft"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("toft-install-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn what_is_installed_is_where_programs_look_for_it() {
        let place = scratch("all");
        built(&place.join("built"));
        let to = Place { prefix: "/opt/toft".into(), destdir: Some(place.join("package")) };
        let written = install(&place.join("built"), &to).unwrap();
        let root = place.join("package/opt/toft");
        assert!(written.iter().all(|path| path.starts_with(&root)));
        let text = |file: &str| fs::read_to_string(root.join(file)).unwrap();
        for name in ["libtoft", "libtoft-secure", "libtoft_checked"] {
            // By whichever of its names it is asked for.
            for ending in ["so", "so.0", &format!("so.{VERSION}")] {
                assert_eq!(text(&format!("lib/{name}.{ending}")), name);
            }
        }
        assert_eq!(text("lib/libtoft-secure.a"), "libtoft-secure archive");
        assert_eq!(text("share/man/man1/toft.1"), "man\n");
        assert_eq!(text("share/zsh/site-functions/_toft"), "completions zsh\n");
        assert!(text("include/toft.h").contains("toft_purge"));
        let pc = text("lib/pkgconfig/toft-secure.pc");
        assert!(pc.starts_with("prefix=/opt/toft\n") && pc.contains("-ltoft-secure\n"), "{pc}");
        let mode = |file: &str| fs::metadata(root.join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("bin/toft"), mode("include/toft.h")), (0o755, 0o644));
        // A second time over it, and nothing but what was said is there.
        assert_eq!(install(&place.join("built"), &to).unwrap(), written);
        let mut there = 0;
        let mut folders = vec![root];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => there += 1,
                }
            }
        }
        assert_eq!(there, written.len());
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_cannot_be_installed_says_why() {
        let place = scratch("wrong");
        let to = Place { prefix: "relative".into(), destdir: None };
        assert!(install(&place, &to).unwrap_err().contains("--prefix relative"));
        let to = Place { prefix: place.clone(), destdir: None };
        assert!(install(&place, &to).unwrap_err().contains("/toft: "), "nothing was built");
        built(&place.join("built"));
        fs::write(place.join("built/toft"), "#!/bin/sh\nexit 3\n").unwrap();
        let error = install(&place.join("built"), &to).unwrap_err();
        assert!(error.contains("toft man") && error.contains('3'), "{error}");
        fs::remove_dir_all(place).unwrap();
    }
}
