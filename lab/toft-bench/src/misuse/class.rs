//! The classes of misuse: what the head of each program says of itself.
//!
//! ```text
//! // class: 11 Free a small block twice in a row    what follows belongs to this class
//! // sizes: 24 100 1000
//! // threads: same                 `same cross` when not given: whether another thread does it
//! // languages: c                  `c c++` when not given
//! // variants: first later         words that the program knows
//! // repeat: 20                    runs of each, where chance plays a part
//! // toft: caught double-free      what Toft has to come to, and the message it has to name it by
//! // toft variant=first size=24,100: caught|late SIGSEGV
//! // toft thread=cross: prevented 18/20
//! // secure: caught double-free    the same for the secure build
//! // light: missed                  and for the light one, where it differs
//! ```
//!
//! Of the lines for one build the last that fits counts.

use super::expect::{Build, Expectation};
use std::fmt;

/// The programs, by name.
pub(crate) const SOURCES: &[(&str, &str)] = &[
    ("past-requested.c", include_str!("../../misuse/past-requested.c")),
    ("past-usable.c", include_str!("../../misuse/past-usable.c")),
    ("sweep.c", include_str!("../../misuse/sweep.c")),
    ("before.c", include_str!("../../misuse/before.c")),
    ("read-after-free.c", include_str!("../../misuse/read-after-free.c")),
    ("write-after-free.c", include_str!("../../misuse/write-after-free.c")),
    ("double-free.c", include_str!("../../misuse/double-free.c")),
    ("double-free-late.c", include_str!("../../misuse/double-free-late.c")),
    ("double-free-threads.c", include_str!("../../misuse/double-free-threads.c")),
    ("double-free-race.c", include_str!("../../misuse/double-free-race.c")),
    ("free-inside.c", include_str!("../../misuse/free-inside.c")),
    ("free-foreign.c", include_str!("../../misuse/free-foreign.c")),
    ("free-inside-aligned.c", include_str!("../../misuse/free-inside-aligned.c")),
    ("realloc-inside.c", include_str!("../../misuse/realloc-inside.c")),
    ("realloc-freed.c", include_str!("../../misuse/realloc-freed.c")),
    ("usable-size.c", include_str!("../../misuse/usable-size.c")),
    ("wrong-size.c", include_str!("../../misuse/wrong-size.c")),
    ("array-delete.c", include_str!("../../misuse/array-delete.c")),
    ("zero-size.c", include_str!("../../misuse/zero-size.c")),
    ("stale-content.c", include_str!("../../misuse/stale-content.c")),
    ("immediate-reuse.c", include_str!("../../misuse/immediate-reuse.c")),
    ("other-call-site.c", include_str!("../../misuse/other-call-site.c")),
    ("overwritten-free-list.c", include_str!("../../misuse/overwritten-free-list.c")),
    ("metadata-by-overflow.c", include_str!("../../misuse/metadata-by-overflow.c")),
    ("too-large.c", include_str!("../../misuse/too-large.c")),
    ("product.c", include_str!("../../misuse/product.c")),
    ("memcpy.c", include_str!("../../misuse/memcpy.c")),
    ("execute.c", include_str!("../../misuse/execute.c")),
];

/// What they all include.
pub(crate) const HEADER: &str = include_str!("../../misuse/corpus.h");

/// A class of misuse.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its number, that of the project's list of classes.
    pub number: u32,
    /// What is done.
    pub title: String,
    /// The program.
    pub source: String,
    /// How often each case is run.
    pub repeat: usize,
    /// The verdicts that Toft has to reach.
    pub expectations: Vec<Expectation>,
    sizes: Vec<usize>,
    threads: Vec<String>,
    languages: Vec<String>,
    variants: Vec<String>,
}

/// One way to do the misuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// `c` or `c++`.
    pub language: String,
    /// `same` or `cross`: whether another thread does it.
    pub thread: String,
    /// The size of the block.
    pub size: usize,
    /// A word that the program knows.
    pub variant: String,
}

