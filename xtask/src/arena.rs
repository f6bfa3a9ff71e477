//! `cargo xtask arena`: the arena on other compilers and for other machines. Each check names what
//! it needs; what is not there is asked of rustup, and where that has no way to it the check is
//! left out, and says so.

use crate::tally::Suite;
use crate::{place, step};
use std::process::Command;
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
    /// Of cargo.
    arguments: &'static str,
    variables: &'static [(&'static str, &'static str)],
    /// Whether `ci` runs it too.
    quick: bool,
}

/// What `ci` runs: a build with this toolchain.
const QUICK: Check =
    Check { title: "", needs: &[], toolchain: "", arguments: "", variables: &[], quick: true };
const NIGHTLY: Check =
    Check { needs: &[Need::Toolchain("nightly")], toolchain: "nightly", quick: false, ..QUICK };
const MIRI: Check = Check {
    needs: &[Need::Component("nightly", "miri"), Need::Component("nightly", "rust-src")],
    variables: &[("MIRIFLAGS", "-Zmiri-permissive-provenance")],
    ..NIGHTLY
};
/// Tests leak memory on purpose.
const SANITIZER: Check = Check {
    variables: &[("RUSTFLAGS", "-Zsanitizer=address"), ("ASAN_OPTIONS", "detect_leaks=0")],
    ..NIGHTLY
};

const WASM: &str = "wasm32-unknown-unknown";

const CHECKS: &[Check] = &[
    Check {
        title: "arena: thumbv7em",
        needs: &[Need::Target("thumbv7em-none-eabihf")],
        arguments: "build -p toft-arena --lib --target thumbv7em-none-eabihf \
                    --features allocator-api2,lock_api",
        ..QUICK
    },
    // A processor without compare-exchange.
    Check {
        title: "arena: thumbv6m, without a warning",
        needs: &[Need::Target("thumbv6m-none-eabi")],
        arguments: "build -p toft-arena --lib --target thumbv6m-none-eabi \
                    --features allocator-api2,lock_api --target-dir target/thumbv6m",
        variables: &[("RUSTFLAGS", "-Dwarnings")],
        ..QUICK
    },
    // A warning that the arena does not pass must stay one for a user who has it by its path.
    Check {
        title: "arena: outside of the workspace, for thumbv6m",
        needs: &[Need::Target("thumbv6m-none-eabi")],
        arguments: "build --manifest-path crates/toft-arena/outside/Cargo.toml \
                    --target thumbv6m-none-eabi --target-dir target/outside",
        variables: &[("RUSTFLAGS", "-Wunused-results")],
        ..QUICK
    },
    Check {
        title: "arena: wasm32",
        needs: &[Need::Target(WASM)],
        arguments: "build --release -p toft-arena --target wasm32-unknown-unknown --example wasm",
        ..QUICK
    },
    Check {
        title: "arena: the oldest compiler",
        needs: &[Need::Toolchain(OLDEST)],
        toolchain: OLDEST,
        arguments: "check -p toft-arena --lib --features all",
        ..QUICK
    },
    Check {
        title: "arena: core's Allocator",
        arguments: "test -p toft-arena --features all,nightly --test nightly",
        ..NIGHTLY
    },
    // What is skipped runs a separate cargo, which is not the sanitizer's, or needs mlock, which
    // does nothing under it.
    Check {
        title: "arena: address sanitizer",
        arguments: "test -p toft-arena --features all --target x86_64-unknown-linux-gnu \
                    --lib --tests -- --skip an_arena_for_each_request --skip a_static_arena \
                    --skip memory_that_two_processes_share \
                    --skip what_the_system_refuses_to_take_is_said_to_have_kept_its_content",
        ..SANITIZER
    },
    Check {
        title: "arena: address sanitizer, inside of a heap",
        arguments: "test -p toft-arena --features all,sanitizer \
                    --target x86_64-unknown-linux-gnu --test properties -- \
                    --skip what_the_system_refuses_to_take_is_said_to_have_kept_its_content",
        ..SANITIZER
    },
    Check {
        title: "arena: Miri",
        arguments: "miri test -p toft-arena --lib --test properties",
        ..MIRI
    },
    Check {
        title: "arena: Miri, strict provenance",
        arguments: "miri test -p toft-arena --test properties strict",
        variables: &[("MIRIFLAGS", "-Zmiri-strict-provenance")],
        ..MIRI
    },
    Check {
        title: "arena: Miri, 32 bits",
        arguments: "miri test -p toft-arena --lib --test properties \
                    --target i686-unknown-linux-gnu",
        ..MIRI
    },
    Check {
        title: "arena: Windows",
        needs: &[Need::NightlyTarget("x86_64-pc-windows-gnu")],
        arguments: "check -p toft-arena --lib --features all --target x86_64-pc-windows-gnu",
        ..NIGHTLY
    },
];

