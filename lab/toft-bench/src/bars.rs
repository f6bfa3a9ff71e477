//! The bars that Toft has to clear, judged on measured cases. Each is a row of a table.

use crate::grid::Grid;
use crate::measured::Measured;
use crate::metrics::{
    BACK_2S, Better, CALLS_PER_ROUND, DRAINED, KREQ, MOPS, MS, Metric, NS, P999, P9999, PEAK,
    PURGED, RESIDENT, SCALING, SECONDS, STEADY, WOKEN,
};
use crate::peer_settings::is_of;
use crate::peers::{self, Peer};
use crate::stats::{Summary, paired};
use crate::table::plain;

/// What a figure of Toft is held against.
#[derive(Clone, Copy)]
enum Against {
    /// The best of these peers (of all, when none is named), as a paired ratio.
    Best(&'static [&'static str]),
    /// The best of the peers that are as fast as they come, as a paired ratio.
    Fast,
    /// Another case on Toft itself, as a paired ratio.
    OwnCase(&'static str),
    /// Nothing: the figure itself.
    Nothing,
    /// The system's malloc, as a difference.
    MoreThanGlibc,
}

struct Bar {
    case: &'static str,
    metric: Metric,
    against: Against,
    /// The ratio or the difference that must not be exceeded, or for rates must be reached.
    limit: f64,
}

const RIVALS: &[&str] = &["snmalloc", "mimalloc2", "mimalloc3"];
/// Toft itself, when idle memory is not returned.
const OFF: &[&str] = &["toft-off"];
const GLIBC: &[&str] = &["glibc"];
const ALL: &[&str] = &[];
const MIB: f64 = 1.048_576;

const fn bar(case: &'static str, metric: Metric, against: Against, limit: f64) -> Bar {
    Bar { case, metric, against, limit }
}

const BARS: &[Bar] = &[
    bar("pair-64", NS, Against::Fast, 1.15),
    bar("replace-1k", NS, Against::Fast, 1.05),
    bar("replace-100k", NS, Against::Fast, 1.05),
    bar("local-2", SCALING, Against::Nothing, 1.9),
    // Eight threads on fewer processors may wait for each other, but must not collapse.
    bar("local-8", MOPS, Against::OwnCase("local-2"), 0.75),
    bar("handover-2", MOPS, Against::Best(RIVALS), 1.0),
    bar("handover-4", MOPS, Against::Best(RIVALS), 1.0),
    bar("handover-8", MOPS, Against::Best(RIVALS), 1.0),
    bar("spawn-true", MS, Against::MoreThanGlibc, 0.5),
    bar("spawn-true", PEAK, Against::MoreThanGlibc, MIB),
    bar("python", PEAK, Against::Best(GLIBC), 1.10),
    bar("gcc", PEAK, Against::Best(GLIBC), 1.10),
    bar("git", PEAK, Against::Best(GLIBC), 1.10),
    bar("sqlite", PEAK, Against::Best(GLIBC), 1.10),
    bar("cfrac", SECONDS, Against::Best(ALL), 1.05),
    bar("espresso", SECONDS, Against::Best(ALL), 1.05),
    bar("redis", KREQ, Against::Best(ALL), 1.0),
    bar("redis", PEAK, Against::Best(ALL), 1.10),
    bar("redis", RESIDENT, Against::Best(ALL), 1.10),
    // Memory comes back: in a program that runs on, in one that sleeps, and when it is asked for.
    bar("rss-idle", STEADY, Against::Nothing, 2.0),
    bar("rss-idle", DRAINED, Against::Nothing, 10.0),
    bar("rss-purge", PURGED, Against::Nothing, 10.0),
    bar("burst-idle", BACK_2S, Against::Nothing, 95.0),
    bar("burst-idle", WOKEN, Against::Nothing, 0.0),
    bar("burst-idle-cross", BACK_2S, Against::Nothing, 95.0),
    bar("burst-idle-cross", WOKEN, Against::Nothing, 0.0),
    // And to give it back costs nothing where it is needed again, and delays no thread.
    bar("thrash", CALLS_PER_ROUND, Against::Nothing, 0.0),
    bar("thrash", NS, Against::Fast, 1.0),
    bar("latency-64-reclaim", P999, Against::Best(OFF), 1.10),
    bar("latency-64-reclaim", P9999, Against::Best(OFF), 1.10),
    bar("latency-256-reclaim", P999, Against::Best(OFF), 1.10),
    bar("latency-256-reclaim", P9999, Against::Best(OFF), 1.10),
];

