//! What plots have in common, and the plot of ratios: a row for each case, a dot with its interval
//! for each ratio.

use maud::{Markup, PreEscaped, html};
use toft_bench::interval::Interval;
use toft_bench::plot::{STYLE, Scale, label, number, text_width};

const WIDTH: f64 = 840.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 825.0;
/// The height of a dot's line, and the gap between rows.
const STEP: f64 = 7.0;
const GAP: f64 = 9.0;
const TOP: f64 = 84.0;

/// Returns a drawing of this size, shown `zoom` times as large, with a title and a line below it.
pub fn drawing(
    (width, height): (f64, f64),
    zoom: f64,
    (title, hint): (&str, &str),
    inside: &Markup,
) -> String {
    let drawn = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (number(height)) }
            width=(number(width * zoom)) height=(number(height * zoom)) role="img" aria-label=(title) {
            style { (PreEscaped(STYLE)) }
            text.heading x="8" y="22" { (title) }
            text.tick x="8" y="41" { (hint) }
            (inside)
        }
    };
    drawn.into_string() + "\n"
}

/// Returns the class of the `n`th colour.
pub fn colour(n: usize) -> String {
    format!("c{}", n % 9)
}

/// A plot of ratios.
#[derive(Debug)]
pub struct Dots<'a> {
    pub title: &'a str,
    pub hint: &'a str,
    /// What is compared.
    pub names: Vec<&'a str>,
    /// The cases; a ratio, if there is one, for each name.
    pub rows: Vec<(&'a str, Vec<Option<Interval>>)>,
}

impl Dots<'_> {
    /// Draws the plot. Ratios that tell nothing are left out.
    pub fn svg(&self) -> String {
        let shown = self.rows.iter().flat_map(|(_, row)| row).flatten();
        let shown = shown.filter(|ratio| !ratio.too_wide());
        let ends = shown.flat_map(|ratio| [ratio.low, ratio.ratio, ratio.high]).chain([1.0]);
        let across = Scale::over(ends, 1.03, LEFT, RIGHT);
        let row = STEP * self.names.len() as f64 + GAP;
        let bottom = TOP + row * self.rows.len() as f64;
        let inside = html! {
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
            @for (n, (case, ratios)) in self.rows.iter().enumerate() {
                @let top = TOP + n as f64 * row;
                line.grid x1="8" x2=(RIGHT) y1=(number(top)) y2=(number(top)) {}
                text.case x=(LEFT - 10.0) y=(number(top + row / 2.0 + 4.5)) text-anchor="end" { (case) }
                @for (of, ratio) in ratios.iter().enumerate() {
                    @if let Some(ratio) = ratio.filter(|ratio| !ratio.too_wide()) {
                        @let y = number(top + GAP / 2.0 + (of as f64 + 0.5) * STEP);
                        g.(colour(of)) {
                            title { (self.names[of]) " " (format!("{:.2}", ratio.ratio)) }
                            line.whisker x1=(number(across.at(ratio.low))) x2=(number(across.at(ratio.high))) y1=(y) y2=(y) {}
                            circle cx=(number(across.at(ratio.ratio))) cy=(y) r="3.2" {}
                        }
                    }
                }
            }
        };
        drawing((WIDTH, bottom + 30.0), 1.0, (self.title, self.hint), &inside)
    }

    /// Where each name begins.
    fn legend(&self) -> Vec<f64> {
        let next = |x: &mut f64, name: &&str| {
            let width = text_width(name, 12.0) + 24.0;
            Some(std::mem::replace(x, *x + width))
        };
        self.names.iter().scan(8.0, next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ratio_is_a_dot_and_a_wide_one_is_left_out() {
        let wide = Interval { ratio: 1.0, low: 0.5, high: 2.0 };
        let dots = Dots {
            title: "a < b",
            hint: "more is better",
            names: vec!["one", "two & three"],
            rows: vec![
                ("first", vec![Some(Interval::exact(0.5)), Some(Interval::exact(2.0))]),
                ("second", vec![None, Some(wide)]),
            ],
        };
        let svg = dots.svg();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
        for part in ["a &lt; b", ">one<", ">two &amp; three<", ">first<", ">second<"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 2 + 2);
    }
}
