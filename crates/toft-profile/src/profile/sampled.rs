//! Sampled stacks: a second view beside the rows, which are exact. These are estimates.
//!
//! The library keeps the whole stack of an allocation now and then (`TOFT_SAMPLE`,
//! docs/samples.md); what each stands for is scaled there, so that sums are right on average.

use serde::{Deserialize, Serialize};

use super::Row;
use crate::{Frame, Location, label};

/// What stands for the caller of library code in stacks that end before it.
pub(super) const UNKNOWN: &str = "an unknown caller";

/// What was sampled of one stack. All but the numbers of samples are estimates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledStack {
    /// The calls, innermost first.
    pub calls: Vec<Location>,
    /// Whether there is more of the stack that could not be had.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Allocations that were sampled, and those of them that live.
    pub samples: u64,
    /// Those of them that live.
    pub live_samples: u64,
    /// Live blocks.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks that there ever were.
    pub allocations: u64,
    /// Their bytes.
    pub allocated: u64,
}

impl SampledStack {
    /// The functions, innermost first.
    pub fn words(&self) -> Vec<String> {
        self.calls.iter().flat_map(Location::words).collect()
    }

    /// Returns the function of the program that names the stack: its place in `words`, and itself.
    /// `None` if all functions belong to libraries.
    pub fn label(&self) -> Option<(usize, &Frame)> {
        label_of(&self.calls)
    }

    /// The function of the program that called the code of a row, if the stack has that code. It is
    /// unknown if the stack ends before it.
    pub(super) fn caller_of(&self, row: &Row) -> Option<String> {
        let code = row.location.label();
        // The line first: it is quick to compare, and there are many stacks.
        let has_name = |call: &Location, code: &Frame| {
            call.frames.iter().any(|frame| frame.line == code.line)
                && label::label(&call.frames).is_some_and(|frame| {
                    frame.line == code.line && label::short(&frame.function) == code.function
                })
        };
        let is_code = |call: &Location| {
            call.site == row.location.site || code.as_ref().is_some_and(|code| has_name(call, code))
        };
        let at = self.calls.iter().position(is_code)?;
        let Some((_, own)) = label_of(&self.calls[at..]) else {
            return Some(UNKNOWN.to_owned());
        };
        // A runtime's names have no parameters and templates: `f.<locals>.<lambda>` is whole.
        Some(match self.is_of_runtime() {
            true => own.words(),
            false => Frame { function: label::short(&own.function), ..own.clone() }.words(),
        })
    }

    /// Returns true if a language runtime has named functions of the stack.
    pub(super) fn is_of_runtime(&self) -> bool {
        self.calls.iter().any(Location::is_of_runtime)
    }

    /// The functions, outermost first, below the program's name. A mark says that a stack was
    /// cut off. The label is the innermost one, unless `full` asks for all.
    pub fn stack(&self, program: &str, full: bool) -> Vec<String> {
        let mut stack = vec![program.to_owned()];
        if self.truncated {
            stack.push("(truncated)".to_owned());
        }
        let inside = if full { 0 } else { self.inside() };
        stack.extend(self.words().into_iter().skip(inside).rev());
        stack
    }

    /// Returns the number of functions inside the label. If all functions belong to libraries, that
    /// is the label of the innermost call.
    pub(crate) fn inside(&self) -> usize {
        let of_call = |call: &Location| call.frames.len() - call.frames_from_label().len();
        let library = || self.calls.first().map_or(0, of_call);
        self.label().map_or_else(library, |(at, _)| at)
    }

    /// The functions as a table shows them, innermost first: short, and a run of functions of
    /// libraries in one line, which the outermost of the run names if it is inside the label, or
    /// else the innermost. Returns the place of the label's line as well.
    pub(crate) fn lines(&self) -> (usize, Vec<String>) {
        let label = self.label().map(|(at, _)| at);
        let mut all: Vec<(bool, String)> = Vec::new();
        for call in &self.calls {
            if call.frames.is_empty() {
                all.push((false, call.place()));
            }
            for frame in call.frames.iter() {
                let is_library = label != Some(all.len()) && !label::is_own(frame);
                // A runtime's names have no parameters and templates.
                let function = match call.is_of_runtime() {
                    true => frame.function.clone(),
                    false => label::short(&frame.function),
                };
                all.push((is_library, Frame { function, ..frame.clone() }.words()));
            }
        }
        let label = label.unwrap_or(0);
        let (mut lines, mut at_line, mut start) = (Vec::new(), 0, 0);
        while let Some((is_library, _)) = all.get(start) {
            let run = all[start..].iter().take_while(|(library, _)| *library).count();
            let run = if *is_library { run } else { 1 };
            let named = if start < label { start + run - 1 } else { start };
            if start == label {
                at_line = lines.len();
            }
            let name = &all[named].1;
            lines.push(match run {
                1 => name.clone(),
                more => format!("{name} and {} more of libraries", more - 1),
            });
            start += run;
        }
        (at_line, lines)
    }
}

