//! A flame graph: one SVG file that any browser shows, with a click to go into a frame and a field
//! to search. Width is live bytes; files are at the bottom, the call's innermost function at the
//! top.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::units::{bytes, count, fit};
use super::{View, escape, paths};
use crate::Profile;

/// Columns of the picture.
const WIDTH: f64 = 1200.0;
/// Rows of a frame.
const HEIGHT: usize = 18;
/// Rows above the frames.
const TOP: usize = 48;
/// Columns of a letter.
const LETTER: f64 = 7.0;
/// Frames narrower than this are left out: they are too narrow to see.
const NARROWEST: f64 = 0.1;

/// What is behind a picture that moves: no more than showing, hiding and colouring.
const SCRIPT: &str = include_str!("flame.js");

#[derive(Default)]
struct Node {
    bytes: u64,
    objects: u64,
    below: BTreeMap<String, Node>,
}

impl Node {
    fn depth(&self) -> usize {
        1 + self.below.values().map(Node::depth).max().unwrap_or(0)
    }
}

/// The picture.
pub fn write(profile: &Profile, view: View) -> String {
    let mut root = Node::default();
    for path in paths(profile, view) {
        let mut node = &mut root;
        node.bytes += path.bytes;
        node.objects += path.objects;
        for frame in path.frames {
            node = node.below.entry(frame).or_default();
            node.bytes += path.bytes;
            node.objects += path.objects;
        }
    }
    let height = TOP + root.depth() * HEIGHT + 8;
    let title = format!(
        "{}{} live in process {} ({}), {}",
        if view.stacks { "sampled stacks: about " } else { "" },
        bytes(root.bytes),
        profile.pid,
        profile.name,
        profile.source.words()
    );
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"12\">\n\
         <style>.frame {{ cursor: pointer }} .frame:hover rect {{ stroke: #000 }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fffdf7\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"15\">{}</text>\n\
         <text id=\"search\" x=\"{}\" y=\"20\" text-anchor=\"end\" style=\"cursor:pointer\">search</text>\n\
         <text id=\"found\" x=\"{}\" y=\"38\" text-anchor=\"end\"></text>\n\
         <text id=\"back\" x=\"10\" y=\"38\" style=\"cursor:pointer;display:none\">back to all</text>",
        escape(&title),
        WIDTH - 10.0,
        WIDTH - 10.0,
    );
    let floor = height - 8 - HEIGHT;
    draw(&mut svg, "all", &root, (0.0, WIDTH), floor, root.bytes.max(1));
    let _ = writeln!(svg, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>");
    svg
}

fn draw(svg: &mut String, name: &str, node: &Node, (x, width): (f64, f64), y: usize, all: u64) {
    if width < NARROWEST {
        return;
    }
    let share = 100.0 * node.bytes as f64 / all as f64;
    let about =
        format!("{name}: {} in {} blocks, {share:.1}%", bytes(node.bytes), count(node.objects));
    let room = ((width - 6.0) / LETTER).max(0.0) as usize;
    let label = if room >= 3 { fit(name, room) } else { String::new() };
    let _ = writeln!(
        svg,
        "<g class=\"frame\" data-x=\"{x:.3}\" data-w=\"{width:.3}\" data-y=\"{y}\" data-bytes=\"{}\" \
         data-name=\"{}\"><title>{}</title><rect x=\"{x:.3}\" y=\"{y}\" width=\"{width:.3}\" \
         height=\"{}\" rx=\"2\" fill=\"{}\"/><text x=\"{:.3}\" y=\"{}\">{}</text></g>",
        node.bytes,
        escape(name),
        escape(&about),
        HEIGHT - 1,
        colour(name),
        x + 3.0,
        y + 13,
        escape(&label)
    );
    let mut at = x;
    for (name, below) in &node.below {
        let part = width * below.bytes as f64 / node.bytes.max(1) as f64;
        draw(svg, name, below, (at, part), y.saturating_sub(HEIGHT), all);
        at += part;
    }
}

/// A warm colour that a name always has.
fn colour(name: &str) -> String {
    let mix = name
        .bytes()
        .fold(0x811c_9dc5u32, |mix, byte| (mix ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("hsl({},{}%,{}%)", 20 + mix % 36, 65 + mix / 64 % 25, 64 + mix / 4096 % 12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::samples::*;

    fn number(frame: &str, name: &str) -> f64 {
        let rest = frame.split_once(&format!("{name}=\"")).unwrap().1;
        rest.split('"').next().unwrap().parse().unwrap()
    }

    #[test]
    fn widths_are_shares_and_names_are_escaped() {
        let svg = write(&profile(vec![row("a<b>", 1, 16, 3), row("c", 2, 16, 1)]), View::default());
        let frames: Vec<&str> = svg.split("<g class=\"frame\"").skip(1).collect();
        // All, the file, two functions.
        assert_eq!(frames.len(), 4);
        let of = |name: &str| *frames.iter().find(|frame| frame.contains(name)).unwrap();
        assert_eq!(number(of("\"all\""), "data-w"), 1200.0);
        assert_eq!(number(of("a&lt;b&gt; at"), "data-w"), 900.0);
        assert_eq!(number(of("\"c at"), "data-w"), 300.0);
        assert_eq!(number(of("\"c at"), "data-x"), 900.0);
        assert!(number(of("\"c at"), "data-y") < number(of("\"sample\""), "data-y"));
        assert!(!svg.contains("a<b>") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(colour("same"), colour("same"));
    }
}
