//! Ratios and times as tables. More than 1 means that the variant is faster.

use super::Section;
use super::measure::Measured;
use super::plan::{
    COUNTS, GLIBC, GRID, HYSTERESIS, IDEAS, INVERTED, ORIGINAL, PUBLISHED, SCENARIOS, SHOWN, SIZES,
    SYSTEM, VARIANTS, row,
};
use toft_bench::interval::Interval;
use toft_bench::machine::Machine;

/// A table in Markdown.
pub fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}|{}\n{rows}", line(head), "---|".repeat(head.len()))
}

/// A ratio: `1.05 ±2%`, with `?` if it may as well be 1, in parentheses if it is too wide to tell.
pub fn cell(interval: Option<Interval>) -> String {
    let Some(interval) = interval else { return "-".to_owned() };
    if interval.too_wide() {
        return format!("({:.2})", interval.ratio);
    }
    let open = if interval.open() { "?" } else { "" };
    format!("{:.2} ±{:.0}%{open}", interval.ratio, 50.0 * interval.width())
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

/// Where, and every table of times.
pub fn sections(measured: &Measured) -> Vec<Section> {
    vec![
        Section { name: "place", title: "Where", text: place(measured) },
        Section {
            name: "variants",
            title: "Times as fast as the original, beside what was published",
            text: variants(measured),
        },
        Section {
            name: "ideas",
            title: "Each idea: times as fast as the same without it",
            text: ideas(measured),
        },
        Section {
            name: "times",
            title: "Nanoseconds for a malloc and a free, medians",
            text: times(measured),
        },
        Section {
            name: "runs",
            title: "simple-malloc: times as fast as glibc, the lowest of three scenarios",
            text: runs(measured),
        },
    ]
}

fn place(measured: &Measured) -> String {
    let machine = Machine::here();
    let quick = if measured.scale.quick { "; quick, too short for claims" } else { "" };
    format!(
        "{} x {}, Linux {}, glibc {}; revision {}; {} interleaved rounds{quick}.\n",
        machine.cpus,
        machine.cpu,
        machine.kernel,
        machine.libc,
        machine.revision,
        measured.scale.rounds
    )
}

fn variants(measured: &Measured) -> String {
    let head = words(["", "published"].into_iter().chain(VARIANTS.iter().copied()));
    let row = |(case, published): &(&str, f64)| {
        let mut cells = vec![(*case).to_owned(), format!("{published}")];
        for variant in VARIANTS {
            cells.push(cell(measured.speed(case, "ns", variant, ORIGINAL)));
        }
        cells
    };
    table(&head, &PUBLISHED.iter().map(row).collect::<Vec<_>>())
}

fn ideas(measured: &Measured) -> String {
    let head = words([""].into_iter().chain(IDEAS.iter().map(|(_, _, idea)| *idea)));
    let row = |case: &&str| {
        let cells = IDEAS.iter().map(|(of, to, _)| cell(measured.speed(case, "ns", of, to)));
        [(*case).to_owned()].into_iter().chain(cells).collect()
    };
    table(&head, &SHOWN.iter().map(row).collect::<Vec<_>>())
}

fn times(measured: &Measured) -> String {
    let shown = [ORIGINAL, INVERTED, "runs", HYSTERESIS].into_iter().chain(SYSTEM.iter().copied());
    let shown: Vec<&str> = shown.collect();
    let head = words([""].into_iter().chain(shown.iter().copied()));
    let row = |case: &&str| {
        let cells = shown.iter().map(|peer| {
            let time = measured.median(case, peer, "ns");
            time.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1}"))
        });
        [(*case).to_owned()].into_iter().chain(cells).collect()
    };
    table(&head, &SHOWN.iter().map(row).collect::<Vec<_>>())
}

/// The lowest speed of the three scenarios.
pub fn lowest(
    measured: &Measured,
    size: usize,
    count: usize,
    (of, to): (&str, &str),
) -> Option<(Interval, &'static str)> {
    let all: Option<Vec<_>> = SCENARIOS
        .iter()
        .map(|scenario| {
            Some((measured.speed(GRID, &row(scenario, size, count), of, to)?, *scenario))
        })
        .collect();
    all?.into_iter().min_by(|a, b| a.0.ratio.total_cmp(&b.0.ratio))
}

fn runs(measured: &Measured) -> String {
    let head = ["bytes".to_owned()].into_iter().chain(COUNTS.map(|count| format!("x {count}")));
    let rows = SIZES.map(|size| {
        let cells = COUNTS.map(|count| {
            cell(lowest(measured, size, count, (HYSTERESIS, GLIBC)).map(|(speed, _)| speed))
        });
        [size.to_string()].into_iter().chain(cells).collect()
    });
    table(&head.collect::<Vec<_>>(), &rows)
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::made;
    use super::*;

    #[test]
    fn ratios_stand_beside_what_was_published() {
        let measured = made(|_, peer, _| if peer == ORIGINAL { 30.0 } else { 20.0 });
        let text = variants(&measured);
        assert!(text.contains("| uns_filler | 1.186 | 1.50 ±0% |"), "{text}");
        assert!(text.contains("| simple 2048 x 1600 | 1.00248 | 1.50 ±0% |"), "{text}");
        assert_eq!(text.lines().count(), 2 + 11);
        assert!(times(&measured).contains("| malloc-thread 32 | 30.0 | 20.0 |"));
    }

    #[test]
    fn a_row_shows_its_lowest_scenario() {
        let measured = made(|_, peer, key| match (peer, key) {
            (GLIBC, "ns_thread_512_400") => 70.0,
            (GLIBC, "ns_after_512_400") => 40.0,
            (GLIBC, "ns_main_512_400") => 50.0,
            _ => 10.0,
        });
        let text = runs(&measured);
        let line = "| 512 | 1.00 ±0% | 1.00 ±0% | 4.00 ±0% | 1.00 ±0% |";
        assert!(text.contains(line), "{text}");
        let found = lowest(&measured, 512, 400, (HYSTERESIS, GLIBC)).unwrap();
        assert_eq!(found.1, "after");
    }

    #[test]
    fn a_ratio_shows_how_sure_it_is() {
        let interval = |ratio, low, high| cell(Some(Interval { ratio, low, high }));
        assert_eq!(interval(1.05, 1.03, 1.07), "1.05 ±2%");
        assert_eq!(interval(1.05, 0.99, 1.11), "1.05 ±6%?");
        assert_eq!(interval(1.05, 0.8, 1.3), "(1.05)");
        assert_eq!(cell(None), "-");
    }
}
