//! The plot of the summary: time across, memory up, a dot for each peer.

use super::Report;
use super::place::{Area, labels, text_width};
use super::scale::{Scale, label, number};
use crate::standing::{Against, Standing, is_ours};
use maud::{Markup, PreEscaped, html};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 400.0;
const INSIDE: Area = Area { x0: 48.0, y0: 10.0, x1: 450.0, y1: 356.0 };
const RADIUS: f64 = 5.0;
const TEXT: f64 = 12.5;
/// Of the separate picture: what stands above the plot, and below it.
const ABOVE: f64 = 54.0;
const BELOW: f64 = 22.0;

/// A peer with both means, and those that cannot be drawn.
struct Dots<'a> {
    base: &'a str,
    dots: Vec<(&'a str, f64, f64)>,
    left_out: Vec<&'a str>,
}

impl<'a> Dots<'a> {
    /// `None` of fewer than two. A mean of less than half of the cases compares something else, and
    /// is left out.
    fn of(standing: &'a Standing) -> Option<Self> {
        let cases = |mean: &Option<Against>| mean.as_ref().map_or(0, |mean| mean.cases);
        let most = standing.peers.iter().fold((0, 0), |most: (usize, usize), one| {
            (most.0.max(cases(&one.time)), most.1.max(cases(&one.memory)))
        });
        let (mut dots, mut left_out) = (Vec::new(), Vec::new());
        for one in &standing.peers {
            match (&one.time, &one.memory) {
                (Some(time), Some(memory))
                    if 2 * time.cases >= most.0 && 2 * memory.cases >= most.1 =>
                {
                    dots.push((one.name.as_str(), time.mean, memory.mean));
                }
                _ => left_out.push(one.name.as_str()),
            }
        }
        // The label of ours has the first choice of a place, and its dot is drawn last, on the
        // others.
        dots.sort_by_key(|(name, ..)| !is_ours(name));
        (dots.len() > 1).then_some(Self { base: &standing.base, dots, left_out })
    }

    /// What a reader must know of the plot.
    fn notice(&self, quick: bool) -> String {
        let quick = quick.then(|| "a quick run: too short for claims".to_owned());
        let missing = format!("not here for want of cases: {}", self.left_out.join(", "));
        let missing = (!self.left_out.is_empty()).then_some(missing);
        quick.into_iter().chain(missing).collect::<Vec<_>>().join("; ")
    }

