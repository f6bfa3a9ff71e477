//! The plot of the summary: time across, memory up, a dot for each peer.

use super::Report;
use super::compare::{Mean, Overall, base};
use super::place::{Area, labels, text_width};
use super::scale::{Scale, label};
use maud::{Markup, html};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 400.0;
const INSIDE: Area = Area { x0: 48.0, y0: 10.0, x1: 450.0, y1: 356.0 };
const RADIUS: f64 = 5.0;
const TEXT: f64 = 12.5;

/// Draws it, unless fewer than two peers have both means. A mean of less than half of the cases
/// compares something else, and is left out.
pub(super) fn draw(report: &Report, overall: &[Overall]) -> Option<Markup> {
    let cases = |mean: Option<Mean>| mean.map_or(0, |mean| mean.cases);
    let most = overall.iter().fold((0, 0), |most: (usize, usize), one| {
        (most.0.max(cases(one.time)), most.1.max(cases(one.memory)))
    });
    let mut dots: Vec<(usize, f64, f64)> = overall
        .iter()
        .filter_map(|one| Some((one.peer, one.time?, one.memory?)))
        .filter(|(_, time, memory)| 2 * time.cases >= most.0 && 2 * memory.cases >= most.1)
        .map(|(peer, time, memory)| (peer, time.value, memory.value))
        .collect();
    let left_out: Vec<&str> = (0..report.peers.len())
        .filter(|&peer| dots.iter().all(|dot| dot.0 != peer))
        .map(|peer| report.peers[peer].name.as_str())
        .collect();
    // The label of ours has the first choice of a place, and its dot is drawn last, on the others.
    dots.sort_by_key(|(peer, ..)| !report.is_ours(*peer));
    if dots.len() < 2 {
        return None;
    }
    let across = Scale::log(dots.iter().map(|dot| dot.1).chain([1.0]), 1.12, INSIDE.x0, INSIDE.x1);
    let up = Scale::log(dots.iter().map(|dot| dot.2).chain([1.0]), 1.12, INSIDE.y1, INSIDE.y0);
    let points: Vec<(f64, f64)> =
        dots.iter().map(|(_, time, memory)| (across.at(*time), up.at(*memory))).collect();
    let name = |peer: usize| report.peers[peer].name.as_str();
    let sizes: Vec<(f64, f64)> =
        dots.iter().map(|dot| (text_width(name(dot.0), TEXT), TEXT + 1.0)).collect();
    let areas = labels(&points, RADIUS, &sizes, &INSIDE);
    let base = name(base(report));
    let (middle_x, middle_y) = ((INSIDE.x0 + INSIDE.x1) / 2.0, (INSIDE.y0 + INSIDE.y1) / 2.0);
    Some(html! {
        figure.plot.wide {
            figcaption {
                b { "Time and peak memory, geometric means, × " (base) } " "
                span.hint {
                    "nearer to the lower left corner is better"
                    @if !left_out.is_empty() { "; not here, since it failed or lacks too many cases: " (left_out.join(", ")) }
                }
            }
            svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
                aria-label="Time across and memory up, a dot for each allocator" {
                @for tick in across.ticks(7) {
                    @let x = number(across.at(tick));
                    line.(rule(tick)) x1=(x) x2=(x) y1=(INSIDE.y0) y2=(INSIDE.y1) {}
                    text.tick x=(x) y=(INSIDE.y1 + 16.0) text-anchor="middle" { (label(tick)) }
                }
                @for tick in up.ticks(7) {
                    @let y = up.at(tick);
                    line.(rule(tick)) x1=(INSIDE.x0) x2=(INSIDE.x1) y1=(number(y)) y2=(number(y)) {}
                    text.tick x=(INSIDE.x0 - 6.0) y=(number(y + 4.0)) text-anchor="end" { (label(tick)) }
                }
                text.title x=(middle_x) y=(HEIGHT - 6.0) text-anchor="middle" {
                    "← faster · time, × " (base) " · slower →"
                }
                text.title x="0" y="0" text-anchor="middle"
                    transform={ "translate(13 " (middle_y) ") rotate(-90)" } {
                    "← smaller · memory, × " (base) " · larger →"
                }
                @for (((peer, ..), point), area) in dots.iter().zip(&points).zip(&areas).rev() {
                    @let class = if report.is_ours(*peer) { "ours" } else { "other" };
                    @if let Some((x, y)) = leader(*point, area) {
                        line.leader x1=(number(point.0)) y1=(number(point.1)) x2=(number(x)) y2=(number(y)) {}
                    }
                    circle.(class) cx=(number(point.0)) cy=(number(point.1)) r=(RADIUS) {}
                    text.label.(class) x=(number(area.x0)) y=(number(area.y1 - 3.0)) { (name(*peer)) }
                }
            }
        }
    })
}

/// The end of a line to a label that is away from its point.
fn leader((x, y): (f64, f64), area: &Area) -> Option<(f64, f64)> {
    let (to_x, to_y) = (x.clamp(area.x0, area.x1), y.clamp(area.y0, area.y1));
    ((to_x - x).hypot(to_y - y) > 2.0 * RADIUS + 4.0).then_some((to_x, to_y))
}

/// The line at 1 is where the base is.
fn rule(tick: f64) -> &'static str {
    if tick == 1.0 { "one" } else { "grid" }
}

fn number(place: f64) -> String {
    format!("{place:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::TEXT;

    #[test]
    fn a_dot_for_each_peer_that_has_both_means() {
        let report = Report::parse(TEXT).unwrap();
        let mean = |value| Some(Mean { value, cases: 1 });
        let peer = |peer, time, memory| Overall { peer, time, memory, failed: 0 };
        let mut all =
            vec![peer(0, mean(0.5), mean(1.5)), peer(1, mean(1.0), mean(1.0)), peer(2, None, None)];
        let drawn = draw(&report, &all).unwrap().into_string();
        assert_eq!(drawn.matches("<circle").count(), 2);
        assert!(drawn.contains(">toft<") && !drawn.contains(">&lt;x"), "{drawn}");
        all[2] = peer(2, mean(3.0), mean(1.0));
        let drawn = draw(&report, &all).unwrap().into_string();
        assert!(drawn.contains(">&lt;x&gt;&amp;&quot;<"), "{drawn}");
        assert!(draw(&report, &all[..1]).is_none());
        all[0].time = Some(Mean { value: 0.5, cases: 3 });
        all[1].time = Some(Mean { value: 1.0, cases: 3 });
        let drawn = draw(&report, &all).unwrap().into_string();
        assert_eq!(drawn.matches("<circle").count(), 2);
        assert!(drawn.contains("too many cases: &lt;x&gt;&amp;&quot;<"), "{drawn}");
    }

    #[test]
    fn a_label_beside_its_point_needs_no_line() {
        let area = Area { x0: 10.0, y0: 0.0, x1: 50.0, y1: 12.0 };
        assert_eq!(leader((2.0, 6.0), &area), None);
        assert_eq!(leader((30.0, 60.0), &area), Some((30.0, 12.0)));
    }
}