/// Returns the first function outside libraries, and its place among the words of these calls. In a
/// stack with functions that a language runtime has named, only these are the program's. If all of
/// them belong to libraries, the innermost one stands in. Of Node's own modules it is the outermost
/// one, which has the kind of event: the innermost allocates for all of them.
fn label_of(calls: &[Location]) -> Option<(usize, &Frame)> {
    let runtime = calls.iter().any(Location::is_of_runtime);
    let is_program = |call: &Location| match runtime {
        true => call.is_of_runtime(),
        false => !label::is_interpreter(call.module_name()),
    };
    let mut word = 0;
    let mut frames = Vec::new();
    for call in calls {
        if is_program(call) {
            frames.extend(call.frames.iter().enumerate().map(|(i, frame)| (word + i, frame)));
        }
        word += call.frames.len().max(1);
    }
    let own = frames.iter().find(|(_, frame)| label::is_own(frame));
    let of_node = |frame: &Frame| frame.file.as_ref().is_some_and(|file| file.starts_with("node:"));
    let stands_in = || {
        let of_package = frames.iter().find(|(_, frame)| frame.file.is_some() && !of_node(frame));
        of_package.or(frames.iter().rfind(|(_, frame)| of_node(frame))).or(frames.first())
    };
    own.or_else(|| stands_in().filter(|_| runtime)).copied()
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Bytes from one chosen byte to the next, on average.
    pub interval: u64,
    /// Samples for which the process had no memory, or that were handed out while the reclaimer
    /// held the slab.
    #[serde(default)]
    pub missed: u64,
    /// Most bytes first.
    pub stacks: Vec<SampledStack>,
}

impl Sampled {
    /// Puts the stacks in order.
    pub(super) fn finish(&mut self) {
        self.stacks.sort_by(|a, b| {
            let sites = |stack: &SampledStack| -> Vec<u64> {
                stack.calls.iter().map(|call| call.site).collect()
            };
            (b.bytes, b.allocated)
                .cmp(&(a.bytes, a.allocated))
                .then_with(|| sites(a).cmp(&sites(b)))
        });
    }

