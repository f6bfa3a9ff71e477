//! L0: the options, as one table that the parser, the defaults and the documentation share.

mod parse;

use crate::policy::HARDENED;

pub use parse::{
    FileName, Names, Parsed, Problem, parse_file, parse_flag, parse_names, parse_number,
    parse_share, parse_size, parse_word,
};

/// Most partitions that may be asked for.
pub const PARTITIONS_MAX: usize = 4096;

/// Partitions where each call site has its own, and nobody asks for another number: the most that still have a
/// granule of address space each, and as many to spare.
pub const PARTITIONS_EXACT: usize = 2048;

/// Partitions that call sites are hashed into, where nobody asks for another number.
pub const PARTITIONS_USUAL: usize = 64;

/// Most milliseconds that idle memory may be told to stay: a day.
pub const DECAY_MAX: usize = 86_400_000;

/// Most seconds that memory may be told to have been cold: a month.
pub const COLD_MAX: usize = 30 * 86_400;

/// Most allocations that one sampled block may stand for.
pub const GUARDED_MAX: usize = 1_000_000_000;

/// Most places for sampled blocks.
pub const GUARDED_SLOTS_MAX: usize = 1 << 20;

/// Most allocations between two verifications.
pub const VERIFY_MAX: usize = 1_000_000_000;

/// The highest number of a signal.
pub const SIGNAL_MAX: usize = 64;
/// Most allocations between two looks for dangling pointers.
pub const DANGLING_MAX: usize = 1_000_000_000;

/// Below so many allocations for each sampled block, every call is looked at: a claim has up to as many.
const CAREFUL_BELOW: usize = 64;

const ON_MISUSE: &[&str] = &["abort", "warn", "ignore"];
const RECLAIM: &[&str] = &["auto", "thread", "calls", "off"];
const HUGE: &[&str] = &["off", "dense", "kernel"];
const FILL: &[&str] = &["off", "alloc", "free", "alloc,free"];
const SITES: &[&str] = &["auto", "hash", "exact"];
const LEAKS: &[&str] = &["0", "1", "all"];
const REPORT: &[&str] = &["auto", "line", "full"];

/// Most arenas that may be asked for.
#[cfg(feature = "experiment-parallel")]
pub const ARENAS_MAX: usize = 16;

/// What an option's value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number within these bounds.
    Number(usize, usize),
    /// Bytes, with an optional suffix `k`, `m` or `g`.
    Size,
    /// One of these words.
    Word(&'static [&'static str]),
    /// `1` or `0`.
    Flag,
    /// A file descriptor.
    Descriptor,
    /// Bytes as of `Size`, or percent of the memory that there is.
    Share,
    /// The name of a file.
    File,
    /// Names of functions.
    Names,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Environment variable.
    pub name: &'static str,
    /// Default, as it would be written.
    pub default: &'static str,
    /// What a value looks like.
    pub kind: Kind,
    /// One line for a person.
    pub doc: &'static str,
}

