//! How the peers stand over all cases: geometric means of time and of peak memory.
//!
//! A case counts with one time, that of the first of its metrics that is about speed, and with the
//! peak of its processes. A rate counts as the time that it takes, so less is better throughout.

use crate::measured::Measured;
use crate::metrics::{Metric, PEAK};
use crate::peers::{self, Peer};
use crate::stats::geometric_mean;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::{Deserialize, Serialize};

/// How many times the best's cost a case may take before it counts as worse.
pub const WORSE: f64 = 1.15;

/// All peers over all cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The peer that `time` and `memory` are relative to: glibc, or else the first.
    pub base: String,
    /// In the order of the table.
    pub peers: Vec<PeerStanding>,
}

/// A peer over the cases that it and the other have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerStanding {
    /// The peer.
    pub name: String,
    /// Its time against that of the base.
    pub time: Option<Against>,
    /// Its time against that of whichever other peer is best on a case.
    pub time_to_best: Option<Against>,
    /// Its peak memory against that of the base.
    pub memory: Option<Against>,
    /// Its peak memory against that of whichever other fast peer is tightest on a case.
    pub memory_to_tightest: Option<Against>,
    /// The cases that it failed.
    pub failed: usize,
}

/// One cost against another over many cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The geometric mean of the cases' ratios.
    pub mean: f64,
    /// Of how many cases it is.
    pub cases: usize,
    /// How many of them are above [`WORSE`].
    pub worse: usize,
    /// The worst one.
    pub worst: Worst,
}

/// The case with the largest ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// Its name.
    pub case: String,
    /// Its ratio.
    pub ratio: f64,
    /// The peer below the line.
    pub rival: String,
}

/// A case's ratio and the index of the peer below the line.
type Ratio<'a> = (&'a str, f64, usize);

impl Standing {
    /// Of what was measured.
    #[must_use]
    pub fn of(measured: &[Measured], peers: &[Peer]) -> Self {
        let base = base(peers);
        let fast = peers::fast();
        let is_fast = |peer: usize| fast.iter().any(|name| *name == peers[peer].name);
        let to_base = |peer: usize, metric: &dyn Fn(&Measured) -> Option<Metric>| {
            let ratio =
                |result: &Measured| Some((result.cost(peer, base, &metric(result)?)?.median, base));
            against(measured, peers, &ratio)
        };
        let to_best = |peer: usize,
                       among: &dyn Fn(usize) -> bool,
                       metric: &dyn Fn(&Measured) -> Option<Metric>| {
            let ratio = |result: &Measured| {
                let metric = metric(result)?;
                let others = (0..peers.len()).filter(|&other| rivals(peers, peer, other));
                let best = result.best(others.filter(|&other| among(other)), &metric)?;
                Some((result.cost(peer, best, &metric)?.median, best))
            };
            against(measured, peers, &ratio)
        };
        let pace = |result: &Measured| result.job.case.pace();
        let peak = |_: &Measured| Some(PEAK);
        let of = |peer: usize| PeerStanding {
            name: peers[peer].name.clone(),
            time: to_base(peer, &pace),
            time_to_best: to_best(peer, &|_| true, &pace),
            memory: to_base(peer, &peak),
            memory_to_tightest: to_best(peer, &is_fast, &peak),
            failed: measured.iter().filter(|result| result.series[peer].is_err()).count(),
        };
        let base = peers.get(base).map_or_else(String::new, |peer| peer.name.clone());
        Self { base, peers: (0..peers.len()).map(of).collect() }
    }

    /// The peers by their time against the base, those without one last.
    #[must_use]
    pub fn fastest_first(&self) -> Vec<&PeerStanding> {
        let key = |one: &PeerStanding| one.time.as_ref().map_or(f64::INFINITY, |time| time.mean);
        let mut peers: Vec<&PeerStanding> = self.peers.iter().collect();
        peers.sort_by(|a, b| key(a).total_cmp(&key(b)));
        peers
    }

