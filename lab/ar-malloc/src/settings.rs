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

/// A variable that has a value which it cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadValue {
    /// The variable.
    pub name: &'static CStr,
    /// The values that it can have.
    pub values: &'static str,
}

/// The variables of the environment.
pub const VARIABLES: [(&CStr, &str); 4] = [
    (c"TOFT_AR_ARENAS", "1 to 16"),
    (c"TOFT_AR_LOCK", "one, arena, class or none"),
    (c"TOFT_AR_CACHE", "on or off"),
    (c"TOFT_AR_STATS", "on or off"),
];

impl Settings {
    /// The article's allocator: locked arenas without caches. Here 4 of them.
    pub const ARTICLE: Settings =
        Settings { arenas: 4, locks: Locks::Arena, cache: false, stats: false };

    /// [`Settings::ARTICLE`] with the values of those variables that are set.
    pub fn read<'a>(value_of: impl Fn(&CStr) -> Option<&'a [u8]>) -> Result<Settings, BadValue> {
        let mut settings = Settings::ARTICLE;
        for (index, (name, values)) in VARIABLES.into_iter().enumerate() {
            let Some(value) = value_of(name) else { continue };
            let text = std::str::from_utf8(value).ok();
            let number = text.and_then(|text| text.parse().ok());
            let set = match index {
                0 => number
                    .filter(|arenas| (1..=ARENAS_MAX).contains(arenas))
                    .map(|arenas| settings.arenas = arenas),
                1 => Locks::ALL
                    .into_iter()
                    .find(|locks| Some(locks.word()) == text)
                    .map(|locks| settings.locks = locks),
                2 => on_or_off(text).map(|on| settings.cache = on),
                _ => on_or_off(text).map(|on| settings.stats = on),
            };
            set.ok_or(BadValue { name, values })?;
        }
        Ok(settings)
    }
}

fn on_or_off(text: Option<&str>) -> Option<bool> {
    match text? {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/unit/settings.rs"]
mod tests;