/// Every option there is.
pub const TABLE: &[Entry] = &[
    Entry {
        name: "TOFT_PARTITIONS",
        default: "64",
        kind: Kind::Number(1, PARTITIONS_MAX),
        doc: "plots that call sites are hashed into, rounded up to a power of two; 1 is an ordinary allocator. With TOFT_SITES=exact the plots that there can be, 2048 if this is not set",
    },
    Entry {
        name: "TOFT_ON_MISUSE",
        default: "abort",
        kind: Kind::Word(ON_MISUSE),
        doc: "what follows a bad call: it is named and the process ends; it is named and otherwise ignored; or it is ignored in silence, and counted. The hardened build ends the process whatever is asked for",
    },
    Entry {
        name: "TOFT_LARGE_KEEP",
        default: "32m",
        kind: Kind::Size,
        doc: "most bytes of freed large blocks that stay resident for reuse; never more than 1m and as much as is live",
    },
    Entry {
        name: "TOFT_SLAB_KEEP",
        default: "1024g",
        kind: Kind::Size,
        doc: "most bytes of empty slabs that stay resident for reuse; never more than an eighth above what slabs ever had in use, and until TOFT_DECAY has passed",
    },
    Entry {
        name: "TOFT_SITES",
        default: "auto",
        kind: Kind::Word(SITES),
        doc: "whether call sites are hashed into the plots, or each gets one of its own until all are given out and later ones share; auto: hash, in the hardened build exact unless TOFT_PARTITIONS is set (docs/sites.md)",
    },
    Entry {
        name: "TOFT_WRAPPERS",
        default: "none",
        kind: Kind::Names,
        doc: "functions that only hand on what malloc gives them, as xmalloc,g_*,rust: for a call from one of them whoever called it counts as the call site; `*` stands for anything, `rust` for what every Rust program allocates by. Turns TOFT_SITES=auto into exact (docs/sites.md)",
    },
    Entry {
        name: "TOFT_RECLAIM",
        default: "auto",
        kind: Kind::Word(RECLAIM),
        doc: "who gives idle memory back: a thread of the library's own, once the program has 16 MiB (auto: unless it was started under a filter of system calls, which might kill it; thread: even then), calls of malloc and free, or nobody",
    },
    Entry {
        name: "TOFT_DECAY",
        default: "100",
        kind: Kind::Number(0, DECAY_MAX),
        doc: "milliseconds that free memory must have lain idle before it goes back; at most three times as long passes",
    },
    Entry {
        name: "TOFT_COMPACT",
        default: "0",
        kind: Kind::Flag,
        doc: "let sparse slabs share pages, when asked to and where they lie idle (docs/compaction.md)",
    },
    Entry {
        name: "TOFT_LIMIT",
        default: "none",
        kind: Kind::Share,
        doc: "most bytes that may be resident, or percent of what the cgroup (else the machine) has; beyond it allocation fails with ENOMEM",
    },
    Entry {
        name: "TOFT_COLD",
        default: "0",
        kind: Kind::Number(0, COLD_MAX),
        doc: "seconds after which live memory that nobody has used goes out to swap; at most twice as long passes; 0 is never",
    },
    Entry {
        name: "TOFT_HUGE",
        default: "off",
        kind: Kind::Word(HUGE),
        doc: "huge pages in slabs: none; only where everything is live and has been for some seconds, large blocks included; or as the kernel sees fit",
    },
    Entry {
        name: "TOFT_QUARANTINE",
        default: "3m",
        kind: Kind::Size,
        doc: "in the hardened build, most bytes of blocks that a thread has freed and that are not handed out again yet (docs/hardened.md); more than the default changes nothing",
    },
    Entry {
        name: "TOFT_READY",
        default: "1",
        kind: Kind::Flag,
        doc: "whether steady growth gets its pages by few calls in place of a fault for each: at most a sixteenth more than it has filled",
    },
    Entry {
        name: "TOFT_PREPOPULATE",
        default: "0",
        kind: Kind::Flag,
        doc: "put pages under whatever is mapped at once, so that no first touch waits for the kernel (Linux 5.14); they do not count for TOFT_LIMIT before they are handed out",
    },
    Entry {
        name: "TOFT_MLOCK",
        default: "0",
        kind: Kind::Flag,
        doc: "lock what blocks lie on, once it is there, so that it never goes to swap; what is refused is said once",
    },
    Entry {
        name: "TOFT_PKEY",
        default: "0",
        kind: Kind::Flag,
        doc: "in the hardened build, let the allocator's tables be written to by its own calls alone, by a protection key of the processor (docs/pkey.md); where there is none, that is said once",
    },
    Entry {
        name: "TOFT_MTE",
        default: "0",
        kind: Kind::Flag,
        doc: "on aarch64, let the processor check the tags of zones that have some, where it can (docs/zones.md); untested",
    },
    Entry {
        name: "TOFT_NAMES",
        default: "0",
        kind: Kind::Flag,
        doc: "name the library's mappings in /proc/PID/maps (Linux 5.17 with CONFIG_ANON_VMA_NAME)",
    },
    Entry {
        name: "TOFT_SCOPE",
        default: "children",
        kind: Kind::Word(&["program", "children"]),
        doc: "whether child processes inherit the library",
    },
    Entry {
        name: "TOFT_REPORT_FD",
        default: "none",
        kind: Kind::Descriptor,
        doc: "descriptor to which the library says that it is in place (used by `toft run`)",
    },
    Entry {
        name: "TOFT_REPORT",
        default: "auto",
        kind: Kind::Word(REPORT),
        doc: "what is said of a bad call: one line; that and who called, by file and offset; or the second where it ends the process and no filter of system calls can forbid it (docs/reports.md)",
    },
    Entry {
        name: "TOFT_REPORT_FILE",
        default: "none",
        kind: Kind::File,
        doc: "file to which each report is appended as a line of JSON, for `toft explain`",
    },
    Entry {
        name: "TOFT_GUARDED",
        default: "0",
        kind: Kind::Number(0, GUARDED_MAX),
        doc: "one allocation in about so many, of at most 128 KiB, is put between pages that fault, and named with stacks when it is used wrongly; 0 is none, 1 every one for which there is room (docs/guarded.md)",
    },
    Entry {
        name: "TOFT_GUARDED_SLOTS",
        default: "1024",
        kind: Kind::Number(1, GUARDED_SLOTS_MAX),
        doc: "places for such blocks, live ones and freed ones that wait; each takes two of the process's mappings while it is live",
    },
    Entry {
        name: "TOFT_FILL",
        default: "off",
        kind: Kind::Word(FILL),
        doc: "fill blocks of at most 128 KiB: what malloc hands out with the byte a5, what is freed with df, or both; every call is then a slow one. The hardened build clears both whatever is asked for",
    },
    Entry {
        name: "TOFT_VERIFY",
        default: "0",
        kind: Kind::Number(0, VERIFY_MAX),
        doc: "verify the whole heap after so many allocations of all threads, and when the program ends, as toft_verify() does; every call is then a slow one; 0 is never",
    },
    Entry {
        name: "TOFT_DANGLING",
        default: "0",
        kind: Kind::Number(0, DANGLING_MAX),
        doc: "look for words that lead into freed blocks, as toft_dangling() does: 0 is never, 1 at exit, more at exit and after so many allocations of all threads; every call is then a slow one (docs/dangling.md)",
    },
    Entry {
        name: "TOFT_UNINIT",
        default: "0",
        kind: Kind::Number(0, GUARDED_MAX),
        doc: "one allocation in about so many is a guarded block, and named when the program reads a page of it that it has not written; needs userfaultfd with the kernel's accesses; 0 is none, 1 every one for which there is room (docs/uninitialised.md)",
    },
    Entry {
        name: "TOFT_LEAKS",
        default: "0",
        kind: Kind::Word(LEAKS),
        doc: "report at exit, by call site, blocks that were not freed and cannot be reached any more (1), or all that were not freed; each call site has a partition of its own then, as with TOFT_SITES=exact (docs/leaks.md)",
    },
    Entry {
        name: "TOFT_PROFILE",
        default: "none",
        kind: Kind::File,
        doc: "file into which the live memory is written at exit, by call site, for `toft report`; %p stands for the process's number, without it a child that was forked writes into FILE.PID; each call site has a partition of its own then (docs/profiles.md)",
    },
    Entry {
        name: "TOFT_PROFILE_SIGNAL",
        default: "0",
        kind: Kind::Number(0, SIGNAL_MAX),
        doc: "number of a signal at which TOFT_PROFILE is written, too, each time into the next of FILE.1, FILE.2 and so on; 0 is none",
    },
    Entry {
        name: "TOFT_PROFILE_GROWTH",
        default: "0",
        kind: Kind::Size,
        doc: "each time that the heap has grown by so much, TOFT_PROFILE is written as by a signal; 0 is never",
    },
    Entry {
        name: "TOFT_STATS",
        default: "0",
        kind: Kind::Flag,
        doc: "write statistics at exit, to the report descriptor or to stderr",
    },
    #[cfg(feature = "experiment-parallel")]
    Entry {
        name: "TOFT_EXPERIMENT_ARENAS",
        default: "4",
        kind: Kind::Number(1, ARENAS_MAX),
        doc: "arenas that threads are dealt out to in turn",
    },
];

