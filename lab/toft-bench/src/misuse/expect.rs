//! The verdict that Toft has to reach in a case of the corpus, and whether it did.

use super::pattern::pattern;
use super::verdict::{Ending, Verdict, named};
use crate::child::End;
use crate::mount::{LIGHT, SECURE};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A build of Toft that is held to what the corpus says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    Default,
    Secure,
    Light,
}

impl Build {
    /// The build that a peer of this name is.
    pub fn of_peer(name: &str) -> Option<Self> {
        match name {
            "toft" => Some(Self::Default),
            SECURE => Some(Self::Secure),
            LIGHT => Some(Self::Light),
            _ => None,
        }
    }
}

/// The messages, as they are written.
pub const MESSAGES_TEXT: &str = include_str!("../../misuse/messages.toml");
static MESSAGES: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| toml::from_str(MESSAGES_TEXT).expect("misuse/messages.toml"));

/// A line of a program's head.
#[derive(Clone, Debug)]
pub struct Expectation {
    pub build: Build,
    pub value: String,
    selectors: Vec<(String, Vec<String>)>,
    verdicts: Vec<Verdict>,
    how: Option<How>,
    /// In how many of the runs at least; all when not given.
    least: Option<usize>,
}

/// How a process has to die.
#[derive(Clone, Debug, PartialEq, Eq)]
enum How {
    /// By this signal, from the processor.
    Signal(String),
    /// By `SIGABRT`, after this line.
    Message(String),
}

impl Expectation {
    /// Reads `toft size=1,2 variant=x` and `caught|late double-free 18/20`.
    pub fn parse(key: &str, value: &str) -> Result<Self, String> {
        let mut keys = key.split_whitespace();
        let build = match keys.next() {
            Some("toft") => Build::Default,
            Some("secure") => Build::Secure,
            Some("light") => Build::Light,
            _ => return Err(format!("unknown directive {key}")),
        };
        let selectors = keys.map(selector).collect::<Result<_, _>>()?;
        let mut words = value.split_whitespace();
        let verdicts = words.next().unwrap_or_default().split('|');
        let verdicts = verdicts
            .map(|word| Verdict::of_word(word).ok_or_else(|| format!("no verdict: {word}")))
            .collect::<Result<_, _>>()?;
        let value = value.to_owned();
        let mut expectation = Self { build, value, selectors, verdicts, how: None, least: None };
        for word in words {
            if let Some((least, _)) = word.split_once('/') {
                let least = least.parse().map_err(|_| format!("not a number: {word}"))?;
                expectation.least = Some(least);
            } else if word.starts_with("SIG") {
                expectation.how = Some(How::Signal(word.to_owned()));
            } else {
                let line = MESSAGES.get(word).ok_or_else(|| format!("no message: {word}"))?;
                expectation.how = Some(How::Message(line.clone()));
            }
        }
        Ok(expectation)
    }

    /// The keys and words that it is for.
    pub fn selected(&self) -> impl Iterator<Item = (&str, &str)> {
        self.selectors
            .iter()
            .flat_map(|(key, words)| words.iter().map(move |word| (&**key, &**word)))
    }

    /// Whether it is for a case, whose word for each key is given.
    pub fn fits(&self, word_of: &dyn Fn(&str) -> String) -> bool {
        self.selectors.iter().all(|(key, words)| words.contains(&word_of(key)))
    }

    /// What is wrong with the runs of a case, if anything.
    pub fn deviation(&self, runs: &[(Ending, End)]) -> Option<String> {
        let wrong: Vec<String> =
            runs.iter().filter_map(|(ending, end)| self.wrong(ending, end)).collect();
        let allowed = self.least.map_or(0, |least| runs.len().saturating_sub(least));
        (wrong.len() > allowed).then(|| {
            format!("expected {}, was {} ({} of {})", self.value, wrong[0], wrong.len(), runs.len())
        })
    }

    fn wrong(&self, ending: &Ending, end: &End) -> Option<String> {
        let (verdict, how) = match ending {
            Ending::Judged(verdict, how) => (*verdict, how),
            Ending::NoSuchCall => return Some("no such call".to_owned()),
            Ending::Failed(how) => return Some(format!("failed: {how}")),
        };
        let was = format!("{} {how}", verdict.word());
        if !self.verdicts.contains(&verdict) {
            return Some(was);
        }
        if !matches!(verdict, Verdict::Caught | Verdict::Late) {
            return None;
        }
        match self.how.as_ref()? {
            How::Signal(signal) => (how != signal).then_some(was),
            How::Message(line) => {
                let said = named(&end.said).unwrap_or_default();
                match pattern(line, &end.output) {
                    Ok(re) if re.is_match(said) && how.starts_with("SIGABRT") => None,
                    Ok(_) => Some(was),
                    Err(error) => Some(format!("{was} ({error})")),
                }
            }
        }
    }
}

