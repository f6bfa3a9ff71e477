//! What `ci` checks besides the tests.

use crate::tally::{Suite, Tally};
use crate::{carried, licences, place, prose, step};
use std::time::Duration;

/// Format, lints, documentation, fuzz targets, licences.
pub fn run() -> Result<Tally, String> {
    let carried = carried::build()?;
    let mut tally = Tally::default();
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let mut check = |title, arguments: &[&str], variables: &[(&str, &str)]| {
        let mut cargo = place::cargo();
        cargo.args(arguments).envs(variables.iter().copied()).envs(carried.iter().cloned());
        if let Some(failure) = step::check(title, &mut cargo, minutes(15)) {
            tally.push(failure);
        }
    };
    check("format", &["fmt", "--all", "--check"], &[]);
    check("lints", &["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"], &[]);
    // Apart, because the fake system brings std, which the preload library cannot have.
    let core = ["clippy", "--package", "toft-core", "--all-targets", "--features", "fake-os"];
    check("lints of the core's tests", &[&core[..], &["--", "-Dwarnings"]].concat(), &[]);
    for (name, features) in [
        ("lints of the secure core", "fake-os,secure"),
        ("lints of the light secure core", "fake-os,secure-light"),
    ] {
        let core = ["clippy", "--package", "toft-core", "--all-targets", "--features", features];
        check(name, &[&core[..], &["--", "-Dwarnings"]].concat(), &[]);
    }
    let arena = ["clippy", "--package", "toft-arena", "--all-targets", "--features", "all"];
    check("lints of the arena's features", &[&arena[..], &["--", "-Dwarnings"]].concat(), &[]);
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
