//! Every option: its name, its default, what its value looks like, and the line that a person
//! reads. A new one is a row of [`TABLE`], a field and an arm in `in_force.rs`, and an example in
//! `tests.rs`.

use super::values::{Fill, Huge, Leaks, Reclaim, Report};
use crate::policy::SECURE;

/// Most partitions that may be asked for.
pub const PARTITIONS_MAX: usize = 4096;

/// Default number of partitions if each call site has its own. Each has a near plot of address
/// space in the secure builds, and there are as many to spare.
pub const PARTITIONS_EXACT: usize = 2048;

/// Default number of partitions that call sites are hashed into.
pub const PARTITIONS_USUAL: usize = 64;

/// Most milliseconds that idle memory may be told to stay: a day.
pub const DECAY_MAX: usize = 86_400_000;

/// Most seconds that memory may be told to have been cold: a month.
pub const COLD_MAX: usize = 30 * 86_400;

/// Most allocations that one sampled block may stand for.
pub const GUARDED_MAX: usize = 1_000_000_000;

/// Most allocations between two verifications.
pub const VERIFY_MAX: usize = 1_000_000_000;
/// `TOFT_VERIFY=exit`.
pub const VERIFY_EXIT: &str = "exit";

/// The highest number of a signal.
pub const SIGNAL_MAX: usize = 64;

/// Most allocations between two looks for dangling pointers.
pub const DANGLING_MAX: usize = 1_000_000_000;

/// Words, and what each stands for.
pub(super) type Words<T> = &'static [(&'static str, T)];

/// Whether misuse is only named, and whether it is not even named.
pub(super) const ON_MISUSE: Words<(bool, bool)> =
    &[("abort", (false, false)), ("warn", (true, false)), ("ignore", (true, true))];
pub(super) const RECLAIM: Words<Reclaim> = &[
    ("auto", Reclaim::Auto),
    ("thread", Reclaim::Thread),
    ("calls", Reclaim::Calls),
    ("off", Reclaim::Off),
];
pub(super) const HUGE: Words<Huge> = &[("off", Huge::Off), ("kernel", Huge::Kernel)];
pub(super) const FILL: Words<Fill> =
    &[("off", Fill::Off), ("alloc", Fill::Alloc), ("free", Fill::Free), ("alloc,free", Fill::Both)];
/// Bits of a list of words.
pub(super) const POPULATE: u32 = 1;
pub(super) const LOCK: u32 = 2;
pub(super) const NAMES: u32 = 4;
pub(super) const MAPPINGS: Words<u32> = &[("populate", POPULATE), ("lock", LOCK), ("names", NAMES)];
pub(super) const LEAKS: Words<Leaks> =
    &[("0", Leaks::Off), ("1", Leaks::Lost), ("all", Leaks::All)];
pub(super) const REPORT: Words<Report> =
    &[("auto", Report::Auto), ("line", Report::Line), ("full", Report::Full)];

const FLAG: &str = "0 or 1";
const FILE: &str = "the name of a file, of at most 255 bytes";

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Environment variable.
    pub name: &'static str,
    /// Default, as it would be written.
    pub default: &'static str,
    /// The values that it takes, as they follow "is not" in a message.
    pub values: &'static str,
    /// One line for a person.
    pub doc: &'static str,
}

