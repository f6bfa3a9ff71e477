//! Every link of a page leads somewhere: to a file of this repository, and to a heading of a page.

/// What is between the text of a link and its target.
pub const LINK: &str = "](";

/// Where a target ends that begins a text.
pub fn link_end(text: &str) -> usize {
    text.find(')').unwrap_or(text.len())
}

#[cfg(test)]
mod tests;
