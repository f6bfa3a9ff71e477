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
pub use text::{Shown, callers, diff_text, share, text};

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

    /// Every view names the rows and the stacks of one profile alike: lines of Python, names that a
    /// JIT compiler has given, and names of C++ without their parameters.
    #[test]
    fn every_view_has_the_same_labels() {
        use crate::{Diff, Figures, Frame, Location};
        use std::io::Read as _;

        let runtime = |function: &str, file: &str, line| Location {
            site: 1 << 62 | u64::from(line),
            frames: vec![Frame {
                function: function.into(),
                file: Some(file.into()),
                line: Some(line),
            }]
            .into(),
            ..Location::default()
        };
        let native = |function: &str, module: &str, line| Location {
            module: Some(module.into()),
            ..location(function, "/src/native.c", line)
        };
        let interpreter = native("PyUnicode_New", "/usr/bin/python3.11", 7);
        let of = |location, line| crate::Row { location, ..row("x", line, 16, 4) };
        let mut all = profile(vec![
            of(interpreter.clone(), 7),
            of(runtime("handler", "/srv/server.js", 31), 31),
            of(native("app::load(int, char const*)", "/srv/app", 12), 12),
        ]);
        all.sampled = sampled_profile().sampled;
        let stacks = &mut all.sampled.as_mut().unwrap().stacks;
        let work = runtime("work", "/srv/app.py", 8);
        let stack = crate::SampledStack {
            calls: vec![interpreter, work, native("main", "/usr/bin/python3.11", 9)],
            ..stacks[1].clone()
        };
        *stacks = vec![stack];

        let none = crate::Profile::default();
        let of_sites =
            ["PyUnicode_New at native.c:7", "handler at server.js:31", "app::load at native.c:12"];
        let of_stacks = ["work at app.py:8"];
        let both = || of_sites.into_iter().chain(of_stacks);
        let has = |view: &str, text: &str, labels: &mut dyn Iterator<Item = &'static str>| {
            labels.for_each(|label| assert!(text.contains(label), "{view}: {label}: {text}"));
        };
        let utf8 = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let shown = Shown::default();
        has("heap", &text(&all, &shown), &mut both());
        let saved = Profile::from_json(&Format::Json.write(&all)).unwrap();
        has("report", &text(&saved, &shown), &mut both());
        let diff = diff_text(&Diff::of(&none, &all), &none, &all, &shown);
        has("diff", &diff, &mut both());
        assert!(diff.contains("about 100.0% from work at app.py:8"), "{diff}");
        assert!(diff.contains("\nsampled stacks: "), "{diff}");
        has("html", &utf8(Format::Html.write(&all)), &mut of_stacks.into_iter());
        for format in [Format::Folded, Format::Flame] {
            let view = |stacks| utf8(format.write_view(&all, View { stacks, full: false }));
            has("sites of stacks", &view(false), &mut of_sites.into_iter());
            has("stacks", &view(true), &mut of_stacks.into_iter());
        }
        let figures = Figures::default();
        let scrape = Scrape { profile: &all, figures: &figures, top: 9, seconds: 0.0 };
        has("metrics", &prometheus(&scrape), &mut of_sites.into_iter());
        let mut pprof = Vec::new();
        let packed = Format::Pprof.write(&all);
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut pprof).unwrap();
        let pprof = String::from_utf8_lossy(&pprof);
        let names = ["PyUnicode_New", "handler", "app::load", "work", "/srv/app.py"];
        has("pprof", &pprof, &mut names.into_iter());
        // No change has no stacks.
        let same = diff_text(&Diff::of(&all, &all), &all, &all, &shown);
        assert!(!same.contains("work at app.py:8"), "{same}");
    }

    #[test]
    fn what_means_something_in_xml_is_escaped() {
        assert_eq!(escape("a<b>&\"c\"\u{1}"), "a&lt;b&gt;&amp;&quot;c&quot;?");
        assert_eq!(escape("\u{fffe}\u{ffff}\u{fffd}"), "??\u{fffd}");
    }
}
