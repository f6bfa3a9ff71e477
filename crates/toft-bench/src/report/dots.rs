//! Ratios to one thing, as a separate file: a row for each case, a dot with its interval for each
//! thing that is compared.

use super::place::text_width;
use super::scale::{Scale, label};
use crate::table::plain;
use maud::{PreEscaped, html};

const WIDTH: f64 = 840.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 825.0;
/// The height of a row's dot, and what is left free between rows.
const STEP: f64 = 7.0;
const GAP: f64 = 9.0;
const TOP: f64 = 84.0;

/// A ratio of one case.
#[derive(Clone, Copy, Debug)]
pub struct Dot {
    /// Which of the names it is of.
    pub of: usize,
    /// The ratio.
    pub at: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The plot.
#[derive(Clone, Debug)]
pub struct Dots {
    /// What it shows.
    pub title: String,
    /// What the ratios are to, and which ones are good.
    pub hint: String,
    /// What is compared.
    pub names: Vec<String>,
    /// The cases and their dots.
    pub rows: Vec<(String, Vec<Dot>)>,
}

impl Dots {
    /// Draws it. In a row the dots lie below each other, in the order of the names.
    #[must_use]
    pub fn svg(&self) -> String {
        let dots = self.rows.iter().flat_map(|(_, dots)| dots);
        let ends = dots.flat_map(|dot| [dot.low, dot.at, dot.high]).chain([1.0]);
        let across = Scale::log(ends, 1.03, LEFT, RIGHT);
        let row = STEP * self.names.len() as f64 + GAP;
        let bottom = TOP + row * self.rows.len() as f64;
        let height = bottom + 30.0;
        let drawn = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (number(height)) }
                width=(WIDTH) height=(number(height)) role="img" aria-label=(self.title) {
                style { (PreEscaped(include_str!("plot.css"))) }
                text.heading x="8" y="22" { (self.title) }
                text.tick x="8" y="41" { (self.hint) }
                @for (n, (name, x)) in self.names.iter().zip(self.legend()).enumerate() {
                    g.(colour(n)) {
                        circle cx=(number(x + 5.0)) cy="62" r="4" {}
                        text.label x=(number(x + 14.0)) y="66.5" { (name) }
                    }
                }
                @for tick in across.ticks(9) {
                    @let x = number(across.at(tick));
                    line.(if tick == 1.0 { "one" } else { "grid" }) x1=(x) x2=(x) y1=(TOP) y2=(number(bottom)) {}
                    text.tick x=(x) y=(number(bottom + 18.0)) text-anchor="middle" { (label(tick)) }
                }
                @for (n, (case, dots)) in self.rows.iter().enumerate() {
                    @let top = TOP + n as f64 * row;
                    line.grid x1="8" x2=(RIGHT) y1=(number(top)) y2=(number(top)) {}
                    text.case x=(LEFT - 10.0) y=(number(top + row / 2.0 + 4.5)) text-anchor="end" { (case) }
                    @for dot in dots {
                        @let y = number(top + GAP / 2.0 + (dot.of as f64 + 0.5) * STEP);
                        g.(colour(dot.of)) {
                            title { (self.names[dot.of]) " " (plain(dot.at)) }
                            line.whisker x1=(number(across.at(dot.low))) x2=(number(across.at(dot.high))) y1=(y) y2=(y) {}
                            circle cx=(number(across.at(dot.at))) cy=(y) r="3.2" {}
                        }
                    }
                }
            }
        };
        drawn.into_string() + "\n"
    }

    /// Where each name begins.
    fn legend(&self) -> Vec<f64> {
        let next = |x: &mut f64, name: &String| {
            let width = text_width(name, 13.0) + 30.0;
            Some(std::mem::replace(x, *x + width))
        };
        self.names.iter().scan(8.0, next).collect()
    }
}

fn colour(n: usize) -> String {
    format!("c{}", n % 9)
}

fn number(place: f64) -> String {
    format!("{place:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ratio_is_a_dot_at_its_place_and_names_are_escaped() {
        let dot = |of, at| Dot { of, at, low: at / 1.1, high: at * 1.1 };
        let dots = Dots {
            title: "a < b".into(),
            hint: "less is better".into(),
            names: vec!["one".into(), "two & three".into()],
            rows: vec![
                ("pair-64".into(), vec![dot(0, 0.5), dot(1, 2.0)]),
                ("gcc".into(), Vec::new()),
            ],
        };
        let svg = dots.svg();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
        for part in ["a &lt; b", ">one<", ">two &amp; three<", ">pair-64<", ">gcc<", "line.whisker"]
        {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 2 + 2);
        // Half and twice lie equally far from 1, which is in the middle.
        let middle = format!(r#"x1="{}""#, number((LEFT + RIGHT) / 2.0));
        assert!(svg.contains(&format!(r#"<line class="one" {middle}"#)), "{svg}");
    }
}
