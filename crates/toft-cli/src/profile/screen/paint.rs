//! How [`Screen`] looks: its table, the site that is looked into, and the lines above and below. Of terminals it knows
//! nothing but their size.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row as Cells, Table, TableState};
use toft_profile::{Row, Share};

use super::{Screen, Sort};
use crate::style::{bytes, count, duration, fit, plain};

impl Screen {
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

pub(in crate::profile) fn right(text: String) -> Cell<'static> {
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
