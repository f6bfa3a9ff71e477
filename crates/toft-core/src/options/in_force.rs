//! The options in force: a field for each row of the table, and what a variable of the environment
//! changes.

use super::parse::{self, FileName, Names, Parsed, Problem};
use super::parse::{
    parse_file, parse_flag, parse_guarded, parse_list, parse_moments, parse_names, parse_number,
    parse_partitions, parse_report, parse_share, parse_size, parse_word,
};
use super::table::{
    COLD_MAX, DANGLING_MAX, DECAY_MAX, FILL, HUGE, LEAKS, MAPPINGS, ON_MISUSE, PARTITIONS_EXACT,
    PARTITIONS_USUAL, RECLAIM, VERIFY_EXIT, VERIFY_MAX,
};
use super::values::{Fill, Huge, Leaks, LimitTo, Reclaim, Report, SiteMode};
use crate::policy::{DECAY, QUARANTINE_BYTES, SECURE, WIPE};

/// Below this number of allocations for each sampled block, every call is checked: a claim has up
/// to as many.
const CAREFUL_BELOW: usize = 64;

/// Bytes allocated from one allocation that probes report to the next, on average, if no stacks are
/// kept.
const PROBE_INTERVAL: usize = 512 << 10;

/// The options in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of partitions, a power of two; zero where none was asked for.
    pub partitions: usize,
    /// How a call site finds its partition.
    pub sites: SiteMode,
    /// Functions whose callers are the call sites.
    pub wrappers: Option<Names>,
    /// Where hints come from.
    pub hints: Option<FileName>,
    /// Whether misuse is only named, not fatal.
    pub warn_only: bool,
    /// Whether it is not even named, where it is not fatal.
    pub in_silence: bool,
    /// Who gives idle memory back.
    pub reclaim: Reclaim,
    /// Milliseconds that free memory must have been idle.
    pub decay: u32,
    /// Whether sparse slabs may share pages.
    pub compact: bool,
    /// How many bytes may be resident.
    pub limit: LimitTo,
    /// Seconds after which unused live memory goes out to swap, or zero.
    pub cold: u32,
    /// Where slabs have huge pages.
    pub huge: Huge,
    /// Bytes of blocks that a thread has freed and that are not free yet, at most. No variable sets
    /// it.
    pub quarantine: usize,
    /// Whether pages are prefaulted for steady growth. No variable sets it.
    pub prefault: bool,
    /// Whether pages are put under whatever is mapped.
    pub prepopulate: bool,
    /// Whether memory of blocks is locked.
    pub mlock: bool,
    /// Whether tables have a protection key.
    pub pkey: bool,
    /// Whether mappings have names.
    pub names: bool,
    /// Whether children do not inherit the library.
    pub program_only: bool,
    /// Whether libraries that are opened with `RTLD_DEEPBIND` allocate here.
    pub deepbind: bool,
    /// Where to report to.
    pub report_descriptor: Option<i32>,
    /// How much is said of a bad call.
    pub report: Report,
    /// Where reports go as JSON.
    pub report_file: Option<FileName>,
    /// One allocation in this number is a guarded block, or none.
    pub guarded: usize,
    /// Whether reads of unwritten memory in guarded blocks are reported.
    pub uninit: bool,
    /// Which blocks are filled.
    pub fill: Fill,
    /// Allocations between two verifications, or none.
    pub verify: usize,
    /// Whether to verify when the program ends, for a bounded time.
    pub verify_exit: bool,
    /// Whether to look for dangling pointers: 1 at exit, more also after this number of
    /// allocations.
    pub dangling: usize,
    /// Which leaks to report at exit.
    pub leaks: Leaks,
    /// Where profiles go.
    pub profile: Option<FileName>,
    /// At which signal, or none.
    pub profile_signal: usize,
    /// After how many bytes of growth, or never.
    pub profile_growth: usize,
    /// Bytes allocated from one allocation of which the stack is kept to the next, on average, or
    /// zero for none.
    pub sample: usize,
    /// Whether to write statistics at exit.
    pub stats: bool,
}

