//! The table, class by class: for a terminal, and for a page.

use super::record::{Counts, Record};
use super::verdict::{VERDICTS, Verdict};
use crate::grid::Grid;
use crate::marks::Marks;
use crate::peers::Peer;
use crate::record::PeerRecord;
use crate::releases;
use crate::standing_table::bold_if_ours;
use std::fmt::Write;
pub(crate) const MARKS: Marks = Marks { name: "misuse", made_by: "cargo xtask misuse --page" };

/// What a peer came to in a class. One word where every run came to the same.
pub fn cell(counts: Option<&Counts>) -> String {
    let Some(counts) = counts else { return "–".to_owned() };
    let mut all: Vec<(&str, usize)> =
        VERDICTS.iter().map(|verdict| (verdict.word(), counts.of(*verdict))).collect();
    all.push(("failed", counts.failed));
    all.retain(|(_, count)| *count > 0);
    let mut text = match all[..] {
        [] => "–".to_owned(),
        [(word, _)] => word.to_owned(),
        _ => {
            all.iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
        }
    };
    if counts.false_alarms > 0 {
        let _ = write!(text, ", {} false alarms", counts.false_alarms);
    }
    text
}

/// Of how many classes no run was missed or failed, of all that have runs.
fn clean(record: &Record, peer: &str) -> String {
    let runs = |counts: &&Counts| VERDICTS.iter().any(|&v| counts.of(v) > 0) || counts.failed > 0;
    let all: Vec<&Counts> =
        record.classes.iter().filter_map(|class| class.peers.get(peer)).filter(runs).collect();
    let good = |counts: &&&Counts| counts.of(Verdict::Missed) == 0 && counts.failed == 0;
    format!("{} of {}", all.iter().filter(good).count(), all.len())
}

fn false_alarms(record: &Record, peer: &str) -> usize {
    record.classes.iter().filter_map(|class| class.peers.get(peer)).map(|c| c.false_alarms).sum()
}

/// The table, whose heads have the names in this form.
fn grid(record: &Record, name: impl Fn(&str) -> String) -> Grid {
    let peers = || record.peers.iter().map(|peer| peer.name.as_str());
    let head = [String::new(), "class".to_owned()];
    let mut grid = Grid::new(2 + record.peers.len(), head.into_iter().chain(peers().map(name)));
    for class in &record.classes {
        let first = [class.number.to_string(), class.title.clone()];
        grid.push(first.into_iter().chain(peers().map(|name| cell(class.peers.get(name)))));
    }
    let first = [String::new(), "Classes in which nothing is missed".to_owned()];
    grid.push(first.into_iter().chain(peers().map(|name| clean(record, name))));
    grid
}

pub fn draw(record: &Record) -> String {
    grid(record, str::to_owned).to_string()
}

pub fn section(record: &Record) -> String {
    let table = grid(record, bold_if_ours).markdown();
    format!("{}\n{table}", provenance(record))
}

fn provenance(record: &Record) -> String {
    let machine = &record.machine;
    let peer = |one: &PeerRecord| Peer::without_library(&one.name, &one.version);
    let peers: Vec<Peer> = record.peers.iter().map(peer).collect();
    let alarms: Vec<String> = record
        .peers
        .iter()
        .map(|peer| (&peer.name, false_alarms(record, &peer.name)))
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let alarms = if alarms.is_empty() {
        "Every program without its fault ended well on every allocator.".to_owned()
    } else {
        format!("Programs without their fault that did not end well: {}.", alarms.join(", "))
    };
    let changed = if machine.revision.ends_with('+') { " with changes" } else { "" };
    format!(
        "{} classes on {} × {}: Linux {}, glibc {}; revision {}{changed}, {}. {alarms}\n\n\
         Versions: {}.\n",
        record.classes.len(),
        machine.cpus,
        machine.cpu,
        machine.kernel,
        machine.libc,
        machine.revision.trim_end_matches('+'),
        record.date,
        releases::line(&peers),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::misuse::record::tests::example;

    fn text(json: &str) -> String {
        cell(Some(&serde_json::from_str(json).unwrap()))
    }

    #[test]
    fn a_cell_is_a_word_or_says_how_many() {
        assert_eq!(text(r#"{"caught":9}"#), "caught");
        assert_eq!(text(r#"{"missed":3,"caught":2,"late":1}"#), "2 caught, 1 late, 3 missed");
        assert_eq!(text(r#"{"prevented":3,"failed":1}"#), "3 prevented, 1 failed");
        assert_eq!(text(r#"{"caught":9,"false_alarms":2}"#), "caught, 2 false alarms");
        assert_eq!(text("{}"), "–");
        assert_eq!(cell(None), "–");
    }

    #[test]
    fn the_section_has_every_class_where_it_was_measured_and_the_sum() {
        let record = example();
        let made = section(&record);
        for part in [
            "2 classes on 2 × A CPU: Linux 6.1, glibc 2.36; revision abc, 2026-01-31 12:00 UTC",
            "Every program without its fault ended well",
            "Versions: toft 0.1, this revision; glibc 2.36, 2022-08-01.",
            "| | class | **toft** | glibc |",
            "| 1 | Do this | caught | 1 late, 3 missed |",
            "| 2 | Do \\| that | missed | – |",
            "| Classes in which nothing is missed | 1 of 2 | 0 of 1 |",
        ] {
            assert!(made.contains(part), "{part} is not in\n{made}");
        }
        let mut record = record;
        record.classes[0].peers.get_mut("glibc").unwrap().false_alarms = 3;
        assert!(section(&record).contains("did not end well: glibc 3."));
    }

    #[test]
    fn the_terminal_gets_the_same_cells() {
        let drawn = draw(&example());
        assert!(drawn.contains("1 late, 3 missed") && drawn.contains("Do | that"), "{drawn}");
    }
}
