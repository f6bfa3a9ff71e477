//! The tables of the page about giving memory back.

use super::measure::{BATCHES, BYTES, Beside, Figure, Point, Results};
use crate::experiment::markdown::{figure, ratio, short, table};
use toft::os::release::Method;

/// Every table, by its name on the page.
pub fn sections(results: &Results) -> Vec<(&'static str, String)> {
    vec![
        ("methods", methods(results)),
        ("alone", nanoseconds(results, Beside::Alone, |sample| sample.time)),
        ("alone-bytes", bytes(results)),
        ("alone-processor", nanoseconds(results, Beside::Alone, |sample| sample.processor)),
        ("touching", nanoseconds(results, Beside::Touching, |sample| sample.time)),
        ("touching-lost", lost(results, Beside::Touching)),
        ("faulting", nanoseconds(results, Beside::Faulting, |sample| sample.time)),
        ("faulting-lost", lost(results, Beside::Faulting)),
    ]
}

fn methods(results: &Results) -> String {
    let row = |(number, method): (usize, &Method)| {
        let what = match results.refused.get(&number) {
            Some(why) => format!("does not work here: {}", why.trim().replace('\n', " ")),
            None => "works here".into(),
        };
        vec![format!("`{}`", method.name()), what]
    };
    table(&["method", ""], &Method::ALL.iter().enumerate().map(row).collect::<Vec<_>>())
}

fn size(bytes: usize) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

/// A row for each size of piece and of batch for which there is anything.
fn rows(
    results: &Results,
    beside: Beside,
    mut cells: impl FnMut(usize, Point) -> Vec<String>,
) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for bytes in BYTES {
        for batch in BATCHES {
            let point = |method| Point { beside, bytes, batch, method };
            if results.summary(point(0), |sample| sample.time).is_some() {
                let cells = (0..Method::ALL.len()).flat_map(|number| cells(number, point(number)));
                rows.push([size(bytes), batch.to_string()].into_iter().chain(cells).collect());
            }
        }
    }
    rows
}

fn head(columns: impl Fn(usize, &str) -> Vec<String>) -> Vec<String> {
    let methods = Method::ALL.iter().enumerate();
    let columns = methods.flat_map(|(number, method)| columns(number, method.name()));
    ["piece".to_owned(), "batch".to_owned()].into_iter().chain(columns).collect()
}

fn with_head(head: &[String], rows: &[Vec<String>]) -> String {
    table(&head.iter().map(String::as_str).collect::<Vec<_>>(), rows)
}

/// Nanoseconds for each piece, and how many times those of `madvise`.
fn nanoseconds(results: &Results, beside: Beside, of: Figure) -> String {
    let head = head(|number, name| {
        let ratio = (number != 0).then(|| "×".to_owned());
        [name.to_owned()].into_iter().chain(ratio).collect()
    });
    let rows = rows(results, beside, |number, point| {
        let ratio = (number != 0).then(|| ratio(results.ratio(point, of)));
        [figure(results.summary(point, of))].into_iter().chain(ratio).collect()
    });
    with_head(&head, &rows)
}

/// Gigabytes in a second.
fn bytes(results: &Results) -> String {
    let head = head(|_, name| vec![name.to_owned()]);
    let rows = rows(results, Beside::Alone, |_, point| {
        let time = results.summary(point, |sample| sample.time);
        vec![time.map_or(String::new(), |time| short(point.bytes as f64 / time.median))]
    });
    with_head(&head, &rows)
}

/// What the other thread loses for each piece.
fn lost(results: &Results, beside: Beside) -> String {
    let head = head(|_, name| vec![name.to_owned()]);
    let of: Figure = |sample| sample.lost;
    let rows = rows(results, beside, |_, point| vec![figure(results.summary(point, of))]);
    with_head(&head, &rows)
}

#[cfg(test)]
mod tests {
    use super::super::measure::Sample;
    use super::*;

    #[test]
    fn a_cell_says_the_figure_and_its_ratio_to_madvise() {
        let mut results = Results::default();
        for (method, time) in [(0, 1000.0), (1, 250.0)] {
            let point = Point { beside: Beside::Alone, bytes: 4096, batch: 8, method };
            results.add(point, Sample { time, processor: time / 2.0, lost: 0.0 });
        }
        let all = sections(&results);
        let of = |name: &str| all.iter().find(|section| section.0 == name).unwrap().1.clone();
        assert!(of("alone").contains("| 4 KiB | 8 | 1000 ±0.00 | 250 ±0.00 | 0.25 |  |  |"));
        assert!(of("alone-bytes").contains("| 4 KiB | 8 | 4.10 | 16.4 |  |"));
        assert!(of("alone-processor").contains("| 500 ±0.00 | 125 ±0.00 | 0.25 |"));
        assert!(!of("touching").contains("KiB"), "nothing was measured there");
    }
}