impl Options {
    /// The defaults of [`TABLE`](super::TABLE).
    pub const DEFAULT: Options = Options {
        partitions: 0,
        sites: SiteMode::Auto,
        wrappers: None,
        hints: None,
        warn_only: false,
        in_silence: false,
        reclaim: Reclaim::Auto,
        decay: DECAY,
        compact: false,
        limit: LimitTo::Nothing,
        cold: 0,
        huge: Huge::Off,
        quarantine: QUARANTINE_BYTES,
        prefault: true,
        prepopulate: false,
        mlock: false,
        pkey: false,
        names: false,
        program_only: false,
        deepbind: true,
        report_descriptor: None,
        report: Report::Auto,
        report_file: None,
        guarded: 0,
        uninit: false,
        fill: Fill::Off,
        verify: 0,
        verify_exit: false,
        dangling: 0,
        leaks: Leaks::Off,
        profile: None,
        profile_signal: 0,
        profile_growth: 0,
        sample: 0,
        stats: false,
    };

    /// Looks through Rust's libraries, unless the user has chosen wrappers or partitions. Not in
    /// the secure build, as with `toft run --secure`, nor where nothing can be looked through.
    pub fn look_through_rust(&mut self) {
        let chosen = self.partitions != 0 || self.sites != SiteMode::Auto || self.hints.is_some();
        let can = !SECURE && cfg!(target_arch = "x86_64");
        if can && !chosen && self.wrappers.is_none() {
            self.wrappers = parse_names(b"rust");
        }
    }

