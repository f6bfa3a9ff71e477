//! A table of call sites for a terminal: the largest first, one or two lines each.

use std::fmt::Write as _;

use super::units::{bytes, count, duration, fit, plain};
use crate::{Change, Diff, Profile, Row, Sampled, Share};

/// Callers of library code that a row names at most.
const CALLERS: usize = 5;

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

impl Default for Shown {
    fn default() -> Shown {
        Shown { width: usize::MAX, top: 0, full: false }
    }
}

/// The page. Its first line and the head of its table are the ones to be painted.
pub fn text(profile: &Profile, shown: &Shown) -> String {
    let mut page = String::new();
    let resident = profile
        .resident
        .map_or_else(String::new, |bytes| format!(", {} resident", self::bytes(bytes)));
    let _ = writeln!(
        page,
        "{}",
        fit(
            &format!(
                "process {} ({})  Toft {}, {}{resident}",
                profile.pid,
                profile.name,
                profile.toft,
                profile.source.words()
            ),
            shown.width
        )
    );
    let mut rows = profile.by_place();
    rows.retain(|row| row.bytes > 0);
    let _ = writeln!(
        page,
        "{} live in {} blocks, from {} call sites{}\n",
        bytes(profile.bytes),
        count(profile.objects),
        count(rows.len() as u64),
        ever(profile)
    );
    if !rows.is_empty() {
        let head = format!(
            "  {:>10}  {:>6}  {:>11}  {:>11}  {:>8}   call site",
            "live",
            "share",
            "blocks",
            "ever",
            if looked_on(profile) { "lives" } else { "slot" }
        );
        let _ = writeln!(page, "{}", fit(&head, shown.width));
    }
    let top = if shown.top == 0 { rows.len() } else { shown.top.min(rows.len()) };
    for row in &rows[..top] {
        line(&mut page, profile, row, shown);
    }
    if top < rows.len() {
        let rest: u64 = rows[top..].iter().map(|row| row.bytes).sum();
        let _ = writeln!(
            page,
            "  {:>10}  {:>6}  and {} more call sites: --top 0 shows all",
            bytes(rest),
            share(rest, profile.bytes),
            count((rows.len() - top) as u64)
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

/// The sampled stacks, each with its callers below it.
fn stacks(page: &mut String, sampled: &Sampled, shown: &Shown) {
    let all = sampled.sum(|stack| stack.bytes);
    let about = format!("\nsampled stacks: {}", sampled.about()).replace("; ", "\n");
    let _ = writeln!(page, "{about}");
    let live: Vec<_> = sampled.stacks.iter().filter(|stack| stack.bytes > 0).collect();
    if live.is_empty() {
        return;
    }
    let head = format!(
        "  {:>10}  {:>6}  {:>11}  {:>11}  {:>8}   stack",
        "about", "share", "blocks", "ever", "samples"
    );
    let _ = writeln!(page, "\n{}", fit(&head, shown.width));
    let top = if shown.top == 0 { live.len() } else { shown.top.min(live.len()) };
    for stack in &live[..top] {
        let figures = format!(
            "  {:>10}  {:>6}  {:>11}  {:>11}  {:>8}   ",
            bytes(stack.bytes),
            share(stack.bytes, all),
            count(stack.objects),
            count(stack.allocations),
            count(stack.live_samples)
        );
        let indent = figures.chars().count();
        let room = shown.width.saturating_sub(indent).max(24);
        let mut words = stack.words();
        if stack.truncated {
            words.push("(truncated)".into());
        }
        for (number, word) in words.iter().enumerate() {
            match number {
                0 => _ = writeln!(page, "{figures}{}", fit(&plain(word), room)),
                _ => {
                    _ = writeln!(page, "{:indent$}{}", "", fit(&format!("< {}", plain(word)), room))
                }
            }
        }
    }
    if top < live.len() {
        let _ = writeln!(
            page,
            "  and {} more stacks: --top 0 shows all",
            count((live.len() - top) as u64)
        );
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

/// Whether how long blocks live is worth a column: that of slots gives way to it.
fn looked_on(profile: &Profile) -> bool {
    profile.rows.iter().any(|row| row.recent.is_some())
}

fn line(page: &mut String, profile: &Profile, row: &Row, shown: &Shown) {
    let slot = match (looked_on(profile), row.size) {
        (true, _) => row.lifetime().map_or_else(|| "unknown".to_owned(), duration),
        (false, 0) => "-".to_owned(),
        (false, size) => bytes(size),
    };
    let mark = if row.share == Share::Shared { '~' } else { ' ' };
    let figures = format!(
        "  {:>10}  {:>6}  {:>11}  {:>11}  {:>8}  {mark}",
        bytes(row.bytes),
        share(row.bytes, profile.bytes),
        count(row.objects),
        if profile.allocations > 0 { count(row.allocations) } else { "-".to_owned() },
        slot
    );
    let indent = figures.chars().count();
    let room = shown.width.saturating_sub(indent).max(24);
    let _ = writeln!(page, "{figures}{}", fit(&row.place(), room));
    if shown.full {
        for frame in row.in_full() {
            let _ = writeln!(page, "{:indent$}{}", "", fit(&format!("< {frame}"), room));
        }
    }
    for (caller, part) in profile.callers(row).into_iter().take(CALLERS) {
        let words = format!("about {} from {}", share(part, row.bytes), plain(&caller));
        let _ = writeln!(page, "{:indent$}{}", "", fit(&words, room));
    }
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64)
}

/// What has changed, for a terminal.
pub fn diff_text(diff: &Diff, shown: &Shown) -> String {
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
    if sites > 0 {
        let head = format!(
            "  {:>11}  {:>10}  {:>10}  {:>11}  call site",
            "growth", "before", "after", "blocks"
        );
        let _ = writeln!(page, "{}", fit(&head, shown.width));
    }
    let top = if shown.top == 0 { sites } else { shown.top.min(sites) };
    for change in &changes[..top] {
        let figures = format!(
            "  {:>11}  {:>10}  {:>10}  {:>11}  ",
            signed_bytes(change.bytes()),
            bytes(change.before.0),
            bytes(change.after.0),
            signed_count(change.objects())
        );
        let room = shown.width.saturating_sub(figures.chars().count()).max(24);
        let _ = writeln!(page, "{figures}{}", fit(&change.row.place(), room));
    }
    if top < sites {
        let _ = writeln!(
            page,
            "  and {} more call sites: --top 0 shows all",
            count((sites - top) as u64)
        );
    }
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
    fn no_name_steers_the_terminal() {
        let mut strange = row("f\x1b[2J\ng", 2, 32, 2000);
        let frame = Frame { function: "h\x1b]0;t\x07".into(), file: None, line: None };
        strange.frames.push(frame);
        let mut nameless = row("", 3, 16, 1);
        nameless.frames.clear();
        nameless.module = Some("/bin/\x1b[1m".into());
        let mut profile = profile(vec![strange, nameless]);
        profile.name = "n\x1b[31m\n".into();
        profile.toft = "\r0".into();
        profile.notes.push("note\x1b[0m\u{9b}".into());
        let diff = diff_text(&Diff::of(&profile, &profile), &Shown::default());
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
        let diff = Diff::of(
            &profile(vec![row("down", 1, 1024, 3)]),
            &profile(vec![row("down", 1, 1024, 1), row("up", 2, 16, 1)]),
        );
        let page = diff_text(&diff, &Shown::default());
        assert!(page.starts_with("-2.0 KiB live, -1 blocks, at 2 call sites"), "{page}");
        assert!(page.contains("+16 B") && page.contains("-2.0 KiB"), "{page}");
    }
}
