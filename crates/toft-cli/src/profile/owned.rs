//! `toft top`'s other table: which thread owns how much, as it changes.

use std::collections::HashMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Cell, Row as Cells, Table, TableState};
use toft_profile::Owner;

use super::screen::{right, signed};
use crate::style::{bytes, count, fit};

/// Columns of the figures: with what stands between them they leave 22 of 80 for the thread.
const WIDTHS: [u16; 5] = [10, 11, 10, 11, 10];

/// What the table has.
#[derive(Debug, Default)]
pub struct Owned {
    owners: Vec<Owner>,
    /// Live bytes by heap that growth is counted from: none for a heap that was not there.
    first: HashMap<usize, u64>,
    place: usize,
}

impl Owned {
    /// A later look.
    pub fn show(&mut self, owners: Vec<Owner>) {
        if self.owners.is_empty() {
            self.first = owners.iter().map(|owner| (owner.heap, owner.live_bytes)).collect();
        }
        self.owners = owners;
    }

    /// Growth counts from here.
    pub fn count_from_now(&mut self) {
        self.first = self.owners.iter().map(|owner| (owner.heap, owner.live_bytes)).collect();
    }

    /// A line further down, or up.
    pub fn step(&mut self, lines: isize) {
        let last = self.owners.len().saturating_sub(1);
        self.place = self.place.min(last).saturating_add_signed(lines).min(last);
    }

    /// Paints it.
    pub fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let figures: usize = WIDTHS.iter().map(|&width| usize::from(width) + 1).sum();
        let room = usize::from(area.width).saturating_sub(figures).max(20);
        let lines = self.owners.iter().map(|owner| {
            let before = self.first.get(&owner.heap).copied().unwrap_or(0);
            Cells::new([
                right(bytes(owner.live_bytes)),
                right(signed(owner.live_bytes as f64 - before as f64)),
                right(bytes(owner.free_bytes)),
                right(bytes(owner.uncollected_bytes)),
                right(count(owner.live_blocks)),
                Cell::from(fit(&owner.words(), room)),
            ])
        });
        let heads = ["live", "growth", "free", "uncollected", "blocks"];
        let heads = heads.map(|text| right(text.to_owned()));
        let heads = Cells::new(heads.into_iter().chain([Cell::from("thread")]));
        let widths = WIDTHS.map(Constraint::Length).into_iter().chain([Constraint::Min(20)]);
        let table = Table::new(lines, widths)
            .header(heads.style(Style::new().add_modifier(Modifier::BOLD)))
            .column_spacing(1)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::new().with_selected(Some(self.place));
        frame.render_stateful_widget(table, area, &mut state);
    }
}
