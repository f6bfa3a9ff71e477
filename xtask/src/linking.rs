//! Programs in C and C++ that CMake, Meson and pkg-config link to an installed library, shared and
//! static: the projects of `tests/linking`, as a user would write them.

use crate::install::{self, BUILDS, Place};
use crate::step::text;
use crate::tally::Suite;
use crate::{files, place};
use std::path::{Path, PathBuf};
use std::process::Command;

/// In two languages, shared and static.
const PROGRAMS: usize = 4 * BUILDS.len();

/// Builds the programs from the libraries below a prefix, in a folder.
type Way = fn(&Path, &Path) -> Result<Vec<PathBuf>, String>;

/// Installs the libraries into a new folder, and builds and runs all programs.
pub fn run() -> Vec<Suite> {
    let mut tally = Vec::new();
    let folder = place::target_dir().join("linking");
    let prefix = folder.join("prefix");
    let _ = std::fs::remove_dir_all(&folder);
    println!("\n==> linking: the libraries");
    if let Err(why) = install::main(&Place::of_libraries(&prefix)) {
        tally.push(Suite::broken("linking: the libraries", why));
        return tally;
    }
    let tools: [(&str, Way); 3] = [("cmake", cmake), ("meson", meson), ("pkg-config", pkg_config)];
    for (tool, build) in tools {
        let title = format!("linking: {tool}");
        if Command::new(tool).arg("--version").output().is_err() {
            tally.push(Suite::left_out(&title, tool));
            continue;
        }
        println!("\n==> {title}");
        let programs = build(&prefix, &folder.join(tool));
        let done = programs.and_then(|programs| {
            if programs.len() != PROGRAMS {
                return Err(format!("{} programs, not {PROGRAMS}", programs.len()));
            }
            programs.iter().try_for_each(|program| says_its_version(program, &prefix))
        });
        tally.push(Suite::checked(&title, PROGRAMS, done));
    }
    tally
}

fn project() -> PathBuf {
    place::root().join("tests/linking")
}

fn cmake(prefix: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(project()).arg("-B").arg(folder);
    text(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())))?;
    text(Command::new("cmake").arg("--build").arg(folder))?;
    let short = BUILDS.map(|build| build.trim_start_matches("toft-"));
    let names = short.map(|name| match name {
        "toft" => [name.to_owned(), "static".to_owned()],
        _ => [name.to_owned(), format!("{name}-static")],
    });
    Ok(of_both_languages(names.into_iter().flatten(), folder))
}

fn meson(prefix: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut setup = Command::new("meson");
    setup.arg("setup").arg(folder).arg(project()).env("PKG_CONFIG_PATH", pkg_config_files(prefix));
    text(&mut setup)?;
    text(Command::new("meson").args(["compile", "-C"]).arg(folder))?;
    let names = BUILDS.map(|build| [build.to_owned(), format!("{build}-static")]);
    Ok(of_both_languages(names.into_iter().flatten(), folder))
}

fn pkg_config(prefix: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    files::make_folder(folder)?;
    let mut programs = Vec::new();
    for build in BUILDS {
        for archive in [false, true] {
            let mut asked = Command::new("pkg-config");
            asked
                .args(["--cflags", "--libs", build])
                .env("PKG_CONFIG_PATH", pkg_config_files(prefix));
            if archive {
                asked.arg("--static");
            }
            let flags = text(&mut asked)?;
            for (compiler, source) in [("cc", "program.c"), ("c++", "program.cc")] {
                let program = folder.join(format!("{build}-{archive}-{compiler}"));
                let mut compile = Command::new(compiler);
                compile.arg(project().join(source)).arg("-o").arg(&program);
                if archive {
                    compile.arg("-static");
                }
                if compiler == "c++" {
                    compile.arg("-std=c++17");
                }
                text(compile.args(flags.split_whitespace()))?;
                programs.push(program);
            }
        }
    }
    Ok(programs)
}

fn pkg_config_files(prefix: &Path) -> PathBuf {
    prefix.join("lib/pkgconfig")
}

fn of_both_languages(names: impl IntoIterator<Item = String>, folder: &Path) -> Vec<PathBuf> {
    let each =
        |name: String| ["c", "cpp"].map(|language| folder.join(format!("{name}-{language}")));
    names.into_iter().flat_map(each).collect()
}

/// Runs a program, which fails if its malloc is not Toft's.
fn says_its_version(program: &Path, prefix: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    let said = text(command.env("LD_LIBRARY_PATH", prefix.join("lib")))?;
    let wanted = format!("toft {}\n", env!("CARGO_PKG_VERSION"));
    if said == wanted { Ok(()) } else { Err(format!("{}: {said:?}", program.display())) }
}
