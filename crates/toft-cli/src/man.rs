//! `toft man`: the manual page of the command, and one for each verb.

mod environment;
mod markdown;

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::verb::{End, Failure, USAGE, print};

/// The date that each page bears: that of the last change to what the pages say.
const DATE: &str = "2026-11-25";

const EXIT_STATUS: &str = "EXIT STATUS";

const EXAMPLES: &str = "\
Examples:
  toft man | man -l -                           the page of the command
  toft man run | man -l -                       the page of a verb
  toft man -o /usr/local/share/man/man1         every page, as toft.1, toft-run.1 and so on
  toft man --markdown                           every verb on one page, in Markdown

Exit status: 0; 125 if a page cannot be written.";

/// Print a manual page, in the format of man
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Pages {
    /// The verb, and its own subcommand if it has any; the command itself if none is named
    #[arg(value_name = "VERB")]
    verb: Vec<String>,
    /// Write every page into this folder
    #[arg(short, long, value_name = "FOLDER", conflicts_with = "verb")]
    output: Option<PathBuf>,
    /// Print the help of every verb as one page in Markdown
    #[arg(long, conflicts_with_all = ["verb", "output"])]
    markdown: bool,
}

pub fn man(pages: &Pages, mut command: Command) -> End {
    command.build();
    let version = command.get_version().unwrap_or_default().to_owned();
    if pages.markdown {
        print(markdown::page(&command))?;
        return Ok(0);
    }
    if let Some(folder) = &pages.output {
        let written = fs::create_dir_all(folder).and_then(|()| {
            all(&command).into_iter().try_for_each(|(names, page)| {
                fs::write(folder.join(format!("{names}.1")), text(page, &command, &version)?)
            })
        });
        written.map_err(|error| format!("cannot write {}: {error}", folder.display()))?;
        return Ok(0);
    }
    let mut page = &command;
    for name in &pages.verb {
        page = page.get_subcommands().find(|verb| verb.get_name() == name).ok_or_else(|| {
            Failure::new(USAGE, format!("there is no verb {}", pages.verb.join(" ")))
        })?;
    }
    let text = text(page, &command, &version);
    print(text.map_err(|error| format!("cannot write the page: {error}"))?)?;
    Ok(0)
}

/// The command and all that is below it, with the names of their pages.
fn all(command: &Command) -> Vec<(String, &Command)> {
    let mut pages = vec![(name(command), command)];
    let mut next = 0;
    while let Some(&(_, page)) = pages.get(next) {
        pages.extend(visible(page).map(|verb| (name(verb), verb)));
        next += 1;
    }
    pages
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

/// `toft-run`.
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// A page. What follows the options in the help becomes the usual sections.
fn text(page: &Command, whole: &Command, version: &str) -> std::io::Result<Vec<u8>> {
    let man = Man::new(page.clone()).date(DATE).source(format!("toft {version}")).manual("Toft");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if page.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if visible(page).next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    let after = page.get_after_long_help().or(page.get_after_help());
    let mut after = sections(&after.map(ToString::to_string).unwrap_or_default());
    let mut roff = Roff::default();
    // The usual order: EXIT STATUS, ENVIRONMENT, NOTES, EXAMPLES.
    if after.first().is_some_and(|(title, _)| *title == EXIT_STATUS) {
        section(&mut roff, EXIT_STATUS, &after.remove(0).1);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    let variables = environment::of(&name(page));
    for (variable, what) in &variables {
        roff.control("TP", []);
        roff.text([bold(*variable)]);
        roff.text([roman(*what)]);
    }
    if variables.is_empty() {
        roff.text([roman("No variable of Toft has an effect here.")]);
    }
    for (title, body) in after {
        section(&mut roff, title, &body);
    }
    roff.control("SH", ["SEE ALSO"]);
    let mut others: Vec<String> = visible(page).map(|verb| format!("{}(1)", name(verb))).collect();
    if !std::ptr::eq(page, whole) {
        others.push(format!("{}(1)", name(whole)));
    }
    roff.text([roman(others.join(", "))]);
    roff.to_writer(&mut text)?;
    Ok(tidy(&String::from_utf8_lossy(&text)).into_bytes())
}

/// The page without line breaks beside an empty line, which break nothing and of which `mandoc -T
/// lint` warns.
fn tidy(page: &str) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let is_empty =
        |at: Option<usize>| at.and_then(|at| lines.get(at)).is_some_and(|l| l.is_empty());
    let kept = lines.iter().enumerate().filter(|&(at, line)| {
        *line != ".br" || !is_empty(at.checked_sub(1)) && !is_empty(Some(at + 1))
    });
    kept.map(|(_, line)| format!("{line}\n")).collect()
}

/// A section with a body of text. What is indented stays in lines.
fn section(roff: &mut Roff, title: &str, body: &str) {
    roff.control("SH", [title]);
    if body.lines().any(|line| line.starts_with("  ")) {
        roff.control("nf", []);
        for line in body.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    } else {
        roff.text([roman(body.replace('\n', " "))]);
    }
}

/// The paragraphs after the options, by the section of a manual page that each belongs to, in their
/// usual order.
fn sections(after: &str) -> Vec<(&'static str, String)> {
    let mut sections =
        [(EXIT_STATUS, String::new()), ("NOTES", String::new()), ("EXAMPLES", String::new())];
    for paragraph in after.split("\n\n").filter(|text| !text.trim().is_empty()) {
        let (at, text) = if let Some(rest) = paragraph.strip_prefix("Examples:\n") {
            (2, rest)
        } else if let Some(rest) = paragraph.strip_prefix("Exit status:") {
            (0, rest.trim_start_matches(' ').trim_start_matches('\n'))
        } else {
            (1, paragraph)
        };
        let body = &mut sections[at].1;
        if !body.is_empty() {
            body.push('\n');
        }
        body.push_str(text);
    }
    sections.into_iter().filter(|(_, body)| !body.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_options_becomes_sections() {
        let after = "Examples:\n  toft x 1    one\n  toft x 2    two\n\nIt needs\nnothing.\n\nExit status: 0; 1 if not.";
        assert_eq!(
            sections(after),
            [
                ("EXIT STATUS", "0; 1 if not.".to_owned()),
                ("NOTES", "It needs\nnothing.".to_owned()),
                ("EXAMPLES", "  toft x 1    one\n  toft x 2    two".to_owned()),
            ]
        );
        let list = "Exit status:\n  that of PROGRAM\n  123   it leaked";
        assert_eq!(
            sections(list),
            [("EXIT STATUS", "  that of PROGRAM\n  123   it leaked".to_owned())]
        );
        assert!(sections("").is_empty());
    }
}
