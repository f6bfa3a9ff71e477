//! A table, which is drawn for a terminal, in Markdown, or in HTML.

use comfy_table::{Attribute, CellAlignment, Table, presets};
use maud::{Markup, html};
use std::fmt;

/// A cell that stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The best of its row.
    Best,
    /// Worse than it should be.
    Loss,
}

/// The text of a cell. What stands between `**` is bold in Markdown and in HTML.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    mark: Option<Mark>,
}

impl Cell {
    pub fn marked(text: String, mark: Option<Mark>) -> Self {
        Self { text, mark }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, mark: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// A head and rows of as many cells.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The number of the first columns that hold words. The others hold figures.
    words: usize,
    head: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
}

impl Grid {
    pub fn new(words: usize, head: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        Self { words, head: cells(head), rows: Vec::new() }
    }

    pub fn push(&mut self, row: impl IntoIterator<Item = impl Into<Cell>>) {
        self.rows.push(cells(row));
    }

    /// The lines of a Markdown table.
    pub fn markdown(&self) -> String {
        let line = |cells: &Vec<Cell>| {
            let cell = |cell: &Cell| match cell.text.as_str() {
                "" => " |".to_owned(),
                text => format!(" {} |", text.replace('|', "\\|")),
            };
            format!("|{}\n", cells.iter().map(cell).collect::<String>())
        };
        let rule = format!("|{}\n", "---|".repeat(self.head.len()));
        line(&self.head) + &rule + &self.rows.iter().map(line).collect::<String>()
    }

    /// A table that a click on the head of a column sorts.
    pub fn html(&self) -> Markup {
        let class = |column: usize, cell: &Cell| match cell.mark {
            Some(Mark::Best) => Some("best"),
            Some(Mark::Loss) => Some("loss"),
            None => (column < self.words).then_some("text"),
        };
        html! {
            div.scroll tabindex="0" {
                table.sortable {
                    thead {
                        tr {
                            @for (column, cell) in self.head.iter().enumerate() {
                                th class=[class(column, cell)] scope="col" { (bold(&cell.text)) }
                            }
                        }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (column, cell) in row.iter().enumerate() {
                                    td class=[class(column, cell)] { (bold(&cell.text)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// For a terminal.
impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let drawn = |cell: &Cell| {
            let drawn = comfy_table::Cell::new(&cell.text);
            match cell.mark {
                Some(Mark::Best) => drawn.add_attribute(Attribute::Bold),
                Some(Mark::Loss) => drawn.add_attribute(Attribute::Underlined),
                None => drawn,
            }
        };
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(self.head.iter().map(drawn));
        for row in &self.rows {
            table.add_row(row.iter().map(drawn));
        }
        for column in table.column_iter_mut().skip(self.words) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        write!(f, "{table}")
    }
}

fn cells(texts: impl IntoIterator<Item = impl Into<Cell>>) -> Vec<Cell> {
    texts.into_iter().map(Into::into).collect()
}

fn bold(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split("**").enumerate() {
            @if at % 2 == 1 { b { (part) } } @else { (part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_drawn_in_three_ways() {
        let mut grid = Grid::new(1, ["", "**a**"]);
        grid.push([Cell::from("x|<y>"), Cell::marked("12".to_owned(), Some(Mark::Best))]);
        assert_eq!(grid.markdown(), "| | **a** |\n|---|---|\n| x\\|<y> | 12 |\n");
        let drawn = grid.html().into_string();
        for part in ["<b>a</b>", r#"<td class="text">x|&lt;y&gt;</td>"#, r#"class="best">12<"#] {
            assert!(drawn.contains(part), "{part} is not in {drawn}");
        }
        let drawn = grid.to_string();
        assert!(drawn.contains("| x|<y> |") && drawn.contains("    12 |"), "{drawn}");
    }
}
