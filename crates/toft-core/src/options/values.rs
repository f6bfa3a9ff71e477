//! What the words of an option mean, and the limit.

/// Who gives idle memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// A separate thread, once the program is large and if that certainly harms no program; else
    /// its calls.
    Auto,
    /// A separate thread, even if a filter of system calls might not allow it.
    Thread,
    /// The program's calls, where they are slow anyway.
    Calls,
    /// Not at all, unless it is asked for.
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
    /// None are reported.
    Off,
    /// Those to which nothing leads any more.
    Lost,
    /// All that were not freed.
    All,
}

/// How a call site finds its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteMode {
    /// As the build likes: by a hash, or, in the secure build and where no number of partitions
    /// is asked for, exactly.
    Auto,
    /// By a keyed hash.
    Hash,
    /// Each its own, until all are given out.
    Exact,
}
