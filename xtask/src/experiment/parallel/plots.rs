//! The plots, each a file beside the page.

use super::builds::Build;
use super::measure::{Results, TIME};
use super::page;
use super::plan::Driver::Uniform;
use super::plan::{ARENAS, THREADS};
use crate::place;
use toft_bench::report::chart::{Chart, Line};

const HINT: &str =
    "ns per operation of all threads together; lower is better; both scales logarithmic";

/// Writes all of them.
pub fn write(results: &Results) -> Result<(), String> {
    for (name, chart) in all(results) {
        let path = place::root().join(page::FOLDER).join(name);
        std::fs::write(&path, chart.svg()).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

fn all(results: &Results) -> Vec<(&'static str, Chart)> {
    let curve = |title: &str, arenas: fn(usize) -> usize| {
        let threads = || THREADS.into_iter().filter(move |&t| arenas(t) <= 16);
        let line = |build: Build| Line {
            name: build.name().into(),
            colour: build.colour().into(),
            points: threads()
                .filter_map(|t| {
                    let point = results.point(Uniform, t, arenas(t), build)?;
                    Some((t as f64, results.summary(point, TIME)?))
                })
                .collect(),
        };
        chart(title, threads().map(|t| t as f64).collect(), Build::ALL.map(line).into())
    };
    let scaling = |title: &str, build: Build| {
        let lines = ARENAS.into_iter().enumerate().map(|(index, arenas)| Line {
            name: format!("{arenas} arena{}", if arenas == 1 { "" } else { "s" }),
            colour: format!("c{}", index + 1),
            points: THREADS
                .into_iter()
                .filter_map(|threads| {
                    let point = results.point(Uniform, threads, arenas, build)?;
                    Some((threads as f64, results.summary(point, TIME)?))
                })
                .collect(),
        });
        // Of a quick run some numbers of arenas have a single point.
        let lines = lines.filter(|line| line.points.len() > 1).collect();
        chart(title, THREADS.map(|t| t as f64).into(), lines)
    };
    vec![
        ("parallel-contention.svg", curve("Contention: all threads share one arena", |_| 1)),
        ("parallel-no-contention.svg", curve("No contention: as many arenas as threads", |t| t)),
        ("parallel-arenas.svg", scaling("A lock per arena, by arenas", Build::Arena)),
        ("parallel-classes.svg", scaling("A lock per class of an arena, by arenas", Build::Class)),
        (
            "parallel-caches.svg",
            scaling("A lock per arena, and caches, by arenas", Build::ArenaCache),
        ),
    ]
}

fn chart(title: &str, at: Vec<f64>, lines: Vec<Line>) -> Chart {
    Chart {
        title: title.into(),
        hint: HINT.into(),
        across: "threads".into(),
        at,
        ratios: true,
        lines,
    }
}