/// Who gives idle memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// A thread of our own, once the program is large and where that certainly harms nobody; else its
    /// calls.
    Auto,
    /// The same, where a filter of system calls might not allow it, too.
    Thread,
    /// The program's calls, where they are slow anyway.
    Calls,
    /// Nobody, unless it is asked for.
    Off,
}

/// How many bytes may be resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitTo {
    /// As many as there are.
    Nothing,
    /// So many.
    Bytes(usize),
    /// So many percent of what there is.
    Percent(u8),
}

impl LimitTo {
    /// The limit in bytes, where there are so many; `usize::MAX` stands for none.
    pub fn bytes(self, there_is: impl Fn() -> Option<usize>) -> usize {
        match self {
            LimitTo::Nothing => usize::MAX,
            LimitTo::Bytes(bytes) => bytes,
            LimitTo::Percent(percent) => there_is().map_or(usize::MAX, |all| {
                // Neither overflows nor loses much.
                all / 100 * percent as usize + all % 100 * percent as usize / 100
            }),
        }
    }
}

/// Where slabs have huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Huge {
    /// Nowhere.
    Off,
    /// Where it is dense, and has been for some time; and in large blocks of which that is so.
    Dense,
    /// Wherever the kernel makes them.
    Kernel,
}

/// How much is said of a bad call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// All, where it ends the process and no filter of system calls can forbid it.
    Auto,
    /// One line.
    Line,
    /// All, also of what is ignored, and where there may be a filter.
    Full,
}