impl Case {
    /// What the program is told.
    pub(crate) fn arguments(&self) -> [String; 3] {
        [self.thread.clone(), self.size.to_string(), self.variant.clone()]
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {} {}", self.language, self.thread, self.size)?;
        if self.variant.is_empty() { Ok(()) } else { write!(f, " {}", self.variant) }
    }
}

/// All classes, by number.
///
/// # Panics
/// When the head of a program is wrong; a test reads them all.
#[must_use]
pub fn classes() -> Vec<Class> {
    let read = |&(name, text): &(&str, &str)| {
        parse(name, text).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let mut classes: Vec<Class> = SOURCES.iter().flat_map(read).collect();
    classes.sort_by_key(|class| class.number);
    classes
}

/// The classes of a program.
///
/// # Errors
/// The line that is wrong.
pub fn parse(name: &str, text: &str) -> Result<Vec<Class>, String> {
    let mut classes: Vec<Class> = Vec::new();
    for line in text.lines().map_while(|line| line.strip_prefix("// ")) {
        let (key, value) = line.split_once(':').ok_or_else(|| format!("no directive: {line}"))?;
        if key == "class" {
            classes.push(begin(name, value.trim())?);
            continue;
        }
        let class = classes.last_mut().ok_or_else(|| format!("before any class: {line}"))?;
        class.directive(key, value.trim()).map_err(|error| format!("{line}: {error}"))?;
    }
    match classes.iter().find(|class| class.sizes.is_empty()) {
        Some(class) => Err(format!("class {} has no sizes", class.number)),
        None if classes.is_empty() => Err("no class".to_owned()),
        None => Ok(classes),
    }
}

fn begin(source: &str, value: &str) -> Result<Class, String> {
    let (number, title) = value.split_once(' ').ok_or("a class has a number and a title")?;
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    Ok(Class {
        number: number.parse().map_err(|_| format!("not a number: {number}"))?,
        title: title.to_owned(),
        source: source.to_owned(),
        repeat: 1,
        expectations: Vec::new(),
        sizes: Vec::new(),
        threads: words("same cross"),
        languages: words("c c++"),
        variants: vec![String::new()],
    })
}

impl Class {
    fn directive(&mut self, key: &str, value: &str) -> Result<(), String> {
        let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        let among = |known: &[&str]| match words.iter().find(|word| !known.contains(&word.as_str()))
        {
            Some(word) => Err(format!("{word} is none of {}", known.join(", "))),
            None => Ok(words.clone()),
        };
        let number = |word: &String| word.parse().map_err(|_| format!("not a number: {word}"));
        match key {
            "sizes" => self.sizes = words.iter().map(number).collect::<Result<_, _>>()?,
            "threads" => self.threads = among(&["same", "cross"])?,
            "languages" => self.languages = among(&["c", "c++"])?,
            "variants" => self.variants = words,
            "repeat" => self.repeat = value.parse().map_err(|_| "not a number".to_owned())?,
            _ => {
                let expectation = Expectation::parse(key, value)?;
                let selects = |(key, word): (&str, &str)| {
                    self.cases().iter().any(|case| word_of(case, key) == word)
                };
                if !expectation.selected().all(selects) {
                    return Err("it selects what the class does not have".to_owned());
                }
                self.expectations.push(expectation);
            }
        }
        Ok(())
    }

    /// Every way to do it.
    #[must_use]
    pub fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for language in &self.languages {
            for thread in &self.threads {
                for &size in &self.sizes {
                    for variant in &self.variants {
                        cases.push(Case {
                            language: language.clone(),
                            thread: thread.clone(),
                            size,
                            variant: variant.clone(),
                        });
                    }
                }
            }
        }
        cases
    }

    /// The languages that it is written in.
    pub(crate) fn languages(&self) -> &[String] {
        &self.languages
    }

    /// The verdict that a build has to reach in a case, if the program states one. Where it states
    /// none for the light build, that of the secure build holds.
    pub(crate) fn expectation(&self, build: Build, case: &Case) -> Option<&Expectation> {
        let fits = |expectation: &&Expectation| {
            expectation.build == build && expectation.fits(&|key| word_of(case, key))
        };
        let stated = self.expectations.iter().rev().find(fits);
        match build {
            Build::Light => stated.or_else(|| self.expectation(Build::Secure, case)),
            _ => stated,
        }
    }
}