    /// Axes, dots and labels.
    fn inside(&self) -> Markup {
        let Self { base, dots, .. } = self;
        let times = dots.iter().map(|dot| dot.1).chain([1.0]);
        let peaks = dots.iter().map(|dot| dot.2).chain([1.0]);
        let across = Scale::over(times, 1.12, INSIDE.x0, INSIDE.x1);
        let up = Scale::over(peaks, 1.12, INSIDE.y1, INSIDE.y0);
        let points: Vec<(f64, f64)> =
            dots.iter().map(|(_, time, memory)| (across.at(*time), up.at(*memory))).collect();
        let sizes: Vec<(f64, f64)> =
            dots.iter().map(|dot| (text_width(dot.0, TEXT), TEXT + 1.0)).collect();
        let areas = labels(&points, RADIUS, &sizes, &INSIDE);
        let (middle_x, middle_y) = ((INSIDE.x0 + INSIDE.x1) / 2.0, (INSIDE.y0 + INSIDE.y1) / 2.0);
        html! {
            @for tick in across.apart(&across.ticks(7), 26.0) {
                @let x = number(across.at(tick));
                line.(rule(tick)) x1=(x) x2=(x) y1=(INSIDE.y0) y2=(INSIDE.y1) {}
                text.tick x=(x) y=(INSIDE.y1 + 16.0) text-anchor="middle" { (label(tick)) }
            }
            @for tick in up.apart(&up.ticks(7), 15.0) {
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
            @for (((name, time, memory), point), area) in dots.iter().zip(&points).zip(&areas).rev() {
                @let class = if is_ours(name) { "ours" } else { "other" };
                @if let Some((x, y)) = leader(*point, area) {
                    line.leader x1=(number(point.0)) y1=(number(point.1)) x2=(number(x)) y2=(number(y)) {}
                }
                circle.(class) cx=(number(point.0)) cy=(number(point.1)) r=(RADIUS) {
                    title { (name) ": time " (format!("{time:.2}")) ", memory " (format!("{memory:.2}")) }
                }
                text.label.(class) x=(number(area.x0)) y=(number(area.y1 - 3.0)) { (name) }
            }
        }
    }
}

/// Draws it as a separate file, unless fewer than two peers have both means. It has its own ground,
/// since a reader's page may be dark where the system is not.
pub(super) fn picture(report: &Report, standing: &Standing) -> Option<String> {
    let dots = Dots::of(standing)?;
    let height = ABOVE + HEIGHT + BELOW;
    let notice = dots.notice(report.quick);
    let place = format!(
        "{} × {}, Linux {}, revision {}",
        report.machine.cpus, report.machine.cpu, report.machine.kernel, report.machine.revision
    );
    let drawn = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) }
            width=(1.5 * WIDTH) height=(1.5 * height) role="img"
            aria-label="Time across and memory up, a dot for each allocator" {
            style { (PreEscaped(include_str!("plot.css"))) }
            rect.ground x="0.5" y="0.5" width=(WIDTH - 1.0) height=(height - 1.0) rx="8" {}
            text.heading x="14" y="25" { "Time and peak memory, geometric means" }
            text.tick x="14" y="42" {
                "× " (dots.base) "; nearer to the lower left corner is better"
            }
            @if !notice.is_empty() { text.tick x="14" y="57" { (notice) } }
            g.plot transform={ "translate(0 " (ABOVE) ")" } { (dots.inside()) }
            text.tick x=(WIDTH - 12.0) y=(height - 12.0) text-anchor="end" { (place) }
        }
    };
    Some(format!("{}\n", drawn.into_string()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Scope;
    use crate::fixtures::peers;
    use crate::report::tests::TEXT;
    use crate::standing::tests::measured;

    /// The picture of three programs on these peers, each of which finishes the given number.
    fn drawn(ended: &[(&str, usize)]) -> Option<String> {
        let mut report = Report::parse(TEXT).unwrap();
        let names: Vec<&str> = ended.iter().map(|(name, _)| *name).collect();
        report.peers = peers(&names);
        let case = |at: usize, name: &str| {
            let figure = |&(_, count): &(&str, usize)| (f64::from(u8::from(at < count)), 10.0);
            measured(name, "seconds", &ended.iter().map(figure).collect::<Vec<_>>())
        };
        let cases = [case(0, "gcc"), case(1, "lua"), case(2, "git")];
        picture(&report, &Standing::of(&cases, &report.peers, Scope::Headline))
    }

    #[test]
    fn a_dot_for_each_peer_that_has_both_means_of_most_cases() {
        for (count, shown) in [(0, false), (1, false), (2, true), (3, true)] {
            let text = drawn(&[("toft", 3), ("glibc", 3), ("<x>", count)]).unwrap();
            assert_eq!(text.matches("<circle").count(), 2 + usize::from(shown));
            assert_eq!(text.contains(">&lt;x&gt;<"), shown, "{text}");
            assert_eq!(text.contains("want of cases: &lt;x"), !shown, "{text}");
        }
        assert!(drawn(&[("toft", 3)]).is_none());
    }

    #[test]
    fn the_picture_is_a_file_of_its_own_for_light_and_dark() {
        let drawn = drawn(&[("toft", 3), ("glibc", 3)]).unwrap();
        assert!(drawn.starts_with("<svg xmlns=") && drawn.ends_with("</svg>\n"), "{drawn}");
        for part in
            ["prefers-color-scheme", "rect class=\"ground\"", "too short for claims", "A CPU"]
        {
            assert!(drawn.contains(part), "{part} is not in {drawn}");
        }
    }

    #[test]
    fn a_label_beside_its_point_needs_no_line() {
        let area = Area { x0: 10.0, y0: 0.0, x1: 50.0, y1: 12.0 };
        assert_eq!(leader((2.0, 6.0), &area), None);
        assert_eq!(leader((30.0, 60.0), &area), Some((30.0, 12.0)));
    }
}
