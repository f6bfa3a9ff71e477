//! A table of call sites for a terminal: the largest first, one or two lines each.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::units::{bytes, count, duration, fit, plain};
use super::{CALLERS, Table};
use crate::{Change, Diff, Location, Profile, Row, Sampled, SampledStack, Share, StackChange};

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Columns of a line.
    pub width: usize,
    /// Rows; 0 for all.
    pub top: usize,
    /// Whether all functions at a site are shown, with their whole names.
    pub full: bool,
}

impl Shown {
    /// Returns how many of `all` rows are shown.
    fn most(&self, all: usize) -> usize {
        if self.top == 0 { all } else { self.top.min(all) }
    }
}

impl Default for Shown {
    fn default() -> Shown {
        Shown { width: usize::MAX, top: 0, full: false }
    }
}

/// Returns the page of a profile.
pub fn text(profile: &Profile, shown: &Shown) -> String {
    let mut page = String::new();
    let resident = profile
        .resident
        .map_or_else(String::new, |bytes| format!(", {} resident", self::bytes(bytes)));
    let _ = writeln!(page, "{}", fit(&format!("{}{resident}", profile.title()), shown.width));
    let mut rows = profile.by_place();
    rows.retain(|row| row.bytes > 0);
    let sites = profile.sites_by_place();
    let sites_of = |rows: &[Row]| rows.iter().map(|row| sites[&row.location.key()]).sum();
    let _ = writeln!(
        page,
        "{} live in {} blocks, from {} call sites{}\n",
        bytes(profile.bytes),
        count(profile.objects),
        count(sites_of(&rows)),
        ever(profile)
    );
    // If the process was read twice, lifetimes take the place of the sizes of slots.
    let twice = profile.rows.iter().any(|row| row.recent.is_some());
    let last = if twice { "lives" } else { "slot" };
    let columns = [("live", 10), ("share", 6), ("blocks", 11), ("ever", 11), (last, 8)];
    let table = Table::new(&columns, shown.width);
    if !rows.is_empty() {
        let _ = writeln!(page, "{}", table.head(" call site"));
    }
    let places = Location::places(rows.iter().map(|row| &row.location));
    let (listed, others) = rows.split_at(shown.most(rows.len()));
    for (row, place) in listed.iter().zip(places) {
        let last = match row.size {
            _ if twice => row.lifetime().map_or_else(|| "unknown".to_owned(), duration),
            0 => "-".to_owned(),
            size => bytes(size),
        };
        let ever = if profile.allocations > 0 { count(row.allocations) } else { "-".to_owned() };
        let share = share(row.bytes, profile.bytes);
        let figures = [bytes(row.bytes), share, count(row.objects), ever, last];
        let mark = if row.share == Share::Shared { '~' } else { ' ' };
        let number = sites[&row.location.key()];
        let joined = match number {
            1 => String::new(),
            sites => format!(" ({} call sites)", count(sites)),
        };
        let _ = writeln!(page, "{}", table.line(&figures, &format!("{mark}{place}{joined}")));
        below(&mut page, &table, profile, (row, number), shown);
    }
    if !others.is_empty() {
        let rest: u64 = others.iter().map(|row| row.bytes).sum();
        let _ = writeln!(
            page,
            "  {:>10}  {:>6}  and {} more call sites: --top 0 shows all",
            bytes(rest),
            share(rest, profile.bytes),
            count(sites_of(others))
        );
    }
    if let Some(sampled) = &profile.sampled {
        stacks(&mut page, sampled, shown);
    }
    for note in notes(profile) {
        let _ = writeln!(page, "\n{note}");
    }
    page
}

/// The functions of each call site of a row, if all are shown, and the callers of library code.
fn below(
    page: &mut String,
    table: &Table,
    profile: &Profile,
    (row, sites): (&Row, u64),
    shown: &Shown,
) {
    let mut frames = Vec::new();
    if shown.full {
        let (key, mut known) = (row.location.key(), HashSet::new());
        let live =
            profile.rows.iter().filter(|other| other.bytes > 0 || other.location == row.location);
        let all = live.map(|other| &other.location).filter(|location| location.key() == key);
        for location in all.filter(|location| known.insert(location.site)) {
            if sites > 1 {
                frames.push(format!("call site {}", location.address()));
            }
            frames.extend(location.frames.iter().map(|frame| format!("< {}", frame.words())));
        }
    }
    for text in frames.into_iter().chain(callers(profile, row)) {
        let _ = writeln!(page, "{}", table.below(&format!(" {text}")));
    }
}

