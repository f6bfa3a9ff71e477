//! The plots, each a file beside the page: lines over threads.

use super::measure::{Results, TIME};
use super::plan::Driver::Uniform;
use super::plan::{ARENAS, THREADS};
use super::subjects::{ARENA, Subject, Subjects};
use crate::plot::{colour, drawing};
use maud::html;
use toft_bench::plot::{Scale, label, number};
use toft_bench::stats::Summary;

const WIDTH: f64 = 500.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 350.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 310.0;
/// The distance between two names at the ends of lines.
const APART: f64 = 14.0;

/// A line of a plot.
struct Line {
    /// What stands at its end.
    name: String,
    colour: String,
    /// Threads, and the nanoseconds for each operation.
    points: Vec<(usize, Summary)>,
}

/// The file of each plot, and its text.
pub fn all(results: &Results, subjects: &Subjects) -> Vec<(String, String)> {
    let curve = |arenas: fn(usize) -> usize| {
        let line = |subject: Subject| Line {
            name: subjects.name(subject),
            colour: subject.colour(),
            points: points(results, subject, arenas),
        };
        subjects.all().map(line).collect::<Vec<_>>()
    };
    let of_arenas = |(index, arenas): (usize, usize)| Line {
        name: format!("{arenas} arena{}", if arenas == 1 { "" } else { "s" }),
        colour: colour(index + 1),
        points: points(results, ARENA, |_| arenas),
    };
    let by_arenas = ARENAS.into_iter().enumerate().map(of_arenas).collect::<Vec<_>>();
    [
        ("contention", "Contention: all threads share one arena", curve(|_| 1)),
        (
            "no-contention",
            "No contention: as many arenas as threads, at most 16",
            curve(|threads| threads.min(16)),
        ),
        ("arenas", "A lock per arena, by the number of arenas", by_arenas),
    ]
    .map(|(name, title, lines)| (format!("parallel-{name}.svg"), svg(title, &lines)))
    .into()
}

fn points(
    results: &Results,
    subject: Subject,
    arenas: impl Fn(usize) -> usize,
) -> Vec<(usize, Summary)> {
    let of = |threads| {
        let point = results.point(Uniform, threads, arenas(threads), subject)?;
        Some((threads, results.summary(point, TIME)?))
    };
    THREADS.into_iter().filter_map(of).collect()
}

fn svg(title: &str, lines: &[Line]) -> String {
    let hint = "ns per operation of all threads together; lower is better; both scales logarithmic";
    let across = Scale::over(THREADS.map(|threads| threads as f64), 1.0, LEFT, RIGHT);
    let values = lines.iter().flat_map(|line| &line.points).flat_map(|(_, s)| [s.min, s.max]);
    let up = Scale::over(values, 1.05, BOTTOM, TOP);
    let lines: Vec<&Line> = lines.iter().filter(|line| !line.points.is_empty()).collect();
    let ends: Vec<f64> =
        lines.iter().map(|line| up.at(line.points[line.points.len() - 1].1.median)).collect();
    let names = spread(&ends);
    let inside = html! {
        @for tick in up.ticks(6) {
            @let y = number(up.at(tick));
            line.grid x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) {}
            text.tick x=(LEFT - 6.0) y=(number(up.at(tick) + 4.0)) text-anchor="end" { (label(tick)) }
        }
        @for threads in THREADS {
            @let x = number(across.at(threads as f64));
            line.grid x1=(x) x2=(x) y1=(TOP) y2=(BOTTOM) {}
            text.tick x=(x) y=(BOTTOM + 16.0) text-anchor="middle" { (threads) }
        }
        text.title x=(number(f64::midpoint(LEFT, RIGHT))) y=(BOTTOM + 36.0) text-anchor="middle" { "threads" }
        @for ((line, end), name) in lines.iter().zip(&ends).zip(&names).rev() {
            g.(line.colour) {
                @for (threads, summary) in &line.points {
                    @let x = number(across.at(*threads as f64));
                    line.whisker x1=(x) x2=(x) y1=(number(up.at(summary.min))) y2=(number(up.at(summary.max))) {}
                    circle cx=(x) cy=(number(up.at(summary.median))) r="3" {}
                }
                polyline points=(path(line, &across, &up)) {}
                line.leader x1=(RIGHT + 5.0) y1=(number(*end)) x2=(RIGHT + 16.0) y2=(number(*name)) {}
                text.label x=(RIGHT + 20.0) y=(number(name + 4.0)) { (line.name) }
            }
        }
    };
    drawing((WIDTH, BOTTOM + 44.0), 1.4, (title, hint), &inside)
}

fn path(line: &Line, across: &Scale, up: &Scale) -> String {
    let place = |(threads, summary): &(usize, Summary)| {
        format!("{},{}", number(across.at(*threads as f64)), number(up.at(summary.median)))
    };
    line.points.iter().map(place).collect::<Vec<_>>().join(" ")
}

/// Heights of names near the ends of their lines, none nearer to another than `APART`.
fn spread(ends: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|&a, &b| ends[a].total_cmp(&ends[b]));
    let mut heights = ends.to_vec();
    let mut above = f64::NEG_INFINITY;
    for &at in &order {
        heights[at] = heights[at].max(above + APART);
        above = heights[at];
    }
    // What went too low moves up again, and pushes the others.
    let mut below = BOTTOM + APART;
    for &at in order.iter().rev() {
        heights[at] = heights[at].min(below - APART);
        below = heights[at];
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::made;
    use super::*;

    #[test]
    fn every_subject_is_a_line_with_its_name() {
        let plots = all(&made(|point| 10.0 + point.threads as f64), &Subjects::default());
        for (file, plot) in &plots {
            assert!(plot.starts_with("<svg xmlns=") && plot.ends_with("</svg>\n"), "{file}");
            let lines = if file.contains("arenas") { ARENAS.len() } else { Subject::OWN.len() };
            assert_eq!(plot.matches("<polyline").count(), lines, "{file}");
            assert_eq!(plot.matches("<circle").count(), lines * THREADS.len(), "{file}");
        }
        assert!(plots[0].1.contains(">own heap, cache<") && plots[2].1.contains(">16 arenas<"));
    }

    #[test]
    fn names_are_apart_and_stay_inside() {
        let heights = spread(&[300.0, 301.0, 100.0, 302.0]);
        let mut sorted = heights.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|two| two[1] - two[0] >= APART - 1e-9), "{heights:?}");
        assert!(sorted[3] <= BOTTOM && heights[2] == 100.0, "{heights:?}");
    }
}
