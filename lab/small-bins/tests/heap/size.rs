//! The allocator stays small enough to read.

#[path = "../../../lines.rs"]
mod lines;

/// Without comments and empty lines: each `unsafe` block has a comment that says why it is sound.
#[test]
fn the_source_has_less_than_two_thousand_lines_of_code() {
    let lines = lines::lines(env!("CARGO_MANIFEST_DIR"));
    assert!((1000..2000).contains(&lines.code) && lines.code < lines.all, "{lines:?}");
}
