//! Sampled stacks: a second view beside the rows, which are exact. These are estimates.
//!
//! The library keeps the whole stack of an allocation now and then (`TOFT_SAMPLE`,
//! docs/samples.md); what each stands for is scaled there, so that sums are right on average.

use serde::{Deserialize, Serialize};

use super::Row;
use crate::{Frame, Location, label};

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

    /// The first function outside libraries that called the code of a row, if the stack has that
    /// code.
    pub(super) fn caller_of(&self, row: &Row) -> Option<String> {
        let code = row.location.label()?;
        // The line first: it is quick to compare, and there are many stacks.
        let is_code = |call: &Location| {
            call.frames.iter().any(|frame| frame.line == code.line)
                && label::label(&call.frames).is_some_and(|frame| {
                    frame.line == code.line && label::short(&frame.function) == code.function
                })
        };
        let at = self.calls.iter().position(is_code)?;
        let frames: Vec<Frame> =
            self.calls[at..].iter().flat_map(|call| call.frames.clone()).collect();
        let own = &frames[label::first_own(&frames)?];
        Some(Frame { function: label::short(&own.function), ..own.clone() }.words())
    }

    /// The functions, outermost first, below the program's name. A mark says that a stack was
    /// cut off.
    pub fn stack(&self, program: &str) -> Vec<String> {
        let mut stack = vec![program.to_owned()];
        if self.truncated {
            stack.push("(truncated)".to_owned());
        }
        stack.extend(self.words().into_iter().rev());
        stack
    }
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
