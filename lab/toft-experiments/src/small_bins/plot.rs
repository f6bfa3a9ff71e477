//! The plots: a row for each case, a dot with its interval for each ratio.

use super::measure::Measured;
use super::plan::{IDEAS, ORIGINAL, PUBLISHED, SHOWN, VARIANTS};
use crate::plot::Dots;
use toft_bench::interval::Interval;

/// The file of each plot, and its text.
pub fn all(measured: &Measured) -> Vec<(String, String)> {
    vec![
        ("small-bins-variants.svg".into(), variants(measured).svg()),
        ("small-bins-ideas.svg".into(), ideas(measured).svg()),
    ]
}

fn variants(measured: &Measured) -> Dots<'static> {
    let row = |(case, ratio): &(&'static str, f64)| {
        let own = VARIANTS.iter().map(|name| measured.speed(case, "ns", name, ORIGINAL));
        (*case, [Some(Interval::exact(*ratio))].into_iter().chain(own).collect())
    };
    Dots {
        title: "The variants of the patch",
        hint: "times as fast as the original; to the right is faster",
        names: ["published"].into_iter().chain(VARIANTS.iter().copied()).collect(),
        rows: PUBLISHED.iter().map(row).collect(),
    }
}

fn ideas(measured: &Measured) -> Dots<'static> {
    let row = |case: &&'static str| {
        let ratios = IDEAS.iter().map(|(of, to, _)| measured.speed(case, "ns", of, to));
        (*case, ratios.collect())
    };
    Dots {
        title: "Ideas, one at a time",
        hint: "times as fast as the same without the idea; to the right is faster",
        names: IDEAS.iter().map(|(_, _, idea)| *idea).collect(),
        rows: SHOWN.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::made;
    use super::*;

    #[test]
    fn every_case_is_drawn() {
        let plots = all(&made(|_, _, _| 10.0));
        for ((_, plot), rows) in plots.iter().zip([PUBLISHED.len() * 5, SHOWN.len() * IDEAS.len()])
        {
            assert_eq!(plot.matches("<line class=\"whisker\"").count(), rows);
        }
    }
}