/// Which blocks are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// None.
    Off,
    /// Those that malloc hands out.
    Alloc,
    /// Those that are freed.
    Free,
    /// Both.
    Both,
}

impl Fill {
    /// Whether blocks that malloc hands out are.
    pub fn of_fresh(self) -> bool {
        matches!(self, Fill::Alloc | Fill::Both)
    }

    /// Whether blocks that are freed are.
    pub fn of_stale(self) -> bool {
        matches!(self, Fill::Free | Fill::Both)
    }
}

/// Which blocks are leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaks {
    /// Nobody asks.
    Off,
    /// Those to which nothing leads any more.
    Lost,
    /// All that were not freed.
    All,
}

/// How a call site finds its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteMode {
    /// As the build likes: by a hash, or, in the hardened build and where no number of partitions is asked
    /// for, exactly.
    Auto,
    /// By a keyed hash.
    Hash,
    /// Each its own, until all are given out.
    Exact,
}

/// The options in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of partitions, a power of two; zero where none was asked for.
    pub partitions: usize,
    /// How a call site finds its partition.
    pub sites: SiteMode,
    /// Functions whose callers are the call sites.
    pub wrappers: Option<Names>,
    /// Whether misuse is only named, not fatal.
    pub warn_only: bool,
    /// Whether it is not even named, where it is not fatal.
    pub in_silence: bool,
    /// Bytes of freed large blocks kept resident.
    pub large_keep: usize,
    /// Bytes of empty slabs kept resident.
    pub slab_keep: usize,
    /// Who gives idle memory back.
    pub reclaim: Reclaim,
    /// Milliseconds that free memory must have lain idle.
    pub decay: u32,
    /// Whether sparse slabs may share pages.
    pub compact: bool,
    /// How many bytes may be resident.
    pub limit: LimitTo,
    /// Seconds after which live memory that nobody uses goes out to swap, or zero.
    pub cold: u32,
    /// Where slabs have huge pages.
    pub huge: Huge,
    /// Bytes of blocks that a thread has freed and that are not free yet.
    pub quarantine: usize,
    /// Whether pages are readied for steady growth.
    pub ready: bool,
    /// Whether pages are put under whatever is mapped.
    pub prepopulate: bool,
    /// Whether what blocks lie on is locked into memory.
    pub mlock: bool,
    /// Whether tables have a protection key.
    pub pkey: bool,
    /// Whether the processor looks at the tags of zones.
    pub mte: bool,
    /// Whether mappings have names.
    pub names: bool,
    /// Whether children do not inherit the library.
    pub program_only: bool,
    /// Where to report to.
    pub report_descriptor: Option<i32>,
    /// How much is said of a bad call.
    pub report: Report,
    /// Where reports go as JSON.
    pub report_file: Option<FileName>,
    /// One allocation in so many is sampled, or none.
    pub guarded: usize,
    /// Places for sampled blocks.
    pub guarded_slots: usize,
    /// Which blocks are filled.
    pub fill: Fill,
    /// Allocations between two verifications, or none.
    pub verify: usize,
    /// Whether to look for dangling pointers: 1 at exit, more after so many allocations as well.
    pub dangling: usize,
    /// One allocation in so many is watched for reads of what was not written, or none.
    pub uninit: usize,
    /// Which leaks to report at exit.
    pub leaks: Leaks,
    /// Where profiles go.
    pub profile: Option<FileName>,
    /// At which signal, or none.
    pub profile_signal: usize,
    /// After how many bytes of growth, or never.
    pub profile_growth: usize,
    /// Whether to write statistics at exit.
    pub stats: bool,
    /// Number of arenas.
    #[cfg(feature = "experiment-parallel")]
    pub arenas: usize,
}

