//! What `toft top` shows, and what its keys change. It knows nothing of terminals but their size.

use std::collections::HashMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row as Cells, Table, TableState};
use toft_profile::{Diff, Owner, Profile, Row, Share};

use super::owned::Owned;
use crate::style::{bytes, count, duration, fit, plain};

/// What the table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Live,
    Rate,
    Calls,
    Growth,
    Blocks,
    Name,
}

const SORTS: [Sort; 6] =
    [Sort::Live, Sort::Rate, Sort::Calls, Sort::Growth, Sort::Blocks, Sort::Name];

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Item {
    row: Row,
    name: String,
    /// Bytes and blocks that were allocated a second since the last look.
    rate: f64,
    calls: f64,
    /// Seconds that its blocks live on average, by Little's law since the last look.
    life: Option<f64>,
    /// Bytes since the beginning.
    growth: i128,
}

/// Everything that is shown.
pub struct Screen {
    now: Profile,
    threads: usize,
    /// What growth is counted from.
    first: Profile,
    items: Vec<Item>,
    /// Bytes that live memory has grown by a second; bytes and blocks that were allocated in it.
    all_rate: [f64; 3],
    sort: Sort,
    turned: bool,
    filter: String,
    typing: Option<String>,
    /// The name of the chosen line, so that it stays chosen when lines move.
    chosen: Option<String>,
    /// The site that is looked into.
    inside: Option<String>,
    held: bool,
    /// By thread, in place of call sites.
    owned: Option<Owned>,
}

impl Screen {
    /// The first look.
    pub fn new(now: Profile, threads: usize) -> Screen {
        let mut screen = Screen {
            first: now.clone(),
            now,
            threads,
            items: Vec::new(),
            all_rate: [0.0; 3],
            sort: Sort::Live,
            turned: false,
            filter: String::new(),
            typing: None,
            chosen: None,
            inside: None,
            held: false,
            owned: None,
        };
        screen.list(None);
        screen
    }

    /// Shows threads in place of call sites, or these again.
    pub fn turn_to_threads(&mut self) {
        self.owned = if self.owned.is_some() { None } else { Some(Owned::default()) };
    }

    /// Whether threads are shown.
    pub fn wants_owners(&self) -> bool {
        self.owned.is_some()
    }

    /// What they own now.
    pub fn show_owners(&mut self, owners: Vec<Owner>) {
        if let Some(owned) = &mut self.owned {
            owned.show(owners);
        }
    }

