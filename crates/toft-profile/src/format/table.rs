//! A table for a terminal: right-aligned figures, and a text that ends each line.

use super::units::fit;

/// The least columns of the text, on a terminal that is too narrow for the table.
const TEXT_LEAST: usize = 24;

/// The columns of figures, and the width of a line.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(&'static str, usize)>,
    width: usize,
    indent: usize,
    gap: usize,
    text_least: usize,
}

impl Table {
    /// Creates a table with these columns, by name and width, in lines of `width` columns.
    pub fn new(columns: &[(&'static str, usize)], width: usize) -> Table {
        Table { columns: columns.to_vec(), width, indent: 2, gap: 2, text_least: TEXT_LEAST }
    }

    /// Cuts the text, however short it becomes, so that no line exceeds the width.
    pub fn cut(self) -> Table {
        Table { text_least: 0, ..self }
    }

    /// Puts the columns closer together, to leave more room for the text.
    pub fn narrow(self) -> Table {
        Table { indent: 0, gap: 1, ..self }
    }

    /// Returns the head, with this title over the text.
    pub fn head(&self, title: &str) -> String {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        fit(&format!("{}{title}", self.figures(&names)), self.width)
    }

    /// Returns a line with a figure for each column.
    pub fn line(&self, figures: &[String], text: &str) -> String {
        format!("{}{}", self.figures(figures), fit(text, self.room()))
    }

    /// Returns a line that continues the text of the line above.
    pub fn below(&self, text: &str) -> String {
        format!("{:1$}{2}", "", self.text_starts(), fit(text, self.room()))
    }

    fn figures(&self, figures: &[String]) -> String {
        let mut line = " ".repeat(self.indent);
        for (number, (figure, (_, width))) in figures.iter().zip(&self.columns).enumerate() {
            let gap = if number == 0 { 0 } else { self.gap };
            line += &format!("{:gap$}{figure:>width$}", "");
        }
        line + "  "
    }

    fn text_starts(&self) -> usize {
        let widths: usize = self.columns.iter().map(|(_, width)| width).sum();
        self.indent + widths + self.gap * self.columns.len().saturating_sub(1) + 2
    }

    fn room(&self) -> usize {
        self.width.saturating_sub(self.text_starts()).max(self.text_least)
    }
}