/// Runs the checks: those of `ci`, or all.
pub fn run(all: bool) -> Vec<Suite> {
    let mut tally = Vec::new();
    for check in CHECKS.iter().filter(|check| all || check.quick) {
        if let Some(missing) = check.needs.iter().find(|need| !had(**need)) {
            tally.push(Suite::left_out(check.title, &name(*missing)));
            continue;
        }
        tally.extend(step::run(check.title, &mut command(check), Duration::from_secs(60 * 30)));
        if check.arguments.contains(WASM) {
            tally.extend(in_node());
        }
    }
    tally
}

fn command(check: &Check) -> Command {
    let mut command = match check.toolchain {
        "" => place::cargo(),
        other => with(other),
    };
    command.args(check.arguments.split_whitespace()).envs(check.variables.iter().copied());
    if !check.toolchain.is_empty() {
        // What another compiler has built is not this one's.
        command.env("CARGO_TARGET_DIR", place::target_dir().join(check.toolchain));
    }
    command
}

/// The cargo of another toolchain, without what this one's has set.
pub fn with(toolchain: &str) -> Command {
    let mut rustup = Command::new("rustup");
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        rustup.env_remove(name);
    }
    rustup.current_dir(place::root()).args(["run", toolchain, "cargo"]);
    rustup
}

/// Runs what was built for WebAssembly; returns what failed.
fn in_node() -> Option<Suite> {
    let module = place::target_dir().join(WASM).join("release/examples/wasm.wasm");
    let mut node = Command::new("node");
    node.arg(place::root().join("crates/toft-arena/examples/wasm.mjs")).arg(module);
    step::check("arena: wasm32 in node", &mut node, Duration::from_secs(120))
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
    let (arguments, word): (&[&str], _) = match need {
        Need::Target(target) => (&["target", "list", "--installed"], target),
        Need::NightlyTarget(target) => {
            (&["target", "list", "--installed", "--toolchain", "nightly"], target)
        }
        Need::Toolchain(toolchain) => (&["toolchain", "list"], toolchain),
        Need::Component(toolchain, component) => {
            (&["component", "list", "--installed", "--toolchain", toolchain], component)
        }
    };
    let list = step::text(Command::new("rustup").args(arguments));
    list.is_ok_and(|list| list.lines().any(|line| line.starts_with(word)))
}

fn asked_for(need: Need) -> bool {
    let arguments: &[&str] = match need {
        Need::Target(target) => &["target", "add", target],
        Need::NightlyTarget(target) => &["target", "add", "--toolchain", "nightly", target],
        Need::Toolchain(toolchain) => &["toolchain", "install", toolchain, "--profile", "minimal"],
        Need::Component(toolchain, component) => {
            &["component", "add", "--toolchain", toolchain, component]
        }
    };
    let mut rustup = Command::new("rustup");
    let title = format!("rustup: {}", name(need));
    step::check(&title, rustup.args(arguments), Duration::from_secs(120)).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_compiler_is_the_one_of_the_manifest() {
        let manifest = crate::files::kept("crates/toft-arena/Cargo.toml");
        assert!(manifest.contains(&format!("rust-version = \"{OLDEST}\"")));
    }

    #[test]
    fn what_cannot_be_had_is_not_there() {
        assert!(!is_there(Need::Toolchain("0.0.0")));
        assert!(!is_there(Need::Target("none-none-none")));
    }
}
