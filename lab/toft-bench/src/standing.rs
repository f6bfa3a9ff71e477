//! How the peers stand over the families of a scope: geometric means of time and of peak memory.
//!
//! Each family has one vote: the geometric mean of its cases ([`crate::family`]). A case counts
//! with one time, that of the first of its metrics that is about speed, and with the peak of its
//! processes. A rate counts as the time that it takes, so less is better throughout.

use crate::family::{Group, Scope, Vote, mean as mean_of, votes};
use crate::interval::Interval;
use crate::measured::Measured;
use crate::metrics::{Metric, PEAK};
use crate::peers::{self, Peer};
use serde::{Deserialize, Serialize};

/// How many times the best's cost a family may take before it counts as worse.
pub const WORSE: f64 = 1.15;

/// All peers over the families of a scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    pub over: Scope,
    /// The peer that `time` and `memory` are relative to: glibc, or else the first.
    pub base: String,
    /// In the order of the table.
    pub peers: Vec<PeerStanding>,
    /// Each family, in the order of the table.
    pub families: Vec<FamilyStanding>,
}

/// A family on every peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FamilyStanding {
    pub family: String,
    pub cases: usize,
    /// The time of each peer against that of the base, in the order of the peers.
    pub time: Vec<Option<f64>>,
    /// Its peak memory, likewise.
    pub memory: Vec<Option<f64>>,
}

/// A peer over the cases that it and the other have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerStanding {
    pub name: String,
    /// Its time against that of the base.
    pub time: Option<Against>,
    /// Its time against that of whichever other peer is best on a case.
    pub time_to_best: Option<Against>,
    /// Its peak memory against that of the base.
    pub memory: Option<Against>,
    /// Its peak memory against that of whichever other fast peer is tightest on a case.
    pub memory_to_tightest: Option<Against>,
    pub failed: usize,
}

/// One cost against another over many families.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The geometric mean of the families' votes.
    pub mean: f64,
    /// The lower end of its 95 % interval over families; a single family has none.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Of how many families it is.
    pub families: usize,
    /// How many cases these have.
    pub cases: usize,
    /// How many of the families are above [`WORSE`].
    pub worse: usize,
    pub worst: Worst,
}

/// The case with the largest ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    pub case: String,
    pub ratio: f64,
    /// The peer below the line.
    pub rival: String,
}

/// A case, its ratio and the index of the peer below the line.
type Ratio<'a> = (&'a Measured, f64, usize);

/// What is compared in a case, unless it is not about that.
type Figure<'a> = &'a dyn Fn(&Measured) -> Option<Metric>;

/// The metric of a case that measures speed.
pub fn pace(result: &Measured) -> Option<Metric> {
    result.job.case.pace()
}

/// The peak of a case's processes.
pub fn peak(_: &Measured) -> Option<Metric> {
    Some(PEAK)
}

impl Standing {
    /// Over each scope of which something was measured, the headline first. What would only repeat
    /// the headline is left out.
    pub fn all(measured: &[Measured], peers: &[Peer]) -> Vec<Self> {
        let mut all: Vec<Self> = Scope::ALL
            .map(|scope| Self::of(measured, peers, scope))
            .into_iter()
            .filter(|one| !one.families.is_empty())
            .collect();
        let same = |a: &Self, b: &Self| a.families.len() == b.families.len();
        if all.len() > 1 && all[0].over == Scope::Headline && same(&all[0], &all[1]) {
            all.remove(1);
        }
        all
    }

    /// Over the headline, or what stands in its place where nothing of it was measured.
    pub fn first(measured: &[Measured], peers: &[Peer]) -> Self {
        let first = Self::all(measured, peers).into_iter().next();
        first.unwrap_or_else(|| Self::of(measured, peers, Scope::Headline))
    }

