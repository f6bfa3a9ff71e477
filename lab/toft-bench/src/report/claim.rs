//! The first claim of a README about speed and memory. It is made of the headline of the recorded
//! run, so it cannot say more than that shows, and a test makes it again.

use super::Report;
use crate::marks::Marks;
use crate::standing::{Against, PeerStanding, Standing, is_ours};
use std::fmt::Write;
pub(crate) const CLAIM: Marks = Marks { name: "claim", made_by: "cargo xtask readme" };

/// The first claim of a README: what the headline of the run shows, wins and losses alike.
pub fn claim(report: &Report) -> String {
    let standing = Standing::first(&report.measured, &report.peers);
    sentences(report, &standing) + "\n"
}

fn sentences(report: &Report, standing: &Standing) -> String {
    let Some(ours) = report.ours() else { return "Toft was not measured.".to_owned() };
    let (name, base) = (&report.peers[ours].name, &standing.base);
    let mut text = format!(
        "Over {} `{name}` takes ",
        plural(standing.families.len(), "family of ", "families of ") + standing.over.title()
    );
    let ranked = |of: &dyn Fn(&PeerStanding) -> Option<Against>| {
        let mut ranked: Vec<(&str, Against)> = standing
            .peers
            .iter()
            .filter(|one| one.name == *name || !is_ours(&one.name))
            .filter_map(|one| Some((one.name.as_str(), of(one)?)))
            .collect();
        ranked.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
        ranked
    };
    let times = ranked(&|one| one.time.clone());
    let peaks = ranked(&|one| one.memory.clone());
    let (Some(time), Some(peak)) = (place(&times, name), place(&peaks, name)) else {
        return format!("{name} ended no case of the headline.");
    };
    let _ = write!(
        text,
        "{} x the time of {base} (95 % interval {}), the {} mean of {} allocators, and {} x its peak \
         memory, the {}.",
        figure(time.1),
        interval(time.1),
        ordinal(time.0),
        times.len(),
        figure(peak.1),
        ordinal(peak.0),
    );
    let rival = |at: usize| report.peers.iter().position(|peer| peer.name == times[at].0);
    // Against the first, or when it is that itself against the next.
    let other = usize::from(times[0].0 == name);
    let against = times.get(other).and_then(|_| rival(other)).and_then(|rival| {
        Standing::between(&report.measured, &report.peers, standing.over, ours, rival)
    });
    if let Some(against) = against {
        let what = if other == 0 { "The lowest mean is that of" } else { "The next is" };
        let sure =
            if against.open() { "which leaves open who is faster" } else { "which excludes 1" };
        let _ = write!(
            text,
            " {what} {}: `{name}` takes {} x its time ({}), {sure}.",
            times[other].0,
            figure(&against),
            interval(&against),
        );
    }
    let _ = write!(text, "{}", worse(standing, ours));
    text
}

/// The families in which ours is slower than the base.
fn worse(standing: &Standing, ours: usize) -> String {
    let slower: Vec<&str> = standing
        .families
        .iter()
        .filter(|row| row.time[ours].is_some_and(|time| time > 1.0))
        .map(|row| row.family.as_str())
        .collect();
    match slower.as_slice() {
        [] => format!(" It is slower than {} in none of them.", standing.base),
        names => format!(
            " It is slower than {} in {} of them: {}.",
            standing.base,
            names.len(),
            names.join(", ")
        ),
    }
}

/// How many of the others have a mean that is as low or lower, as it is written, and the own mean.
fn place<'a>(ranked: &'a [(&str, Against)], name: &str) -> Option<(usize, &'a Against)> {
    let (_, ours) = ranked.iter().find(|(known, _)| *known == name)?;
    let shown = |against: &Against| (100.0 * against.mean).round();
    let before = |(known, other): &&(&str, Against)| *known != name && shown(other) <= shown(ours);
    Some((ranked.iter().filter(before).count(), ours))
}

fn ordinal(place: usize) -> String {
    match place {
        0 => "lowest".to_owned(),
        1 => "second lowest".to_owned(),
        2 => "third lowest".to_owned(),
        more => format!("{}th lowest", more + 1),
    }
}

fn figure(against: &Against) -> String {
    format!("{:.2}", against.mean)
}

fn interval(against: &Against) -> String {
    match (against.low, against.high) {
        (Some(low), Some(high)) => format!("{low:.2} to {high:.2}"),
        _ => "none of a single family".to_owned(),
    }
}

pub(super) fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::peers;
    use crate::report::tests::TEXT;
    use crate::standing::tests::measured;

    /// Two programs on three peers, with these times of Toft, and of snmalloc against glibc.
    fn claim_with(toft: [f64; 2], snmalloc: [f64; 2]) -> String {
        let case = |name: &str, at: usize| {
            measured(name, "seconds", &[(toft[at], 10.0), (snmalloc[at], 10.0), (1.0, 10.0)])
        };
        let mut report = Report::parse(TEXT).unwrap();
        report.peers = peers(&["toft", "snmalloc", "glibc"]);
        report.measured = vec![case("gcc", 0), case("lua", 1)];
        claim(&report)
    }

    #[test]
    fn a_first_place_is_claimed_only_where_the_headline_shows_it() {
        let last = claim_with([0.9, 1.1], [0.5, 0.5]);
        for part in [
            "2 families of programs and published benchmarks",
            "the second lowest mean of 3 allocators",
            "The lowest mean is that of snmalloc: `toft` takes 1.99 x its time",
            "slower than glibc in 1 of them: lua.",
        ] {
            assert!(last.contains(part), "{part} is not in {last}");
        }
        let first = claim_with([0.4, 0.4], [0.5, 0.5]);
        for part in
            ["the lowest mean of 3", "The next is snmalloc", "0.80 x its time", "excludes 1"]
        {
            assert!(first.contains(part), "{part} is not in {first}");
        }
        assert!(first.contains("in none of them"), "{first}");
    }

    #[test]
    fn a_difference_within_the_interval_is_called_open() {
        let open = claim_with([0.4, 0.6], [0.5, 0.5]);
        assert!(open.contains("leaves open who is faster"), "{open}");
    }
}
