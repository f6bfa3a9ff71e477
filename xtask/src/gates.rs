//! What `ci` checks besides the tests.

use crate::tally::Suite;
use crate::{carried, licences, place, prose, step};
use std::time::Duration;

/// Format, lints, documentation, fuzz targets, licences.
pub fn run() -> Result<Vec<Suite>, String> {
    let carried = carried::build()?;
    let mut tally = Vec::new();
    let mut check = |title, arguments: &[&str], variables: &[(&str, &str)]| {
        let mut cargo = place::cargo();
        cargo.args(arguments).envs(variables.iter().copied()).envs(carried.iter().cloned());
        tally.extend(step::check(title, &mut cargo, Duration::from_secs(60 * 15)));
    };
    check("format", &["fmt", "--all", "--check"], &[]);
    for (title, package, features) in [
        ("lints", "--workspace", ""),
        // Apart, because the fake system brings std, which the preload library cannot have.
        ("lints of the core's tests", "--package=toft-core", "fake-os"),
        ("lints of the secure core", "--package=toft-core", "fake-os,secure"),
        ("lints of the light secure core", "--package=toft-core", "fake-os,secure-light"),
        ("lints of the arena's features", "--package=toft-arena", "all"),
    ] {
        let lints = ["--all-targets", "--features", features, "--", "-Dwarnings"];
        check(title, &[&["clippy", package], &lints[..]].concat(), &[]);
    }
    check("documentation", &["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-Dwarnings")]);
    // The fuzzer's short run is a test of the core; its long one, with nightly Rust, must build.
    check("fuzz targets", &["check", "--manifest-path", "fuzz/Cargo.toml"], &[]);
    println!("\n==> prose");
    match prose::check(&[]) {
        Ok(0) => println!("==> prose: no findings"),
        Ok(count) => tally.push(Suite::broken("prose", format!("{count} findings"))),
        Err(error) => tally.push(Suite::broken("prose", error)),
    }
    println!("\n==> licences");
    match licences::check() {
        Ok(count) => println!("==> licences: {count} packages, all allowed"),
        Err(error) => {
            println!("{error}");
            tally.push(Suite::broken("licences", error));
        }
    }
    Ok(tally)
}
