//! Names of options that were removed, and what to use in place of each.

/// An option that was removed.
#[derive(Clone, Copy, Debug)]
pub struct Removed {
    /// The variable's name.
    pub name: &'static str,
    /// What to use in its place, as it would be written; empty if nothing replaces it.
    pub instead: &'static str,
}

impl Removed {
    /// Returns the removed option that has a name.
    pub fn find(name: &[u8]) -> Option<&'static Removed> {
        REMOVED.iter().find(|removed| removed.name.as_bytes() == name)
    }

    /// What to do, in two parts: the verb, and what to use.
    pub fn advice(&self) -> [&'static str; 2] {
        if self.instead.is_empty() { ["nothing replaces it", ""] } else { ["use ", self.instead] }
    }
}

/// Every removed option.
pub const REMOVED: &[Removed] = &[
    Removed { name: "TOFT_SITES", instead: "TOFT_PARTITIONS=exact, or a number to hash sites" },
    Removed { name: "TOFT_SLAB_KEEP", instead: "" },
    Removed { name: "TOFT_GUARDED_SLOTS", instead: "" },
    Removed { name: "TOFT_PREPOPULATE", instead: "TOFT_MAPPINGS=populate" },
    Removed { name: "TOFT_MLOCK", instead: "TOFT_MAPPINGS=lock" },
    Removed { name: "TOFT_NAMES", instead: "TOFT_MAPPINGS=names" },
    Removed { name: "TOFT_PROFILE_SIGNAL", instead: "TOFT_PROFILE_AT=signal:NUMBER" },
    Removed { name: "TOFT_PROFILE_GROWTH", instead: "TOFT_PROFILE_AT=growth:SIZE" },
    Removed { name: "TOFT_MTE", instead: "" },
    Removed { name: "TOFT_QUARANTINE", instead: "" },
    Removed { name: "TOFT_PROBE_INTERVAL", instead: "TOFT_SAMPLE" },
    Removed { name: "TOFT_READY", instead: "" },
    Removed { name: "TOFT_LARGE_KEEP", instead: "TOFT_DECAY, for memory back sooner" },
    Removed { name: "TOFT_UNINIT", instead: "TOFT_GUARDED=uninit:NUMBER" },
    Removed { name: "TOFT_REPORT_FILE", instead: "TOFT_REPORT=FILE, with a / in its name" },
];
