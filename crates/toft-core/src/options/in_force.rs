//! The options in force: a field for each row of the table, and what a variable of the environment
//! changes.

use super::parse::{self, FileName, Names, Parsed, Problem};
use super::parse::{
    parse_file, parse_flag, parse_guarded, parse_list, parse_moments, parse_names, parse_number,
    parse_partitions, parse_report, parse_share, parse_size, parse_word,
};
use super::table::{
    COLD_MAX, DANGLING_MAX, DECAY_MAX, FILL, HUGE, LEAKS, LOCK, MAPPINGS, NAMES, ON_MISUSE,
    PARTITIONS_EXACT, PARTITIONS_USUAL, POPULATE, RECLAIM, VERIFY_EXIT, VERIFY_MAX,
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

    /// Whether the heap is verified when the program ends.
    pub fn verifies_at_exit(&self) -> bool {
        self.verify != 0 || self.verify_exit
    }

    /// Whether there is something to do when the program ends.
    pub fn has_work_at_exit(&self) -> bool {
        self.verifies_at_exit()
            || self.profile.is_some()
            || self.dangling != 0
            || self.stats
            || self.leaks != Leaks::Off
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
        match parse::find(variable)? {
            Some(parsed) => self.set(parsed),
            None => Ok(()),
        }
    }

    /// Sets an option. Out of line: apart from the code that every program runs.
    #[cold]
    #[inline(never)]
    fn set(&mut self, Parsed { entry, value }: Parsed<'_>) -> Result<(), Problem> {
        let bad = Problem::BadValue(entry);
        let number = |most| parse_number(value).filter(|&number| number <= most).ok_or(bad);
        let flag = || parse_flag(value).ok_or(bad);
        let not_weaker = |is_weaker: bool| match is_weaker && SECURE {
            true => Err(Problem::Weaker(entry)),
            false => Ok(()),
        };
        match entry.name {
            "TOFT_PARTITIONS" => {
                (self.sites, self.partitions) = parse_partitions(value).ok_or(bad)?;
            }
            "TOFT_ON_MISUSE" => {
                let (warn_only, in_silence) = parse_word(value, ON_MISUSE).ok_or(bad)?;
                not_weaker(warn_only)?;
                (self.warn_only, self.in_silence) = (warn_only, in_silence);
            }
            "TOFT_WRAPPERS" => self.wrappers = Some(parse_names(value).ok_or(bad)?),
            "TOFT_HINTS" => {
                let name = parse_file(value).ok_or(bad)?;
                not_weaker(true)?;
                self.hints = Some(name);
            }
            "TOFT_RECLAIM" => self.reclaim = parse_word(value, RECLAIM).ok_or(bad)?,
            "TOFT_DECAY" => self.decay = number(DECAY_MAX)? as u32,
            "TOFT_COMPACT" => {
                let compact = flag()?;
                not_weaker(compact)?;
                self.compact = compact;
            }
            "TOFT_LIMIT" => self.limit = parse_share(value).ok_or(bad)?,
            "TOFT_COLD" => self.cold = number(COLD_MAX)? as u32,
            "TOFT_HUGE" => self.huge = parse_word(value, HUGE).ok_or(bad)?,
            "TOFT_MAPPINGS" => {
                let words = parse_list(value, MAPPINGS).ok_or(bad)?;
                (self.prepopulate, self.mlock, self.names) =
                    (words & POPULATE != 0, words & LOCK != 0, words & NAMES != 0);
            }
            "TOFT_PKEY" => self.pkey = flag()?,
            "TOFT_SCOPE" => {
                let words = &[("program", true), ("children", false)];
                self.program_only = parse_word(value, words).ok_or(bad)?;
            }
            "TOFT_DEEPBIND" => {
                let deepbind = flag()?;
                not_weaker(!deepbind)?;
                self.deepbind = deepbind;
            }
            "TOFT_REPORT_FD" => self.report_descriptor = Some(number(i32::MAX as usize)? as i32),
            "TOFT_REPORT" => (self.report, self.report_file) = parse_report(value).ok_or(bad)?,
            "TOFT_GUARDED" => (self.uninit, self.guarded) = parse_guarded(value).ok_or(bad)?,
            "TOFT_FILL" => {
                let fill = parse_word(value, FILL).ok_or(bad)?;
                if WIPE && fill != Fill::Off {
                    return Err(Problem::Needless(entry));
                }
                not_weaker(fill != Fill::Off)?;
                self.fill = fill;
            }
            "TOFT_VERIFY" if value == VERIFY_EXIT.as_bytes() => self.verify_exit = true,
            "TOFT_VERIFY" => self.verify = number(VERIFY_MAX)?,
            "TOFT_DANGLING" => self.dangling = number(DANGLING_MAX)?,
            "TOFT_LEAKS" => self.leaks = parse_word(value, LEAKS).ok_or(bad)?,
            "TOFT_PROFILE" => self.profile = Some(parse_file(value).ok_or(bad)?),
            "TOFT_PROFILE_AT" => {
                (self.profile_signal, self.profile_growth) = parse_moments(value).ok_or(bad)?;
            }
            "TOFT_SAMPLE" => {
                let bytes = parse_size(value).ok_or(bad)?;
                not_weaker(bytes != 0)?;
                self.sample = bytes;
            }
            _ => self.stats = flag()?,
        }
        Ok(())
    }
}
