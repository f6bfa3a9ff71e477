//! Which number a site is given: a separate partition while there are such, that of its group, or
//! one that it shares; what the numbers mean, and how many are given out.
//!
//! ```text
//! 0          1 ..= shared    .. groups    .. given           STEP_FIRST ..
//! nobody's   come late       of groups    of one site each   sites of wrappers
//! ```

use super::Sites;
use crate::site::wrappers::STEP_FIRST;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A partition of those that come late.
    Shared,
    /// One of a group.
    Group,
    /// One of one site.
    Own,
    /// No partition: the site is one of a wrapper.
    Code,
}

impl Sites {
    /// Sets numbers aside for `groups` groups, or as many as there are. Before any site comes.
    pub fn reserve(&self, groups: usize) {
        if self.is_exact() {
            let groups = (groups as u32).min(self.own);
            self.state().groups.store(groups, Relaxed);
            self.state().given.store(groups, Relaxed);
        }
    }

    pub(super) fn groups(&self) -> usize {
        self.state().groups.load(Relaxed) as usize
    }

    /// The first number that one site has for itself.
    pub(super) fn first_own(&self) -> usize {
        1 + self.shared as usize + self.groups()
    }

    /// The number of a group's partition; where none was left for it, one that `site` shares
    /// anyway.
    pub fn group_number(&self, group: usize, site: usize) -> usize {
        if group < self.groups() {
            1 + self.shared as usize + group
        } else {
            self.shared_number(site)
        }
    }

    /// A partition for a site that is not in the table: its own, while there are such.
    pub(super) fn give(&self, site: usize) -> u64 {
        let state = self.state();
        let next = |given: u32| (given < self.own).then_some(given + 1);
        match state.given.fetch_update(AcqRel, Acquire, next) {
            Ok(given) => u64::from(1 + self.shared + given),
            Err(_) => {
                state.merged.fetch_add(1, Relaxed);
                self.shared_number(site) as u64
            }
        }
    }

    /// Counts and returns a number that is not given out in order: a code, or a number that the
    /// site shares.
    pub(super) fn take(&self, code: usize) -> u64 {
        match self.kind(code) {
            Kind::Group => {
                self.state().grouped.fetch_add(1, Relaxed);
            }
            Kind::Shared => {
                self.state().merged.fetch_add(1, Relaxed);
            }
            Kind::Own | Kind::Code => {}
        }
        code as u64
    }

    /// Another thread was faster. Its number is free again, if none was given out since; else lost.
    pub(super) fn take_back(&self, number: u64) {
        let state = self.state();
        match self.kind(number as usize) {
            Kind::Code => {}
            Kind::Own => {
                let given = number as u32 - 1 - self.shared;
                let _ = state.given.compare_exchange(given + 1, given, AcqRel, Relaxed);
            }
            Kind::Group => {
                state.grouped.fetch_sub(1, Relaxed);
            }
            Kind::Shared => {
                state.merged.fetch_sub(1, Relaxed);
            }
        }
    }

    pub(super) fn kind(&self, number: usize) -> Kind {
        if number >= STEP_FIRST {
            Kind::Code
        } else if number >= self.first_own() {
            Kind::Own
        } else if number > self.shared as usize {
            Kind::Group
        } else {
            Kind::Shared
        }
    }

    /// The partition that a site has where all others are given out.
    pub fn shared_number(&self, site: usize) -> usize {
        1 + self.hash.partition(site)
    }

    /// Whether one site has a partition for itself, and for certain.
    pub fn is_own(&self, partition: usize) -> bool {
        self.is_exact() && partition >= self.first_own()
    }

    /// Partitions that may have something, the empty one included, of `all` that there are.
    #[inline]
    pub fn rows(&self, all: usize) -> usize {
        if self.is_exact() {
            (1 + self.shared + self.state().given.load(Acquire)) as usize
        } else {
            all
        }
    }

    /// Sites that have a separate partition; sites that share one, because they came late.
    pub fn counts(&self) -> (usize, usize) {
        if !self.is_exact() {
            return (0, 0);
        }
        let state = self.state();
        let given = state.given.load(Relaxed) as usize;
        (given.saturating_sub(self.groups()), state.merged.load(Relaxed) as usize)
    }

    /// Sites that share one because hints say so.
    pub fn grouped(&self) -> usize {
        if self.is_exact() { self.state().grouped.load(Relaxed) as usize } else { 0 }
    }
}
