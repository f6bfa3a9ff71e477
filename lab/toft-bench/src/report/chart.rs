//! Lines over an axis, each named at its end.

use super::place::spread;
use super::scale::{Scale, label};
use crate::stats::Summary;
use maud::{Markup, html};

const WIDTH: f64 = 500.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 330.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 258.0;

/// A line of a chart.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What stands at its end.
    pub name: String,
    /// The class of its colour in the style sheet: `ours`, `c0` to `c8`.
    pub colour: String,
    /// Places on the axis across, in its order, and what was measured there.
    pub points: Vec<(f64, Summary)>,
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// What it shows, over what.
    pub title: String,
    /// What the axis across is called.
    pub across: String,
    /// The places on it that are named.
    pub at: Vec<f64>,
    /// The lines; where they cross, an earlier one is on top.
    pub lines: Vec<Line>,
}

impl Chart {
    /// The drawing.
    pub(super) fn drawing(&self) -> Markup {
        html! {
            svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(self.title) {
                (self.inside())
            }
        }
    }

    fn inside(&self) -> Markup {
        let across = Scale::log(self.at.iter().copied(), 1.0, LEFT, RIGHT);
        let lines: Vec<&Line> = self.lines.iter().filter(|line| !line.points.is_empty()).collect();
        let values = || lines.iter().flat_map(|line| &line.points).map(|(_, summary)| summary);
        let up = Scale::linear(values().map(|s| s.max).fold(0.0, f64::max), BOTTOM, TOP);
        let ends: Vec<f64> =
            lines.iter().filter_map(|line| Some(up.at(line.points.last()?.1.median))).collect();
        let names = spread(&ends, 14.0, TOP + 4.0, BOTTOM);
        html! {
            @for tick in up.ticks(5) {
                @let y = up.at(tick);
                line.grid x1=(LEFT) x2=(RIGHT) y1=(number(y)) y2=(number(y)) {}
                text.tick x=(LEFT - 6.0) y=(number(y + 4.0)) text-anchor="end" { (label(tick)) }
            }
            @for at in &self.at {
                @let x = number(across.at(*at));
                line.grid x1=(x) x2=(x) y1=(TOP) y2=(BOTTOM) {}
                text.tick x=(x) y=(BOTTOM + 16.0) text-anchor="middle" { (label(*at)) }
            }
            text.title x=((LEFT + RIGHT) / 2.0) y=(HEIGHT - 6.0) text-anchor="middle" { (self.across) }
            @for (line, (end, height)) in lines.iter().zip(ends.iter().zip(&names)).rev() {
                @let points: Vec<(f64, &Summary)> =
                    line.points.iter().map(|(at, summary)| (across.at(*at), summary)).collect();
                g.(line.colour) {
                    @for (x, summary) in &points {
                        line.whisker x1=(number(*x)) x2=(number(*x))
                            y1=(number(up.at(summary.min))) y2=(number(up.at(summary.max))) {}
                        circle cx=(number(*x)) cy=(number(up.at(summary.median))) r="3" {}
                    }
                    polyline points=(path(&points, &up)) {}
                    line.leader x1=(number(points[points.len() - 1].0 + 5.0)) y1=(number(*end))
                        x2=(RIGHT + 16.0) y2=(number(*height)) {}
                    text.label x=(RIGHT + 20.0) y=(number(height + 4.0)) { (line.name) }
                }
            }
        }
    }
}

fn path(points: &[(f64, &Summary)], up: &Scale) -> String {
    let pairs: Vec<String> =
        points.iter().map(|(x, s)| format!("{},{}", number(*x), number(up.at(s.median)))).collect();
    pairs.join(" ")
}

fn number(place: f64) -> String {
    format!("{place:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let line = |name: &str, values: [f64; 2]| Line {
            name: name.into(),
            colour: "c1".into(),
            points: [1.0, 4.0]
                .into_iter()
                .zip(values.map(|v| Summary::of(&[v]).unwrap()))
                .collect(),
        };
        Chart {
            title: "a < b".into(),
            across: "threads".into(),
            at: vec![1.0, 2.0, 4.0],
            lines: vec![line("one", [10.0, 40.0]), line("two", [20.0, 10.0])],
        }
    }

    #[test]
    fn the_words_and_the_points_are_drawn() {
        let svg = chart().drawing().into_string();
        for part in ["a &lt; b", ">threads<", ">one<", ">two<"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(svg.contains(r#"points="40.0,196.0 330.0,10.0""#), "{svg}");
    }

    #[test]
    fn a_line_without_points_is_left_out() {
        let mut chart = chart();
        chart.lines[0].points.clear();
        assert_eq!(chart.drawing().into_string().matches("<polyline").count(), 1);
    }
}
