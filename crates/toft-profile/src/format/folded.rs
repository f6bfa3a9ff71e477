//! Folded stacks: a line for each, outermost first, with its live bytes. Inferno, flamegraph.pl and
//! Speedscope read them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::units::plain;
use crate::Profile;

/// The lines, in order.
pub fn write(profile: &Profile) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for row in profile.rows.iter().filter(|row| row.bytes > 0) {
        // What separates, and what ends a line, is no part of a name here.
        let stack: Vec<String> =
            row.stack().iter().map(|frame| plain(&frame.replace(';', ":"))).collect();
        *stacks.entry(stack.join(";")).or_default() += row.bytes;
    }
    stacks.iter().fold(String::new(), |mut text, (stack, bytes)| {
        let _ = writeln!(text, "{stack} {bytes}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frame;
    use crate::profile::samples::*;

    #[test]
    fn a_line_each_with_all_its_bytes() {
        let mut inlined = row("in;ner", 2, 32, 2);
        inlined.frames.push(Frame { function: "outer".into(), file: None, line: None });
        let text = write(&profile(vec![row("f", 1, 16, 3), row("f", 1, 32, 1), inlined]));
        assert_eq!(text, "sample;f at sample.c:1 80\nsample;outer;in:ner at sample.c:2 64\n");
    }
}
