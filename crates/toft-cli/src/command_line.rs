//! Errors of the command line, each in one line.

use clap::error::{ContextKind, ContextValue};

/// Returns what is wrong, the nearest word that exists, and where the help of the verb is.
pub fn one_line(error: &clap::Error, verb: Option<&str>) -> String {
    let whole = error.render().to_string();
    // The paragraphs after the first are tips and usage.
    let first = whole.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = first.lines().map(str::trim).collect();
    let mut line = lines.join(" ");
    if let Some(rest) = line.strip_prefix("error: ") {
        line = rest.trim_end_matches(':').to_owned();
    }
    if let Some(meant) = meant(error) {
        line += &format!("; did you mean {meant}?");
    }
    match verb {
        Some(verb) => line + &format!(" (toft {verb} --help)"),
        None => line + " (toft --help)",
    }
}

/// Returns the word that was probably meant, of those that clap suggests.
fn meant(error: &clap::Error) -> Option<String> {
    let given =
        [ContextKind::InvalidSubcommand, ContextKind::InvalidArg, ContextKind::InvalidValue];
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(vec![text.clone()]),
        Some(ContextValue::Strings(texts)) => Some(texts.clone()),
        _ => None,
    };
    let given = given.into_iter().find_map(text)?.into_iter().next()?;
    let suggested =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let suggested = suggested.into_iter().find_map(text)?;
    suggested.into_iter().min_by_key(|word| strsim::damerau_levenshtein(&given, word))
}
