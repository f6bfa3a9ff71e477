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
                    _ => peers::fast().iter().any(|fast| fast == name),
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

/// The table of verdicts.
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
    use crate::outcome::Outcome;
    use crate::runner::{self, choose};

    fn peers(names: &[&str]) -> Vec<Peer> {
        let peer =
            |name: &&str| Peer { name: (*name).into(), library: None, version: String::new() };
        names.iter().map(peer).collect()
    }

    fn measured(case: &str, key: &str, values: &[f64]) -> Measured {
        let series = |value: &f64| Ok(vec![Outcome::default().with(key, *value); 3]);
        Measured {
            job: choose(&[case.into()]).unwrap()[0],
            series: values.iter().map(series).collect(),
        }
    }

    fn verdict(results: &[Measured], names: &[&str], bar: &str) -> bool {
        let verdicts = judge(results, &peers(names));
        verdicts.iter().find(|verdict| verdict.bar.contains(bar)).unwrap().met
    }

    #[test]
    fn times_must_stay_below_the_best_and_rates_above() {
        let names = ["toft", "glibc", "tcmalloc", "snmalloc"];
        for (ours, met) in [(5.7, true), (5.8, false)] {
            let pair = [measured("pair-64", "ns", &[ours, 1.0, 5.0, 6.0])];
            assert_eq!(verdict(&pair, &names, "pair-64"), met, "{ours}");
        }
        for (ours, met) in [(41.0, true), (39.0, false)] {
            let handover = [measured("handover-2", "mops", &[ours, 9.0, 99.0, 40.0])];
            assert_eq!(verdict(&handover, &names, "handover-2"), met, "{ours}");
        }
    }

    #[test]
    fn threads_are_against_toft_itself_and_starts_against_glibc_in_milliseconds() {
        let names = ["toft", "glibc"];
        for (two, met) in [(1.91, true), (1.89, false)] {
            let local = [measured("local-2", "scaling", &[two, 9.0])];
            assert_eq!(verdict(&local, &names, "x one thread"), met, "{two}");
        }
        for (eight, met) in [(80.0, true), (70.0, false)] {
            let local = [
                measured("local-2", "mops", &[100.0, 9.0]),
                measured("local-8", "mops", &[eight, 9.0]),
            ];
            assert_eq!(verdict(&local, &names, "local-8"), met, "{eight}");
        }
        for (ours, met) in [(1.4, true), (1.6, false)] {
            let spawn = [measured("spawn-true", "ms", &[ours, 1.0])];
            assert_eq!(verdict(&spawn, &names, "spawn-true (ms"), met, "{ours}");
        }
    }

    #[test]
    fn what_is_back_must_be_enough_and_no_call_is_too_many_but_none() {
        let names = ["toft", "glibc"];
        for (back, met) in [(95.1, true), (94.9, false)] {
            let burst = [measured("burst-idle", "back_2s_pct", &[back, 99.0])];
            assert_eq!(verdict(&burst, &names, "% back"), met, "{back}");
        }
        for (calls, met) in [(0.0, true), (0.05, false)] {
            let thrash = [measured("thrash", "syscalls_per_round", &[calls, 300.0])];
            assert_eq!(verdict(&thrash, &names, "system calls"), met, "{calls}");
        }
    }

    #[test]
    fn latency_is_held_against_toft_that_gives_nothing_back_and_speed_is_not() {
        let names = ["toft", "toft-off", "tcmalloc"];
        for (ours, met) in [(109.0, true), (111.0, false)] {
            let latency = [measured("latency-64-reclaim", "p999_ns", &[ours, 100.0, 10.0])];
            assert_eq!(verdict(&latency, &names, "p99.9)"), met, "{ours}");
        }
        // Of all the others the best is tcmalloc: the other Toft does not count.
        let cfrac = [measured("cfrac", "seconds", &[1.04, 0.5, 1.0])];
        assert!(verdict(&cfrac, &names, "cfrac"));
    }

    #[test]
    fn a_bar_without_a_figure_is_missed() {
        let mut pair = measured("pair-64", "ns", &[5.0, 5.0]);
        pair.series[0] = Err("signal: 6".into());
        assert!(!verdict(&[pair], &["toft", "tcmalloc"], "pair-64"));
        let alone = [measured("pair-64", "ns", &[5.0])];
        assert!(!verdict(&alone, &["toft"], "pair-64"));
    }

    #[test]
    fn every_bar_names_cases_and_metrics_that_exist() {
        assert!(runner::choose(&cases()).is_ok());
        for bar in BARS {
            let job = choose(&[bar.case.into()]).unwrap()[0];
            assert!(job.case.metrics.contains(&bar.metric), "{} {}", bar.case, bar.metric.key);
        }
        let known: Vec<String> =
            crate::peers::recipes().into_iter().map(|recipe| recipe.name).collect();
        for name in RIVALS.iter().chain(GLIBC).chain(super::peers()) {
            assert!(known.iter().any(|known| known == name), "{name}");
        }
    }
}
