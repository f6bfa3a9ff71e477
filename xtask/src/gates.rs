//! What `ci` checks besides the tests.

use crate::suites::FEATURES;
use crate::tally::Suite;
use crate::{carried, licences, place, prose, step};
use std::time::Duration;

/// Format, lints, documentation, fuzz targets, licences.
pub fn run() -> Result<Vec<Suite>, String> {
    let carried = step::timed("libraries", carried::build)?;
    let mut tally = Vec::new();
    let mut check = |title, arguments: &[&str], variables: &[(&str, &str)]| {
        let mut cargo = place::cargo();
        cargo.args(arguments).envs(variables.iter().copied()).envs(carried.iter().cloned());
        tally.extend(step::check(title, &mut cargo, Duration::from_secs(60 * 15)));
    };
    check("format", &["fmt", "--all", "--check"], &[]);
    let of_core = |features| {
        [
            "--package=toft-core",
            "--package=toft-watch",
            "--package=toft-zone",
            "--all-targets",
            "--features",
            features,
        ]
    };
    for (title, what) in [
        (
            "lints",
            &["--workspace", "--exclude=toft-preload", "--all-targets", "--features", FEATURES][..],
        ),
        // Apart, because the fake system brings std, which the preload library cannot have. The
        // core without it is part of that library.
        ("lints of the libraries", &["--package=toft-preload", "--package=toft-arena", "--lib"]),
        ("lints of the secure core", &of_core("fake-os,secure")),
        ("lints of the light secure core", &of_core("fake-os,secure-light")),
    ] {
        check(title, &[&["clippy"], what, &["--", "-Dwarnings"]].concat(), &[]);
    }
    check("documentation", &["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-Dwarnings")]);
    // The fuzzer's short run is a test of the core; its long one, with nightly Rust, must build.
    // A check links nothing, so libFuzzer itself is not compiled.
    let library = [("CUSTOM_LIBFUZZER_PATH", "/none/fuzzer")];
    check("fuzz targets", &["check", "--manifest-path", "fuzz/Cargo.toml"], &library);
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
