//! The methods of a Java program in sampled stacks, by the map that the JVM writes.

use std::process::Command;

use crate::common::*;

const SOURCE: &str = include_str!("programs/Buffers.java");

#[test]
fn methods_of_java_are_named_by_the_map_of_the_jvm() {
    let there = |tool: &str| Command::new(tool).arg("-version").output().is_ok();
    if !["java", "javac", "jcmd"].into_iter().all(there) {
        eprintln!("skipped: no JDK is here (Debian's package default-jdk-headless)");
        return;
    }
    let place = directory();
    let source = file(place.path(), "Buffers.java", SOURCE.as_bytes(), 0o644);
    tool(Command::new("javac").arg(&source));
    let mut java = Command::new("java");
    java.args(["-XX:+PreserveFramePointer", "-cp", text(place.path()), "Buffers"]);
    let target = Target::of(java.env("TOFT_SAMPLE", "65536"));
    tool(Command::new("jcmd").args([&target.pid, "Compiler.perfmap"]));
    let table = stdout(&succeeds(&["heap", &target.pid]));
    // They allocate 12 MB and 27 MB, so each has some 200 samples or more.
    for method in ["Buffers.readNames", "Buffers.readLines"] {
        assert!(table.contains(method), "no {method} in {table}");
        assert!(!table.contains(&format!("void {method}")), "{table}");
    }
}
