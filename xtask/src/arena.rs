//! `cargo xtask arena`: the arena on other compilers and for other machines. Each check names what
//! it needs; what is not there is asked of rustup, and where that has no way to it the check is
//! left out, and says so.

use crate::tally::{Suite, Tally};
use crate::{place, step};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What it is built with at least, as its manifest says.
const OLDEST: &str = "1.85";

/// What a check needs of rustup.
#[derive(Clone, Copy)]
pub enum Need {
    /// A target of this toolchain.
    Target(&'static str),
    /// Another toolchain.
    Toolchain(&'static str),
    /// A component of a toolchain.
    Component(&'static str, &'static str),
    /// A target of the nightly one.
    NightlyTarget(&'static str),
}

struct Check {
    title: &'static str,
    needs: &'static [Need],
    /// Empty for the toolchain that runs this.
    toolchain: &'static str,
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// Whether `ci` runs it too.
    quick: bool,
}

const WASM: &str = "wasm32-unknown-unknown";
const THUMB: &str = "thumbv7em-none-eabihf";
/// Of a processor without compare-exchange.
const THUMB_WITHOUT: &str = "thumbv6m-none-eabi";
const HOST: &str = "x86_64-unknown-linux-gnu";
const MIRI: &[Need] = &[Need::Component("nightly", "miri"), Need::Component("nightly", "rust-src")];
/// Tests that leak do so on purpose; the source of system pages is not Miri's.
const ANY_POINTER: (&str, &str) = ("MIRIFLAGS", "-Zmiri-permissive-provenance");

const CHECKS: &[Check] = &[
    Check {
        title: "arena: thumbv7em",
        needs: &[Need::Target(THUMB)],
        toolchain: "",
        arguments: &[
            "build",
            "-p",
            "toft-arena",
            "--lib",
            "--target",
            THUMB,
            "--features",
            "allocator-api2,lock_api",
        ],
        variables: &[],
        quick: true,
    },
    Check {
        title: "arena: thumbv6m, without a warning",
        needs: &[Need::Target(THUMB_WITHOUT)],
        toolchain: "",
        arguments: &[
            "build",
            "-p",
            "toft-arena",
            "--lib",
            "--target",
            THUMB_WITHOUT,
            "--features",
            "allocator-api2,lock_api",
            "--target-dir",
            "target/thumbv6m",
        ],
        variables: &[("RUSTFLAGS", "-Dwarnings")],
        quick: true,
    },
    // A warning that the arena does not pass must stay one for a user who has it by its path.
    Check {
        title: "arena: outside of the workspace, for thumbv6m",
        needs: &[Need::Target(THUMB_WITHOUT)],
        toolchain: "",
        arguments: &[
            "build",
            "--manifest-path",
            "crates/toft-arena/outside/Cargo.toml",
            "--target",
            THUMB_WITHOUT,
            "--target-dir",
            "target/outside",
        ],
        variables: &[("RUSTFLAGS", "-Wunused-results")],
        quick: true,
    },
    Check {
        title: "arena: wasm32",
        needs: &[Need::Target(WASM)],
        toolchain: "",
        arguments: &[
            "build",
            "--release",
            "-p",
            "toft-arena",
            "--target",
            WASM,
            "--example",
            "wasm",
        ],
        variables: &[],
        quick: true,
    },
    Check {
        title: "arena: the oldest compiler",
        needs: &[Need::Toolchain(OLDEST)],
        toolchain: OLDEST,
        arguments: &["check", "-p", "toft-arena", "--lib", "--features", "all"],
        variables: &[],
        quick: true,
    },
    Check {
        title: "arena: core's Allocator",
        needs: &[Need::Toolchain("nightly")],
        toolchain: "nightly",
        arguments: &["test", "-p", "toft-arena", "--features", "all,nightly", "--test", "nightly"],
        variables: &[],
        quick: false,
    },
    Check {
        title: "arena: address sanitizer",
        needs: &[Need::Toolchain("nightly")],
        toolchain: "nightly",
        arguments: &[
            "test",
            "-p",
            "toft-arena",
            "--features",
            "all",
            "--target",
            HOST,
            "--lib",
            "--tests",
            "--",
            // They run a separate cargo, which is not the sanitizer's.
            "--skip",
            "an_arena_for_each_request",
            "--skip",
            "a_static_arena",
            "--skip",
            "memory_that_two_processes_share",
            // Under the sanitizer mlock does nothing.
            "--skip",
            "what_the_system_refuses_to_take_is_said_to_have_kept_its_content",
        ],
        // Tests leak memory on purpose.
        variables: &[("RUSTFLAGS", "-Zsanitizer=address"), ("ASAN_OPTIONS", "detect_leaks=0")],
        quick: false,
    },
    Check {
        title: "arena: address sanitizer, inside of a heap",
        needs: &[Need::Toolchain("nightly")],
        toolchain: "nightly",
        arguments: &[
            "test",
            "-p",
            "toft-arena",
            "--features",
            "all,sanitizer",
            "--target",
            HOST,
            "--test",
            "sanitizer",
            "--test",
            "properties",
        ],
        variables: &[("RUSTFLAGS", "-Zsanitizer=address"), ("ASAN_OPTIONS", "detect_leaks=0")],
        quick: false,
    },
    Check {
        title: "arena: Miri",
        needs: MIRI,
        toolchain: "nightly",
        arguments: &["miri", "test", "-p", "toft-arena", "--lib", "--test", "properties"],
        variables: &[ANY_POINTER],
        quick: false,
    },
    Check {
        title: "arena: Miri, strict provenance",
        needs: MIRI,
        toolchain: "nightly",
        arguments: &["miri", "test", "-p", "toft-arena", "--test", "properties", "strict"],
        variables: &[("MIRIFLAGS", "-Zmiri-strict-provenance")],
        quick: false,
    },
    Check {
        title: "arena: Miri, 32 bits",
        needs: MIRI,
        toolchain: "nightly",
        arguments: &[
            "miri",
            "test",
            "-p",
            "toft-arena",
            "--lib",
            "--test",
            "properties",
            "--target",
            "i686-unknown-linux-gnu",
        ],
        variables: &[ANY_POINTER],
        quick: false,
    },
    Check {
        title: "arena: Windows",
        needs: &[Need::NightlyTarget("x86_64-pc-windows-gnu")],
        toolchain: "nightly",
        arguments: &[
            "check",
            "-p",
            "toft-arena",
            "--lib",
            "--features",
            "all",
            "--target",
            "x86_64-pc-windows-gnu",
        ],
        variables: &[],
        quick: false,
    },
];

/// Runs the checks: those of `ci`, or all.
pub fn run(all: bool) -> Tally {
    let mut tally = Tally::default();
    for check in CHECKS.iter().filter(|check| all || check.quick) {
        if let Some(missing) = check.needs.iter().find(|need| !had(**need)) {
            println!("\n==> {}: left out, there is no {}", check.title, name(*missing));
            tally.push(Suite { name: check.title.into(), ignored: 1, ..Suite::default() });
            continue;
        }
        for suite in step::run(check.title, &mut command(check), Duration::from_secs(60 * 30)) {
            tally.push(suite);
        }
        if check.arguments.contains(&WASM) {
            tally.add(in_node());
        }
    }
    tally
}

fn command(check: &Check) -> Command {
    let mut command = match check.toolchain {
        "" => place::cargo(),
        other => with(other),
    };
    command.args(check.arguments).envs(check.variables.iter().copied());
    if !check.toolchain.is_empty() {
        // What another compiler has built is not this one's.
        command.env("CARGO_TARGET_DIR", place::target_dir().join(check.toolchain));
    }
    command
}

/// The cargo of another toolchain, without what this one's has set.
fn with(toolchain: &str) -> Command {
    let mut rustup = Command::new("rustup");
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        rustup.env_remove(name);
    }
    rustup.current_dir(place::root()).args(["run", toolchain, "cargo"]);
    rustup
}

/// Runs what was built for WebAssembly.
fn in_node() -> Tally {
    let mut tally = Tally::default();
    let module = place::target_dir().join(WASM).join("release/examples/wasm.wasm");
    let mut node = Command::new("node");
    node.arg(place::root().join("crates/toft-arena/examples/wasm.mjs")).arg(module);
    if let Some(failure) = step::check("arena: wasm32 in node", &mut node, Duration::from_secs(120))
    {
        tally.push(failure);
    }
    tally
}

pub fn name(need: Need) -> String {
    match need {
        Need::Target(target) | Need::NightlyTarget(target) => format!("target {target}"),
        Need::Toolchain(toolchain) => format!("toolchain {toolchain}"),
        Need::Component(toolchain, component) => format!("{component} of {toolchain}"),
    }
}

/// Whether it is there, or can be had.
pub fn had(need: Need) -> bool {
    is_there(need) || (asked_for(need) && is_there(need))
}

fn is_there(need: Need) -> bool {
    let lists = |arguments: &[&str], word: &str| {
        let output = Command::new("rustup").args(arguments).stderr(Stdio::null()).output();
        output.is_ok_and(|output| {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().any(|line| line.starts_with(word))
        })
    };
    match need {
        Need::Target(target) => lists(&["target", "list", "--installed"], target),
        Need::NightlyTarget(target) => {
            lists(&["target", "list", "--installed", "--toolchain", "nightly"], target)
        }
        Need::Toolchain(toolchain) => lists(&["toolchain", "list"], toolchain),
        Need::Component(toolchain, component) => {
            lists(&["component", "list", "--installed", "--toolchain", toolchain], component)
        }
    }
}

fn asked_for(need: Need) -> bool {
    let mut rustup = Command::new("rustup");
    match need {
        Need::Target(target) => rustup.args(["target", "add", target]),
        Need::NightlyTarget(target) => {
            rustup.args(["target", "add", "--toolchain", "nightly", target])
        }
        Need::Toolchain(toolchain) => {
            rustup.args(["toolchain", "install", toolchain, "--profile", "minimal"])
        }
        Need::Component(toolchain, component) => {
            rustup.args(["component", "add", "--toolchain", toolchain, component])
        }
    };
    step::check(&format!("rustup: {}", name(need)), &mut rustup, Duration::from_secs(120)).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_compiler_is_the_one_of_the_manifest() {
        let manifest = place::root().join("crates/toft-arena/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        assert!(manifest.contains(&format!("rust-version = \"{OLDEST}\"")));
    }

    #[test]
    fn what_cannot_be_had_is_not_there() {
        assert!(!is_there(Need::Toolchain("0.0.0")));
        assert!(!is_there(Need::Target("none-none-none")));
    }
}