    /// A later look, so many seconds after the last.
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
            changes.insert(change.row.stack(), change.bytes());
        }
        let mut had = HashMap::new();
        if let Some((diff, seconds)) = &since {
            for change in &diff.changes {
                let (blocks, bytes) = change.had;
                let life = change.lifetime(*seconds);
                had.insert(
                    change.row.stack(),
                    (bytes as f64 / seconds, blocks as f64 / seconds, life),
                );
            }
            let rates = [diff.bytes as f64, diff.had.1 as f64, diff.had.0 as f64];
            self.all_rate = rates.map(|rate| rate / seconds);
        }
        self.items = self
            .now
            .by_place()
            .into_iter()
            .map(|row| {
                let stack = row.stack();
                let (rate, calls, life) = had.get(&stack).copied().unwrap_or((0.0, 0.0, None));
                let growth = changes.get(&stack).copied().unwrap_or(0);
                Item { name: row.place(), rate, calls, life, growth, row }
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
        if self.turned {
            self.items.reverse();
        }
    }

    /// The lines that are not filtered out.
    pub fn shown(&self) -> Vec<&Item> {
        let wanted = self.typing.as_ref().unwrap_or(&self.filter).to_lowercase();
        let fits = |item: &&Item| {
            wanted.is_empty()
                || item.name.to_lowercase().contains(&wanted)
                || item.row.module_name().to_lowercase().contains(&wanted)
        };
        self.items.iter().filter(fits).collect()
    }

    fn place(&self) -> usize {
        let shown = self.shown();
        let chosen = self.chosen.as_ref();
        shown.iter().position(|item| Some(&item.name) == chosen).unwrap_or(0)
    }

    /// Chooses a line further down, or up.
    pub fn step(&mut self, lines: isize) {
        if let Some(owned) = &mut self.owned {
            return owned.step(lines);
        }
        let last = self.shown().len().saturating_sub(1);
        let place = self.place().saturating_add_signed(lines).min(last);
        self.chosen = self.shown().get(place).map(|item| item.name.clone());
    }

    /// Looks into the chosen site.
    pub fn into(&mut self) {
        if self.wants_owners() {
            return;
        }
        self.inside = self.shown().get(self.place()).map(|item| item.name.clone());
        self.chosen.clone_from(&self.inside);
    }

    /// Goes back; says whether there was anything to go back from.
    pub fn back(&mut self) -> bool {
        if self.owned.take().is_some() {
            return true;
        }
        let had = self.inside.take().is_some();
        had || !std::mem::take(&mut self.filter).is_empty()
    }

    /// By the next column.
    pub fn sort_next(&mut self) {
        let at = SORTS.iter().position(|&sort| sort == self.sort).unwrap_or(0);
        self.sort = SORTS[(at + 1) % SORTS.len()];
        self.order();
    }

    /// In the other order.
    pub fn turn(&mut self) {
        self.turned = !self.turned;
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

    /// Nothing changes any more, or again.
    pub fn hold(&mut self) {
        self.held = !self.held;
    }

    /// Whether nothing changes.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Letters go into the filter.
    pub fn begin_typing(&mut self) {
        self.typing = Some(String::new());
    }

    /// Whether they do.
    pub fn is_typing(&self) -> bool {
        self.typing.is_some()
    }

    /// A letter.
    pub fn type_letter(&mut self, letter: char) {
        self.typing.get_or_insert_default().push(letter);
    }

    /// The last letter goes.
    pub fn untype(&mut self) {
        self.typing.get_or_insert_default().pop();
    }

    /// The filter is complete; or it is as it was.
    pub fn end_typing(&mut self, keep: bool) {
        if let Some(typed) = self.typing.take()
            && keep
        {
            self.filter = typed;
        }
    }

    /// Memory in one line, and in another what is shown of it.
    fn head(&self) -> [String; 3] {
        let now = &self.now;
        let resident = now.resident.unwrap_or(0);
        let over = match now.bytes {
            0 => String::new(),
            live => format!(" ({:.2} x live)", resident as f64 / live as f64),
        };
        let held = if self.held { "  HELD" } else { "" };
        [
            format!(
                "{} ({})  {} threads  Toft {}{held}",
                now.pid,
                plain(&now.name),
                self.threads,
                now.toft
            ),
            format!(
                "live {} in {} blocks  {}/s  RSS {}{over}",
                bytes(now.bytes),
                count(now.objects),
                signed(self.all_rate[0]),
                bytes(resident)
            ),
            format!(
                "allocated {}/s, {} calls/s; {} blocks ever",
                bytes(self.all_rate[1].round() as u64),
                count(self.all_rate[2].round() as u64),
                count(now.allocations)
            ),
        ]
    }

    fn foot(&self) -> String {
        match &self.typing {
            Some(typed) => format!("keep sites with: {typed}_   Enter keeps, Esc leaves it"),
            None if self.owned.is_some() => {
                "Esc call sites  z growth from now  space hold  q end".into()
            }
            None if self.inside.is_some() => "Esc back  q end".into(),
            None => {
                let filter = match self.filter.as_str() {
                    "" => "/ filter".to_owned(),
                    filter => format!("/{filter} (Esc: all)"),
                };
                format!(
                    "Enter into  s sort  r turn  {filter}  t threads  z from now  space hold  q end"
                )
            }
        }
    }
}

pub(super) fn signed(value: f64) -> String {
    let sign = if value >= 0.5 {
        "+"
    } else if value <= -0.5 {
        "-"
    } else {
        ""
    };
    format!("{sign}{}", bytes(value.abs().round() as u64))
}

/// Columns of the table's figures: with what stands between them they leave 25 of 80 for the call site.
const WIDTHS: [u16; 5] = [10, 10, 10, 11, 9];

/// Paints everything.
pub fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(4), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    let [first, second, third] = screen.head();
    let lines = vec![Line::from(first).bold(), Line::from(second), Line::from(third)];
    frame.render_widget(Paragraph::new(lines), head);
    let foot_text = fit(&screen.foot(), foot.width.into());
    frame.render_widget(Paragraph::new(foot_text).dim(), foot);
    if let Some(owned) = &screen.owned {
        return owned.draw(frame, body);
    }
    if let Some(name) = &screen.inside {
        frame.render_widget(Paragraph::new(inside(screen, name, body.width.into())), body);
        return;
    }
    let shown = screen.shown();
    let room = usize::from(body.width)
        .saturating_sub(WIDTHS.iter().map(|&width| usize::from(width) + 1).sum())
        .max(20);
    let lines = shown.iter().map(|item| {
        let mark = if item.row.share == Share::Shared { "~" } else { "" };
        Cells::new([
            right(bytes(item.row.bytes)),
            right(bytes(item.rate.round() as u64)),
            right(count(item.calls.round() as u64)),
            right(signed(item.growth as f64)),
            right(count(item.row.objects)),
            Cell::from(fit(&format!("{mark}{}", item.name), room)),
        ])
    });
    let title = |sort: Sort, text: &str| {
        let sorted = if sort == screen.sort { if screen.turned { "^" } else { "v" } } else { "" };
        if sorted.is_empty() { text.to_owned() } else { format!("{sorted} {text}") }
    };
    let heads = Cells::new([
        right(title(Sort::Live, "live")),
        right(title(Sort::Rate, "alloc/s")),
        right(title(Sort::Calls, "calls/s")),
        right(title(Sort::Growth, "growth")),
        right(title(Sort::Blocks, "blocks")),
        Cell::from(title(Sort::Name, "call site")),
    ]);
    let widths = WIDTHS.map(Constraint::Length).into_iter().chain([Constraint::Min(20)]);
    let table = Table::new(lines, widths)
        .header(heads.style(Style::new().add_modifier(Modifier::BOLD)))
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(screen.place()));
    frame.render_stateful_widget(table, body, &mut state);
}

