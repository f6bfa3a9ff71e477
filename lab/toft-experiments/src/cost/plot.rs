//! The plots: a row for each case, a dot for each variant, the ratio across.

use super::measure::{About, Results, Row};
use crate::page::root;
use std::fmt::Write;

/// Colours that differ for readers who do not tell red from green.
const COLOURS: [&str; 5] = ["#777777", "#0072b2", "#d55e00", "#009e73", "#cc79a7"];

const LEFT: f64 = 170.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 80.0;
const STEP: f64 = 30.0;

/// Writes a plot into `docs/experiments`.
pub fn write(results: &Results, about: About) -> Result<(), String> {
    let file = root().join("docs/experiments").join(file(about));
    let text = drawn(results, about);
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}

/// Returns the name of the file.
pub fn file(about: About) -> String {
    format!("cost-{}.svg", about.word())
}

/// Returns what a plot shows.
pub fn title(about: About) -> &'static str {
    if about == About::Memory { "Peak memory" } else { "Time" }
}

/// Returns the plot. Ratios that tell nothing are left out.
pub fn drawn(results: &Results, about: About) -> String {
    let rows = results.rows(about);
    let (low, high) = span(&rows);
    let across = |ratio: f64| LEFT + (ratio.ln() - low.ln()) / (high / low).ln() * (RIGHT - LEFT);
    let height = TOP + STEP * rows.len() as f64 + 40.0;
    let what = title(about);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 660 {height}\" width=\"660\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"660\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"14\" y=\"24\" font-size=\"15\">{what} without one idea, × Toft: less is \
         better</text>\n"
    );
    for (number, name) in results.variants.iter().enumerate() {
        let (x, colour) = (14.0 + 128.0 * number as f64, COLOURS[number % COLOURS.len()]);
        let _ = writeln!(
            text,
            "<circle cx=\"{x}\" cy=\"46\" r=\"5\" fill=\"{colour}\"/><text x=\"{}\" \
             y=\"50\">{name}</text>",
            x + 10.0
        );
    }
    let bottom = TOP + STEP * rows.len() as f64;
    for tick in ticks(low, high) {
        let x = across(tick);
        let width = if tick == 1.0 { 2 } else { 1 };
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\" stroke=\"#bbbbbb\" \
             stroke-width=\"{width}\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tick:.1}\
             </text>",
            TOP - 10.0,
            bottom + 18.0
        );
    }
    for (number, row) in rows.iter().enumerate() {
        line(&mut text, row, TOP + STEP * (number as f64 + 0.5), &across);
    }
    text + "</svg>\n"
}

/// Adds the row of a case. Variants are one above the other, so that none hides another.
fn line(text: &mut String, row: &Row, y: f64, across: &dyn Fn(f64) -> f64) {
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 12.0,
        y + 4.0,
        row.case
    );
    let count = row.variants.len() as f64;
    for (number, variant) in row.variants.iter().enumerate() {
        let Some((_, ratio)) = variant.filter(|(_, ratio)| !ratio.noisy) else { continue };
        let y = y + (number as f64 - (count - 1.0) / 2.0) * 4.0;
        let (low, high) = ratio.ends.unwrap_or((ratio.mean, ratio.mean));
        let colour = COLOURS[number % COLOURS.len()];
        let _ = writeln!(
            text,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\"/>\
             <circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>",
            across(low),
            across(high),
            across(ratio.mean)
        );
    }
}

/// Returns the ends of the axis: steps of a tenth around all intervals, and around 1.
fn span(rows: &[Row]) -> (f64, f64) {
    let ratios = rows.iter().flat_map(|row| row.variants.iter().flatten());
    let ends = ratios.filter(|(_, it)| !it.noisy).filter_map(|(_, it)| it.ends);
    let (low, high) = ends.fold((0.9_f64, 1.1_f64), |all, it| (all.0.min(it.0), all.1.max(it.1)));
    ((low * 10.0).floor() / 10.0, (high * 10.0).ceil() / 10.0)
}

fn ticks(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let (first, last) = ((low * 10.0).round() as i32, (high * 10.0).round() as i32);
    (first..=last).map(|tenth| f64::from(tenth) / 10.0)
}