/// The callers of library code, with their shares: estimates from sampled stacks.
pub fn callers(profile: &Profile, row: &Row) -> Vec<String> {
    let callers = profile.callers(row).into_iter().take(CALLERS);
    callers
        .map(|(caller, part)| format!("about {} from {caller}", share(part, row.bytes)))
        .collect()
}

/// The sampled stacks, each named by its function of the program.
fn stacks(page: &mut String, sampled: &Sampled, shown: &Shown) {
    let all = sampled.sum(|stack| stack.bytes);
    let about = format!("\nsampled stacks: {}", sampled.about()).replace("; ", "\n");
    let _ = writeln!(page, "{about}");
    let live: Vec<_> = sampled.stacks.iter().filter(|stack| stack.bytes > 0).collect();
    if live.is_empty() {
        return;
    }
    let columns = [("about", 10), ("share", 6), ("blocks", 11), ("ever", 11), ("samples", 8)];
    let table = Table::new(&columns, shown.width);
    let _ = writeln!(page, "\n{}", table.head(" stack"));
    let (listed, others) = live.split_at(shown.most(live.len()));
    for stack in listed {
        let figures = [
            bytes(stack.bytes),
            share(stack.bytes, all),
            count(stack.objects),
            count(stack.allocations),
            count(stack.live_samples),
        ];
        stack_lines(page, &table, (&figures, stack), shown);
    }
    more(page, others.len(), "stacks");
}

/// The lines of a stack: its function of the program first, then what that calls, then its callers.
fn stack_lines(
    page: &mut String,
    table: &Table,
    (figures, stack): (&[String], &SampledStack),
    shown: &Shown,
) {
    let (at, mut words) = match shown.full {
        true => (stack.label().map_or(0, |(at, _)| at), stack.words()),
        false => stack.lines(),
    };
    words.extend(stack.truncated.then(|| "(truncated)".into()));
    let (inner, outer) = words.split_at(at.min(words.len()));
    let first = outer.first().map_or("", String::as_str);
    let _ = writeln!(page, "{}", table.line(figures, &format!(" {first}")));
    let called = inner.iter().rev().map(|word| format!(" > {word}"));
    for text in called.chain(outer.iter().skip(1).map(|word| format!(" < {word}"))) {
        let _ = writeln!(page, "{}", table.below(&text));
    }
}

/// The sampled stacks that have changed.
fn changed_stacks(page: &mut String, before: &Profile, after: &Profile, shown: &Shown) {
    let Some(sampled) = after.sampled.as_ref().or(before.sampled.as_ref()) else { return };
    let changes = StackChange::between(before, after);
    if changes.is_empty() {
        return;
    }
    let about = format!("\nsampled stacks: {}", sampled.about()).replace("; ", "\n");
    let _ = writeln!(page, "{about}");
    let columns = [("growth", 11), ("before", 10), ("after", 10), ("blocks", 11)];
    let table = Table::new(&columns, shown.width);
    let _ = writeln!(page, "\n{}", table.head(" stack"));
    let (listed, others) = changes.split_at(shown.most(changes.len()));
    for change in listed {
        let figures = [
            signed_bytes(change.bytes()),
            bytes(change.before.0),
            bytes(change.after.0),
            signed_count(change.objects()),
        ];
        stack_lines(page, &table, (&figures, &change.stack), shown);
    }
    more(page, others.len(), "stacks");
}

fn more(page: &mut String, others: usize, what: &str) {
    if others > 0 {
        let others = count(others as u64);
        let _ = writeln!(page, "  and {others} more {what}: --top 0 shows all");
    }
}

