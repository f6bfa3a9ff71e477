//! `cargo xtask install`: the command, the libraries, the header and what belongs to them, where a
//! system has such things.
//!
//! | below the prefix | what |
//! |---|---|
//! | `bin/toft` | the command, which carries the library that it preloads |
//! | `bin/toft-bench` | the program that `toft bench` starts |
//! | `lib/libtoft.so.0` | to link to or preload; `libtoft.so` and `.so.0.1.0` are the same |
//! | `lib/libtoft.a` | to link statically |
//! | `lib/libtoft-secure.so.0`, `lib/libtoft-secure-light.so.0` | the secure builds in the same way |
//! | `lib/libtoft_checked.so.0` | checked copies |
//! | `include` | `toft.h`, `toft.hpp` |
//! | `lib/pkgconfig` | `toft.pc`, `toft-secure.pc` and `toft-secure-light.pc` |
//! | `lib/cmake/toft` | for `find_package(toft CONFIG)` |
//! | `share` | the manual pages, completions for bash, zsh and fish, licences |

mod build_systems;

use crate::step::text;
use crate::{files, place, secure};
use build_systems::{cmake, cmake_version, pkg_config};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The version of the interface: what the libraries are asked for by.
const INTERFACE: &str = "0";
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where it goes.
#[derive(clap::Args, Debug)]
pub struct Place {
    /// The folder that it is to be used in
    #[arg(long, value_name = "FOLDER", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Put in front of the prefix where files are written, and known to none of them: for who makes
    /// a package
    #[arg(long, value_name = "FOLDER")]
    destdir: Option<PathBuf>,
    /// The folder of the libraries, below the prefix: Debian has lib/x86_64-linux-gnu
    #[arg(long, value_name = "FOLDER", default_value = "lib")]
    libdir: String,
    /// Leave out the command, its manual pages and its completions
    #[arg(long)]
    libs_only: bool,
    /// A command of this version that runs on this machine and writes the pages; by default the
    /// installed one
    #[arg(skip)]
    pub page_writer: Option<PathBuf>,
}

impl Place {
    /// Everything, below a prefix.
    pub fn below(prefix: impl Into<PathBuf>) -> Place {
        Place {
            prefix: prefix.into(),
            destdir: None,
            libdir: "lib".into(),
            libs_only: false,
            page_writer: None,
        }
    }

    /// The libraries and what belongs to them, below a prefix.
    pub fn of_libraries(prefix: &Path) -> Place {
        Place { libs_only: true, ..Place::below(prefix) }
    }

    /// Everything, written into the folder of a package.
    pub fn packed(prefix: impl Into<PathBuf>, destdir: &Path, libdir: &str) -> Place {
        Place { destdir: Some(destdir.into()), libdir: libdir.into(), ..Place::below(prefix) }
    }
}

/// Builds all and puts it there.
pub fn main(to: &Place) -> Result<ExitCode, String> {
    let packages = ["toft-preload", "toft-checked", "toft-cli", "toft-bench"];
    let release = place::build(if to.libs_only { &packages[..2] } else { &packages })?;
    secure::build_all()?;
    for path in install(&release, to)? {
        println!("{}", path.display());
    }
    print!("{}", next_steps(to, std::env::var("PATH").ok().as_deref().unwrap_or_default()));
    Ok(ExitCode::SUCCESS)
}

/// What the user does next: only what is not so already.
fn next_steps(to: &Place, path: &str) -> String {
    if to.destdir.is_some() {
        return String::new();
    }
    let (prefix, libdir) = (to.prefix.display(), to.libdir.trim_matches('/'));
    let mut text = String::from("\n");
    if !to.libs_only {
        if !std::env::split_paths(path).any(|folder| folder == to.prefix.join("bin")) {
            text += &format!("add the command to your PATH:   export PATH={prefix}/bin:$PATH\n");
        }
        text += "run a program on Toft:          toft run -- program\n";
    }
    let system = ["/usr", "/usr/local"].map(Path::new).contains(&to.prefix.as_path());
    if system {
        text += "let the loader find the library: ldconfig\n";
        text += "link a program:                 cc program.c $(pkg-config --cflags --libs toft)\n";
    } else {
        text += &format!(
            "link a program:                 cc program.c $(PKG_CONFIG_PATH={prefix}/{libdir}/pkgconfig \
             pkg-config --cflags --libs toft) -Wl,-rpath,{prefix}/{libdir}\n"
        );
    }
    text
}

