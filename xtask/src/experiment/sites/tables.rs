//! The tables of the page.

use super::rungs::Rung;
use crate::experiment::markdown::{figure, ratio, table};
use std::collections::BTreeMap;
use toft_bench::stats::{Summary, paired};

/// What a rung tells of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Call sites that have allocated anything.
    pub sites: usize,
    /// Partitions that have anything.
    pub partitions: usize,
    /// Call sites with a separate partition; those that share.
    pub own: usize,
    /// See `own`.
    pub merged: usize,
    /// Share of all bytes that the largest site has.
    pub largest: f64,
    /// Sum of the squares of all shares.
    pub squares: f64,
    /// Share of all bytes that wrappers have.
    pub wrappers: f64,
    /// Share of all bytes that functions without a name have.
    pub nameless: f64,
}

/// Time and memory of a program on a rung.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Of a processor, one a round.
    pub seconds: Vec<f64>,
    /// Peak, one a round.
    pub kib: Vec<f64>,
}

/// Everything.
#[derive(Debug, Default)]
pub struct Results {
    /// By program and rung.
    pub told: BTreeMap<(&'static str, Rung), Told>,
    /// By program and rung.
    pub cost: BTreeMap<(&'static str, Rung), Cost>,
    /// Programs that are not on this machine.
    pub missing: Vec<&'static str>,
}

impl Results {
    fn programs<T>(of: &BTreeMap<(&'static str, Rung), T>) -> Vec<&'static str> {
        let mut names: Vec<_> = of.keys().map(|key| key.0).collect();
        names.dedup();
        names
    }

    fn rows(&self, cell: impl Fn(Rung, &Told) -> String) -> Vec<Vec<String>> {
        let row = |name: &'static str| {
            let cells = Rung::ALL.map(|rung| {
                self.told.get(&(name, rung)).map_or(String::new(), |told| cell(rung, told))
            });
            [name.to_owned()].into_iter().chain(cells).collect()
        };
        Results::programs(&self.told).into_iter().map(row).collect()
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The sections, each with its name.
pub fn sections(results: &Results) -> Vec<(&'static str, String)> {
    let head: Vec<&str> = ["program"].into_iter().chain(Rung::ALL.map(Rung::name)).collect();
    let missing = match results.missing.as_slice() {
        [] => "All programs were there.".to_owned(),
        names => format!("Not on this machine, and left out: {}.", names.join(", ")),
    };
    let sites = results.rows(|rung, told| match rung {
        // A slab tells of one site, and others may have drawn from it.
        Rung::Hashed => format!("{} partitions", told.partitions),
        _ => told.sites.to_string(),
    });
    let apart = results.rows(|_, told| format!("{:.1}", 1.0 / told.squares.max(f64::EPSILON)));
    let recognised = results.rows(|rung, told| match rung {
        Rung::Hashed => "-".to_owned(),
        _ => percent(1.0 - told.wrappers),
    });
    let nameless = results.rows(|rung, told| match rung {
        Rung::Hashed => "-".to_owned(),
        _ => percent(told.nameless),
    });
    let given = results.rows(|rung, told| match rung {
        Rung::Hashed => "-".to_owned(),
        _ if told.merged > 0 => format!("{} and {} that share", told.own, told.merged),
        _ => told.own.to_string(),
    });
    vec![
        ("programs", missing),
        ("sites", table(&head, &sites)),
        ("apart", table(&head, &apart)),
        ("recognised", table(&head, &recognised)),
        ("nameless", table(&head, &nameless)),
        ("given", table(&head, &given)),
        (
            "cost",
            format!(
                "{}\n{}",
                costs(results, |cost| &cost.seconds),
                costs(results, |cost| &cost.kib)
            ),
        ),
    ]
}

/// The first rung's figure, and the others' ratios to it, round by round.
fn costs(results: &Results, of: impl Fn(&Cost) -> &Vec<f64>) -> String {
    let is_time =
        results.cost.values().next().is_some_and(|cost| std::ptr::eq(of(cost), &cost.seconds));
    let first = if is_time { "hashed, s" } else { "hashed, peak KiB" };
    let others = Rung::ALL.into_iter().skip(1).map(Rung::name);
    let head: Vec<&str> = ["program", first].into_iter().chain(others).collect();
    let row = |name: &'static str| {
        let empty = Cost::default();
        let samples = |rung| of(results.cost.get(&(name, rung)).unwrap_or(&empty));
        let base = samples(Rung::Hashed);
        let ratios = Rung::ALL.into_iter().skip(1).map(|rung| ratio(paired(samples(rung), base)));
        [name.to_owned(), figure(Summary::of(base))].into_iter().chain(ratios).collect()
    };
    let rows: Vec<Vec<String>> = Results::programs(&results.cost).into_iter().map(row).collect();
    table(&head, &rows)
}