    /// Whether each call site has a separate partition.
    pub fn is_exact(&self) -> bool {
        match self.sites {
            SiteMode::Auto => self.wrappers.is_some() || SECURE && self.partitions == 0,
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
        let sampled = self.guarded != 0 && self.guarded < CAREFUL_BELOW;
        sampled || self.fill != Fill::Off || self.verify != 0 || self.dangling > 1
    }

    /// Whether slow paths have something to do with blocks that they hand out or take back.
    pub fn is_watchful(&self) -> bool {
        self.is_careful() || self.guarded != 0
    }

    /// Bytes allocated from one allocation that is chosen to the next, on average: for stacks that
    /// are kept and for probes alike, as there is one choice for both.
    pub fn interval(&self) -> usize {
        if self.sample != 0 { self.sample } else { PROBE_INTERVAL }
    }

    /// Calls `each` with the name of each option that changes nothing beside the others, and the
    /// reason.
    pub fn for_each_idle(&self, mut each: impl FnMut(&'static str, &'static str)) {
        let has_thread = matches!(self.reclaim, Reclaim::Auto | Reclaim::Thread);
        let why_no_thread = if self.reclaim == Reclaim::Off {
            "with TOFT_RECLAIM=off"
        } else {
            "with TOFT_RECLAIM=calls"
        };
        let has_moments = self.profile_signal != 0 || self.profile_growth != 0;
        for (is_idle, name, why) in [
            (has_moments && self.profile.is_none(), "TOFT_PROFILE_AT", "without TOFT_PROFILE"),
            (self.decay != DECAY && self.reclaim == Reclaim::Off, "TOFT_DECAY", why_no_thread),
            (self.cold != 0 && !has_thread, "TOFT_COLD", why_no_thread),
            (self.huge == Huge::Dense && !has_thread, "TOFT_HUGE=dense", why_no_thread),
        ] {
            if is_idle {
                each(name, why);
            }
        }
    }

    /// Whether something is to be done about what is mapped.
    #[inline]
    pub fn has_mapping_options(&self) -> bool {
        self.prepopulate | self.mlock | self.names
    }

    /// Takes one `NAME=value` of the environment. Anything that is not ours is none of our
    /// business.
    pub fn take(&mut self, variable: &[u8]) -> Result<(), Problem> {
        let Some(Parsed { entry, value }) = parse::find(variable)? else { return Ok(()) };
        let bad = Err(Problem::BadValue(entry));
        match entry.name {
            "TOFT_PARTITIONS" => match parse_partitions(value) {
                Some(partitions) => (self.sites, self.partitions) = partitions,
                None => return bad,
            },
            "TOFT_ON_MISUSE" => match parse_word(value, ON_MISUSE) {
                Some(1..) if SECURE => return Err(Problem::Weaker(entry)),
                Some(word) => (self.warn_only, self.in_silence) = (word != 0, word == 2),
                None => return bad,
            },
            "TOFT_WRAPPERS" => match parse_names(value) {
                Some(names) => self.wrappers = Some(names),
                None => return bad,
            },
            "TOFT_HINTS" => match parse_file(value) {
                Some(_) if SECURE => return Err(Problem::Weaker(entry)),
                Some(name) => self.hints = Some(name),
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
            "TOFT_COMPACT" => match parse_flag(value) {
                Some(true) if SECURE => return Err(Problem::Weaker(entry)),
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
            "TOFT_MAPPINGS" => match parse_list(value, MAPPINGS) {
                Some(words) => {
                    let has = |word: u32| words & 1 << word != 0;
                    (self.prepopulate, self.mlock, self.names) = (has(0), has(1), has(2));
                }
                None => return bad,
            },
            "TOFT_PKEY" => match parse_flag(value) {
                Some(flag) => self.pkey = flag,
                None => return bad,
            },
            "TOFT_SCOPE" => match parse_word(value, &["program", "children"]) {
                Some(word) => self.program_only = word == 0,
                None => return bad,
            },
            "TOFT_DEEPBIND" => match parse_flag(value) {
                Some(false) if SECURE => return Err(Problem::Weaker(entry)),
                Some(flag) => self.deepbind = flag,
                None => return bad,
            },
            "TOFT_REPORT_FD" => match parse_number(value) {
                Some(n) if n <= i32::MAX as usize => self.report_descriptor = Some(n as i32),
                _ => return bad,
            },
            "TOFT_REPORT" => match parse_report(value) {
                Some(report) => (self.report, self.report_file) = report,
                None => return bad,
            },
            "TOFT_GUARDED" => match parse_guarded(value) {
                Some(guarded) => (self.uninit, self.guarded) = guarded,
                None => return bad,
            },
            "TOFT_FILL" => match parse_word(value, FILL) {
                Some(1..) if WIPE => return Err(Problem::Needless(entry)),
                Some(1..) if SECURE => return Err(Problem::Weaker(entry)),
                Some(0) => self.fill = Fill::Off,
                Some(1) => self.fill = Fill::Alloc,
                Some(2) => self.fill = Fill::Free,
                Some(_) => self.fill = Fill::Both,
                None => return bad,
            },
            "TOFT_VERIFY" if value == VERIFY_EXIT.as_bytes() => self.verify_exit = true,
            "TOFT_VERIFY" => match parse_number(value) {
                Some(n) if n <= VERIFY_MAX => self.verify = n,
                _ => return bad,
            },
            "TOFT_DANGLING" => match parse_number(value) {
                Some(n) if n <= DANGLING_MAX => self.dangling = n,
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
            "TOFT_PROFILE_AT" => match parse_moments(value) {
                Some(moments) => (self.profile_signal, self.profile_growth) = moments,
                None => return bad,
            },
            "TOFT_SAMPLE" => match parse_size(value) {
                Some(1..) if SECURE => return Err(Problem::Weaker(entry)),
                Some(bytes) => self.sample = bytes,
                None => return bad,
            },
            _ => match parse_flag(value) {
                Some(flag) => self.stats = flag,
                None => return bad,
            },
        }
        Ok(())
    }
}