/// The command, and the program that `toft bench` starts, which is beside it.
pub const COMMANDS: [&str; 2] = ["toft", "toft-bench"];

/// The builds of the library, by their names for the linker.
pub const BUILDS: [&str; 3] = ["toft", "toft-secure", "toft-secure-light"];

/// What is written, below the prefix; returns where it is.
pub fn install(built: &Path, to: &Place) -> Result<Vec<PathBuf>, String> {
    if !to.prefix.is_absolute() {
        return Err(format!("--prefix {}: a whole path is needed", to.prefix.display()));
    }
    let root = match &to.destdir {
        Some(before) => before.join(to.prefix.strip_prefix("/").unwrap_or(&to.prefix)),
        None => to.prefix.clone(),
    };
    let mut there = Files { root, written: Vec::new() };
    let libdir = to.libdir.trim_matches('/');
    for name in BUILDS.into_iter().chain(["toft_checked"]).map(|name| format!("lib{name}")) {
        let whole = format!("{name}.so.{VERSION}");
        let asked_for = format!("{name}.so.{INTERFACE}");
        there.copy(&built.join(&name).with_extension("so"), &format!("{libdir}/{whole}"), 0o755)?;
        there.link(&whole, &format!("{libdir}/{asked_for}"))?;
        there.link(&asked_for, &format!("{libdir}/{name}.so"))?;
    }
    let abouts = [
        "A memory allocator that checks every free and shows which call site holds memory",
        "Toft, a memory allocator: the secure build",
        "Toft, a memory allocator: the light secure build",
    ];
    for (name, about) in BUILDS.into_iter().zip(abouts) {
        let archive = format!("lib{name}.a");
        there.copy(&built.join(&archive), &format!("{libdir}/{archive}"), 0o644)?;
        let text = pkg_config(&to.prefix, libdir, name, about);
        there.write(text.as_bytes(), &format!("{libdir}/pkgconfig/{name}.pc"), 0o644)?;
    }
    let headers = place::root().join("crates/toft-preload/include");
    for header in ["toft.h", "toft.hpp"] {
        there.copy(&headers.join(header), &format!("include/{header}"), 0o644)?;
    }
    for (name, text) in [("config", cmake(libdir)), ("config-version", cmake_version())] {
        there.write(text.as_bytes(), &format!("{libdir}/cmake/toft/toft-{name}.cmake"), 0o644)?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        there.copy(&place::root().join(licence), &format!("share/doc/toft/{licence}"), 0o644)?;
    }
    if to.libs_only {
        return Ok(there.written);
    }
    for command in COMMANDS {
        there.copy(&built.join(command), &format!("bin/{command}"), 0o755)?;
    }
    let page_writer = to.page_writer.clone().unwrap_or_else(|| built.join("toft"));
    there.pages(&page_writer)?;
    for (words, file) in [
        (&["completions", "bash"][..], "bash-completion/completions/toft"),
        (&["completions", "zsh"], "zsh/site-functions/_toft"),
        (&["completions", "fish"], "fish/vendor_completions.d/toft.fish"),
    ] {
        let said = text(Command::new(&page_writer).args(words))?;
        there.write(said.as_bytes(), &format!("share/{file}"), 0o644)?;
    }
    Ok(there.written)
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

    /// The manual pages, which the command writes into a folder.
    fn pages(&mut self, toft: &Path) -> Result<(), String> {
        let folder = self.root.join("pages.next");
        files::emptied(&folder)?;
        let done = text(Command::new(toft).args(["man", "-o"]).arg(&folder)).and_then(|_| {
            files::in_folder(&folder)?.iter().try_for_each(|file| {
                self.copy(file, &format!("share/man/man1/{}", files::name(file)), 0o644)
            })
        });
        let _ = fs::remove_dir_all(&folder);
        done
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
        for name in ["libtoft", "libtoft-secure", "libtoft-secure-light", "libtoft_checked"] {
            fs::write(folder.join(name).with_extension("so"), name).unwrap();
            fs::write(folder.join(name).with_extension("a"), format!("{name} archive")).unwrap();
        }
        let script =
            "#!/bin/sh\nif [ \"$1\" = man ]; then echo page > \"$3/toft-run.1\"; fi\necho \"$@\"\n";
        fs::write(folder.join("script"), script).unwrap();
        // Another process writes the program. A child that another test starts just now would else
        // inherit the open file, and the program could not be started: "Text file busy".
        let mut copy = Command::new("install");
        copy.args(["-m", "755"]).arg(folder.join("script")).arg(folder.join("toft"));
        assert!(copy.status().unwrap().success());
        fs::write(folder.join("toft-bench"), "bench").unwrap();
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
        // Deeper than it is by default.
        let libdir = "lib/x86_64-linux-gnu";
        let to = Place::packed("/opt/toft", &place.join("package"), libdir);
        let written = install(&place.join("built"), &to).unwrap();
        let root = place.join("package/opt/toft");
        assert!(written.iter().all(|path| path.starts_with(&root)));
        let text = |file: &str| fs::read_to_string(root.join(file)).unwrap();
        for name in ["libtoft", "libtoft-secure", "libtoft-secure-light", "libtoft_checked"] {
            // By whichever of its names it is asked for.
            for ending in ["so", "so.0", &format!("so.{VERSION}")] {
                assert_eq!(text(&format!("{libdir}/{name}.{ending}")), name);
            }
        }
        assert_eq!(text(&format!("{libdir}/libtoft-secure.a")), "libtoft-secure archive");
        assert_eq!(text("share/man/man1/toft-run.1"), "page\n");
        assert_eq!(text("share/zsh/site-functions/_toft"), "completions zsh\n");
        assert!(text("include/toft.h").contains("toft_purge"));
        let pc = text(&format!("{libdir}/pkgconfig/toft-secure.pc"));
        assert!(pc.starts_with("prefix=/opt/toft\n") && pc.contains("-ltoft-secure\n"), "{pc}");
        assert!(pc.contains("libdir=${prefix}/lib/x86_64-linux-gnu\n"), "{pc}");
        let cmake = text(&format!("{libdir}/cmake/toft/toft-config.cmake"));
        assert!(cmake.contains("_DIR}/../../../..\"") && !cmake.contains('@'), "{cmake}");
        assert!(cmake.contains("${_toft}/lib/x86_64-linux-gnu/${_file}"), "{cmake}");
        let mode = |file: &str| fs::metadata(root.join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("bin/toft"), mode("include/toft.h")), (0o755, 0o644));
        assert_eq!((mode("bin/toft-bench"), &*text("bin/toft-bench")), (0o755, "bench"));
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
    fn the_libraries_alone_have_nothing_of_the_command() {
        let place = scratch("libs");
        built(&place.join("built"));
        fs::remove_file(place.join("built/toft")).unwrap();
        let to = Place { libs_only: true, ..Place::below(place.join("root")) };
        let written = install(&place.join("built"), &to).unwrap();
        let has = |part: &str| written.iter().any(|path| path.ends_with(part));
        assert!(has("lib/libtoft.so") && has("include/toft.hpp") && has("toft-config.cmake"));
        assert!(
            !has("bin/toft") && !written.iter().any(|path| path.to_string_lossy().contains("man1"))
        );
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn the_next_steps_are_those_that_are_left() {
        let to = |prefix: &str, libs_only| Place { libs_only, ..Place::below(prefix) };
        let home = next_steps(&to("/home/a/.local", false), "/usr/bin:/bin");
        assert!(home.contains("export PATH=/home/a/.local/bin:$PATH"), "{home}");
        assert!(home.contains("-rpath,/home/a/.local/lib") && !home.contains("ldconfig"), "{home}");
        let there = next_steps(&to("/home/a/.local", false), "/bin:/home/a/.local/bin");
        assert!(!there.contains("export PATH") && there.contains("toft run"), "{there}");
        let libraries = next_steps(&to("/usr/local", true), "/bin");
        assert!(libraries.contains("ldconfig") && !libraries.contains("toft run"), "{libraries}");
        let packaged = Place { destdir: Some("/tmp/x".into()), ..to("/usr", false) };
        assert_eq!(next_steps(&packaged, "/bin"), "");
    }

    #[test]
    fn what_cannot_be_installed_says_why() {
        let place = scratch("wrong");
        let to = Place::below("relative");
        assert!(install(&place, &to).unwrap_err().contains("--prefix relative"));
        let to = Place::below(&place);
        assert!(install(&place, &to).unwrap_err().contains("/libtoft.so: "), "nothing was built");
        built(&place.join("built"));
        fs::remove_file(place.join("built/toft")).unwrap();
        symlink("/bin/false", place.join("built/toft")).unwrap();
        let error = install(&place.join("built"), &to).unwrap_err();
        assert!(error.contains("toft man") && error.contains("status: 1"), "{error}");
        fs::remove_dir_all(place).unwrap();
    }
}