impl Options {
    /// The defaults of [`TABLE`].
    pub const DEFAULT: Options = Options {
        partitions: 0,
        sites: SiteMode::Auto,
        wrappers: None,
        warn_only: false,
        in_silence: false,
        large_keep: 32 << 20,
        slab_keep: 1024 << 30,
        reclaim: Reclaim::Auto,
        decay: 100,
        compact: false,
        limit: LimitTo::Nothing,
        cold: 0,
        huge: Huge::Off,
        quarantine: 3 << 20,
        ready: true,
        prepopulate: false,
        mlock: false,
        pkey: false,
        mte: false,
        names: false,
        program_only: false,
        report_descriptor: None,
        report: Report::Auto,
        report_file: None,
        guarded: 0,
        guarded_slots: 1024,
        fill: Fill::Off,
        verify: 0,
        dangling: 0,
        uninit: 0,
        leaks: Leaks::Off,
        profile: None,
        profile_signal: 0,
        profile_growth: 0,
        stats: false,
        #[cfg(feature = "experiment-parallel")]
        arenas: 4,
    };

    /// Whether each call site has a partition of its own.
    pub fn is_exact(&self) -> bool {
        match self.sites {
            SiteMode::Auto => self.wrappers.is_some() || HARDENED && self.partitions == 0,
            SiteMode::Hash => false,
            SiteMode::Exact => true,
        }
    }

    /// How many partitions there are, a power of two.
    pub fn partitions_there_are(&self) -> usize {
        match self.partitions {
            0 if self.is_exact() => PARTITIONS_EXACT,
            0 => PARTITIONS_USUAL,
            asked => asked,
        }
    }

    /// Whether every call is looked at, so that none is served by the fast paths.
    pub fn is_careful(&self) -> bool {
        let every = self.sampled();
        let sampled = every != 0 && every < CAREFUL_BELOW;
        sampled || self.fill != Fill::Off || self.verify != 0 || self.dangling > 1
    }

    /// One allocation in so many is a guarded block, or none: as often as either of the two aids asks for.
    pub fn sampled(&self) -> usize {
        match (self.guarded, self.uninit) {
            (0, every) | (every, 0) => every,
            (a, b) => a.min(b),
        }
    }

    /// Whether slow paths have something to do with blocks that they hand out or take back.
    pub fn is_watchful(&self) -> bool {
        self.is_careful() || self.sampled() != 0
    }

    /// Whether something is to be done about what is mapped.
    #[inline]
    pub fn has_wishes(&self) -> bool {
        self.prepopulate | self.mlock | self.names
    }