    /// The table that stands below that of the cases.
    #[must_use]
    pub fn draw(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_content_arrangement(ContentArrangement::Disabled);
        let base = &self.base;
        table.set_header([
            "over all cases".to_owned(),
            format!("time x {base}"),
            "x best other".to_owned(),
            format!("> {WORSE}"),
            "worst".to_owned(),
            format!("peak x {base}"),
            "x tightest fast".to_owned(),
            format!("> {WORSE}"),
            "worst".to_owned(),
            "failed".to_owned(),
        ]);
        for peer in self.fastest_first() {
            let mut cells = vec![peer.name.clone()];
            let columns =
                [(&peer.time, &peer.time_to_best), (&peer.memory, &peer.memory_to_tightest)];
            for (base, best) in columns {
                cells.extend([mean(base.as_ref()), mean(best.as_ref())]);
                cells.push(best.as_ref().map_or_else(none, |best| best.worse.to_string()));
                cells.push(best.as_ref().map_or_else(none, |best| best.worst.text()));
            }
            cells.push(peer.failed.to_string());
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }
}

impl Worst {
    /// In words.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{:.2} x {}, {}", self.ratio, self.rival, self.case)
    }
}

fn mean(against: Option<&Against>) -> String {
    against.map_or_else(none, |against| format!("{:.2} of {}", against.mean, against.cases))
}

fn none() -> String {
    "-".to_owned()
}

/// The peer that means are relative to: glibc, or else the first.
#[must_use]
pub fn base(peers: &[Peer]) -> usize {
    peers.iter().position(|peer| peer.name == "glibc").unwrap_or(0)
}

/// Whether a peer is a build of Toft.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    name.starts_with("toft")
}

/// Two builds of Toft compare with the others and not with each other.
fn rivals(peers: &[Peer], peer: usize, other: usize) -> bool {
    peer != other && !(is_ours(&peers[peer].name) && is_ours(&peers[other].name))
}

