//! Finds out what a filter of system calls (seccomp) allows, by a child that the filter may kill.
//!
//! A container's filter refuses some calls by an error. A sandbox's filter may kill. Toft must not
//! be killed for a call that it could do without. [`probe`] therefore creates a child, which
//! inherits the filter. The child makes each call once in a harmless form (`calls.rs`). It notes
//! each row before it begins the row. If the filter kills the child, the parent reads in which row,
//! and the next child goes on after that row.
//!
//! A filter may also kill for the creation of the child. `evidence.rs` decides whether the filter
//! is known to allow processes. Without evidence nothing is probed.

mod calls;
mod child;
mod evidence;

#[cfg(all(test, not(loom)))]
mod tests;

pub use evidence::Way;

/// A set of rows of the table in `calls.rs`, which are the system calls of a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls(u32);

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident = $row:literal, $calls:literal;)*) => {
        impl Calls {
            $($(#[$doc])* pub const $name: Calls = Calls(1 << $row);)*
            /// Each row, with its system calls.
            pub const ROWS: &[(Calls, &str)] = &[$((Calls::$name, $calls)),*];
        }
    };
}

// The number of a row is its bit in tables that are read from outside the process.
rows! {
    /// Collects an ended child.
    WAIT = 0, "wait4";
    /// Returns pages to the kernel, which then read as zero.
    DISCARD = 1, "madvise(MADV_DONTNEED)";
    /// Makes every running thread pass a barrier.
    BARRIER = 2, "membarrier";
    /// Starts a thread of the library.
    THREAD = 3, "clone";
    /// Sets the name, priority and capabilities of that thread.
    SETTLE = 4, "prctl(PR_SET_NAME), sched_setscheduler, capset";
    /// Releases many ranges by one call.
    BATCH = 5, "process_madvise, pidfd_open";
    /// Makes the pages of a range present before their first use.
    POPULATE = 6, "madvise(MADV_POPULATE_WRITE)";
    /// Gives advice on huge pages.
    HUGE = 7, "madvise(MADV_NOHUGEPAGE, MADV_HUGEPAGE)";
    /// Gives advice on idle pages.
    ADVICE = 8, "madvise(MADV_PAGEOUT, MADV_COLD)";
    /// Finds out which pages are in memory.
    RESIDENT = 9, "mincore";
    /// Finds out whether there is swap.
    SWAP = 10, "sysinfo";
    /// Blocks signals.
    SIGNALS = 11, "rt_sigprocmask";
    /// Opens and reads files.
    FILES = 12, "openat, read, fstat, close";
    /// Lets the kernel read memory that another thread may unmap.
    READ = 13, "process_vm_readv, tgkill, clock_gettime";
    /// Lets the kernel report faults and record writes.
    FAULTS = 14, "userfaultfd, ioctl";
    /// Makes a memory file without a name.
    STORE = 15, "memfd_create, ftruncate";
    /// Names mappings.
    NAMES = 16, "prctl(PR_SET_VMA)";
    /// Keeps pages in memory.
    LOCK = 17, "mlock2, madvise(MADV_DONTNEED_LOCKED)";
    /// Uses protection keys.
    KEYS = 18, "pkey_alloc, pkey_mprotect";
    /// Reads the kernel's list of pages.
    PAGES = 19, "pread64";
    /// Reads how many page faults there were, and how much processor time was used.
    USAGE = 20, "getrusage";
}

impl Calls {
    /// The number of rows.
    pub const COUNT: usize = Calls::ROWS.len();
    /// No row.
    pub const NONE: Calls = Calls(0);
    /// The calls that start the reclaimer.
    pub const RECLAIMER: Calls = Calls::THREAD.and(Calls::DISCARD);
    /// The calls by which a report reads files, memory and stacks.
    pub const REPORT: Calls = Calls::FILES.and(Calls::READ);

    /// The calls that make slabs share pages.
    pub const SHARING: Calls = Calls::FAULTS
        .and(Calls::STORE)
        .and(Calls::FILES)
        .and(Calls::RESIDENT)
        .and(Calls::SIGNALS)
        .and(Calls::BARRIER);
    /// The calls that find idle pages and send them to swap.
    pub const COLD: Calls = Calls::FILES.and(Calls::FAULTS).and(Calls::ADVICE);

    /// Returns the rows of both sets.
    #[must_use]
    pub const fn and(self, other: Calls) -> Calls {
        Calls(self.0 | other.0)
    }

    /// Returns true if all of `need` is in the set.
    pub const fn has(self, need: Calls) -> bool {
        self.0 & need.0 == need.0
    }

    /// Returns the set as a word.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the set that a word stands for.
    pub const fn from_bits(bits: u32) -> Calls {
        Calls(bits)
    }
}

/// The result of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Outcome {
    /// The child has not begun the row.
    Untried = 0,
    /// The child has begun the row. If the child has ended since, the row killed it.
    Begun = 1,
    /// Every call had its effect.
    Works = 2,
    /// A call was refused by an error.
    Refused = 3,
    /// A call returned success and did nothing.
    Lies = 4,
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// The rows that may be called: they neither kill nor lie.
    pub safe: Calls,
    /// The safe rows that have their effect.
    pub works: Calls,
}

impl Answers {
    /// Every row works, as without a filter.
    pub const ALL: Answers =
        Answers { safe: Calls((1 << Calls::COUNT) - 1), works: Calls((1 << Calls::COUNT) - 1) };

    fn of(outcomes: impl Iterator<Item = Outcome>) -> Answers {
        let mut answers = Answers::default();
        for ((row, _), outcome) in Calls::ROWS.iter().zip(outcomes) {
            if matches!(outcome, Outcome::Works | Outcome::Refused) {
                answers.safe = answers.safe.and(*row);
            }
            if outcome == Outcome::Works {
                answers.works = answers.works.and(*row);
            }
        }
        // If the first child cannot be collected, no other is created, and nothing is known.
        if answers.works.has(Calls::WAIT) { answers } else { Answers::default() }
    }
}

/// Finds out what the filter of the calling thread allows. Returns `None` if no child may or can be
/// created. `cloned` means that this process is the child of a fork under the filter.
pub fn probe(page: usize, cloned: bool) -> Option<Answers> {
    probe_by(evidence::way(cloned)?, page)
}

/// Does the work of [`probe`] for a caller that knows that processes may be created in this way.
pub fn probe_by(way: Way, page: usize) -> Option<Answers> {
    child::probe(way, evidence::may_share_memory(), page)
}
