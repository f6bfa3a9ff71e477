//! Hints for the next run, made of profiles: which call sites are worth a separate partition
//! (docs/hints.md).
//!
//! A separate partition costs a site part of a page for each of its slot sizes, and a descriptor
//! for each slab. So a site that holds much gets one, and all that hold little share one. Sites are
//! named by the file that they are in, its build-id, and the place in it, which are the same in
//! each run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Location;
use crate::profile::{Profile, Row, Share};

/// Of the format.
pub const HINTS_VERSION: u32 = 1;

/// A call site that has a separate partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSite {
    /// The place in the file.
    pub offset: u64,
    /// The most bytes that it had in one of the profiles.
    pub bytes: u64,
    /// Where that is, as people read it.
    pub place: String,
}

/// A file that sites are in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HintModule {
    /// Its path.
    pub path: String,
    /// Its build-id, where it has one: else only the name tells it.
    pub build_id: Option<String>,
}

/// What stands in the file where the profiles do not show for certain which call site had what: a
/// later reader of the file has not seen the command's message.
const DOUBT: &str = "# Not certain: in these profiles call sites share partitions, so that what one had may stand at another.\n\
                     # toft run --profile makes a profile that tells them apart.\n";

/// The hints for the next run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The program that the profiles are of.
    pub program: String,
    /// Sites with a separate partition, by file and by place.
    pub own: BTreeMap<HintModule, Vec<OwnSite>>,
    /// Sites that share one, and their bytes: all others.
    pub together: (usize, u64),
    /// Large sites that are in no file: generated code, which has no place to name.
    pub nameless: usize,
    /// Whether the profiles say of each site for certain what it had.
    pub exact: bool,
}

impl Hints {
    /// Gives a separate partition to sites that had at least `own_from` bytes in one of the
    /// profiles.
    pub fn of(profiles: &[Profile], own_from: u64) -> Hints {
        let mut most: BTreeMap<(Option<HintModule>, u64), (u64, String)> = BTreeMap::new();
        for profile in profiles {
            let mut sums: BTreeMap<(Option<HintModule>, u64), (u64, String)> = BTreeMap::new();
            for row in &profile.rows {
                sums.entry(key(row)).or_insert_with(|| (0, row.location.place())).0 += row.bytes;
            }
            for (key, (bytes, place)) in sums {
                let known = most.entry(key).or_default();
                if bytes >= known.0 {
                    *known = (bytes, place);
                }
            }
        }
        let mut hints = Hints {
            program: profiles.first().map(|profile| profile.name.clone()).unwrap_or_default(),
            exact: profiles.iter().flat_map(|profile| &profile.rows).all(|row| {
                // The library itself knows no better than `alone` where each site has its own.
                row.share != Share::Shared
            }),
            ..Hints::default()
        };
        for ((module, offset), (bytes, place)) in most {
            match module {
                Some(module) if bytes >= own_from => {
                    hints.own.entry(module).or_default().push(OwnSite { offset, bytes, place });
                }
                module => {
                    hints.nameless += usize::from(module.is_none() && bytes >= own_from);
                    hints.together.0 += 1;
                    hints.together.1 += bytes;
                }
            }
        }
        hints
    }

    /// Sites with a separate partition, and their bytes.
    pub fn own_sites(&self) -> (usize, u64) {
        let sites = || self.own.values().flatten();
        (sites().count(), sites().map(|site| site.bytes).sum())
    }

    /// The file, as `TOFT_HINTS` reads it.
    pub fn text(&self) -> String {
        let (own, bytes) = self.own_sites();
        let mut text = format!(
            "toft-hints {HINTS_VERSION}\n\
             # Of {}: {own} call sites with {bytes} bytes apart, {} with {} together.\n\
             # TOFT_HINTS=THIS_FILE, or toft run --hints THIS_FILE, follows it. docs/hints.md says what lines there are.\n\
             {DOUBT}others together\n",
            in_a_comment(&self.program),
            self.together.0,
            self.together.1,
            DOUBT = if self.exact { "" } else { DOUBT },
        );
        for (module, sites) in &self.own {
            let id = module.build_id.as_deref().unwrap_or("-");
            // A string takes what it is given.
            let _ = writeln!(text, "\nmodule {id} {}", module.path);
            for site in sites {
                let place = in_a_comment(&site.place);
                let _ = writeln!(text, "own {:#x}  # {} bytes, {place}", site.offset, site.bytes);
            }
        }
        text
    }
}

