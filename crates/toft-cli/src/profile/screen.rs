//! What `toft top` shows, and what its keys change. It knows nothing of terminals;
//! `screen/paint.rs` is how it looks.

mod paint;

use std::collections::HashMap;

use toft_profile::{Diff, Location, Owner, Profile, Row};

use super::owned::Owned;

pub use paint::draw;
pub(super) use paint::{cells, fitting, signed, table};

/// What the table is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Live,
    Rate,
    Calls,
    Growth,
    Blocks,
    Name,
}

const SORTS: [Sort; 6] =
    [Sort::Live, Sort::Rate, Sort::Calls, Sort::Growth, Sort::Blocks, Sort::Name];

#[derive(Clone, Debug)]
pub struct Item {
    row: Row,
    name: String,
    /// Bytes and blocks that were allocated a second since the last reading.
    rate: f64,
    calls: f64,
    /// Seconds that its blocks live on average, by Little's law since the last reading.
    life: Option<f64>,
    /// Bytes since the beginning.
    growth: i128,
}

#[derive(Default)]
pub struct Screen {
    now: Profile,
    threads: usize,
    /// What growth is counted from.
    first: Profile,
    items: Vec<Item>,
    /// Bytes that live memory has grown by a second; bytes and blocks that were allocated in it.
    all_rate: [f64; 3],
    sort: Sort,
    reversed: bool,
    filter: String,
    typing: Option<String>,
    /// The name of the selected line, so that it stays selected when lines move.
    selected: Option<String>,
    /// The site whose details are shown.
    opened: Option<String>,
    paused: bool,
    /// The keys are shown in place of everything else.
    helps: bool,
    /// By thread, in place of call sites.
    owned: Option<Owned>,
}

impl Screen {
    pub fn new(now: Profile, threads: usize) -> Screen {
        let mut screen = Screen { first: now.clone(), now, threads, ..Screen::default() };
        screen.list(None);
        screen
    }

    /// Shows threads in place of call sites, or these again.
    pub fn toggle_threads(&mut self) {
        self.owned = if self.owned.is_some() { None } else { Some(Owned::default()) };
    }

    pub fn shows_threads(&self) -> bool {
        self.owned.is_some()
    }

    pub fn show_owners(&mut self, owners: Vec<Owner>) {
        if let Some(owned) = &mut self.owned {
            owned.show(owners);
        }
    }

    /// Shows a later reading, `seconds` after the last.
    pub fn show(&mut self, now: Profile, threads: usize, seconds: f64) {
        let before = std::mem::replace(&mut self.now, now);
        self.threads = threads;
        self.list(Some((&before, seconds)));
    }

    fn list(&mut self, before: Option<(&Profile, f64)>) {
        let growth = Diff::of(&self.first, &self.now);
        let since = before.map(|(before, seconds)| (Diff::of(before, &self.now), seconds));
        let mut changes = HashMap::new();
        for change in &growth.changes {
            changes.insert(change.row.location.key(), change.bytes());
        }
        let mut had = HashMap::new();
        if let Some((diff, seconds)) = &since {
            for change in &diff.changes {
                let (blocks, bytes) = change.had;
                let life = change.lifetime(*seconds);
                had.insert(
                    change.row.location.key(),
                    (bytes as f64 / seconds, blocks as f64 / seconds, life),
                );
            }
            let rates = [diff.bytes as f64, diff.had.1 as f64, diff.had.0 as f64];
            self.all_rate = rates.map(|rate| rate / seconds);
        }
        let rows = self.now.by_place();
        let names = Location::places(rows.iter().map(|row| &row.location));
        self.items = rows
            .into_iter()
            .zip(names)
            .map(|(row, name)| {
                let key = row.location.key();
                let (rate, calls, life) = had.get(&key).copied().unwrap_or((0.0, 0.0, None));
                let growth = changes.get(&key).copied().unwrap_or(0);
                Item { name, rate, calls, life, growth, row }
            })
            .collect();
        self.order();
    }

