//! `toft man --markdown`: every verb on one page, `docs/command.md`.

use clap::Command;

use super::{all, name};

/// Columns of the help on the page.
const WIDTH: usize = 90;

const BEFORE: &str = "\
<!-- Written by `cargo xtask docs` from the command's own help; a test compares. -->
# The command `toft`

For users of the command: each verb with its options, examples and exit status. `toft VERB --help` prints the same, and
`toft man VERB | man -l -` shows it as a manual page, with the environment variables that the verb reads. See also
[how `toft` ends](exit-status.md) and [the options of the library](options.md).
";

pub fn page(command: &Command) -> String {
    let pages = all(command);
    let mut text = BEFORE.to_owned();
    for (_, verb) in &pages[1..] {
        let title = name(verb).replace('-', " ");
        let help = Command::clone(verb).term_width(WIDTH).render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        text.push_str(&format!("\n## {title}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    }
    text
}