/// One bar and how it was met.
#[derive(Debug)]
pub struct Verdict {
    /// The bar in words.
    pub bar: String,
    /// The figure that was measured, or why there is none.
    pub measured: String,
    /// Whether it is met. A bar without a figure is not.
    pub met: bool,
}

/// The cases that the bars need.
pub fn cases() -> Vec<String> {
    let mut names = Vec::new();
    for bar in BARS {
        let other = if let Against::OwnCase(other) = bar.against { Some(other) } else { None };
        for name in other.into_iter().chain([bar.case]) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// The peers that the bars need by name, whether or not a run has them anyway.
pub fn peers() -> &'static [&'static str] {
    OFF
}

/// Judges every bar whose case was measured.
pub fn judge(measured: &[Measured], peers: &[Peer]) -> Vec<Verdict> {
    let field = Field { measured, peers };
    let known = |bar: &&Bar| field.case(bar.case).is_some();
    BARS.iter().filter(known).map(|bar| field.judge(bar)).collect()
}

struct Field<'a> {
    measured: &'a [Measured],
    peers: &'a [Peer],
}

impl Field<'_> {
    fn case(&self, name: &str) -> Option<&Measured> {
        self.measured.iter().find(|result| result.job.case.name == name)
    }

    fn peer(&self, name: &str) -> Option<usize> {
        self.peers.iter().position(|peer| peer.name == name)
    }

    fn judge(&self, bar: &Bar) -> Verdict {
        let sign = match (bar.metric.better, bar.against) {
            (_, Against::MoreThanGlibc) | (Better::Less, _) => "<=",
            (Better::More, _) => ">=",
        };
        let (figure, said) = match self.figure(bar) {
            Ok((figure, said)) => (Some(figure), said),
            Err(why) => (None, why),
        };
        let limit = bar.limit;
        let rule = match bar.against {
            Against::Best(GLIBC) => format!("{sign} {limit:.2} x glibc"),
            Against::Best(ALL) => format!("{sign} {limit:.2} x the best peer"),
            Against::Fast => format!("{sign} {limit:.2} x the best fast peer"),
            Against::Best(names) => format!("{sign} {limit:.2} x the best of {}", names.join(", ")),
            Against::OwnCase(other) => format!("{sign} {limit:.2} x {other}"),
            Against::Nothing => format!("{sign} {limit:.2}"),
            Against::MoreThanGlibc => format!("{sign} glibc + {}", plain(limit)),
        };
        Verdict {
            bar: format!("{} ({}) {rule}", bar.case, bar.metric.unit),
            measured: said,
            met: figure.is_some_and(
                |figure| {
                    if sign == "<=" { figure <= limit } else { figure >= limit }
                },
            ),
        }
    }

    /// The figure that is held against the limit, and a text about it.
    fn figure(&self, bar: &Bar) -> Result<(f64, String), String> {
        let ours = self.peer("toft").ok_or("toft was not run")?;
        let result = self.case(bar.case).ok_or("not measured")?;
        let mine = result.samples(ours, &bar.metric).ok_or("toft failed")?;
        match bar.against {
            Against::Best(_) | Against::Fast => {
                let among = |name: &str| match bar.against {
                    // Toft run in another way is no rival, unless it is named.
                    Against::Best(ALL) => !is_of(name, "toft"),
                    Against::Best(names) => names.contains(&name),
                    _ => peers::is_fast(name),
                };
                let wanted = |&peer: &usize| peer != ours && among(&self.peers[peer].name);
                let best = result
                    .best((0..self.peers.len()).filter(wanted), &bar.metric)
                    .ok_or("none of the peers was run")?;
                let ratio =
                    result.ratio(ours, best, &bar.metric).ok_or("nothing to compare with")?;
                Ok((ratio.median, ratio_text(&ratio, &self.peers[best].name)))
            }
            Against::OwnCase(other) => {
                let other_samples =
                    self.case(other).and_then(|case| case.samples(ours, &bar.metric));
                let ratio = paired(
                    &mine,
                    &other_samples.ok_or_else(|| format!("{other} was not measured"))?,
                )
                .ok_or("nothing to compare with")?;
                Ok((ratio.median, ratio_text(&ratio, other)))
            }
            Against::Nothing => {
                let own = Summary::of(&mine).ok_or("no samples")?;
                let others = (0..self.peers.len()).filter(|&peer| peer != ours);
                // What the machine gave to others shows if it could give more.
                let best = result.best(others, &bar.metric);
                let best = best.and_then(|peer| Some((peer, result.summary(peer, &bar.metric)?)));
                let rest = best.map_or_else(String::new, |(peer, summary)| {
                    format!("; best peer {} {:.2}", self.peers[peer].name, summary.median)
                });
                Ok((
                    own.median,
                    format!("{:.2} ({:.2} .. {:.2}){rest}", own.median, own.min, own.max),
                ))
            }
            Against::MoreThanGlibc => {
                let glibc = self.peer("glibc").ok_or("glibc was not run")?;
                let theirs = result.samples(glibc, &bar.metric).ok_or("glibc failed")?;
                let differences: Vec<f64> = mine.iter().zip(&theirs).map(|(a, b)| a - b).collect();
                let difference = Summary::of(&differences).ok_or("nothing to compare with")?;
                let text = format!("glibc + {}", plain(difference.median));
                Ok((difference.median, text))
            }
        }
    }
}