    fn order(&mut self) {
        let sort = self.sort;
        self.items.sort_by(|a, b| {
            let order = match sort {
                Sort::Live => b.row.bytes.cmp(&a.row.bytes),
                Sort::Rate => b.rate.total_cmp(&a.rate),
                Sort::Calls => b.calls.total_cmp(&a.calls),
                Sort::Growth => b.growth.cmp(&a.growth),
                Sort::Blocks => b.row.objects.cmp(&a.row.objects),
                Sort::Name => a.name.cmp(&b.name),
            };
            order.then_with(|| b.row.bytes.cmp(&a.row.bytes)).then_with(|| a.name.cmp(&b.name))
        });
        if self.reversed {
            self.items.reverse();
        }
    }

    /// The lines that are not filtered out.
    pub fn shown(&self) -> Vec<&Item> {
        let wanted = self.typing.as_ref().unwrap_or(&self.filter).to_lowercase();
        let fits = |item: &&Item| {
            wanted.is_empty()
                || item.name.to_lowercase().contains(&wanted)
                || item.row.location.module_name().to_lowercase().contains(&wanted)
        };
        self.items.iter().filter(fits).collect()
    }

    fn selected_line(&self) -> usize {
        let shown = self.shown();
        let selected = self.selected.as_ref();
        shown.iter().position(|item| Some(&item.name) == selected).unwrap_or(0)
    }

    /// Chooses a line further down, or up.
    pub fn move_selection(&mut self, lines: isize) {
        if let Some(owned) = &mut self.owned {
            return owned.move_selection(lines);
        }
        let last = self.shown().len().saturating_sub(1);
        let place = self.selected_line().saturating_add_signed(lines).min(last);
        self.selected = self.shown().get(place).map(|item| item.name.clone());
    }

    /// Opens the details of the selected site.
    pub fn open(&mut self) {
        if self.shows_threads() {
            return;
        }
        self.opened = self.shown().get(self.selected_line()).map(|item| item.name.clone());
        self.selected.clone_from(&self.opened);
    }

    /// Shows the keys, or what was there before.
    pub fn toggle_help(&mut self) {
        self.helps = !self.helps;
    }

    pub fn shows_help(&self) -> bool {
        self.helps
    }

    /// Leaves the innermost view or the filter; returns true if there was one.
    pub fn back(&mut self) -> bool {
        if std::mem::take(&mut self.helps) {
            return true;
        }
        if self.owned.take().is_some() {
            return true;
        }
        let had = self.opened.take().is_some();
        had || !std::mem::take(&mut self.filter).is_empty()
    }

    pub fn sort_next(&mut self) {
        let at = SORTS.iter().position(|&sort| sort == self.sort).unwrap_or(0);
        self.sort = SORTS[(at + 1) % SORTS.len()];
        self.order();
    }

    pub fn reverse(&mut self) {
        self.reversed = !self.reversed;
        self.order();
    }

    /// Growth counts from here.
    pub fn count_from_now(&mut self) {
        self.first = self.now.clone();
        if let Some(owned) = &mut self.owned {
            owned.count_from_now();
        }
        self.items.iter_mut().for_each(|item| item.growth = 0);
        self.order();
    }

    /// Stops updates, or continues them.
    pub fn toggle_pause(&mut self) {
        self.paused = !self.paused;
    }

    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Starts the input of a filter.
    pub fn begin_typing(&mut self) {
        self.typing = Some(String::new());
    }

    pub fn is_typing(&self) -> bool {
        self.typing.is_some()
    }

    pub fn type_letter(&mut self, letter: char) {
        self.typing.get_or_insert_default().push(letter);
    }

    pub fn delete_letter(&mut self) {
        self.typing.get_or_insert_default().pop();
    }

    /// Applies the typed filter, or discards it.
    pub fn finish_typing(&mut self, keep: bool) {
        if let Some(typed) = self.typing.take()
            && keep
        {
            self.filter = typed;
        }
    }
}