    /// Over the families of one scope.
    pub fn of(measured: &[Measured], peers: &[Peer], over: Scope) -> Self {
        let mut measured = within(measured, over);
        // Programs before benchmarks, each in the order of the table.
        measured.sort_by_key(|result| result.job.group() != Group::Program);
        let measured = measured.as_slice();
        let base = base(peers);
        let is_fast = |peer: usize| peers::is_fast(&peers[peer].name);
        let to_base =
            |peer: usize, metric: Figure| against(measured, peers, &ratio_to(peer, base, metric));
        let to_best = |peer: usize, among: &dyn Fn(usize) -> bool, metric: Figure| {
            let ratio = |result: &Measured| {
                let metric = metric(result)?;
                let others = (0..peers.len()).filter(|&other| rivals(peers, peer, other));
                let best = result.best(others.filter(|&other| among(other)), &metric)?;
                Some((result.cost(peer, best, &metric)?.median, best))
            };
            against(measured, peers, &ratio)
        };
        let of = |peer: usize| PeerStanding {
            name: peers[peer].name.clone(),
            time: to_base(peer, &pace),
            time_to_best: to_best(peer, &|_| true, &pace),
            memory: to_base(peer, &peak),
            memory_to_tightest: to_best(peer, &is_fast, &peak),
            failed: measured.iter().filter(|result| result.series[peer].is_err()).count(),
        };
        let families = families(measured, peers.len(), base);
        let base = peers.get(base).map_or_else(String::new, |peer| peer.name.clone());
        Self { over, base, peers: (0..peers.len()).map(of).collect(), families }
    }

    /// The time of one peer against that of another over the same families.
    pub fn between(
        measured: &[Measured],
        peers: &[Peer],
        over: Scope,
        ours: usize,
        theirs: usize,
    ) -> Option<Against> {
        against(&within(measured, over), peers, &ratio_to(ours, theirs, &pace))
    }

    pub fn title(&self) -> String {
        let cases: usize = self.families.iter().map(|family| family.cases).sum();
        let plural = |count: usize, one: &str, many: &str| {
            format!("{count} {}", if count == 1 { one } else { many })
        };
        format!(
            "{} ({}, {})",
            self.over.title(),
            plural(self.families.len(), "family", "families"),
            plural(cases, "case", "cases")
        )
    }

    /// The peers by their time against the base, those without one last.
    pub fn fastest_first(&self) -> Vec<&PeerStanding> {
        let key = |one: &PeerStanding| one.time.as_ref().map_or(f64::INFINITY, |time| time.mean);
        let mut peers: Vec<&PeerStanding> = self.peers.iter().collect();
        peers.sort_by(|a, b| key(a).total_cmp(&key(b)));
        peers
    }
}

impl Worst {
    pub fn text(&self) -> String {
        format!("{:.2} x {}, {}", self.ratio, self.rival, self.case)
    }
}

impl Against {
    /// True if the interval leaves open which of the two is better.
    pub fn open(&self) -> bool {
        match (self.low, self.high) {
            (Some(low), Some(high)) => Interval { ratio: self.mean, low, high }.open(),
            _ => true,
        }
    }
}

/// The peer that means are relative to: glibc, or else the first.
pub fn base(peers: &[Peer]) -> usize {
    peers.iter().position(|peer| peer.name == "glibc").unwrap_or(0)
}

/// Whether a peer is a build of Toft.
pub fn is_ours(name: &str) -> bool {
    name.starts_with("toft")
}

/// Two builds of Toft compare with the others and not with each other.
fn rivals(peers: &[Peer], peer: usize, other: usize) -> bool {
    peer != other && !(is_ours(&peers[peer].name) && is_ours(&peers[other].name))
}

fn within(measured: &[Measured], over: Scope) -> Vec<&Measured> {
    measured.iter().filter(|result| over.contains(result.job.group())).collect()
}

/// The cost of one peer against that of another in a case.
fn ratio_to<'a>(
    ours: usize,
    theirs: usize,
    metric: Figure<'a>,
) -> impl Fn(&Measured) -> Option<(f64, usize)> + use<'a> {
    move |result| Some((result.cost(ours, theirs, &metric(result)?)?.median, theirs))
}

/// The ratios that there are. What was 0 has none.
fn ratios<'a>(
    measured: &[&'a Measured],
    ratio: &dyn Fn(&Measured) -> Option<(f64, usize)>,
) -> Vec<Ratio<'a>> {
    let of = |result| ratio(result).filter(|(ratio, _)| ratio.is_finite() && *ratio > 0.0);
    let with = |result: &&'a Measured| of(result).map(|(ratio, rival)| (*result, ratio, rival));
    measured.iter().filter_map(with).collect()
}

/// One vote for each family.
fn votes_of<'a>(ratios: &[Ratio<'a>]) -> Vec<Vote<'a>> {
    votes(ratios.iter().map(|(result, ratio, _)| (result.job.family(), *ratio)))
}

/// The mean over the families and the worst case.
fn against(
    measured: &[&Measured],
    peers: &[Peer],
    ratio: &dyn Fn(&Measured) -> Option<(f64, usize)>,
) -> Option<Against> {
    let ratios = ratios(measured, ratio);
    let votes = votes_of(&ratios);
    let worst = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (mean, interval) = mean_of(&votes)?;
    Some(Against {
        mean,
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        families: votes.len(),
        cases: ratios.len(),
        worse: votes.iter().filter(|vote| vote.ratio > WORSE).count(),
        worst: Worst {
            case: worst.0.job.case.name.clone(),
            ratio: worst.1,
            rival: peers[worst.2].name.clone(),
        },
    })
}