/// The word of a case that a selector of this key is compared with.
fn word_of(case: &Case, key: &str) -> String {
    match key {
        "language" => case.language.clone(),
        "thread" => case.thread.clone(),
        "size" => case.size.to_string(),
        _ => case.variant.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_class_of_the_list_is_there_once_and_every_file_is_read() {
        let numbers: Vec<u32> = classes().iter().map(|class| class.number).collect();
        assert_eq!(numbers, (1..=33).collect::<Vec<_>>());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("misuse");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".c"))
            .collect();
        let known: BTreeSet<String> = SOURCES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(files, known);
    }

    /// The table can be made for every case, and what the default build does is held in all of
    /// them.
    #[test]
    fn every_case_says_what_the_default_build_has_to_come_to() {
        for class in classes() {
            for case in class.cases() {
                let has = class.expectation(Build::Default, &case);
                assert!(has.is_some(), "class {}, {case}", class.number);
            }
        }
    }

    #[test]
    fn a_head_is_read_and_the_last_line_that_fits_counts() {
        let text = "// class: 7 Do this: and that\n// sizes: 1 2\n// threads: same\n// variants: a b\n\
                    // repeat: 3\n// toft: caught double-free\n// toft size=2 variant=b: missed\n\
                    // class: 8 Other\n// sizes: 9\n// languages: c\n#include\n// sizes: none\n";
        let [seven, eight] = &parse("x.c", text).unwrap()[..] else { panic!() };
        assert_eq!((seven.number, seven.title.as_str(), seven.repeat), (7, "Do this: and that", 3));
        assert_eq!((seven.cases().len(), eight.cases().len()), (2 * 2 * 2, 2));
        let missed: Vec<String> = seven
            .cases()
            .iter()
            .filter(|case| seven.expectation(Build::Default, case).unwrap().value == "missed")
            .map(ToString::to_string)
            .collect();
        assert_eq!(missed, ["c same 2 b", "c++ same 2 b"]);
        assert!(seven.expectation(Build::Secure, &seven.cases()[0]).is_none());
        let text = "// class: 9 Third\n// sizes: 1 2\n// toft: missed\n// secure: prevented\n\
                    // light size=2: missed\n";
        let [nine] = &parse("x.c", text).unwrap()[..] else { panic!() };
        let light = |case| nine.expectation(Build::Light, case).unwrap().value.as_str();
        let lights: Vec<_> = nine.cases().iter().map(light).collect();
        assert!(lights.contains(&"prevented") && lights.contains(&"missed"), "{lights:?}");
    }

    #[test]
    fn a_head_that_is_wrong_is_refused() {
        let good = "// class: 7 Do this\n// sizes: 1\n";
        assert!(parse("x.c", good).is_ok());
        for wrong in [
            "// sizes: 1\n",
            "// class: x y\n",
            "// class: 7 No sizes\n",
            "// class: 7 Do this\n// sizes: 1\n// threads: other\n",
            "// class: 7 Do this\n// sizes: 1\n// tooft: missed\n",
            "// class: 7 Do this\n// sizes: 1\n// toft: mised\n",
            "// class: 7 Do this\n// sizes: 1\n// toft size=2: missed\n",
            "// class: 7 Do this\n// sizes: 1\n// toft colour=red: missed\n",
            "// class: 7 Do this\n// sizes: 1\n// toft: caught no-such-message\n",
            "",
        ] {
            assert!(parse("x.c", wrong).is_err(), "{wrong}");
        }
    }
}