/// What there was beside what lives.
fn ever(profile: &Profile) -> String {
    match profile.allocations {
        0 => String::new(),
        all => format!("; {} blocks of {} ever", count(all), bytes(profile.allocated)),
    }
}

/// What is to be known before it is believed.
fn notes(profile: &Profile) -> Vec<String> {
    let mut notes: Vec<String> = profile.notes.iter().map(|note| plain(note)).collect();
    let shared = profile.shared_bytes();
    if shared > 0 {
        let advice = match profile.partitions {
            4096.. => "",
            _ => " TOFT_PARTITIONS=4096 tells nearly all apart.",
        };
        notes.push(format!(
            "~ marks {} in partitions that several call sites share ({} partitions): the site named is \
             the\n  first that drew from the slab, and part of it may be another's.{advice}",
            bytes(shared),
            profile.partitions
        ));
    }
    if profile.doubts > 0 {
        notes.push(format!("{} descriptors made no sense and are left out", count(profile.doubts)));
    }
    notes
}

/// Returns a part in percent: `12.3%`.
pub fn share(part: u64, whole: u64) -> String {
    format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64)
}

/// What has changed between two profiles, for a terminal. `diff` is of these.
pub fn diff_text(diff: &Diff, before: &Profile, after: &Profile, shown: &Shown) -> String {
    let mut page = String::new();
    let changes: Vec<&Change> = diff.changes.iter().filter(|change| change.is_growth()).collect();
    let sites = changes.len();
    let _ = writeln!(
        page,
        "{} live, {} blocks, at {} call sites{}\n",
        signed_bytes(diff.bytes),
        signed_count(diff.objects),
        count(sites as u64),
        match diff.had {
            (0, _) => String::new(),
            (had, size) =>
                format!("; {} blocks of {} allocated meanwhile", count(had), bytes(size)),
        }
    );
    let columns = [("growth", 11), ("before", 10), ("after", 10), ("blocks", 11)];
    let table = Table::new(&columns, shown.width);
    if sites > 0 {
        let _ = writeln!(page, "{}", table.head("call site"));
    }
    let places = Location::places(changes.iter().map(|change| &change.row.location));
    let (listed, others) = changes.split_at(shown.most(sites));
    for (change, place) in listed.iter().zip(places) {
        let figures = [
            signed_bytes(change.bytes()),
            bytes(change.before.0),
            bytes(change.after.0),
            signed_count(change.objects()),
        ];
        let _ = writeln!(page, "{}", table.line(&figures, &place));
        let of = if change.after.0 > 0 { after } else { before };
        for text in callers(of, &change.row) {
            let _ = writeln!(page, "{}", table.below(&text));
        }
    }
    more(&mut page, others.len(), "call sites");
    changed_stacks(&mut page, before, after, shown);
    page
}

fn sign(value: i128) -> &'static str {
    match value {
        0 => "",
        1.. => "+",
        _ => "-",
    }
}

fn magnitude(value: i128) -> u64 {
    u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX)
}

fn signed_bytes(value: i128) -> String {
    format!("{}{}", sign(value), bytes(magnitude(value)))
}