/// Every option there is.
pub const TABLE: &[Entry] = &[
    Entry {
        name: "TOFT_PARTITIONS",
        default: if SECURE { "exact" } else { "64" },
        values: "a number from 1 to 4096, exact or exact:NUMBER",
        doc: "a number: partitions that call sites are hashed into, rounded up to a power of two; 1 is an ordinary allocator. Unless it is set there are 8 at first, and up to 64 as the heap grows. exact: each call site gets its own partition until all 2048, or as many as follow the colon, are given out, and later ones share; the default in the secure build and with TOFT_WRAPPERS (docs/sites.md)",
    },
    Entry {
        name: "TOFT_ON_MISUSE",
        default: "abort",
        values: "abort, warn or ignore",
        doc: "what follows a bad call: it is reported and the process ends; it is reported and otherwise ignored; or it is counted and ignored. The secure build always ends the process",
    },
    Entry {
        name: "TOFT_WRAPPERS",
        default: "none",
        values: "names of functions with commas between them, of at most 255 bytes",
        doc: "wrappers of malloc, as xmalloc,g_*,rust: the caller of such a function counts as the call site; `*` stands for anything, `rust` and `c++` for the functions of the language's libraries, `c` for known names of C, each of the three also for all of GNU's C library. A program that has toft::Toft built in has rust by default, if it is not the secure build. Each call site gets its own partition then, unless TOFT_PARTITIONS is set (docs/sites.md)",
    },
    Entry {
        name: "TOFT_RECLAIM",
        default: "auto",
        values: "auto, thread, calls or off",
        doc: "what returns idle memory to the OS: a thread of the library, once the program has 16 MiB, or has freed as much in large blocks that could not be kept (auto: in a container once it is known that its filter allows that, docs/failure-modes.md; thread: even before); calls of malloc and free; or nothing",
    },
    Entry {
        name: "TOFT_DECAY",
        default: if SECURE { "250" } else { "100" },
        values: "a number from 0 to 86400000",
        doc: "milliseconds that free memory must be idle before it is returned to the OS; at most three times as long passes, or twelve times while the program is at work and takes back what was returned. In the secure build, where new pages cost more, the default is 250",
    },
    Entry {
        name: "TOFT_HINTS",
        default: "none",
        values: FILE,
        doc: "file of hints that `toft hints` has made of a profile: which call sites have a partition of their own and which share one, by file and offset; TOFT_PROFILE, TOFT_LEAKS and a number in TOFT_PARTITIONS come before it. Not for the secure build, in which each call site is apart (docs/hints.md)",
    },
    Entry {
        name: "TOFT_COMPACT",
        default: "0",
        values: FLAG,
        doc: "let sparse slabs share pages, on request and where they are idle (docs/compaction.md)",
    },
    Entry {
        name: "TOFT_LIMIT",
        default: "none",
        values: "a size of at least 1m, such as 512m or 2g, or a share such as 80%",
        doc: "most bytes that may be resident, or percent of what the cgroup (else the machine) has; beyond it allocation fails with ENOMEM, and the first such failure is reported",
    },
    Entry {
        name: "TOFT_COLD",
        default: "0",
        values: "a number from 0 to 2592000",
        doc: "seconds after which unused live memory is sent to swap; at most twice as long passes; 0 is never",
    },
    Entry {
        name: "TOFT_HUGE",
        default: "off",
        values: "off or kernel",
        doc: "huge pages in slabs: none, or as the kernel sees fit",
    },
    Entry {
        name: "TOFT_MAPPINGS",
        default: "none",
        values: "populate, lock or names, or several with commas between them",
        doc: "what is done for whatever is mapped. populate: it gets its pages at once, so that no first touch waits for the kernel (Linux 5.14); they do not count for TOFT_LIMIT before they are handed out. lock: pages of blocks never go to swap once they are touched; a refusal is reported once. names: it has a name in /proc/PID/maps (Linux 5.17 with CONFIG_ANON_VMA_NAME)",
    },
    Entry {
        name: "TOFT_PKEY",
        default: "0",
        values: FLAG,
        doc: "in the secure build, let the allocator's tables be written to by its own calls alone, by a protection key of the processor (docs/pkey.md); without one, a line says so once",
    },
    Entry {
        name: "TOFT_SCOPE",
        default: "children",
        values: "program or children",
        doc: "whether child processes inherit the library",
    },
    Entry {
        name: "TOFT_DEEPBIND",
        default: "1",
        values: FLAG,
        doc: "libraries that are opened with RTLD_DEEPBIND allocate from Toft; 0: from the C library, as the flag asks, and a block that crosses ends the process. The secure build does not take 0 (docs/failure-modes.md)",
    },
    Entry {
        name: "TOFT_REPORT_FD",
        default: "none",
        values: "the number of an open file descriptor",
        doc: "descriptor to which the library says that it is in place (used by `toft run`)",
    },
    Entry {
        name: "TOFT_REPORT",
        default: "auto",
        values: "auto, line or full; or a file such as /tmp/reports; or both, as line,/tmp/reports",
        doc: "what is reported of a bad call. line: one line. full: the callers as well, by file and offset. auto: that, where it ends the process and no filter of system calls can forbid it. A file, whose name contains a /: each report is appended to it as a line of JSON, for `toft explain` (docs/reports.md)",
    },
    Entry {
        name: "TOFT_GUARDED",
        default: "0",
        values: "a number from 0 to 1000000000, uninit or uninit:NUMBER",
        doc: "one allocation in about this number, of at most 128 KiB, is put between pages that fault, and a misuse of it is reported with stacks; at most 1024 such blocks at once; 0 is none, 1 every one for which there is room (docs/guarded.md). uninit: reads of a page that the program has not written are reported as well, of every block or of one in the number behind the colon; needs userfaultfd with the kernel's accesses (docs/uninitialised.md)",
    },
    Entry {
        name: "TOFT_FILL",
        default: "off",
        values: "off, alloc, free or alloc,free",
        doc: "fill blocks of at most 128 KiB: what malloc hands out with the byte a5, what is freed with df, or both; every call is then a slow one. The full secure build always clears both, and the light one does not know it",
    },
    Entry {
        name: "TOFT_VERIFY",
        default: "0",
        values: "a number from 0 to 1000000000, or exit",
        doc: "exit: verify the heap when the program ends, as toft_verify() does, for at most 50 ms of processor time, or 1 % of what it has used; the default in toft run --secure. A number: each time that all threads have made this number of allocations as well, and without a bound; every call is then a slow one. 0 is never",
    },
    Entry {
        name: "TOFT_DANGLING",
        default: "0",
        values: "a number from 0 to 1000000000",
        doc: "look for words that lead into freed blocks, as toft_dangling() does: 0 is never, 1 at exit, more at exit and after each such number of allocations of all threads; every call is then a slow one (docs/dangling.md)",
    },
    Entry {
        name: "TOFT_LEAKS",
        default: "0",
        values: "0, 1 or all",
        doc: "report at exit, by call site, blocks that were not freed and cannot be reached any more (1), or all that were not freed; each call site has its own partition then, as with TOFT_PARTITIONS=exact (docs/leaks.md)",
    },
    Entry {
        name: "TOFT_PROFILE",
        default: "none",
        values: FILE,
        doc: "file into which the live memory is written at exit, by call site, for `toft report`; %p stands for the process's number, without it a child that was forked writes into FILE.PID; each call site has its own partition then (docs/profiles.md)",
    },
    Entry {
        name: "TOFT_PROFILE_AT",
        default: "none",
        values: "signal:NUMBER or growth:SIZE, or both with a comma between them",
        doc: "when TOFT_PROFILE is written before the exit, too, each time into the next of FILE.1, FILE.2 and so on. signal:NUMBER: at each such signal. growth:SIZE: each time that the heap has grown by so much. Both with a comma, as signal:12,growth:1g",
    },
    Entry {
        name: "TOFT_SAMPLE",
        default: "0",
        values: "a size such as 64k, 8m or 1g",
        doc: "bytes that are allocated, on average, from one allocation of which the whole stack is kept to the next, by frame pointers; profiles have those stacks beside the call sites; also from one allocation that the probes of a tracer report to the next, 512k for those if this is 0 (docs/probes.md); 0 is none; not in the secure build (docs/samples.md)",
    },
    Entry {
        name: "TOFT_STATS",
        default: "0",
        values: FLAG,
        doc: "write statistics at exit, to the report descriptor or to stderr",
    },
];
