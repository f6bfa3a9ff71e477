//! Families of cases, and the groups that families belong to.
//!
//! A family is one shape of work: its sizes and its numbers of threads are cases of one family.
//! Each family has one vote in every mean, so a shape with many cases weighs as much as a program
//! with one.

use crate::interval::{self, Interval};
use crate::stats::geometric_mean;
use serde::{Deserialize, Serialize};

/// Where the work of a family comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// A program that others have written, on its own work.
    Program,
    /// A published benchmark of allocators, with the numbers and the behaviour of the original.
    Classic,
    /// A shape of our own, or a small benchmark that measures one path of an allocator.
    Own,
}

/// The groups that a mean is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Programs and published benchmarks: the mean that claims are made of.
    Headline,
    Programs,
    Classic,
    Own,
}

impl Scope {
    /// Every scope, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Headline, Self::Programs, Self::Classic, Self::Own];

    /// The scope that is called `name` where cases are chosen.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "headline" => Some(Self::Headline),
            "programs" => Some(Self::Programs),
            "classic" => Some(Self::Classic),
            "own" => Some(Self::Own),
            _ => None,
        }
    }

    pub fn contains(self, group: Group) -> bool {
        match self {
            Self::Headline => group != Group::Own,
            Self::Programs => group == Group::Program,
            Self::Classic => group == Group::Classic,
            Self::Own => group == Group::Own,
        }
    }

    /// True if it is not a part of the headline, which has the families of its parts.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Headline | Self::Own)
    }

    /// What a table calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Headline => "programs and published benchmarks",
            Self::Programs => "third-party programs",
            Self::Classic => "published benchmarks",
            Self::Own => "our own shapes",
        }
    }
}

/// The mean of a family: its name, the geometric mean of the ratios of its cases, and their number.
#[derive(Clone, Debug, PartialEq)]
pub struct Vote<'a> {
    pub family: &'a str,
    pub ratio: f64,
    pub cases: usize,
}

/// One vote for each family, in the order in which the families first appear.
pub fn votes<'a>(ratios: impl IntoIterator<Item = (&'a str, f64)>) -> Vec<Vote<'a>> {
    let mut families: Vec<(&str, Vec<f64>)> = Vec::new();
    for (family, ratio) in ratios {
        match families.iter_mut().find(|(known, _)| *known == family) {
            Some((_, ratios)) => ratios.push(ratio),
            None => families.push((family, vec![ratio])),
        }
    }
    let vote = |(family, ratios): (&'a str, Vec<f64>)| {
        Some(Vote { family, ratio: geometric_mean(&ratios)?, cases: ratios.len() })
    };
    families.into_iter().filter_map(vote).collect()
}

/// The geometric mean of the votes with its 95 % interval, as if the families were drawn from many
/// more of their kind: Student's t on the logarithms. A single family has no interval.
pub fn mean(votes: &[Vote]) -> Option<(f64, Option<Interval>)> {
    let ratios: Vec<f64> = votes.iter().map(|vote| vote.ratio).collect();
    Some((geometric_mean(&ratios)?, interval::paired(&ratios, &vec![1.0; ratios.len()])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::near;

    fn mean_of(ratios: &[(&str, f64)]) -> f64 {
        mean(&votes(ratios.iter().copied())).unwrap().0
    }

    #[test]
    fn each_family_has_one_vote() {
        // 2 of one family, and 0.5 of another that has three cases: their product is 1.
        near(mean_of(&[("a", 2.0), ("b", 0.5), ("b", 0.5), ("b", 0.5)]), 1.0);
        near(mean_of(&[("a", 2.0), ("b", 0.25), ("b", 1.0)]), 1.0);
    }

    #[test]
    fn a_case_more_of_a_shape_does_not_move_the_mean_and_a_new_family_does() {
        let once = [("micro", 0.1), ("python", 1.0), ("redis", 0.8)];
        let mut planted = once.to_vec();
        planted.extend([("micro", 0.1); 20]);
        near(mean_of(&planted), mean_of(&once));
        // The twin: the same figure in a separate family adds a vote.
        let mut other = once.to_vec();
        other.push(("micro-2", 0.1));
        assert!(mean_of(&other) < 0.7 * mean_of(&once));
    }

    #[test]
    fn the_interval_is_over_families_and_not_over_cases() {
        let of = |ratios: &[(&str, f64)]| mean(&votes(ratios.iter().copied())).unwrap().1;
        let two = of(&[("a", 0.5), ("b", 2.0)]).unwrap();
        let many = of(&[("a", 0.5), ("a", 0.5), ("a", 0.5), ("b", 2.0), ("b", 2.0)]).unwrap();
        near(two.low, many.low);
        near(two.high, many.high);
        // The 97.5 % quantile with one degree of freedom is 12.706, the standard error ln 2.
        near((two.high.ln() / 2_f64.ln() * 1000.0).round(), 12_706.0);
        assert_eq!(of(&[("a", 0.5), ("a", 0.9)]), None);
    }

    #[test]
    fn the_headline_is_everything_but_our_own() {
        for group in [Group::Program, Group::Classic, Group::Own] {
            assert_eq!(Scope::Headline.contains(group), group != Group::Own);
            assert_eq!(Scope::ALL[1..].iter().filter(|scope| scope.contains(group)).count(), 1);
        }
    }
}