    /// Takes one `NAME=value` of the environment. Anything that is not ours is none of our business.
    pub fn take(&mut self, variable: &[u8]) -> Result<(), Problem> {
        let Some(Parsed { entry, value }) = parse::find(variable)? else { return Ok(()) };
        let bad = Err(Problem::BadValue(entry));
        match entry.name {
            "TOFT_PARTITIONS" => match parse_number(value) {
                Some(n) if (1..=PARTITIONS_MAX).contains(&n) => {
                    self.partitions = n.next_power_of_two();
                }
                _ => return bad,
            },
            "TOFT_ON_MISUSE" => match parse_word(value, ON_MISUSE) {
                Some(1..) if HARDENED => return Err(Problem::Weaker(entry)),
                Some(word) => (self.warn_only, self.in_silence) = (word != 0, word == 2),
                None => return bad,
            },
            "TOFT_LARGE_KEEP" => match parse_size(value) {
                Some(bytes) => self.large_keep = bytes,
                None => return bad,
            },
            "TOFT_SLAB_KEEP" => match parse_size(value) {
                Some(bytes) => self.slab_keep = bytes,
                None => return bad,
            },
            "TOFT_SITES" => match parse_word(value, SITES) {
                Some(0) => self.sites = SiteMode::Auto,
                Some(1) => self.sites = SiteMode::Hash,
                Some(_) => self.sites = SiteMode::Exact,
                None => return bad,
            },
            "TOFT_WRAPPERS" => match parse_names(value) {
                Some(names) => self.wrappers = Some(names),
                None => return bad,
            },
            "TOFT_RECLAIM" => match parse_word(value, RECLAIM) {
                Some(0) => self.reclaim = Reclaim::Auto,
                Some(1) => self.reclaim = Reclaim::Thread,
                Some(2) => self.reclaim = Reclaim::Calls,
                Some(_) => self.reclaim = Reclaim::Off,
                None => return bad,
            },
            "TOFT_DECAY" => match parse_number(value) {
                Some(n) if n <= DECAY_MAX => self.decay = n as u32,
                _ => return bad,
            },
            "TOFT_QUARANTINE" => match parse_size(value) {
                Some(bytes) => self.quarantine = bytes,
                None => return bad,
            },
            "TOFT_COMPACT" => match parse_flag(value) {
                Some(true) if HARDENED => return Err(Problem::Weaker(entry)),
                Some(flag) => self.compact = flag,
                None => return bad,
            },
            "TOFT_LIMIT" => match parse_share(value) {
                Some(limit) => self.limit = limit,
                None => return bad,
            },
            "TOFT_COLD" => match parse_number(value) {
                Some(n) if n <= COLD_MAX => self.cold = n as u32,
                _ => return bad,
            },
            "TOFT_HUGE" => match parse_word(value, HUGE) {
                Some(0) => self.huge = Huge::Off,
                Some(1) => self.huge = Huge::Dense,
                Some(_) => self.huge = Huge::Kernel,
                None => return bad,
            },
            "TOFT_READY" => match parse_flag(value) {
                Some(flag) => self.ready = flag,
                None => return bad,
            },
            "TOFT_PREPOPULATE" => match parse_flag(value) {
                Some(flag) => self.prepopulate = flag,
                None => return bad,
            },
            "TOFT_MLOCK" => match parse_flag(value) {
                Some(flag) => self.mlock = flag,
                None => return bad,
            },
            "TOFT_PKEY" => match parse_flag(value) {
                Some(flag) => self.pkey = flag,
                None => return bad,
            },
            "TOFT_MTE" => match parse_flag(value) {
                Some(flag) => self.mte = flag,
                None => return bad,
            },
            "TOFT_NAMES" => match parse_flag(value) {
                Some(flag) => self.names = flag,
                None => return bad,
            },
            "TOFT_SCOPE" => match parse_word(value, &["program", "children"]) {
                Some(word) => self.program_only = word == 0,
                None => return bad,
            },
            "TOFT_REPORT_FD" => match parse_number(value) {
                Some(n) if n <= i32::MAX as usize => self.report_descriptor = Some(n as i32),
                _ => return bad,
            },
            "TOFT_REPORT" => match parse_word(value, REPORT) {
                Some(0) => self.report = Report::Auto,
                Some(1) => self.report = Report::Line,
                Some(_) => self.report = Report::Full,
                None => return bad,
            },
            "TOFT_REPORT_FILE" => match parse_file(value) {
                Some(name) => self.report_file = Some(name),
                None => return bad,
            },
            "TOFT_GUARDED" => match parse_number(value) {
                Some(n) if n <= GUARDED_MAX => self.guarded = n,
                _ => return bad,
            },
            "TOFT_GUARDED_SLOTS" => match parse_number(value) {
                Some(n) if (1..=GUARDED_SLOTS_MAX).contains(&n) => self.guarded_slots = n,
                _ => return bad,
            },
            "TOFT_FILL" => match parse_word(value, FILL) {
                Some(1..) if HARDENED => return Err(Problem::Needless(entry)),
                Some(0) => self.fill = Fill::Off,
                Some(1) => self.fill = Fill::Alloc,
                Some(2) => self.fill = Fill::Free,
                Some(_) => self.fill = Fill::Both,
                None => return bad,
            },
            "TOFT_VERIFY" => match parse_number(value) {
                Some(n) if n <= VERIFY_MAX => self.verify = n,
                _ => return bad,
            },
            "TOFT_DANGLING" => match parse_number(value) {
                Some(2..) if HARDENED => return Err(Problem::Weaker(entry)),
                Some(n) if n <= DANGLING_MAX => self.dangling = n,
                _ => return bad,
            },
            "TOFT_UNINIT" => match parse_number(value) {
                Some(1..) if HARDENED => return Err(Problem::Weaker(entry)),
                Some(n) if n <= GUARDED_MAX => self.uninit = n,
                _ => return bad,
            },
            "TOFT_LEAKS" => match parse_word(value, LEAKS) {
                Some(0) => self.leaks = Leaks::Off,
                Some(1) => self.leaks = Leaks::Lost,
                Some(_) => self.leaks = Leaks::All,
                None => return bad,
            },
            "TOFT_PROFILE" => match parse_file(value) {
                Some(name) => self.profile = Some(name),
                None => return bad,
            },
            "TOFT_PROFILE_SIGNAL" => match parse_number(value) {
                Some(n) if n <= SIGNAL_MAX => self.profile_signal = n,
                _ => return bad,
            },
            "TOFT_PROFILE_GROWTH" => match parse_size(value) {
                Some(n) => self.profile_growth = n,
                None => return bad,
            },
            #[cfg(feature = "experiment-parallel")]
            "TOFT_EXPERIMENT_ARENAS" => match parse_number(value) {
                Some(n) if (1..=ARENAS_MAX).contains(&n) => self.arenas = n,
                _ => return bad,
            },
            _ => match parse_flag(value) {
                Some(flag) => self.stats = flag,
                None => return bad,
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_in_the_table_is_the_default_in_force() {
        for entry in TABLE.iter().filter(|entry| entry.default != "none") {
            let mut options = Options::DEFAULT;
            options.take(format!("{}={}", entry.name, entry.default).as_bytes()).unwrap();
            if entry.name == "TOFT_PARTITIONS" {
                // What was asked for is remembered, and the same comes of it.
                let hashed = Options { sites: SiteMode::Hash, ..Options::DEFAULT };
                assert_eq!(options.partitions_there_are(), hashed.partitions_there_are());
                options.partitions = 0;
            }
            assert_eq!(options, Options::DEFAULT, "{}", entry.name);
        }
    }

    /// One example at least for each option.
    const EXAMPLES: &[&str] = &[
        "TOFT_PARTITIONS=5",
        "TOFT_SITES=exact",
        "TOFT_SITES=hash",
        "TOFT_WRAPPERS=xmalloc",
        "TOFT_LARGE_KEEP=1k",
        "TOFT_SLAB_KEEP=1k",
        "TOFT_RECLAIM=calls",
        "TOFT_DECAY=7",
        "TOFT_LIMIT=80%",
        "TOFT_COLD=60",
        "TOFT_HUGE=dense",
        "TOFT_QUARANTINE=0",
        "TOFT_READY=0",
        "TOFT_PREPOPULATE=1",
        "TOFT_MLOCK=1",
        "TOFT_PKEY=1",
        "TOFT_MTE=1",
        "TOFT_NAMES=1",
        "TOFT_SCOPE=program",
        "TOFT_REPORT_FD=7",
        "TOFT_REPORT=line",
        "TOFT_REPORT_FILE=/tmp/reports",
        "TOFT_GUARDED=1",
        "TOFT_GUARDED_SLOTS=1",
        "TOFT_VERIFY=1",
        "TOFT_LEAKS=1",
        "TOFT_PROFILE=/tmp/heap.toft",
        "TOFT_PROFILE_SIGNAL=12",
        "TOFT_PROFILE_GROWTH=1g",
        "TOFT_STATS=1",
        #[cfg(feature = "experiment-parallel")]
        "TOFT_EXPERIMENT_ARENAS=1",
        "TOFT_DANGLING=1",
    ];

    /// What the hardened build tells, and does not need.
    const NEEDLESS: &[&str] = &["TOFT_FILL=alloc", "TOFT_FILL=free"];

    /// What the hardened build tells, and does not do.
    const WEAKER: &[&str] = &[
        "TOFT_ON_MISUSE=warn",
        "TOFT_ON_MISUSE=ignore",
        "TOFT_COMPACT=1",
        "TOFT_DANGLING=2",
        "TOFT_UNINIT=1",
    ];

    fn take(text: &str) -> (Result<(), Problem>, bool) {
        let mut options = Options::DEFAULT;
        let taken = options.take(text.as_bytes());
        (taken, options != Options::DEFAULT)
    }

    #[test]
    fn every_option_changes_something_or_is_refused() {
        for text in EXAMPLES {
            assert!(matches!(take(text), (Ok(()), true)), "{text}");
        }
        for text in WEAKER.iter().chain(NEEDLESS) {
            let (taken, changed) = take(text);
            assert_eq!(changed, !HARDENED, "{text}");
            assert_eq!(taken.is_err(), HARDENED, "{text}");
            match taken {
                Ok(()) => {}
                Err(Problem::Needless(_)) => assert!(NEEDLESS.contains(text), "{text}"),
                Err(problem) => assert!(matches!(problem, Problem::Weaker(_)), "{text}"),
            }
        }
    }

    #[test]
    fn every_option_has_an_example() {
        for entry in TABLE {
            let names = |text: &&str| text.split_once('=').unwrap().0 == entry.name;
            assert!(EXAMPLES.iter().chain(WEAKER).chain(NEEDLESS).any(names), "{}", entry.name);
        }
    }

    #[test]
    fn sites_are_exact_where_that_is_asked_for_or_usual() {
        let of = |texts: &[&str]| {
            let mut options = Options::DEFAULT;
            texts.iter().for_each(|text| options.take(text.as_bytes()).unwrap());
            (options.is_exact(), options.partitions_there_are())
        };
        assert_eq!(of(&[]), if HARDENED { (true, 2048) } else { (false, 64) });
        assert_eq!(of(&["TOFT_PARTITIONS=8"]), (false, 8));
        assert_eq!(of(&["TOFT_PARTITIONS=8", "TOFT_SITES=exact"]), (true, 8));
        assert_eq!(of(&["TOFT_SITES=exact"]), (true, 2048));
        assert_eq!(of(&["TOFT_SITES=hash"]), (false, 64));
        assert_eq!(of(&["TOFT_WRAPPERS=xmalloc"]), (true, 2048));
        assert_eq!(of(&["TOFT_WRAPPERS=xmalloc", "TOFT_SITES=hash"]), (false, 64));
    }

    #[test]
    fn limits_are_bytes_or_a_share_of_what_there_is() {
        let limit = |text: &str, there_is: Option<usize>| {
            let mut options = Options::DEFAULT;
            options.take(format!("TOFT_LIMIT={text}").as_bytes()).unwrap();
            options.limit.bytes(|| there_is)
        };
        assert_eq!(limit("512m", None), 512 << 20);
        assert_eq!(limit("4096", Some(1)), 4096);
        assert_eq!(limit("80%", Some(1000)), 800);
        assert_eq!(limit("33%", Some(199)), 65);
        assert_eq!(limit("100%", Some(usize::MAX)), usize::MAX);
        assert_eq!(limit("1%", Some(usize::MAX)), usize::MAX / 100);
        assert_eq!(limit("80%", None), usize::MAX);
        assert_eq!(LimitTo::Nothing.bytes(|| Some(1)), usize::MAX);
    }

    #[test]
    fn bad_values_and_names_are_told_and_change_nothing() {
        let mut options = Options::DEFAULT;
        for text in [
            "TOFT_PARTITIONS=0",
            "TOFT_PARTITIONS=4097",
            "TOFT_PARTITIONS=abc",
            "TOFT_PARTITIONS=",
            "TOFT_ON_MISUSE=log",
            "TOFT_LARGE_KEEP=1x",
            "TOFT_LARGE_KEEP=99999999999999999999",
            "TOFT_SLAB_KEEP=lots",
            "TOFT_SITES=yes",
            "TOFT_SITES=",
            "TOFT_WRAPPERS=",
            "TOFT_WRAPPERS=xmalloc,",
            "TOFT_RECLAIM=never",
            "TOFT_DECAY=1s",
            "TOFT_DECAY=86400001",
            "TOFT_COMPACT=yes",
            "TOFT_LIMIT=0",
            "TOFT_LIMIT=0%",
            "TOFT_LIMIT=101%",
            "TOFT_LIMIT=%",
            "TOFT_LIMIT=1m%",
            "TOFT_LIMIT=-1",
            "TOFT_LIMIT=1t",
            "TOFT_LIMIT=none",
            "TOFT_COLD=2592001",
            "TOFT_COLD=1m",
            "TOFT_HUGE=always",
            "TOFT_READY=2",
            "TOFT_PREPOPULATE=yes",
            "TOFT_MLOCK=64m",
            "TOFT_NAMES=",
            "TOFT_SCOPE=",
            "TOFT_STATS=2",
            "TOFT_REPORT_FD=-1",
            "TOFT_REPORT=some",
            "TOFT_LEAKS=2",
            "TOFT_PROFILE=",
            "TOFT_PROFILE_SIGNAL=65",
            "TOFT_PROFILE_GROWTH=much",
            "TOFT_FILL=1",
            "TOFT_VERIFY=often",
            "TOFT_DANGLING=exit",
            "TOFT_UNINIT=-1",
            "TOFT_GUARDED=-1",
            "TOFT_GUARDED_SLOTS=0",
            "TOFT_REPORT_FILE=",
            #[cfg(feature = "experiment-parallel")]
            "TOFT_EXPERIMENT_ARENAS=17",
        ] {
            let problem = options.take(text.as_bytes());
            assert!(matches!(problem, Err(Problem::BadValue(_))), "{text}");
        }
        assert!(matches!(options.take(b"TOFT_FOO=1"), Err(Problem::Unknown)));
        assert!(options.take(b"PATH=/bin").is_ok() && options.take(b"TOFT=1").is_ok());
        assert_eq!(options, Options::DEFAULT);
    }
}
