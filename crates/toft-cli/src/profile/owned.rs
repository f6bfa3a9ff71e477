//! `toft top`'s other table: which thread owns how much, as it changes.

use std::collections::HashMap;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::widgets::TableState;
use toft_profile::Owner;

use super::screen::{cells, fitting, signed, table};
use crate::style::{bytes, count, fit};

/// Columns of the figures: with what stands between them they leave 22 of 80 for the thread.
const WIDTHS: [u16; 5] = [10, 11, 10, 11, 10];

/// Columns in the order in which they give way.
const GIVE_WAY: [usize; 4] = [3, 4, 1, 2];

#[derive(Debug, Default)]
pub struct Owned {
    owners: Vec<Owner>,
    /// Live bytes by heap that growth is counted from: none for a heap that was not there.
    first: HashMap<usize, u64>,
    selected: usize,
}

impl Owned {
    pub fn show(&mut self, owners: Vec<Owner>) {
        if self.owners.is_empty() {
            self.first =
                owners.iter().map(|owner| (owner.heap.heap, owner.heap.live_bytes)).collect();
        }
        self.owners = owners;
    }

    /// Growth counts from here.
    pub fn count_from_now(&mut self) {
        self.first =
            self.owners.iter().map(|owner| (owner.heap.heap, owner.heap.live_bytes)).collect();
    }

    pub fn move_selection(&mut self, lines: isize) {
        let last = self.owners.len().saturating_sub(1);
        self.selected = self.selected.min(last).saturating_add_signed(lines).min(last);
    }

    pub fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let (columns, room) = fitting(&WIDTHS, &GIVE_WAY, area.width);
        let lines = self.owners.iter().map(|owner| {
            let heap = &owner.heap;
            let before = self.first.get(&heap.heap).copied().unwrap_or(0);
            let figures = [
                bytes(heap.live_bytes),
                signed(heap.live_bytes as f64 - before as f64),
                bytes(heap.resident.free()),
                bytes(heap.uncollected_bytes),
                count(heap.live_blocks),
            ];
            cells(figures, &columns, fit(&owner.words(), room))
        });
        let heads = ["live", "growth", "free (RSS)", "uncollected", "blocks"].map(str::to_owned);
        let heads = cells(heads, &columns, "thread".into());
        let table = table(heads, lines, columns.iter().map(|&column| WIDTHS[column]));
        let mut state = TableState::new().with_selected(Some(self.selected));
        frame.render_stateful_widget(table, area, &mut state);
    }
}
