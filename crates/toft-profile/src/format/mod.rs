//! A profile in the forms that other programs and people read.
//!
//! | file | what |
//! |---|---|
//! | `text.rs` | a table for a terminal, with `table.rs` and `units.rs` |
//! | `pprof.rs` | compressed `profile.proto`, of one process or several |
//! | `folded.rs` | a stack a line, for every flame graph program |
//! | `flame.rs` | a flame graph: one SVG file |
//! | `html.rs` | a page to search, sort and drill down in: one HTML file, with `page.html` |
//! | `prometheus.rs` | figures as Prometheus reads them |
//!
//! None of them has a byte from elsewhere: the file can be passed on as it is.

mod flame;
mod folded;
mod html;
mod pprof;
mod prometheus;
mod table;
mod text;
pub mod units;

use crate::Profile;

pub use pprof::write_together as pprof_together;
pub use prometheus::{CONTENT_TYPE, OfProcess, Scrape, prometheus, together};
pub use table::Table;
pub use text::{Shown, diff_text, share, text};

/// The most callers of library code that a row names.
const CALLERS: usize = 5;

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table for a person.
    Text,
    /// The saved form, with names as far as there are any.
    Json,
    /// The saved form, without names: they are looked up when it is read.
    Toft,
    /// `profile.proto`, compressed.
    Pprof,
    /// A stack and its bytes, a line each.
    Folded,
    /// A flame graph as SVG.
    Flame,
    /// A page.
    Html,
}

/// What the forms show that have stacks.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// Sampled stacks instead of call sites, in forms that show one of both. pprof begins with
    /// them.
    pub stacks: bool,
    /// Functions of libraries inside the label, as well.
    pub full: bool,
}

impl Format {
    /// Every form, by the word for it.
    pub const ALL: [(&'static str, Format); 7] = [
        ("text", Format::Text),
        ("json", Format::Json),
        ("toft", Format::Toft),
        ("pprof", Format::Pprof),
        ("folded", Format::Folded),
        ("flame", Format::Flame),
        ("html", Format::Html),
    ];

    /// The form that a file's name asks for.
    pub fn of_name(name: &str) -> Option<Format> {
        let endings = [
            (".pb.gz", Format::Pprof),
            (".pprof", Format::Pprof),
            (".svg", Format::Flame),
            (".html", Format::Html),
            (".htm", Format::Html),
            (".folded", Format::Folded),
            (".json", Format::Json),
            (".txt", Format::Text),
            (".toft", Format::Toft),
        ];
        endings.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| format)
    }

    /// Whether it is of use without the names of functions.
    pub fn wants_names(self) -> bool {
        self != Format::Toft
    }

    /// Writes a profile in this form, by call sites.
    pub fn write(self, profile: &Profile) -> Vec<u8> {
        self.write_view(profile, View::default())
    }

    /// Writes a profile in this form.
    pub fn write_view(self, profile: &Profile, view: View) -> Vec<u8> {
        match self {
            Format::Text => text(profile, &Shown::default()).into_bytes(),
            Format::Json => profile.to_json().into_bytes(),
            Format::Toft => without_names(profile).to_json().into_bytes(),
            Format::Pprof => pprof::write(profile, view),
            Format::Folded => folded::write(profile, view).into_bytes(),
            Format::Flame => flame::write(profile, view).into_bytes(),
            Format::Html => html::write(profile).into_bytes(),
        }
    }
}

fn without_names(profile: &Profile) -> Profile {
    let mut plain = profile.clone();
    // Names that no file has are not found again.
    let in_files = plain
        .locations_mut()
        .map(|(_, location)| location)
        .filter(|location| location.module.is_some());
    in_files.for_each(|location| location.frames.clear());
    plain
}

/// A path from the outside in, with its live bytes and blocks.
struct Path {
    frames: Vec<String>,
    bytes: u64,
    objects: u64,
}

/// The paths of what lives: those of call sites, or the sampled stacks.
fn paths(profile: &Profile, View { stacks, full }: View) -> Vec<Path> {
    let sites = profile.rows.iter().filter(|row| !stacks && row.bytes > 0);
    let sites =
        sites.map(|row| Path { frames: row.stack(full), bytes: row.bytes, objects: row.objects });
    let sampled = profile.sampled.iter().filter(|_| stacks).flat_map(|sampled| &sampled.stacks);
    let sampled = sampled.filter(|stack| stack.bytes > 0).map(|stack| Path {
        frames: stack.stack(&profile.name, full),
        bytes: stack.bytes,
        objects: stack.objects,
    });
    sites.chain(sampled).collect()
}

/// Text as it stands in XML and HTML, between tags and in quotes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not allowed in XML in any form.
            letter if letter.is_control() => escaped.push('?'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::samples::*;

    #[test]
    fn names_of_files_tell_the_form() {
        assert_eq!(Format::of_name("/a/heap.pb.gz"), Some(Format::Pprof));
        assert_eq!(Format::of_name("a.svg"), Some(Format::Flame));
        assert_eq!(Format::of_name("a.toft"), Some(Format::Toft));
        assert_eq!(Format::of_name("a.gz"), None);
    }

    #[test]
    fn the_saved_form_has_no_names_and_is_read_again() {
        let profile = profile(vec![row("f", 1, 16, 3)]);
        let named = Profile::from_json(&Format::Json.write(&profile)).unwrap();
        assert_eq!(named, profile);
        let plain = Profile::from_json(&Format::Toft.write(&profile)).unwrap();
        assert!(plain.rows[0].location.frames.is_empty() && plain.bytes == 48);
    }

    #[test]
    fn what_means_something_in_xml_is_escaped() {
        assert_eq!(escape("a<b>&\"c\"\u{1}"), "a&lt;b&gt;&amp;&quot;c&quot;?");
        assert_eq!(escape("\u{fffe}\u{ffff}\u{fffd}"), "??\u{fffd}");
    }
}
