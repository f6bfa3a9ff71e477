//! `cargo xtask nightly`: what takes too long for each change.
//!
//! Each step is a separate process, so that none shares the time limit of CI (`step.rs`).

use crate::tally::Suite;
use crate::{place, step, suites};
use std::process::Command;
use std::time::Duration;

/// The verbs, beside the suites that wait to be named.
const VERBS: [&[&str]; 4] = [&["arena"], &["crates"], &["containers"], &["dist", "--try"]];

/// The longest run of one step.
const LIMIT: Duration = Duration::from_secs(60 * 180);

/// Runs all of it.
pub fn run() -> Result<Vec<Suite>, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut tally = Vec::new();
    let mut pass = |words: &[&str]| {
        let title = words.join(" ");
        let suites = step::run(&title, Command::new(&this).args(words), LIMIT);
        let tests = suites.iter().map(|suite| suite.passed + suite.failed).sum::<usize>();
        tally.extend(suites);
        if tests == 0 {
            // A verb without tests has passed if it succeeded.
            tally.push(Suite::checked(&title, 1, Ok(())));
        }
    };
    suites::by_name().for_each(|name| pass(&["test", name]));
    VERBS.iter().for_each(|words| pass(words));
    for (title, check) in [
        ("a second build compiles nothing", second_build as fn() -> Result<(), String>),
        ("the command has no debug information", stripped),
    ] {
        println!("\n==> {title}");
        tally.push(Suite::checked(title, 1, check()));
    }
    Ok(tally)
}

/// Fails if `cargo build --release` compiles something although nothing has changed.
fn second_build() -> Result<(), String> {
    let build = || {
        let mut cargo = place::cargo();
        cargo.args(["build", "--release"]);
        cargo
    };
    step::succeed(&mut build())?;
    let output = build().output().map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("the second build failed:\n{printed}"));
    }
    match compiled(&printed) {
        compiled if compiled.is_empty() => Ok(()),
        compiled => Err(format!("the second build compiled {}", compiled.join(", "))),
    }
}

/// Fails if the command that the build has made, which `cargo install` copies, is not stripped.
fn stripped() -> Result<(), String> {
    let command = place::target_dir().join("release/toft");
    let sections =
        step::text(Command::new("readelf").args(["--sections", "--wide"]).arg(&command))?;
    match [".debug_line", ".symtab"].iter().find(|section| sections.contains(*section)) {
        Some(section) => Err(format!("{} has the section {section}", command.display())),
        None => Ok(()),
    }
}

/// The packages that cargo compiled, by what it printed.
fn compiled(printed: &str) -> Vec<&str> {
    printed.lines().filter_map(|line| line.trim_start().strip_prefix("Compiling ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_compiles_is_found() {
        let none = "    Finished `release` profile [optimized] target(s) in 0.05s\n";
        assert_eq!(compiled(none), [""; 0]);
        let one = format!("   Compiling toft-cli v0.1.0 (/a)\n{none}");
        assert_eq!(compiled(&one), ["toft-cli v0.1.0 (/a)"]);
    }
}
