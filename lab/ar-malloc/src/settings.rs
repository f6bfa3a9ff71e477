//! The parameters: how many arenas, which locks, and caches or not.

use std::ffi::CStr;

/// The largest number of arenas.
pub const ARENAS_MAX: usize = 16;

/// What a lock guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locks {
    /// All arenas.
    One,
    /// One arena.
    Arena,
    /// One class of one arena.
    Class,
    /// There is no lock and no arena. Each thread has its own heap.
    None,
}

impl Locks {
    /// All choices.
    pub const ALL: [Locks; 4] = [Locks::One, Locks::Arena, Locks::Class, Locks::None];

    /// The word that names the choice.
    pub const fn word(self) -> &'static str {
        match self {
            Locks::One => "one",
            Locks::Arena => "arena",
            Locks::Class => "class",
            Locks::None => "none",
        }
    }
}

/// The parameters of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of arenas, 1 to 16. Threads are dealt to them in turn.
    pub arenas: usize,
    /// What a lock guards.
    pub locks: Locks,
    /// True if each thread has a cache.
    pub cache: bool,
    /// True if the process writes its counts to standard error when it exits.
    pub stats: bool,
}

/// Sets a parameter to the value of its variable; `None` if it cannot have this value.
type Set = fn(&mut Settings, &str) -> Option<()>;

/// The variables of the environment, the values that they can have, and what they set.
const VARIABLES: [(&CStr, &str, Set); 4] = [
    (c"TOFT_AR_ARENAS", "1 to 16", |to, text| {
        to.arenas = text.parse().ok().filter(|arenas| (1..=ARENAS_MAX).contains(arenas))?;
        Some(())
    }),
    (c"TOFT_AR_LOCK", "one, arena, class or none", |to, text| {
        to.locks = Locks::ALL.into_iter().find(|locks| locks.word() == text)?;
        Some(())
    }),
    (c"TOFT_AR_CACHE", "on or off", |to, text| on_or_off(text).map(|on| to.cache = on)),
    (c"TOFT_AR_STATS", "on or off", |to, text| on_or_off(text).map(|on| to.stats = on)),
];

/// A variable, and the values that it can have.
pub type BadValue = (&'static CStr, &'static str);

impl Settings {
    /// The article's allocator: locked arenas without caches. Here 4 of them.
    pub const ARTICLE: Settings =
        Settings { arenas: 4, locks: Locks::Arena, cache: false, stats: false };

    /// [`Settings::ARTICLE`] with the values of those variables that are set. Fails with a variable
    /// that cannot have its value.
    pub fn read<'a>(value_of: impl Fn(&CStr) -> Option<&'a [u8]>) -> Result<Settings, BadValue> {
        let mut settings = Settings::ARTICLE;
        for (name, values, set) in VARIABLES {
            let Some(value) = value_of(name) else { continue };
            let text = std::str::from_utf8(value).unwrap_or("");
            set(&mut settings, text).ok_or((name, values))?;
        }
        Ok(settings)
    }
}

fn on_or_off(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/unit/settings.rs"]
mod tests;