/// The mean and the extremes of the ratios that there are. What was 0 has no ratio.
fn against(
    measured: &[Measured],
    peers: &[Peer],
    ratio: &dyn Fn(&Measured) -> Option<(f64, usize)>,
) -> Option<Against> {
    let of = |result| ratio(result).filter(|(ratio, _)| ratio.is_finite() && *ratio > 0.0);
    let ratios: Vec<Ratio> = measured
        .iter()
        .filter_map(|result| {
            let (ratio, rival) = of(result)?;
            Some((result.job.case.name.as_str(), ratio, rival))
        })
        .collect();
    let worst = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Against {
        mean: geometric_mean(&ratios.iter().map(|ratio| ratio.1).collect::<Vec<_>>())?,
        cases: ratios.len(),
        worse: ratios.iter().filter(|ratio| ratio.1 > WORSE).count(),
        worst: Worst {
            case: worst.0.to_owned(),
            ratio: worst.1,
            rival: peers[worst.2].name.clone(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::runner::choose;

    fn peers(names: &[&str]) -> Vec<Peer> {
        let peer =
            |name: &&str| Peer { name: (*name).into(), library: None, version: String::new() };
        names.iter().map(peer).collect()
    }

    /// A case with one figure and a peak for each peer; a figure of 0 stands for a failure.
    fn measured(case: &str, key: &str, figures: &[(f64, f64)]) -> Measured {
        let series = |&(figure, peak): &(f64, f64)| {
            let outcome = Outcome::default().with(key, figure).with("peak_mb", peak);
            if figure > 0.0 { Ok(vec![outcome; 2]) } else { Err("failed".to_owned()) }
        };
        Measured {
            job: choose(&[case.into()]).unwrap()[0],
            series: figures.iter().map(series).collect(),
        }
    }

    /// Four peers on a time, a rate, a case that is only about memory, and one that rpmalloc fails.
    fn four() -> (Vec<Measured>, Vec<Peer>) {
        let measured = vec![
            // Times against glibc: 0.5, 1, 0.4, 2.
            measured("pair-64", "ns", &[(5.0, 8.0), (10.0, 4.0), (4.0, 2.0), (20.0, 16.0)]),
            // The same of a rate: 2, 1, 0.5, 4.
            measured("handover-2", "mops", &[(5.0, 8.0), (10.0, 2.0), (20.0, 4.0), (2.5, 2.0)]),
            measured("rss", "steady_mb", &[(1.0, 10.0), (1.0, 10.0), (1.0, 20.0), (9.0, 10.0)]),
            measured("cfrac", "seconds", &[(3.0, 6.0), (2.0, 3.0), (0.0, 0.0), (2.0, 6.0)]),
        ];
        (measured, peers(&["toft", "glibc", "rpmalloc", "tbbmalloc"]))
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn the_means_are_those_that_a_hand_computes() {
        let (measured, peers) = four();
        let standing = Standing::of(&measured, &peers);
        assert_eq!(standing.base, "glibc");
        let [toft, glibc, rpmalloc, tbb] = &standing.peers[..] else { panic!() };
        // 0.5 * 2 * 1.5 of three cases, since the fourth is not about speed.
        let time = toft.time.as_ref().unwrap();
        near(time.mean, 1.5_f64.cbrt());
        assert_eq!((time.cases, time.worse, time.worst.case.as_str()), (3, 2, "handover-2"));
        // Against rpmalloc 1.25 and 4, and where that failed against glibc, the first of equals: 1.5.
        let best = toft.time_to_best.as_ref().unwrap();
        near(best.mean, 7.5_f64.cbrt());
        assert_eq!((best.cases, best.worse), (3, 3));
        assert_eq!(best.worst.text(), "4.00 x rpmalloc, handover-2");
        // Peaks: 2 * 4 * 1 * 2.
        near(toft.memory.as_ref().unwrap().mean, 2.0);
        assert_eq!(toft.memory.as_ref().unwrap().cases, 4);
        // Of the fast peers only rpmalloc is here: 4 * 2 * 0.5, and the case that it failed is out.
        let tightest = toft.memory_to_tightest.as_ref().unwrap();
        near(tightest.mean, 4.0_f64.cbrt());
        assert_eq!((tightest.cases, tightest.worse), (3, 2));
        assert_eq!(tightest.worst.text(), "4.00 x rpmalloc, pair-64");
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
            let one = [measured("pair-64", "ns", &[(figure, 1.0), (1.0, 1.0)])];
            let standing = Standing::of(&one, &peers(&["toft", "glibc"]));
            assert_eq!(standing.peers[0].time_to_best.as_ref().unwrap().worse, worse, "{figure}");
        }
    }

    #[test]
    fn builds_of_toft_have_others_as_rivals() {
        let one = [measured("pair-64", "ns", &[(4.0, 1.0), (1.0, 1.0), (2.0, 1.0)])];
        let standing = Standing::of(&one, &peers(&["toft", "toft-old", "glibc"]));
        let best = |peer: usize| standing.peers[peer].time_to_best.clone().unwrap();
        assert_eq!((best(0).mean, best(0).worst.rival.as_str()), (2.0, "glibc"));
        assert_eq!((best(2).mean, best(2).worst.rival.as_str()), (2.0, "toft-old"));
    }

    #[test]
    fn a_figure_of_nothing_spoils_no_mean() {
        let mut zero = measured("latency-64", "p50_ns", &[(1.0, 1.0), (1.0, 1.0)]);
        for outcome in zero.series[1].as_mut().unwrap() {
            outcome.set("p50_ns", 0.0);
        }
        let all = [zero, measured("pair-64", "ns", &[(3.0, 1.0), (1.0, 1.0)])];
        let standing = Standing::of(&all, &peers(&["toft", "glibc"]));
        let time = standing.peers[0].time.clone().unwrap();
        assert_eq!(time.cases, 1);
        near(time.mean, 3.0);
    }

    #[test]
    fn the_table_has_a_row_for_each_peer_and_says_of_how_many_cases() {
        let (measured, peers) = four();
        let drawn = Standing::of(&measured, &peers).draw();
        let toft = drawn.lines().find(|line| line.contains("| toft")).unwrap();
        for part in ["1.14 of 3", "1.96 of 3", "4.00 x rpmalloc, handover-2", "2.00 of 4"] {
            assert!(toft.contains(part), "{part} in {drawn}");
        }
        let rpmalloc = drawn.lines().find(|line| line.contains("| rpmalloc")).unwrap();
        assert!(rpmalloc.contains(" - |") && rpmalloc.ends_with("1 |"), "{drawn}");
        assert_eq!(Standing::of(&[], &[]).peers, []);
    }
}
