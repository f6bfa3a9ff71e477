//! How [`Screen`] looks: its table, the details of a site, and the lines above and below. Of
//! terminals it knows nothing but their size.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row as Cells, Table, TableState};
use toft_profile::format::callers;
use toft_profile::{Row, Share};

use super::{Screen, Sort};
use crate::style::{bytes, count, duration, fit, fit_place, plain};

impl Screen {
    /// Memory in one line, and in another what is shown of it.
    fn head(&self) -> [String; 3] {
        let now = &self.now;
        let resident = now.resident.unwrap_or(0);
        let over = match now.bytes {
            0 => String::new(),
            live => format!(" ({:.2} x live)", resident as f64 / live as f64),
        };
        let paused = if self.paused { "  HELD" } else { "" };
        [
            format!(
                "{} ({})  {} threads  Toft {}{paused}",
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
            Some(typed) => format!("filter by name: {typed}_   Enter applies, Esc cancels"),
            None if self.helps => "Esc back  q quit".into(),
            None if self.owned.is_some() => {
                "? help  Esc call sites  z growth from now  space hold  q quit".into()
            }
            None if self.opened.is_some() => "? help  Esc back  q quit".into(),
            None => {
                let filter = match self.filter.as_str() {
                    "" => "/ filter".to_owned(),
                    filter => format!("/{filter} (Esc: all)"),
                };
                format!(
                    "? help  Enter open  s sort  {filter}  t threads  z from now  space hold  q quit"
                )
            }
        }
    }
}

pub(in crate::profile) fn signed(value: f64) -> String {
    let sign = if value >= 0.5 {
        "+"
    } else if value <= -0.5 {
        "-"
    } else {
        ""
    };
    format!("{sign}{}", bytes(value.abs().round() as u64))
}

/// Columns of the table's figures: with what stands between them they leave 25 of 80 for the call
/// site.
const WIDTHS: [u16; 5] = [10, 10, 10, 11, 9];

/// The least room for a name. Figures give way to it, and are never cut.
const NAME_LEAST: u16 = 20;

/// Which columns of figures fit beside a name, where those that `first` names go first; and the
/// room that is left for it.
pub(in crate::profile) fn fitting(
    widths: &[u16],
    first: &[usize],
    room: u16,
) -> (Vec<usize>, usize) {
    let mut kept: Vec<usize> = (0..widths.len()).collect();
    let taken = |kept: &[usize]| kept.iter().map(|&column| widths[column] + 1).sum::<u16>();
    for gone in first {
        if taken(&kept) + NAME_LEAST <= room {
            break;
        }
        kept.retain(|column| column != gone);
    }
    let left = room.saturating_sub(taken(&kept));
    (kept, left.into())
}

/// The keys, and what the columns mean.
const HELP: [&str; 18] = [
    "up, down, j, k   select a call site",
    "PgUp, PgDn       select one 15 lines away",
    "Enter, right     show the details of the selected call site",
    "Esc, left        return; Esc also removes the filter, and quits at last",
    "s                sort by the next column",
    "r                reverse the order",
    "/                filter call sites by name or file",
    "t                show memory by owner thread, or by call site again",
    "z                count growth from now",
    "space            hold the display, or continue",
    "?                show or hide this page",
    "q                quit",
    "",
    "live      bytes of live blocks",
    "alloc/s   bytes allocated in a second; calls/s: calls in a second",
    "growth    live bytes more than at the start, or at the last z",
    "blocks    live blocks",
    "~         several call sites share the partition: the first one is named",
];

/// Columns in the order in which they give way.
const GIVE_WAY: [usize; 4] = [2, 4, 1, 3];

pub fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(4), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    let [first, second, third] = screen.head();
    let [first, second, third] = [first, second, third].map(|line| fit(&line, head.width.into()));
    let lines = vec![Line::from(first).bold(), Line::from(second), Line::from(third)];
    frame.render_widget(Paragraph::new(lines), head);
    let foot_text = fit(&screen.foot(), foot.width.into());
    frame.render_widget(Paragraph::new(foot_text).dim(), foot);
    if screen.helps {
        let lines = HELP.iter().map(|line| Line::from(fit(line, body.width.into())));
        return frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), body);
    }
    if let Some(owned) = &screen.owned {
        return owned.draw(frame, body);
    }
    if let Some(name) = &screen.opened {
        frame.render_widget(Paragraph::new(details(screen, name, body.width.into())), body);
        return;
    }
    let shown = screen.shown();
    let (columns, room) = fitting(&WIDTHS, &GIVE_WAY, body.width);
    let lines = shown.iter().map(|item| {
        let mark = if item.row.share == Share::Shared { "~" } else { "" };
        let figures = [
            bytes(item.row.bytes),
            bytes(item.rate.round() as u64),
            count(item.calls.round() as u64),
            signed(item.growth as f64),
            count(item.row.objects),
        ];
        let name = fit_place(&item.name, room.saturating_sub(mark.len()));
        cells(figures, &columns, format!("{mark}{name}"))
    });
    let title = |sort: Sort, text: &str| {
        let sorted = if sort == screen.sort { if screen.reversed { "^" } else { "v" } } else { "" };
        if sorted.is_empty() { text.to_owned() } else { format!("{sorted} {text}") }
    };
    let heads = [
        title(Sort::Live, "live"),
        title(Sort::Rate, "alloc/s"),
        title(Sort::Calls, "calls/s"),
        title(Sort::Growth, "growth"),
        title(Sort::Blocks, "blocks"),
    ];
    let heads = cells(heads, &columns, title(Sort::Name, "call site"));
    let table = table(heads, lines, columns.iter().map(|&column| WIDTHS[column]));
    let mut state = TableState::new().with_selected(Some(screen.selected_line()));
    frame.render_stateful_widget(table, body, &mut state);
}

