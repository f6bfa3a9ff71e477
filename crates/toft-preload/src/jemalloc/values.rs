//! The value of each name, and what writing to it does.

use super::figures::{Figures, resident};
use super::names::{Found, Name};
use crate::process;
use core::ffi::{CStr, c_int};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use toft_core::options::Reclaim;

/// A value, as the program gets it.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    Bool(bool),
    U32(u32),
    /// `size_t`, `ssize_t`, `uint64_t` and addresses.
    Word(u64),
}

impl Value {
    /// Returns the bytes, and how many of them there are.
    pub fn bytes(self) -> ([u8; 8], usize) {
        let word = match self {
            Value::Bool(value) => u64::from(value),
            Value::U32(value) => u64::from(value),
            Value::Word(value) => value,
        };
        let size = match self {
            Value::Bool(_) => size_of::<bool>(),
            Value::U32(_) => size_of::<u32>(),
            Value::Word(_) => size_of::<u64>(),
        };
        (word.to_le_bytes(), size)
    }
}

/// What a program may do with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    /// A value of this many bytes.
    ReadWrite(usize),
    Write(usize),
    /// Reading creates something: the program must take the value.
    Create,
    /// Neither: the call itself does something.
    Act,
}

/// As in jemalloc's header: all arenas, and those that were destroyed.
const ALL_ARENAS: usize = 4096;
const DESTROYED_ARENAS: usize = 4097;

/// The interface that is served, and by what.
const VERSION: &CStr = match CStr::from_bytes_with_nul(
    concat!("5.3.0-0-toft-", env!("CARGO_PKG_VERSION"), "\0").as_bytes(),
) {
    Ok(text) => text,
    Err(_) => c"",
};

pub fn version() -> &'static CStr {
    VERSION
}

impl Name {
    pub fn access(self) -> Access {
        const WORD: usize = size_of::<u64>();
        const INT: usize = size_of::<u32>();
        match self {
            Name::Epoch
            | Name::MaxBackgroundThreads
            | Name::ArenaDirtyDecay
            | Name::ArenaMuzzyDecay
            | Name::ArenasDirtyDecay
            | Name::ArenasMuzzyDecay => Access::ReadWrite(WORD),
            Name::BackgroundThread | Name::ThreadTcacheEnabled => {
                Access::ReadWrite(size_of::<bool>())
            }
            Name::ThreadArena => Access::ReadWrite(INT),
            Name::TcacheFlush | Name::TcacheDestroy => Access::Write(INT),
            Name::ArenasCreate | Name::TcacheCreate => Access::Create,
            Name::ThreadTcacheFlush | Name::ArenaDecay | Name::ArenaPurge | Name::ArenaDestroy => {
                Access::Act
            }
            _ => Access::Read,
        }
    }
}

/// Returns true if the reclaimer's thread may run, which does what jemalloc's background threads
/// do.
fn has_reclaimer() -> bool {
    let is_on = |how| matches!(how, Reclaim::Auto | Reclaim::Thread);
    process::instance().is_some_and(|allocator| is_on(allocator.options().reclaim))
}

/// How long memory is idle before it is returned to the OS, in milliseconds, or -1 for ever.
fn decay() -> Value {
    let options = process::instance().map(|allocator| allocator.options());
    let time = options.filter(|options| options.reclaim != Reclaim::Off).map(|all| all.decay);
    Value::Word(time.map_or(u64::MAX, u64::from))
}

fn text(text: &'static CStr) -> Value {
    Value::Word(text.as_ptr().expose_provenance() as u64)
}

fn size(bytes: usize) -> Value {
    Value::Word(bytes as u64)
}

/// Returns the words with the bytes that this thread has allocated and freed, after a new count.
fn thread_bytes() -> Result<&'static [AtomicU64; 2], c_int> {
    process::thread_bytes().ok_or(libc::EAGAIN)
}