fn ratio_text(ratio: &Summary, name: &str) -> String {
    format!("{:.3} x {name} ({:.2} .. {:.2})", ratio.median, ratio.min, ratio.max)
}

pub fn draw(verdicts: &[Verdict]) -> Grid {
    let mut table = Grid::new(3, ["bar", "measured", ""]);
    for verdict in verdicts {
        let word = if verdict.met { "met" } else { "MISSED" };
        table.push([verdict.bar.as_str(), verdict.measured.as_str(), word]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{job, measured, peers};
    use crate::runner;

    /// Whether the bar whose text has this part is met by a case with these figures.
    fn is_met(names: &[&str], results: &[Measured], bar: &str) -> bool {
        let verdicts = judge(results, &peers(names));
        verdicts.iter().find(|verdict| verdict.bar.contains(bar)).unwrap().met
    }

    /// Each bar with a figure that just meets it and one that just does not.
    #[test]
    fn each_kind_of_bar_is_met_up_to_its_limit() {
        let fast = &["toft", "glibc", "tcmalloc", "snmalloc"][..];
        let two = &["toft", "glibc"][..];
        let off = &["toft", "toft-off", "tcmalloc"][..];
        for (bar, names, case, key, others, good, bad) in [
            // Times must stay below the best, and rates above.
            ("pair-64", fast, "pair-64", "ns", &[1.0, 5.0, 6.0][..], 5.7, 5.8),
            ("handover-2", fast, "handover-2", "mops", &[9.0, 99.0, 40.0], 41.0, 39.0),
            ("x one thread", two, "local-2", "scaling", &[9.0], 1.91, 1.89),
            // Starts are against glibc, in milliseconds.
            ("spawn-true (ms", two, "spawn-true", "ms", &[1.0], 1.4, 1.6),
            // What is back must be enough, and no call is too many but none.
            ("% back", two, "burst-idle", "back_2s_pct", &[99.0], 95.1, 94.9),
            ("system calls", two, "thrash", "syscalls_per_round", &[300.0], 0.0, 0.05),
            // Latency is held against Toft that returns nothing. Of the rivals of all other bars
            // that is none.
            ("p99.9)", off, "latency-64-reclaim", "p999_ns", &[100.0, 10.0], 109.0, 111.0),
            ("cfrac", off, "cfrac", "seconds", &[0.5, 1.0], 1.04, 1.06),
        ] {
            let met = |ours: f64| {
                let figures = [&[ours], others].concat();
                is_met(names, &[measured(case, key, &figures)], bar)
            };
            assert!(met(good) && !met(bad), "{bar}");
        }
    }

    #[test]
    fn many_threads_are_against_two_of_toft_itself() {
        for (eight, met) in [(80.0, true), (70.0, false)] {
            let local = [
                measured("local-2", "mops", &[100.0, 9.0]),
                measured("local-8", "mops", &[eight, 9.0]),
            ];
            assert_eq!(is_met(&["toft", "glibc"], &local, "local-8"), met, "{eight}");
        }
    }

    #[test]
    fn a_bar_without_a_figure_is_missed() {
        let mut pair = measured("pair-64", "ns", &[5.0, 5.0]);
        pair.series[0] = Err("signal: 6".into());
        assert!(!is_met(&["toft", "tcmalloc"], &[pair], "pair-64"));
        let alone = [measured("pair-64", "ns", &[5.0])];
        assert!(!is_met(&["toft"], &alone, "pair-64"));
    }

    #[test]
    fn every_bar_names_cases_and_metrics_that_exist() {
        assert!(runner::choose(&cases()).is_ok());
        for bar in BARS {
            let job = job(bar.case);
            assert!(job.case.metrics.contains(&bar.metric), "{} {}", bar.case, bar.metric.key);
        }
        for name in RIVALS.iter().chain(GLIBC).chain(super::peers()) {
            assert!(crate::peers::recipe(name).is_some(), "{name}");
        }
    }
}
