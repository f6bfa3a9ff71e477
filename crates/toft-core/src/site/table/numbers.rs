//! The numbers of sites: which one a site gets, what they mean, and how many are given out. A site
//! gets the number of a separate partition while there is one, that of its group, or one that it
//! shares.
//!
//! ```text
//! 0          1 ..= shared    .. groups    .. given           STEP_FIRST ..
//! unowned    late sites      groups       one site each      sites of wrappers
//! ```

use super::Sites;
use crate::region::{Partition, Site};
use crate::site::wrappers::STEP_FIRST;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A partition that late sites share.
    Shared,
    /// The partition of a group.
    Group,
    /// The partition of one site.
    Own,
    /// No partition: the site is in a wrapper.
    Code,
}

impl Sites {
    /// Reserves numbers for `groups` groups, or for as many as there are. Called before any site is
    /// added.
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

    /// Returns the first number that one site has alone.
    pub(super) fn first_own(&self) -> usize {
        1 + self.shared as usize + self.groups()
    }

    /// Returns the number of a group's partition. If none was left for the group, returns the one
    /// that `site` would share with late sites.
    pub fn group_number(&self, group: usize, site: Site) -> usize {
        if group < self.groups() {
            1 + self.shared as usize + group
        } else {
            self.shared_number(site)
        }
    }

    /// Returns the partition for a site that is not in the table: a separate one while there is
    /// one.
    pub(super) fn give(&self, site: Site) -> u64 {
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

    /// Takes a number back, because another thread was faster. An own number can be given out again
    /// if no other was given out since. Otherwise it is lost.
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

    /// Returns the number of the partition of a site for which no separate one is left.
    pub fn shared_number(&self, site: Site) -> usize {
        1 + self.hash.partition(site).number()
    }

    /// Returns true if a partition is certain to have one site only.
    pub fn is_own(&self, partition: Partition) -> bool {
        self.is_exact() && partition.number() >= self.first_own()
    }

    /// Returns the number of partitions, of `all` that there are, that may have blocks. Row 0
    /// counts.
    #[inline]
    pub fn rows(&self, all: usize) -> usize {
        if self.is_exact() {
            (1 + self.shared + self.state().given.load(Acquire)) as usize
        } else {
            all
        }
    }

    /// Returns the number of sites with a separate partition, and of those that share one for being
    /// late.
    pub fn counts(&self) -> (usize, usize) {
        if !self.is_exact() {
            return (0, 0);
        }
        let state = self.state();
        let given = state.given.load(Relaxed) as usize;
        (given.saturating_sub(self.groups()), state.merged.load(Relaxed) as usize)
    }

    /// Returns the number of sites that share a partition because hints say so.
    pub fn grouped(&self) -> usize {
        if self.is_exact() { self.state().grouped.load(Relaxed) as usize } else { 0 }
    }
}
