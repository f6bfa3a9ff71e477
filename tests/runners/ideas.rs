//! The builds that leave an idea out, for measuring what it costs: each works, has lost what it is
//! there to lose, and nothing else.

use std::path::PathBuf;
use std::process::Command;
use toft_bench::cost::{Variant, experiment};
use toft_tests::compile::compile;
use toft_tests::library::{Library, target_dir};
use toft_tests::suite::{run_source_on, sources};

/// What is run on every build: a source, and the variants on which it has to fail.
const CHECKS: &[(&str, &str, &[&str])] = &[
    ("abi", "malloc_basic", &[]),
    ("abi", "realloc_semantics", &[]),
    ("abi", "calloc_zero", &[]),
    ("abi", "aligned_random_cross", &[]),
    ("abi", "cpp_new_plain", &[]),
    ("storms", "fork_step", &[]),
    ("misuse", "site_separation", &["no-partitions"]),
    ("misuse", "class_separation", &[]),
    ("misuse", "double_free_small", &["no-validation"]),
    ("misuse", "double_free_small_twin", &[]),
    ("misuse", "double_free_medium", &["no-validation"]),
    ("misuse", "double_free_remote_pending", &["no-validation"]),
    ("misuse", "interior_8_small", &["no-validation"]),
    ("misuse", "interior_8_small_twin", &[]),
    // What no slab has is told from the address alone.
    ("misuse", "foreign_stack", &[]),
    ("misuse", "double_free_large", &[]),
];

fn variant(group: &str, name: &str) -> &'static Variant {
    let found = experiment().variants.iter().find(|v| v.group == group && v.name == name);
    found.unwrap_or_else(|| panic!("no variant {group} {name}"))
}

fn build(variant: &Variant) -> PathBuf {
    variant.build(&target_dir().join("experiments/cost")).unwrap_or_else(|error| panic!("{error}"))
}

/// What is wrong with a variant.
fn wrong(variant: &Variant) -> Vec<String> {
    let library = Library::Toft(build(variant));
    let mut wrong = Vec::new();
    for (suite, name, lost) in CHECKS {
        let source = sources(suite).into_iter().flatten().find(|source| source.name == *name);
        let source = source.unwrap_or_else(|| panic!("no source {suite}/{name}"));
        match run_source_on(&library, suite, &source) {
            Ok(()) if lost.contains(&variant.name.as_str()) => {
                wrong.push(format!("{name} holds, and should not"));
            }
            Err(error) if !lost.contains(&variant.name.as_str()) => {
                wrong.push(format!("{name}: {error}"));
            }
            _ => {}
        }
    }
    wrong
}

#[test]
fn each_build_loses_what_it_is_there_to_lose_and_nothing_else() {
    let names = ["again", "no-partitions", "no-validation", "radix", "flat"];
    let ideas = names.map(|name| variant("ideas", name)).into_iter();
    for variant in ideas.chain([variant("claims", "1")]) {
        let wrong = wrong(variant);
        assert!(wrong.is_empty(), "{}: {wrong:#?}", variant.peer());
    }
}

#[test]
fn a_claim_is_as_long_as_the_build_says() {
    let mut sources = sources("experiments").into_iter().flatten();
    let source = sources.find(|source| source.name == "claim_length").expect("claim_length.c");
    let program = compile("experiments", &source).expect("it compiles");
    let length = |variant: &Variant| {
        let output = Command::new(&program.binary).env("LD_PRELOAD", build(variant)).output();
        String::from_utf8(output.expect("it runs").stdout).expect("text")
    };
    assert_eq!(length(&Variant::default_build()), "claim=64\n");
    assert_eq!(length(variant("claims", "1")), "claim=1\n");
    assert_eq!(length(variant("claims", "8")), "claim=8\n");
}

/// Kilobytes of address space that a process has on a library.
fn address_space(variant: &Variant) -> u64 {
    let mut command = Command::new("cat");
    command.arg("/proc/self/status").env("LD_PRELOAD", build(variant));
    let status = command.output().expect("cat runs").stdout;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("VmSize");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn the_tables_of_other_lookups_are_there() {
    let of = |name| address_space(variant("ideas", name));
    let (granules, radix, flat) = (of("again"), of("radix"), of("flat"));
    assert!(granules < 200_000, "{granules}");
    // Eight bytes for each of 2^26 small slabs, and of 2^23 medium ones.
    assert!(flat > granules + 570_000, "{granules} {flat}");
    // As many in leaves, and two more leaves, and a root, for each of the two.
    assert!(radix > flat + 1_000, "{flat} {radix}");
}
