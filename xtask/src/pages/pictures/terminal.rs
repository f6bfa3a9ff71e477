//! The screen of a terminal as SVG: one text for each row, one span for each run of a colour.

use vt100::{Color, Parser};

/// Pixels of a cell, and around the screen.
const CELL: (f64, f64) = (8.4, 18.0);
const EDGE: f64 = 14.0;

const BACK: &str = "#1e2127";
const TEXT: &str = "#d7dae0";

/// The sixteen named colours.
const NAMED: [&str; 16] = [
    "#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dae0",
    "#7f848e", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ffffff",
];

fn colour(colour: Color, otherwise: &str) -> String {
    match colour {
        Color::Idx(index) => NAMED.get(usize::from(index)).copied().unwrap_or(otherwise).into(),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        Color::Default => otherwise.into(),
    }
}

/// How a cell is painted.
#[derive(Clone, PartialEq)]
struct Paint {
    text: String,
    back: String,
    bold: bool,
}

/// The screen as a picture with this title.
pub fn svg(parser: &Parser, title: &str) -> String {
    let (rows, columns) = parser.screen().size();
    let width = f64::from(columns.get()) * CELL.0 + 2.0 * EDGE;
    let height = f64::from(rows.get()) * CELL.1 + 2.0 * EDGE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" \
         font-size=\"14\" role=\"img\"><title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACK}\"/>\n",
        escaped(title)
    );
    for row in 0..rows.get() {
        let cells: Vec<_> = (0..columns.get()).map(|column| cell(parser, row, column)).collect();
        let (mut x, y) = (EDGE, EDGE + f64::from(row) * CELL.1);
        for run in cells.chunk_by(|one, next| one.0 == next.0) {
            let text: String = run.iter().map(|(_, text)| text.as_str()).collect();
            let width = run.len() as f64 * CELL.0;
            svg += &painted(x, y, width, &run[0].0, &text);
            x += width;
        }
    }
    svg + "</svg>\n"
}

/// A cell's paint and text.
fn cell(parser: &Parser, row: u16, column: u16) -> (Paint, String) {
    let Some(cell) = parser.screen().cell(row, column) else {
        return (Paint { text: TEXT.into(), back: BACK.into(), bold: false }, " ".into());
    };
    let (mut text, mut back) = (colour(cell.fgcolor(), TEXT), colour(cell.bgcolor(), BACK));
    if cell.inverse() {
        std::mem::swap(&mut text, &mut back);
    }
    let contents = if cell.has_contents() { cell.contents().to_owned() } else { " ".to_owned() };
    (Paint { text, back, bold: cell.bold() }, contents)
}

/// Cells of one row that are painted alike.
fn painted(x: f64, y: f64, width: f64, paint: &Paint, text: &str) -> String {
    let mut svg = String::new();
    let Paint { text: colour, back, bold } = paint;
    if back != BACK {
        svg += &format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{back}\"/>\n",
            CELL.1
        );
    }
    if !text.trim().is_empty() {
        let bold = if *bold { " font-weight=\"bold\"" } else { "" };
        svg += &format!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{colour}\"{bold} textLength=\"{width:.1}\" xml:space=\"preserve\">{}</text>\n",
            y + CELL.1 * 0.75,
            escaped(text)
        );
    }
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU16;

    #[test]
    fn a_screen_becomes_texts_with_its_colours() {
        let size = |n| NonZeroU16::new(n).unwrap();
        let mut parser = Parser::new(size(2), size(20), 0);
        parser.process(b"a<b \x1b[31mred\x1b[0m\r\n\x1b[7mbar\x1b[0m \x1b[1mbold");
        let svg = svg(&parser, "a & b");
        for wanted in [
            "<title>a &amp; b</title>",
            ">a&lt;b </text>",
            "fill=\"#e06c75\" textLength=\"25.2\" xml:space=\"preserve\">red</text>",
            "height=\"18\" fill=\"#d7dae0\"/>",
            "font-weight=\"bold\"",
        ] {
            assert!(svg.contains(wanted), "{wanted}\n{svg}");
        }
        assert!(!svg.contains("\x1b") && svg.ends_with("</svg>\n"));
    }
}
