//! The names that `mallctl` serves, and the numbers that stand for them.
//!
//! The parts of a name are separated by dots. `*` stands for the number of an arena. In a
//! management information base (mib), the number of a part is that of the first name in the list
//! that begins with the same parts, and the number of an arena stands for itself.

use core::ffi::c_int;

/// The most parts of a name.
const PARTS: usize = 4;

macro_rules! names {
    ($($name:ident $text:literal,)*) => {
        /// A name that `mallctl` serves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Name { $($name,)* }

        /// All of them. Numbers, because a table of addresses would cost every start of a program.
        const ALL: [Name; LENGTH] = [$(Name::$name,)*];
        const LENGTH: usize = [$(stringify!($name),)*].len();
        /// Their texts, each with a line end.
        const TEXTS: &str = concat!($($text, "\n",)*);
    };
}

names! {
    Version "version",
    Epoch "epoch",
    BackgroundThread "background_thread",
    MaxBackgroundThreads "max_background_threads",
    ConfigCacheOblivious "config.cache_oblivious",
    ConfigDebug "config.debug",
    ConfigFill "config.fill",
    ConfigLazyLock "config.lazy_lock",
    ConfigMallocConf "config.malloc_conf",
    ConfigProf "config.prof",
    ConfigStats "config.stats",
    ConfigUtrace "config.utrace",
    ConfigXmalloc "config.xmalloc",
    OptAbort "opt.abort",
    OptAbortConf "opt.abort_conf",
    OptBackgroundThread "opt.background_thread",
    OptConfirmConf "opt.confirm_conf",
    OptDirtyDecay "opt.dirty_decay_ms",
    OptDss "opt.dss",
    OptHpa "opt.hpa",
    OptJunk "opt.junk",
    OptMaxBackgroundThreads "opt.max_background_threads",
    OptMetadataThp "opt.metadata_thp",
    OptMuzzyDecay "opt.muzzy_decay_ms",
    OptNarenas "opt.narenas",
    OptPercpuArena "opt.percpu_arena",
    OptRetain "opt.retain",
    OptStatsPrint "opt.stats_print",
    OptTcache "opt.tcache",
    OptThp "opt.thp",
    OptTrustMadvise "opt.trust_madvise",
    OptZero "opt.zero",
    OptZeroRealloc "opt.zero_realloc",
    ThreadArena "thread.arena",
    ThreadAllocated "thread.allocated",
    ThreadAllocatedp "thread.allocatedp",
    ThreadDeallocated "thread.deallocated",
    ThreadDeallocatedp "thread.deallocatedp",
    ThreadTcacheEnabled "thread.tcache.enabled",
    ThreadTcacheFlush "thread.tcache.flush",
    TcacheCreate "tcache.create",
    TcacheFlush "tcache.flush",
    TcacheDestroy "tcache.destroy",
    ArenaInitialized "arena.*.initialized",
    ArenaDecay "arena.*.decay",
    ArenaPurge "arena.*.purge",
    ArenaDestroy "arena.*.destroy",
    ArenaDirtyDecay "arena.*.dirty_decay_ms",
    ArenaMuzzyDecay "arena.*.muzzy_decay_ms",
    ArenasNarenas "arenas.narenas",
    ArenasDirtyDecay "arenas.dirty_decay_ms",
    ArenasMuzzyDecay "arenas.muzzy_decay_ms",
    ArenasQuantum "arenas.quantum",
    ArenasPage "arenas.page",
    ArenasCreate "arenas.create",
    StatsAllocated "stats.allocated",
    StatsActive "stats.active",
    StatsMetadata "stats.metadata",
    StatsMetadataThp "stats.metadata_thp",
    StatsResident "stats.resident",
    StatsMapped "stats.mapped",
    StatsRetained "stats.retained",
}

/// A name, and the arena that its number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub name: Name,
    pub arena: usize,
}

fn texts() -> impl Iterator<Item = &'static [u8]> {
    TEXTS.as_bytes().split(|&byte| byte == b'\n').filter(|text| !text.is_empty())
}

fn parts(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'.')
}

/// Returns the number that a part is, in decimal digits.
fn number(part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return None;
    }
    part.iter().try_fold(0usize, |number, &byte| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(usize::from(byte - b'0')),
        _ => None,
    })
}

/// Returns the number of the first text that begins with the same parts as `text`, up to the part
/// at `depth`.
fn first_with(text: &[u8], depth: usize) -> usize {
    let begin = |text| parts(text).take(depth + 1);
    texts().position(|other| begin(other).eq(begin(text))).unwrap_or(0)
}

/// Calls `each` with the depth and the number of each part of a name, or of the beginning of one.
/// Returns the row of the first name that begins so, and the number of parts; `ENOENT` if there is
/// none.
fn walk(given: &[u8], mut each: impl FnMut(usize, usize)) -> Result<(usize, usize), c_int> {
    let is_part = |own: &[u8], part: &[u8]| match own {
        b"*" => number(part).is_some(),
        _ => own == part,
    };
    let depth = parts(given).count();
    let begins = |text: &&[u8]| {
        parts(text).count() >= depth
            && parts(text).zip(parts(given)).all(|(own, part)| is_part(own, part))
    };
    let row = texts().position(|text| begins(&text)).ok_or(libc::ENOENT)?;
    let text = texts().nth(row).unwrap_or_default();
    for (at, (own, part)) in parts(text).zip(parts(given)).enumerate() {
        each(at, if own == b"*" { number(part).unwrap_or(0) } else { first_with(text, at) });
    }
    Ok((row, depth))
}

fn found(row: usize, arena: usize) -> Result<Found, c_int> {
    ALL.get(row).map(|&name| Found { name, arena }).ok_or(libc::ENOENT)
}

/// Returns what a whole name stands for, or `ENOENT`.
pub fn by_name(given: &[u8]) -> Result<Found, c_int> {
    let mut arena = 0;
    let (row, depth) = walk(given, |at, number| {
        if at == 1 {
            arena = number;
        }
    })?;
    let is_whole = texts().nth(row).is_some_and(|text| parts(text).count() == depth);
    if is_whole { found(row, arena) } else { Err(libc::ENOENT) }
}

/// Calls `each` with the depth and the number of each part, and returns the number of parts, or
/// `ENOENT`. The name may be the beginning of one.
pub fn numbers(given: &[u8], each: impl FnMut(usize, usize)) -> Result<usize, c_int> {
    walk(given, each).map(|(_, depth)| depth)
}

/// Returns what a mib stands for, or `ENOENT`.
pub fn by_mib(mib: &[usize]) -> Result<Found, c_int> {
    if mib.len() > PARTS {
        return Err(libc::ENOENT);
    }
    let is = |text: &[u8]| {
        parts(text).count() == mib.len()
            && parts(text)
                .zip(mib)
                .enumerate()
                .all(|(at, (own, &number))| own == b"*" || first_with(text, at) == number)
    };
    let row = texts().position(is).ok_or(libc::ENOENT)?;
    found(row, mib.get(1).copied().unwrap_or(0))
}
