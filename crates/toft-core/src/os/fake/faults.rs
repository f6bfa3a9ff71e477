//! Failure on demand: which later calls fail, and how.

use crate::os::Error;

/// A kind of call of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `Os::map`
    Map,
    /// `Os::unmap`
    Unmap,
    /// `Os::discard`
    Discard,
    /// `Os::guard`
    Guard,
    /// `Os::unguard`
    Unguard,
    /// `Os::forbid`
    Forbid,
    /// `Os::allow`
    Allow,
    /// `Os::extend`
    Extend,
    /// `Os::relocate`
    Relocate,
    /// `Os::transfer`
    Transfer,
    /// `Os::random`
    Random,
    /// `Os::begin_sharing`
    BeginSharing,
    /// `Os::share`
    Share,
    /// `Os::share_with`
    ShareWith,
    /// `Os::unshare`
    Unshare,
    /// `Os::renew`
    Renew,
    /// `Os::empty_store`
    EmptyStore,
    /// `PageIdleness::watch`
    Watch,
    /// `PageIdleness::scan`
    Scan,
    /// `PageIdleness::page_out`
    PageOut,
    /// `Os::populate`
    Populate,
    /// `Huge::huge_habit`
    HugeHabit,
    /// `Huge::keep_small`
    KeepSmall,
    /// `Huge::allow_huge`
    AllowHuge,
    /// `MappingOptions::lock`
    Lock,
    /// `MappingOptions::name`
    Name,
}

impl Request {
    /// Every kind of request.
    pub const ALL: [Request; 26] = [
        Request::Map,
        Request::Unmap,
        Request::Discard,
        Request::Guard,
        Request::Unguard,
        Request::Forbid,
        Request::Allow,
        Request::Extend,
        Request::Relocate,
        Request::Transfer,
        Request::Random,
        Request::BeginSharing,
        Request::Share,
        Request::ShareWith,
        Request::Unshare,
        Request::Renew,
        Request::EmptyStore,
        Request::Watch,
        Request::Scan,
        Request::PageOut,
        Request::Populate,
        Request::HugeHabit,
        Request::KeepSmall,
        Request::AllowHuge,
        Request::Lock,
        Request::Name,
    ];
}

/// The result of a failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Error(Error),
    /// A foreign mapping appears in the middle of the range just before the call, and stays.
    Foreign,
}

/// The calls that fail from now on. They are those numbered `first` to `last`, counted from zero
/// among the calls of the kinds that the fault is about.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    first: u64,
    last: u64,
    /// The kind of requests that are counted, or `None` for all kinds.
    only: Option<Request>,
    outcome: Outcome,
}

impl Fault {
    /// Returns a fault of call number `n`, for lack of memory.
    pub fn at(n: u64) -> Fault {
        Fault { first: n, last: n, only: None, outcome: Outcome::Error(Error::NoMemory) }
    }

    /// Returns a fault of call number `n` and all later calls, for lack of memory.
    pub fn from(n: u64) -> Fault {
        Fault { last: u64::MAX, ..Fault::at(n) }
    }

    /// Restricts the fault to requests of one kind.
    pub fn only(self, kind: Request) -> Fault {
        Fault { only: Some(kind), ..self }
    }

    /// Sets the error with which the calls fail.
    pub fn with(self, error: Error) -> Fault {
        Fault { outcome: Outcome::Error(error), ..self }
    }

    /// Makes the calls meet a foreign mapping, which stays for ever, instead of failing for lack of
    /// memory. Only mappings are affected.
    pub fn foreign(self) -> Fault {
        Fault { outcome: Outcome::Foreign, only: Some(Request::Map), ..self }
    }
}

/// The decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Proceed,
    Fail(Error),
    /// Put a foreign mapping in the way, and then proceed.
    Obstruct,
}

/// Counts calls, and decides which fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    counts: [u64; Request::ALL.len()],
    fault: Option<Fault>,
    /// The number of calls that the fault has counted.
    seen: u64,
    /// The number of calls that the fault has made fail.
    failed: u64,
}

impl Faults {
    pub(super) fn set(&mut self, fault: Option<Fault>) {
        self.fault = fault;
        self.seen = 0;
        self.failed = 0;
    }

    pub(super) fn count(&self, kind: Request) -> u64 {
        self.counts[kind as usize]
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    pub(super) fn judge(&mut self, kind: Request) -> Verdict {
        self.counts[kind as usize] += 1;
        let Some(fault) = self.fault else { return Verdict::Proceed };
        if fault.only.is_some_and(|only| only != kind) {
            return Verdict::Proceed;
        }
        let number = self.seen;
        self.seen += 1;
        if number < fault.first || number > fault.last {
            return Verdict::Proceed;
        }
        self.failed += 1;
        match fault.outcome {
            Outcome::Error(error) => Verdict::Fail(error),
            Outcome::Foreign => Verdict::Obstruct,
        }
    }
}
