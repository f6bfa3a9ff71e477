//! The page: prose by hand, and between marks what was measured.

use crate::place;
use toft_bench::machine::Machine;

/// Where the page and its plots are.
pub const FOLDER: &str = "docs/experiments";
/// The page.
pub const PAGE: &str = "docs/experiments/parallel.md";

const END: &str = "<!-- end -->";

fn mark(name: &str) -> String {
    format!("<!-- measured: {name} -->")
}

/// Where and how it was measured.
pub fn head(machine: &Machine, runs: usize, quick: bool) -> String {
    format!(
        "{} x {}, Linux {}, glibc {}, revision {}; {runs} interleaved rounds, medians ± half of the distance \
         between the extremes{}.\n",
        machine.cpus,
        machine.cpu,
        machine.kernel,
        machine.libc,
        machine.revision,
        if quick { "; a quick run, **too short for claims**" } else { "" }
    )
}

/// Writes each section between its marks.
pub fn fill(sections: &[(&str, String)]) -> Result<(), String> {
    let path = place::root().join(PAGE);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{PAGE}: {e}"))?;
    std::fs::write(&path, filled(&text, sections)?).map_err(|e| format!("{PAGE}: {e}"))
}

fn filled(text: &str, sections: &[(&str, String)]) -> Result<String, String> {
    let mut text = text.to_owned();
    for (name, section) in sections {
        let missing = || format!("{PAGE} has no {} ... {END}", mark(name));
        let start = text.find(&mark(name)).ok_or_else(missing)? + mark(name).len();
        let end = start + text[start..].find(END).ok_or_else(missing)?;
        text.replace_range(start..end, &format!("\n\n{}\n\n", section.trim()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_replace_what_was_there_and_nothing_else() {
        let text =
            "a\n<!-- measured: x -->\nold\n<!-- end -->\nb\n<!-- measured: y --><!-- end -->c";
        let sections = [("x", "new\n".to_owned()), ("y", "| t |".to_owned())];
        let once = filled(text, &sections).unwrap();
        assert_eq!(
            once,
            "a\n<!-- measured: x -->\n\nnew\n\n<!-- end -->\nb\n<!-- measured: y -->\n\n| t |\n\n<!-- end -->c"
        );
        assert_eq!(filled(&once, &sections).unwrap(), once);
        assert!(filled(text, &[("z", String::new())]).is_err());
    }

    #[test]
    fn the_page_has_every_section_and_no_other_and_every_plot() {
        let text = std::fs::read_to_string(place::root().join(PAGE)).unwrap();
        let results = super::super::measure::Results::default();
        let mut names = vec!["machine", "programs", "sizes"];
        names.extend(super::super::tables::sections(&results).iter().map(|section| section.0));
        names.extend(super::super::bars::section(&results, 2).iter().map(|section| section.0));
        for name in &names {
            assert_eq!(text.matches(&mark(name)).count(), 1, "{name}");
        }
        assert_eq!(text.matches("<!-- measured: ").count(), names.len());
        for plot in ["contention", "no-contention", "arenas", "classes", "caches"] {
            let name = format!("parallel-{plot}.svg");
            assert!(text.contains(&format!("]({name})")), "{name}");
            assert!(place::root().join(FOLDER).join(&name).is_file(), "{name}");
        }
    }
}
