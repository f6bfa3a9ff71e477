//! Unit tests of `src/fault.rs`, which use what is private to it.

use super::*;

#[test]
fn a_line_keeps_what_fits() {
    let mut line = Line::new();
    write!(line, "{}-x", 1).unwrap();
    assert_eq!(line.text(), b"1-x");
    line.write_str(&"y".repeat(600)).unwrap();
    assert_eq!(line.text().len(), 512);
}