fn signed_count(value: i128) -> String {
    format!("{}{}", sign(value), count(magnitude(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frame;
    use crate::profile::samples::*;

    #[test]
    fn a_line_a_site_the_largest_first() {
        let mut shared = row("shared", 2, 32, 2000);
        shared.share = Share::Shared;
        let profile = profile(vec![row("small", 1, 16, 3), shared, row("tiny", 3, 16, 1)]);
        let page = text(&profile, &Shown { top: 2, ..Shown::default() });
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines[0], "process 7 (sample)  Toft 0.1.0, running, 1.0 MiB resident");
        assert_eq!(
            lines[1],
            "62.6 KiB live in 2 004 blocks, from 3 call sites; 4 008 blocks of 125.1 KiB ever"
        );
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(lines[4]), "62.5 KiB 99.9% 2 000 4 000 32 B ~shared at sample.c:2");
        assert_eq!(words(lines[5]), "48 B 0.1% 3 6 16 B small at sample.c:1");
        assert_eq!(words(lines[6]), "16 B 0.0% and 1 more call sites: --top 0 shows all");
        assert!(page.contains("~ marks 62.5 KiB") && page.contains("64 partitions"));
        assert!(page.lines().all(|line| line.chars().count() <= 110));
    }

    #[test]
    fn equal_labels_are_one_row_with_its_call_sites_or_named_by_their_files() {
        let mut second = row("f", 2, 16, 2);
        second.location.site += 8;
        second.location.offset = Some(10);
        let mut elsewhere = row("f", 2, 16, 1);
        elsewhere.location.site += 0x1000;
        elsewhere.location.module = Some("/lib/other.so".into());
        let profile = profile(vec![row("f", 2, 16, 3), second, elsewhere, row("g", 3, 16, 4)]);
        let page = text(&profile, &Shown::default());
        assert!(page.contains(" from 4 call sites;"), "{page}");
        assert!(page.contains(" f at sample.c:2 in sample (2 call sites)\n"), "{page}");
        assert!(page.contains(" f at sample.c:2 in other.so\n"), "{page}");
        assert!(page.contains(" g at sample.c:3\n"), "{page}");
        assert!(
            text(&profile, &Shown { top: 2, ..Shown::default() })
                .contains(" and 1 more call sites")
        );
        let none = Profile::default();
        let diff = Diff::of(&none, &profile);
        assert!(
            diff_text(&diff, &none, &profile, &Shown::default())
                .contains(" f at sample.c:2 in other.so\n")
        );
        let saved = Profile::from_json(profile.to_json().as_bytes()).unwrap();
        assert_eq!(saved.rows.len(), 4, "the saved form keeps every call site");
    }

    #[test]
    fn no_name_steers_the_terminal() {
        let mut strange = row("f\x1b[2J\ng", 2, 32, 2000);
        let frame = Frame { function: "h\x1b]0;t\x07".into(), file: None, line: None };
        strange.location.frames.push(frame);
        let mut nameless = row("", 3, 16, 1);
        nameless.location.frames.clear();
        nameless.location.module = Some("/bin/\x1b[1m".into());
        let mut profile = profile(vec![strange, nameless]);
        profile.name = "n\x1b[31m\n".into();
        profile.toft = "\r0".into();
        profile.notes.push("note\x1b[0m\u{9b}".into());
        let diff = diff_text(&Diff::of(&profile, &profile), &profile, &profile, &Shown::default());
        let folded = crate::format::Format::Folded.write(&profile);
        for page in [text(&profile, &Shown::default()), diff, String::from_utf8(folded).unwrap()] {
            let raw = page.chars().find(|&c| c.is_control() && c != '\n');
            assert_eq!(raw, None, "{page:?}");
            assert!(!page.contains("\ng"), "{page:?}");
        }
    }

    #[test]
    fn sampled_stacks_stand_apart_and_are_called_estimates() {
        let page = text(&sampled_profile(), &Shown::default());
        let (sites, stacks) = page.split_once("\nsampled stacks: ").unwrap();
        assert!(!sites.contains("middle") && sites.contains("f at sample.c:9"));
        let about = "estimates from 8 samples of 2 stacks, one in about 4096 bytes\n\
                     4 of the samples have a truncated stack\n";
        assert!(stacks.starts_with(about), "{stacks}");
        let words = stacks.split_whitespace().collect::<Vec<_>>().join(" ");
        let first =
            "2.0 KiB 66.7% 200 400 2 leaf at s.c:1 < middle at s.c:2 < main at s.c:3 1000 B";
        assert!(words.contains(first), "{words}");
        assert!(words.ends_with("leaf at s.c:1 < (truncated)"), "{words}");
    }

    #[test]
    fn growth_is_signed() {
        let before = profile(vec![row("down", 1, 1024, 3)]);
        let after = profile(vec![row("down", 1, 1024, 1), row("up", 2, 16, 1)]);
        let page = diff_text(&Diff::of(&before, &after), &before, &after, &Shown::default());
        assert!(page.starts_with("-2.0 KiB live, -1 blocks, at 2 call sites"), "{page}");
        assert!(page.contains("+16 B") && page.contains("-2.0 KiB"), "{page}");
    }
}