/// The ratios of every family on each peer to the base.
fn families(measured: &[&Measured], peers: usize, base: usize) -> Vec<FamilyStanding> {
    let mut rows: Vec<FamilyStanding> = Vec::new();
    for result in measured {
        let family = result.job.family();
        match rows.iter_mut().find(|row| row.family == family) {
            Some(row) => row.cases += 1,
            None => rows.push(FamilyStanding {
                family: family.to_owned(),
                cases: 1,
                time: vec![None; peers],
                memory: vec![None; peers],
            }),
        }
    }
    for peer in 0..peers {
        let figures: [Figure; 2] = [&pace, &peak];
        for (at, figure) in figures.into_iter().enumerate() {
            for vote in votes_of(&ratios(measured, &ratio_to(peer, base, figure))) {
                let row = rows.iter_mut().find(|row| row.family == vote.family);
                let row = row.expect("each case has put its family there");
                let of = if at == 0 { &mut row.time } else { &mut row.memory };
                of[peer] = Some(vote.ratio);
            }
        }
    }
    rows
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::fixtures::{job, near, peers};
    use crate::outcome::Outcome;

    /// A case with one figure and a peak for each peer; a figure of 0 stands for a failure.
    pub(crate) fn measured(case: &str, key: &str, figures: &[(f64, f64)]) -> Measured {
        let series = |&(figure, peak): &(f64, f64)| {
            let outcome = Outcome::default().with(key, figure).with("peak_mb", peak);
            if figure > 0.0 { Ok(vec![outcome; 2]) } else { Err("failed".to_owned()) }
        };
        Measured { job: job(case), series: figures.iter().map(series).collect() }
    }

    /// Four peers on a time, a rate, a case that is only about memory, and one that rpmalloc fails.
    pub(crate) fn four() -> (Vec<Measured>, Vec<Peer>) {
        let measured = vec![
            // Times against glibc: 0.5, 1, 0.4, 2.
            measured("malloc-thread-1", "ns", &[(5.0, 8.0), (10.0, 4.0), (4.0, 2.0), (20.0, 16.0)]),
            // Times against glibc, from a rate: 2, 1, 0.5, 4.
            measured("larson-2", "mops", &[(5.0, 8.0), (10.0, 2.0), (20.0, 4.0), (2.5, 2.0)]),
            measured(
                "espresso",
                "steady_mb",
                &[(1.0, 10.0), (1.0, 10.0), (1.0, 20.0), (9.0, 10.0)],
            ),
            measured("cfrac", "seconds", &[(3.0, 6.0), (2.0, 3.0), (0.0, 0.0), (2.0, 6.0)]),
        ];
        (measured, peers(&["toft", "glibc", "rpmalloc", "tbbmalloc"]))
    }

    #[test]
    fn the_means_are_those_that_a_hand_computes() {
        let (measured, peers) = four();
        let standing = Standing::of(&measured, &peers, Scope::Headline);
        assert_eq!(standing.base, "glibc");
        let [toft, glibc, rpmalloc, tbb] = &standing.peers[..] else { panic!() };
        // 0.5 * 2 * 1.5 of three cases, since the fourth is not about speed.
        let time = toft.time.as_ref().unwrap();
        near(time.mean, 1.5_f64.cbrt());
        assert_eq!((time.cases, time.worse, time.worst.case.as_str()), (3, 2, "larson-2"));
        // Against rpmalloc 1.25 and 4, and where that failed against glibc, the first of equals:
        // 1.5.
        let best = toft.time_to_best.as_ref().unwrap();
        near(best.mean, 7.5_f64.cbrt());
        assert_eq!((best.cases, best.worse), (3, 3));
        assert_eq!(best.worst.text(), "4.00 x rpmalloc, larson-2");
        // Peaks: 2 * 4 * 1 * 2.
        near(toft.memory.as_ref().unwrap().mean, 2.0);
        assert_eq!(toft.memory.as_ref().unwrap().cases, 4);
        // Of the fast peers only rpmalloc is here: 4 * 2 * 0.5, and the case that it failed is out.
        let tightest = toft.memory_to_tightest.as_ref().unwrap();
        near(tightest.mean, 4.0_f64.cbrt());
        assert_eq!((tightest.cases, tightest.worse), (3, 2));
        assert_eq!(tightest.worst.text(), "4.00 x rpmalloc, malloc-thread-1");
        let own = glibc.time.as_ref().unwrap();
        assert_eq!((own.mean, own.cases, own.worse, glibc.failed), (1.0, 3, 0, 0));
        near(rpmalloc.time.as_ref().unwrap().mean, 0.2_f64.sqrt());
        assert_eq!((rpmalloc.time.as_ref().unwrap().cases, rpmalloc.failed), (2, 1));
        // There is no other fast peer than itself.
        assert_eq!(rpmalloc.memory_to_tightest, None);
        near(tbb.time.as_ref().unwrap().mean, 2.0);
    }

    #[test]
    fn a_case_at_the_limit_is_not_worse_and_above_it_is() {
        for (figure, worse) in [(1.15, 0), (1.16, 1), (1.0 / 1.16, 0)] {
            let one = [measured("malloc-thread-1", "ns", &[(figure, 1.0), (1.0, 1.0)])];
            let standing = Standing::of(&one, &peers(&["toft", "glibc"]), Scope::Headline);
            assert_eq!(standing.peers[0].time_to_best.as_ref().unwrap().worse, worse, "{figure}");
        }
    }

    #[test]
    fn builds_of_toft_have_others_as_rivals() {
        let one = [measured("malloc-thread-1", "ns", &[(4.0, 1.0), (1.0, 1.0), (2.0, 1.0)])];
        let standing = Standing::of(&one, &peers(&["toft", "toft-old", "glibc"]), Scope::Headline);
        let best = |peer: usize| standing.peers[peer].time_to_best.clone().unwrap();
        assert_eq!((best(0).mean, best(0).worst.rival.as_str()), (2.0, "glibc"));
        assert_eq!((best(2).mean, best(2).worst.rival.as_str()), (2.0, "toft-old"));
    }

    #[test]
    fn a_figure_of_nothing_spoils_no_mean() {
        let mut zero = measured("espresso", "seconds", &[(1.0, 1.0), (1.0, 1.0)]);
        for outcome in zero.series[1].as_mut().unwrap() {
            outcome.set("seconds", 0.0);
        }
        let all = [zero, measured("malloc-thread-1", "ns", &[(3.0, 1.0), (1.0, 1.0)])];
        let standing = Standing::of(&all, &peers(&["toft", "glibc"]), Scope::Headline);
        let time = standing.peers[0].time.clone().unwrap();
        assert_eq!(time.cases, 1);
        near(time.mean, 3.0);
    }

    #[test]
    fn our_own_shapes_are_in_no_headline() {
        let peers = peers(&["toft", "glibc"]);
        let all = [
            measured("pair-64", "ns", &[(1.0, 1.0), (10.0, 1.0)]),
            measured("larson-2", "mops", &[(1.0, 1.0), (2.0, 1.0)]),
            measured("gcc", "seconds", &[(2.0, 1.0), (1.0, 1.0)]),
        ];
        let standings = Standing::all(&all, &peers);
        let over: Vec<Scope> = standings.iter().map(|one| one.over).collect();
        assert_eq!(over, Scope::ALL);
        let families: Vec<Vec<&str>> = standings
            .iter()
            .map(|one| one.families.iter().map(|row| row.family.as_str()).collect())
            .collect();
        assert_eq!(families, [vec!["gcc", "larson"], vec!["gcc"], vec!["larson"], vec!["pair"]]);
        near(standings[0].peers[0].time.as_ref().unwrap().mean, 2.0);
        near(standings[3].peers[0].time.as_ref().unwrap().mean, 0.1);
        assert_eq!(standings[0].title(), "programs and published benchmarks (2 families, 2 cases)");
        // What would only repeat the headline is left out, and our own stand alone.
        let alone =
            |at: usize| Standing::all(&all[at..=at], &peers).iter().map(|o| o.over).collect();
        assert_eq!((alone(0), alone(2)), (vec![Scope::Own], vec![Scope::Headline]));
    }

    #[test]
    fn each_family_is_of_one_group() {
        let mut groups: Vec<(&str, Group)> = Vec::new();
        for job in crate::runner::jobs() {
            match groups.iter().find(|(family, _)| *family == job.family()) {
                Some((family, group)) => assert_eq!(*group, job.group(), "{family}"),
                None => groups.push((job.family(), job.group())),
            }
        }
        let count = |of| groups.iter().filter(|(_, group)| *group == of).count();
        assert!(count(Group::Program) >= 9 && count(Group::Classic) >= 14, "{groups:?}");
    }
}