pub(super) fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// A site: where it is, its rates, and its slots.
fn inside(screen: &Screen, name: &str, width: usize) -> Vec<Line<'static>> {
    let rows: Vec<&Row> = screen.now.rows.iter().filter(|row| row.place() == name).collect();
    let Some(row) = rows.first() else {
        return vec![Line::from(fit(name, width)).bold(), Line::from("has nothing live any more")];
    };
    let mut lines = vec![Line::from(fit(name, width)).bold()];
    lines.extend(row.inlined_into().map(|frame| Line::from(fit(&format!("  in {frame}"), width))));
    let module = row.module.as_deref().unwrap_or("no file");
    let offset = row.offset.map_or_else(String::new, |offset| format!("+{offset:#x}"));
    lines.push(Line::from(fit(&format!("  {module}{offset}"), width)).dim());
    let file = row.frames.first().and_then(|frame| Some((frame.file.as_ref()?, frame.line?)));
    if let Some((file, line)) = file {
        lines.push(Line::from(fit(&format!("  {file}:{line}"), width)).dim());
    }
    lines.push(Line::default());
    let sum = |of: fn(&Row) -> u64| rows.iter().map(|row| of(row)).sum::<u64>();
    let ever = format!(
        "  {} blocks of {} ever, {} of them freed",
        count(sum(|row| row.allocations)),
        bytes(sum(|row| row.allocated)),
        count(sum(Row::frees))
    );
    lines.push(Line::from(fit(&ever, width)));
    if let Some(item) = screen.items.iter().find(|item| item.name == name) {
        let rate = format!(
            "  {}/s in {} calls/s; they live {} on average",
            bytes(item.rate.round() as u64),
            count(item.calls.round() as u64),
            item.life.map_or_else(|| "longer than one can see".to_owned(), duration)
        );
        lines.push(Line::from(fit(&rate, width)));
    }
    lines.push(Line::default());
    lines.push(
        Line::from(format!("{:>11} {:>11} {:>11}  partition", "live", "blocks", "slot")).bold(),
    );
    for row in rows {
        let slot = if row.size == 0 { "large".to_owned() } else { bytes(row.size) };
        let shared = match row.share {
            Share::Exact => "its own",
            Share::Alone => "no other site seen",
            Share::Shared => "shared with other sites",
        };
        lines.push(Line::from(format!(
            "{:>11} {:>11} {slot:>11}  {} ({shared})",
            bytes(row.bytes),
            count(row.objects),
            row.partition
        )));
    }
    lines
}