/// The secure builds may not miss what the default build does not.
pub fn is_no_worse(default: Option<&Expectation>, runs: &[(Ending, End)]) -> Option<String> {
    let may_miss =
        default.is_none_or(|of| of.least.is_some() || of.verdicts.contains(&Verdict::Missed));
    let bad = runs.iter().find_map(|(ending, _)| match ending {
        Ending::Failed(how) => Some(format!("failed: {how}")),
        Ending::Judged(Verdict::Missed, how) if !may_miss => Some(format!("missed {how}")),
        _ => None,
    });
    bad.map(|bad| format!("the default build does not miss it, was {bad}"))
}

const KEYS: [&str; 4] = ["language", "thread", "size", "variant"];

fn selector(word: &str) -> Result<(String, Vec<String>), String> {
    let (key, words) = word.split_once('=').ok_or_else(|| format!("not KEY=WORD: {word}"))?;
    if !KEYS.contains(&key) {
        return Err(format!("{key} is none of {}", KEYS.join(", ")));
    }
    Ok((key.to_owned(), words.split(',').map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::judged as run;

    const LINE: &str = "toft: double free: free(0x10): this 32-byte block is already free \
                        (small slab, slot 4, partition 7; call site 0x1f)";

    fn dies(line: &str, signal: &str) -> (Ending, End) {
        let announced = "echo call=free; echo p=0x10; echo size=32; echo begin;";
        run(&format!("{announced} echo '{line}' >&2; kill -{signal} $$"))
    }

    fn expects(value: &str) -> Expectation {
        Expectation::parse("toft", value).unwrap()
    }

    #[test]
    fn the_exact_message_is_asked_for() {
        let expectation = expects("caught double-free");
        assert_eq!(expectation.deviation(&[dies(LINE, "ABRT")]), None);
        for (line, signal) in [
            (LINE, "SEGV"),
            (&*LINE.replace("0x10", "0x20"), "ABRT"),
            (&*LINE.replace("32-byte", "48-byte"), "ABRT"),
            (&*LINE.replace("double", "invalid"), "ABRT"),
            (&*format!("{LINE} and more"), "ABRT"),
            ("free(): double free detected", "ABRT"),
        ] {
            let deviation = expectation.deviation(&[dies(line, signal)]);
            assert!(deviation.is_some(), "{line} {signal}");
        }
        // What else is on standard error is not judged, and a signal can be asked for instead.
        assert_eq!(expectation.deviation(&[dies(&format!("other\n{LINE}\nmore"), "ABRT")]), None);
        assert_eq!(expects("caught SIGSEGV").deviation(&[run("echo begin; kill -SEGV $$")]), None);
        assert!(expects("caught SIGSEGV").deviation(&[run("echo begin; kill -BUS $$")]).is_some());
    }

    #[test]
    fn a_verdict_may_be_one_of_several_and_hold_for_most_runs() {
        let prevented = "echo begin; echo end; exit 80";
        let missed = "echo begin; echo end; exit 81";
        assert_eq!(expects("late|prevented").deviation(&[run(prevented)]), None);
        let text = expects("prevented").deviation(&[run(prevented), run(missed)]).unwrap();
        assert!(text.contains("missed") && text.contains("1 of 2"), "{text}");
        assert_eq!(expects("prevented 1/2").deviation(&[run(prevented), run(missed)]), None);
        assert!(expects("prevented 1/2").deviation(&[run(missed), run(missed)]).is_some());
        assert!(expects("prevented").deviation(&[run("exit 1")]).is_some(), "it came to nothing");
        assert!(
            expects("prevented").deviation(&[run("exit 82")]).is_some(),
            "no call is no verdict"
        );
    }

    #[test]
    fn the_secure_build_may_not_be_worse() {
        let missed = run("echo begin; echo end; exit 81");
        let caught = run("echo begin; kill -ABRT $$");
        let default = expects("prevented");
        assert!(is_no_worse(Some(&default), std::slice::from_ref(&missed)).is_some());
        assert_eq!(is_no_worse(Some(&default), &[caught]), None);
        assert_eq!(is_no_worse(Some(&expects("missed")), &[missed]), None);
        assert!(is_no_worse(Some(&expects("missed")), &[run("exit 1")]).is_some());
    }
}
