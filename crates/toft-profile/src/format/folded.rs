//! Folded stacks: a line for each, outermost first, with its live bytes. Inferno, flamegraph.pl and
//! Speedscope read them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::units::plain;
use super::{View, paths};
use crate::Profile;

/// The lines, in order: of call sites, or of sampled stacks.
pub fn write(profile: &Profile, view: View) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for path in paths(profile, view) {
        // What separates, and what ends a line, is no part of a name here.
        let stack: Vec<String> =
            path.frames.iter().map(|frame| plain(&frame.replace(';', ":"))).collect();
        *lines.entry(stack.join(";")).or_default() += path.bytes;
    }
    lines.iter().fold(String::new(), |mut text, (stack, bytes)| {
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
        inlined.location.frames.push(Frame { function: "outer".into(), file: None, line: None });
        let text =
            write(&profile(vec![row("f", 1, 16, 3), row("f", 1, 32, 1), inlined]), View::default());
        assert_eq!(text, "sample;f at sample.c:1 80\nsample;outer;in:ner at sample.c:2 64\n");
    }

    #[test]
    fn sampled_stacks_are_shown_instead_where_they_are_asked_for() {
        let text = write(&sampled_profile(), View { stacks: true, full: false });
        let wanted = "sample;(truncated);leaf at s.c:1 1000\nsample;main at s.c:3;middle at s.c:2;leaf at s.c:1 2000\n";
        assert_eq!(text, wanted);
        assert!(!write(&sampled_profile(), View::default()).contains("middle"));
    }
}