    /// What a sum over all stacks is.
    pub fn sum(&self, of: impl Fn(&SampledStack) -> u64) -> u64 {
        self.stacks.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Samples of which the stack is not whole.
    pub fn truncated(&self) -> u64 {
        self.sum(|stack| if stack.truncated { stack.samples } else { 0 })
    }

    /// What it is, in a line.
    pub fn about(&self) -> String {
        let mut about = format!(
            "estimates from {} samples of {} stacks, one in about {} bytes",
            self.sum(|stack| stack.samples),
            self.stacks.len(),
            self.interval
        );
        let cut = self.truncated();
        if cut > 0 {
            about += &format!("; {cut} of the samples have a truncated stack");
        }
        if self.missed > 0 {
            about += &format!(
                "; {} samples were lost, for lack of memory or to the reclaimer",
                self.missed
            );
        }
        about
    }

    /// Verifies that nothing lives that never was.
    pub(super) fn check(&self) -> Result<(), String> {
        let odd = |stack: &&SampledStack| {
            stack.live_samples > stack.samples
                || stack.objects > stack.allocations
                || stack.bytes > stack.allocated
        };
        match self.stacks.iter().find(odd) {
            Some(stack) => Err(format!("of {} samples {} live", stack.samples, stack.live_samples)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::super::samples::*;
    use super::*;
    use crate::Frames;

    fn python(function: &str, file: &str, line: u32) -> Location {
        let frame = Frame { function: function.into(), file: Some(file.into()), line: Some(line) };
        Location {
            site: 1 << 62 | u64::from(line),
            frames: vec![frame].into(),
            ..Location::default()
        }
    }

    fn native(function: &str, module: &str) -> Location {
        let mut call = location(function, "/src/native.c", 7);
        call.module = Some(module.into());
        call
    }

    fn stack(calls: Vec<Location>) -> SampledStack {
        SampledStack { calls, ..sampled_profile().sampled.unwrap().stacks[0].clone() }
    }

    fn label(calls: Vec<Location>) -> Option<(usize, String)> {
        stack(calls).label().map(|(at, frame)| (at, frame.words()))
    }

    #[test]
    fn the_program_s_own_python_function_names_the_stack() {
        let new = || native("PyUnicode_New", "/usr/bin/python3.11");
        let numpy = || native("npy_alloc", "/srv/numpy.so");
        let json = || python("JSONDecoder.decode", "/usr/lib/python3.11/json/decoder.py", 3);
        let handle = || python("handle", "/srv/app.py", 42);
        let named = |at, words: &str| Some((at, words.to_owned()));
        assert_eq!(label(vec![new(), handle(), new()]), named(1, "handle at app.py:42"));
        assert_eq!(label(vec![numpy(), json(), handle()]), named(2, "handle at app.py:42"));
        let json_words = "JSONDecoder.decode at python3.11/json/decoder.py:3";
        assert_eq!(label(vec![numpy(), new(), json()]), named(2, json_words));
        // Without functions of Python it is the first of another file.
        assert_eq!(label(vec![new(), numpy()]), named(1, "npy_alloc at native.c:7"));
        assert_eq!(label(vec![new()]), None);
        let nameless = Location { frames: Frames::default(), ..new() };
        assert_eq!(label(vec![nameless, handle()]), named(1, "handle at app.py:42"));
    }

    #[test]
    fn a_package_and_the_kind_of_event_name_a_stack_of_node() {
        let zone = || native("AllocateUninitialized", "/usr/bin/node");
        let unsafe_ = || python("createUnsafeBuffer", "node:internal/buffer", 1071);
        let express = || python("parse", "/srv/node_modules/express/lib/body.js", 9);
        let work = || python("work", "/srv/app.js", 3);
        let read = || python("onStreamRead", "node:internal/stream_base_commons", 190);
        let name = |calls| label(calls).map(|(_, words)| words);
        let [own, package, event] = [
            vec![zone(), unsafe_(), express(), work(), read()],
            vec![zone(), unsafe_(), express(), read()],
            vec![zone(), unsafe_(), read()],
        ]
        .map(name);
        assert_eq!(own.as_deref(), Some("work at app.js:3"));
        assert_eq!(package.as_deref(), Some("parse at express/lib/body.js:9"));
        let words = "onStreamRead at node:internal/stream_base_commons:190";
        assert_eq!(event.as_deref(), Some(words));
    }

    #[test]
    fn a_stack_that_ends_early_counts_as_that_of_an_unknown_caller() {
        let push = || location("alloc::vec::push", "/src/vec.rs", 7);
        let main = native("main", "/srv/app");
        let mut profile = sampled_profile();
        profile.rows = vec![Row { location: push(), ..row("x", 7, 16, 4) }];
        let callers = |profile: &mut Profile, stacks: &[SampledStack]| {
            profile.sampled.as_mut().unwrap().stacks = stacks.to_vec();
            profile.callers(&profile.rows[0])
        };
        let (whole, early) = (stack(vec![push(), main]), stack(vec![push()]));
        let half = profile.rows[0].bytes / 2;
        let wanted = [(UNKNOWN.to_owned(), half), ("main at native.c:7".to_owned(), half)];
        assert_eq!(callers(&mut profile, &[whole, early.clone()]), wanted);
        assert_eq!(callers(&mut profile, &[early]), []);
    }

    #[test]
    fn a_row_of_the_interpreter_has_callers_even_without_a_name() {
        let mut code = native("x", "/usr/bin/python3.11");
        code.frames.clear();
        let mut profile = sampled_profile();
        profile.rows = vec![Row { location: code.clone(), ..row("x", 7, 16, 3) }];
        let stacks = &mut profile.sampled.as_mut().unwrap().stacks;
        let lambda = "main.<locals>.<lambda>";
        *stacks = vec![stack(vec![code, python(lambda, "/srv/app.py", 42)])];
        let wanted = (format!("{lambda} at app.py:42"), profile.rows[0].bytes);
        assert_eq!(profile.callers(&profile.rows[0]), [wanted]);
    }
}
