//! Pages with figures: what stands between a pair of marks is replaced, all else is left alone.

use crate::report::Report;

/// The line before a section.
#[must_use]
pub fn begin(name: &str) -> String {
    format!("<!-- figures: {name} -->\n")
}

/// What ends each section.
pub const END: &str = "<!-- /figures -->";

/// A page with other text between one pair of marks; `file` is what the page is called.
///
/// # Errors
/// The page does not have the marks.
pub fn replaced(page: &str, file: &str, name: &str, text: &str) -> Result<String, String> {
    let begin = begin(name);
    let (before, rest) =
        page.split_once(&begin).ok_or_else(|| format!("{file} has no line {}", begin.trim()))?;
    let (_, after) =
        rest.split_once(END).ok_or_else(|| format!("{file}: {name} has no end {END}"))?;
    Ok(format!("{before}{begin}{text}{END}{after}"))
}

/// Where it was measured, and how.
#[must_use]
pub fn place(report: &Report) -> String {
    let machine = &report.machine;
    format!(
        "{} x {}, Linux {}, transparent huge pages {}, glibc {}; revision {}; {}; {} interleaved \
         rounds{}.\n",
        machine.cpus,
        machine.cpu,
        machine.kernel,
        machine.thp,
        machine.libc,
        machine.revision,
        report.date,
        report.rounds(),
        if report.quick == Some(true) { ", **quick: a look, too short for claims**" } else { "" },
    )
}