/// What a site is known by in each run; by its address, where it is in no file.
fn key(row: &Row) -> (Option<HintModule>, u64) {
    let Location { site, module, build_id, offset, .. } = &row.location;
    match (module, offset) {
        (Some(path), Some(offset)) if is_in_a_line(path) => {
            let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
            (Some(HintModule { path, build_id: build_id.clone() }), *offset)
        }
        _ => (None, *site),
    }
}

/// Whether a path can stand in a line: all of it would be read again.
fn is_in_a_line(path: &str) -> bool {
    !path.contains(['\n', '\r']) && !path.contains(" #") && path.trim() == path && !path.is_empty()
}

/// Most letters of a name in a comment: those of Rust and C++ may have hundreds.
const COMMENT_MOST: usize = 80;

fn in_a_comment(text: &str) -> String {
    let mut letters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = letters.by_ref().take(COMMENT_MOST).collect();
    if letters.next().is_some() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::samples::*;

    #[test]
    fn sites_that_hold_much_are_apart_and_named_by_their_place() {
        let mut nowhere = row("jit", 9, 16, 1000);
        nowhere.location = Location { site: 9, ..Location::default() };
        let first = profile(vec![row("a", 0x11, 16, 3), row("b", 0x22, 32, 100), nowhere]);
        // What it had most counts, of all its sizes together.
        let second =
            profile(vec![row("a", 0x11, 16, 100), row("a", 0x11, 32, 100), row("c", 0x33, 32, 1)]);
        let hints = Hints::of(&[first, second], 3200);
        assert_eq!((hints.own_sites(), hints.together), ((2, 8000), (2, 16032)));
        assert_eq!((hints.nameless, hints.exact), (1, true));
        let text = hints.text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "toft-hints 1",
                "others together",
                "",
                "module abcd /bin/sample",
                "own 0x11  # 4800 bytes, a at sample.c:17",
                "own 0x22  # 3200 bytes, b at sample.c:34",
            ]
        );
        assert!(Hints::of(&[profile(vec![row("b", 0x22, 32, 100)])], 3201).own.is_empty());
    }

    #[test]
    fn names_that_would_break_a_line_are_left_out() {
        let mut strange = row("a\nown 0x77", 0x11, 16, 3);
        strange.location.module = Some("/bin/two\nown 0x66".into());
        let mut second = row("b\nown 0x88", 0x22, 16, 3);
        second.location.module = Some("/bin/sample (deleted)".into());
        second.location.build_id = None;
        let mut hints = Hints::of(&[profile(vec![strange, second])], 1);
        hints.program = "x\nown 0x99".into();
        let text = hints.text();
        assert_eq!((hints.nameless, hints.own_sites().0), (1, 1));
        assert!(
            text.contains("\nmodule - /bin/sample\nown 0x22  # 48 bytes, b own 0x88"),
            "{text}"
        );
        for line in text.lines().filter(|line| line.starts_with("own")) {
            assert!(line.starts_with("own 0x22"), "{text}");
        }
    }

    #[test]
    fn profiles_of_sites_that_share_have_a_note() {
        let mut shared = row("a", 1, 16, 3);
        shared.share = Share::Shared;
        let doubtful = Hints::of(&[profile(vec![shared])], 1);
        assert!(!doubtful.exact);
        // In the file as well, as a comment in front of the first line that says anything.
        let text = doubtful.text();
        let (comment, rest) = text.split_once("others together\n").unwrap();
        assert!(comment.contains("\n# Not certain: ") && rest.contains("own 0x1"), "{text}");
        assert!(comment.lines().skip(1).all(|line| line.starts_with("# ")), "{text}");
        let certain = Hints::of(&[profile(vec![row("a", 1, 16, 3)])], 1);
        assert!(certain.exact && !certain.text().contains("certain"));
    }
}
