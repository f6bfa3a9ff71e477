//! The wheel and the Debian packages of what the tests have built, each installed, used and removed
//! in a clean root.
//!
//! A build of `cargo xtask dist` takes minutes that CI does not have. So what is packed here is the
//! command as the tests of the workspace have it, and the libraries that they preload. All other
//! steps are those of a release: the staged folders, the templates, the packers, lintian, and the
//! scripts that try the packages.

use super::build::Built;
use super::machine::X86_64;
use super::{Dist, debian, python, trial};
use crate::install::COMMANDS;
use crate::tally::Suite;
use crate::{carried, packages, place, secure, step, suites};

/// Makes them and tries them. One test for each trial.
pub fn run() -> Vec<Suite> {
    println!("\n==> packages of what the tests have built");
    made().unwrap_or_else(|why| vec![Suite::checked("packages", 1, Err(why))])
}

fn made() -> Result<Vec<Suite>, String> {
    packages::prepare(packages::DIST, true)?;
    let dist = Dist::new("dist-of-tests")?;
    let built = built(&dist)?;
    let mut made = debian::make(&dist, &built)?;
    made.push(python::make(&dist, &built)?);
    // The libraries are linked for the glibc of this machine.
    Ok(trial::all(&dist, &made, &[trial::Release::Bookworm]))
}

/// What the tests have built, stripped. What is missing or old is built.
fn built(dist: &Dist) -> Result<Built, String> {
    let release = place::build(&["toft-preload", "toft-checked"])?;
    secure::build_all()?;
    let mut command = suites::of_workspace("build");
    for name in COMMANDS {
        command.args(["--bin", name]);
    }
    step::succeed(command.envs(carried::build()?))?;
    let built = Built::empty(X86_64, &dist.work, "gnu")?;
    built.strip_libraries(|_, name| release.join(name))?;
    built.strip_commands(&place::target_dir().join("debug"))?;
    Ok(built)
}