/// A line of a table: those figures that have a column, and a name.
pub(in crate::profile) fn cells(
    figures: [String; 5],
    columns: &[usize],
    name: String,
) -> Cells<'static> {
    let right = |&column: &usize| Cell::from(Line::from(figures[column].clone()).right_aligned());
    Cells::new(columns.iter().map(right).chain([Cell::from(name)]))
}

/// A table of columns of figures, and a name behind them.
pub(in crate::profile) fn table<'a>(
    heads: Cells<'a>,
    lines: impl IntoIterator<Item = Cells<'a>>,
    widths: impl Iterator<Item = u16>,
) -> Table<'a> {
    let widths = widths.map(Constraint::Length).chain([Constraint::Min(0)]);
    Table::new(lines, widths)
        .header(heads.style(Style::new().add_modifier(Modifier::BOLD)))
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

/// The details of a site: where it is, its rates, and its slots.
fn details(screen: &Screen, name: &str, width: usize) -> Vec<Line<'static>> {
    let key =
        screen.items.iter().find(|item| item.name == name).map(|item| item.row.location.key());
    let rows: Vec<&Row> =
        screen.now.rows.iter().filter(|row| Some(row.location.key()) == key).collect();
    let Some(row) = rows.first() else {
        return vec![
            Line::from(fit(name, width)).bold(),
            Line::from("has no live blocks any more"),
        ];
    };
    let mut lines = vec![Line::from(fit(name, width)).bold()];
    let frames = row.location.frames.iter().map(|frame| format!("  < {}", frame.words()));
    lines.extend(frames.map(|frame| Line::from(fit(&frame, width))));
    let module = row.location.module.as_deref().unwrap_or("no file");
    let offset = row.location.offset.map_or_else(String::new, |offset| format!("+{offset:#x}"));
    let callers = callers(&screen.now, row);
    lines.extend(callers.iter().map(|text| Line::from(fit(&format!("  {text}"), width))));
    lines.push(Line::from(fit(&format!("  {module}{offset}"), width)).dim());
    let label = row.location.label();
    if let Some((file, line)) = label.and_then(|label| Some((label.file?, label.line?))) {
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
            item.life.map_or_else(|| "longer than can be measured".to_owned(), duration)
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
        let line = format!(
            "{:>11} {:>11} {slot:>11}  {} ({shared})",
            bytes(row.bytes),
            count(row.objects),
            row.partition
        );
        lines.push(Line::from(fit(&line, width)));
    }
    lines
}