/// Returns the value. `figures` are those of the process.
pub fn read(found: Found, figures: &Figures) -> Result<Value, c_int> {
    let totals = || figures.totals();
    Ok(match found.name {
        Name::Version => text(VERSION),
        Name::Epoch => Value::Word(figures.epoch()),
        Name::BackgroundThread | Name::OptBackgroundThread => Value::Bool(has_reclaimer()),
        Name::MaxBackgroundThreads | Name::OptMaxBackgroundThreads => size(1),
        Name::ConfigStats | Name::OptTcache | Name::OptRetain | Name::ThreadTcacheEnabled => {
            Value::Bool(true)
        }
        Name::ConfigCacheOblivious
        | Name::ConfigDebug
        | Name::ConfigFill
        | Name::ConfigLazyLock
        | Name::ConfigProf
        | Name::ConfigUtrace
        | Name::ConfigXmalloc
        | Name::OptAbort
        | Name::OptAbortConf
        | Name::OptConfirmConf
        | Name::OptHpa
        | Name::OptStatsPrint
        | Name::OptTrustMadvise
        | Name::OptZero => Value::Bool(false),
        Name::ConfigMallocConf => text(c""),
        Name::OptDss | Name::OptMetadataThp | Name::OptPercpuArena => text(c"disabled"),
        Name::OptJunk => text(c"false"),
        Name::OptThp => text(c"default"),
        Name::OptZeroRealloc => text(c"free"),
        Name::OptNarenas => Value::U32(1),
        Name::OptDirtyDecay | Name::ArenasDirtyDecay => decay(),
        Name::OptMuzzyDecay | Name::ArenasMuzzyDecay => size(0),
        Name::ArenaDirtyDecay | Name::ArenaMuzzyDecay => {
            single_arena(found, figures)?;
            if found.name == Name::ArenaDirtyDecay { decay() } else { size(0) }
        }
        Name::ArenaInitialized => {
            any_arena(found, figures)?;
            Value::Bool(true)
        }
        Name::ThreadArena => Value::U32(0),
        Name::ThreadAllocated | Name::ThreadDeallocated => {
            let at = usize::from(found.name == Name::ThreadDeallocated);
            Value::Word(thread_bytes()?[at].load(Relaxed))
        }
        Name::ThreadAllocatedp | Name::ThreadDeallocatedp => {
            let at = usize::from(found.name == Name::ThreadDeallocatedp);
            Value::Word(thread_bytes()?[at].as_ptr().expose_provenance() as u64)
        }
        Name::TcacheCreate => Value::U32(figures.create_cache()),
        Name::ArenasCreate => Value::U32(figures.create_arena()),
        Name::ArenasNarenas => Value::U32(figures.arenas()),
        Name::ArenasQuantum => size(16),
        Name::ArenasPage => size(toft_core::os::process::page_size()),
        Name::StatsAllocated => size(totals().live),
        Name::StatsActive => size(totals().active),
        Name::StatsMetadata => size(totals().metadata),
        Name::StatsMetadataThp => size(0),
        Name::StatsResident => size(resident(&totals())),
        Name::StatsMapped => size(totals().mapped),
        Name::StatsRetained => size(totals().unused),
        Name::ThreadTcacheFlush
        | Name::TcacheFlush
        | Name::TcacheDestroy
        | Name::ArenaDecay
        | Name::ArenaPurge
        | Name::ArenaDestroy => return Err(libc::EPERM),
    })
}

/// Writes a value, or refuses it. Most have no effect.
pub fn write(found: Found, value: u64, figures: &Figures) -> Result<(), c_int> {
    let time = || if (value as i64) < -1 { Err(libc::EFAULT) } else { Ok(()) };
    match found.name {
        Name::Epoch => figures.advance(),
        Name::ThreadArena if value >= u64::from(figures.arenas()) => return Err(libc::EFAULT),
        Name::ArenaDirtyDecay | Name::ArenaMuzzyDecay => {
            single_arena(found, figures)?;
            time()?;
        }
        Name::ArenasDirtyDecay | Name::ArenasMuzzyDecay => time()?,
        _ => {}
    }
    Ok(())
}

/// Does what a name without a value stands for.
pub fn act(found: Found, figures: &Figures) -> Result<(), c_int> {
    match found.name {
        Name::ArenaPurge => {
            any_arena(found, figures)?;
            process::purge();
        }
        Name::ArenaDecay => {
            any_arena(found, figures)?;
            process::trim();
        }
        // The heap itself stays, and so do all blocks.
        Name::ArenaDestroy if found.arena == 0 => return Err(libc::EFAULT),
        Name::ArenaDestroy => single_arena(found, figures)?,
        _ => {}
    }
    Ok(())
}

/// Returns `ENOENT` if a name is of an arena that does not exist.
pub fn exists(found: Found, figures: &Figures) -> Result<(), c_int> {
    match found.name {
        Name::ArenaInitialized
        | Name::ArenaDecay
        | Name::ArenaPurge
        | Name::ArenaDestroy
        | Name::ArenaDirtyDecay
        | Name::ArenaMuzzyDecay => any_arena(found, figures),
        _ => Ok(()),
    }
}

/// Returns `ENOENT` if a number stands for no arena and for no group of them. The number after the
/// last is an old word for all of them.
fn any_arena(found: Found, figures: &Figures) -> Result<(), c_int> {
    let is_one = found.arena <= figures.arenas() as usize;
    if is_one || [ALL_ARENAS, DESTROYED_ARENAS].contains(&found.arena) {
        Ok(())
    } else {
        Err(libc::ENOENT)
    }
}

/// Returns `ENOENT` if a number stands for no arena, and `EFAULT` if it stands for a group.
fn single_arena(found: Found, figures: &Figures) -> Result<(), c_int> {
    any_arena(found, figures)?;
    if found.arena < figures.arenas() as usize { Ok(()) } else { Err(libc::EFAULT) }
}
