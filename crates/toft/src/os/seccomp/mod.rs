//! What a filter of system calls (seccomp) allows, found out by a child that may die of it.
//!
//! A container's filter refuses some calls by an error; a sandbox's may kill. Toft must not die of
//! a call that it could do without. So [`probe`] creates a child, which inherits the filter and
//! makes each call once in a harmless form (`calls.rs`). The child notes each row before it begins
//! it: if the filter kills, the parent reads in which row, and the next child goes on after it.
//!
//! Creating the child is itself a call that a filter may kill for. `evidence.rs` says when it is
//! known that the filter allows processes; without evidence nothing is probed.

mod calls;
mod child;
mod evidence;

#[cfg(all(test, not(loom)))]
mod tests;

pub use evidence::Way;

/// A set of rows of the table in `calls.rs`: system calls that a feature makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls(u32);

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident = $row:literal, $calls:literal;)*) => {
        impl Calls {
            $($(#[$doc])* pub const $name: Calls = Calls(1 << $row);)*
            /// Each row, with the system calls that it consists of.
            pub const ROWS: &[(Calls, &str)] = &[$((Calls::$name, $calls)),*];
        }
    };
}

// The number of a row is its bit in tables that are read from outside of the process.
rows! {
    /// The parent collects an ended child.
    WAIT = 0, "wait4";
    /// Pages are returned to the kernel, and read as zero.
    DISCARD = 1, "madvise(MADV_DONTNEED)";
    /// Every running thread passes a barrier.
    BARRIER = 2, "membarrier";
    /// A thread of the library's own.
    THREAD = 3, "clone";
    /// That thread's name, priority and capabilities.
    SETTLE = 4, "prctl(PR_SET_NAME), sched_setscheduler, capset";
    /// Many ranges are returned by one call.
    BATCH = 5, "process_madvise, pidfd_open";
    /// Pages are put under a range before it is touched.
    POPULATE = 6, "madvise(MADV_POPULATE_WRITE)";
    /// Advice on huge pages.
    HUGE = 7, "madvise(MADV_NOHUGEPAGE, MADV_HUGEPAGE, MADV_COLLAPSE)";
    /// Advice on pages that are idle.
    ADVICE = 8, "madvise(MADV_FREE, MADV_PAGEOUT, MADV_COLD)";
    /// Which pages are in memory.
    RESIDENT = 9, "mincore";
    /// Whether there is swap.
    SWAP = 10, "sysinfo";
    /// Pages are held in a pipe.
    PIPE = 11, "pipe2, vmsplice, fcntl";
    /// Signals are blocked.
    SIGNALS = 12, "rt_sigprocmask";
    /// Files are opened and read.
    FILES = 13, "openat, read, fstat, close";
    /// The kernel reads memory that another thread may unmap.
    READ = 14, "process_vm_readv, tgkill, clock_gettime";
    /// The kernel reports faults and notes writes.
    FAULTS = 15, "userfaultfd, ioctl";
    /// Memory without a file's name.
    STORE = 16, "memfd_create, ftruncate";
    /// Names of mappings.
    NAMES = 17, "prctl(PR_SET_VMA)";
    /// Pages that stay in memory.
    LOCK = 18, "mlock2";
    /// Protection keys.
    KEYS = 19, "pkey_alloc, pkey_mprotect";
}

impl Calls {
    /// The number of rows.
    pub const COUNT: usize = Calls::ROWS.len();
    /// No row.
    pub const NONE: Calls = Calls(0);
    /// What starts the reclaimer.
    pub const RECLAIMER: Calls = Calls::THREAD.and(Calls::DISCARD);
    /// What a report reads: files, memory, stacks.
    pub const REPORT: Calls = Calls::FILES.and(Calls::READ);

    /// What finds out that claimed pages are not used, and returns them.
    pub const CLAIMS: Calls =
        Calls::RESIDENT.and(Calls::SWAP).and(Calls::PIPE).and(Calls::ADVICE).and(Calls::BARRIER);
    /// What has slabs share pages.
    pub const SHARING: Calls = Calls::FAULTS
        .and(Calls::STORE)
        .and(Calls::FILES)
        .and(Calls::RESIDENT)
        .and(Calls::SIGNALS)
        .and(Calls::BARRIER);
    /// What finds cold pages and sends them to swap.
    pub const COLD: Calls = Calls::FILES.and(Calls::FAULTS).and(Calls::ADVICE);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Calls) -> Calls {
        Calls(self.0 | other.0)
    }

    /// Returns true if all of `need` is in the set.
    pub const fn has(self, need: Calls) -> bool {
        self.0 & need.0 == need.0
    }

    /// The set as a word.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set that a word is.
    pub const fn from_bits(bits: u32) -> Calls {
        Calls(bits)
    }
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Outcome {
    /// The child has not begun it.
    Untried = 0,
    /// The child has begun it: if it has ended since, that killed it.
    Begun = 1,
    /// Every call did what it should.
    Works = 2,
    /// A call was refused by an error.
    Refused = 3,
    /// A call returned success and did nothing.
    Lies = 4,
}

/// The answer of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Rows that may be called: they neither kill nor lie.
    pub safe: Calls,
    /// Rows of these that do what they should.
    pub works: Calls,
}

impl Answers {
    /// Every row works: what there is without a filter.
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
        // What cannot be collected is not made again: one child, and nothing is known.
        if answers.works.has(Calls::WAIT) { answers } else { Answers::default() }
    }
}

/// Finds out what the filter of the calling thread allows; `None` where no child may be or could be
/// created. `cloned` says that this process has come of a fork under the filter.
pub fn probe(page: usize, cloned: bool) -> Option<Answers> {
    probe_by(evidence::way(cloned)?, page)
}

/// As [`probe`], where the caller knows that processes may be created in this way.
pub fn probe_by(way: Way, page: usize) -> Option<Answers> {
    child::probe(way, evidence::may_share_memory(), page)
}
