//! The calls that a report can name.

/// The call that was given a bad pointer. It is only a number, because free's fast path passes it
/// on in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `free`, `cfree`, Rust's `dealloc`, and the library's own frees.
    Free,
    /// `operator delete` in all its forms.
    Delete,
    /// `free_sized`.
    FreeSized,
    /// `free_aligned_sized`.
    FreeAlignedSized,
    /// `toft_free_permanently`.
    FreePermanently,
    /// `realloc` and `reallocarray`.
    Realloc,
    /// `malloc_usable_size`.
    UsableSize,
    /// Any call that allocates.
    Malloc,
    /// The owner thread, when it collected the frees of other threads.
    RemoteFree,
    /// `memcpy`, of `libtoft_checked.so`.
    Memcpy,
    /// `mempcpy`.
    Mempcpy,
    /// `memmove`.
    Memmove,
    /// `memset`.
    Memset,
    /// `bzero`.
    Bzero,
    /// `toft_verify`, or a verification that the library has started itself.
    Verify,
    /// `toft_dangling`, or a scan that the library has started itself.
    Look,
    /// `toft_zone_malloc`, `toft_zone_calloc` and `toft_zone_aligned_alloc`.
    ZoneMalloc,
    /// `toft_zone_free`.
    ZoneFree,
    /// `toft_zone_usable_size`.
    ZoneUsableSize,
    /// `toft_zone_verify`.
    ZoneVerify,
    /// `toft_zone_name` and `toft_zone_rename`.
    ZoneName,
    /// `toft_zone_stats`.
    ZoneStats,
    /// `toft_zone_destroy`.
    ZoneDestroy,
    /// `toft_zone_tag`.
    ZoneTag,
    /// `toft_zone_resolve`.
    ZoneResolve,
    /// No call: an instruction that reads.
    Read,
    /// No call: an instruction that writes.
    Write,
    /// The kernel, in a system call of the program.
    System,
}

impl Call {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Call::Free => "free",
            Call::Delete => "operator delete",
            Call::FreeSized => "free_sized",
            Call::FreeAlignedSized => "free_aligned_sized",
            Call::FreePermanently => "toft_free_permanently",
            Call::Realloc => "realloc",
            Call::UsableSize => "malloc_usable_size",
            Call::Malloc => "malloc",
            Call::RemoteFree => "free by another thread",
            Call::Memcpy => "memcpy",
            Call::Mempcpy => "mempcpy",
            Call::Memmove => "memmove",
            Call::Memset => "memset",
            Call::Bzero => "bzero",
            Call::Verify => "verify",
            Call::Look => "look",
            Call::ZoneMalloc => "toft_zone_malloc",
            Call::ZoneFree => "toft_zone_free",
            Call::ZoneUsableSize => "toft_zone_usable_size",
            Call::ZoneVerify => "toft_zone_verify",
            Call::ZoneName => "toft_zone_rename",
            Call::ZoneStats => "toft_zone_stats",
            Call::ZoneDestroy => "toft_zone_destroy",
            Call::ZoneTag => "toft_zone_tag",
            Call::ZoneResolve => "toft_zone_resolve",
            Call::Read => "read",
            Call::Write => "write",
            Call::System => "system call",
        }
    }
}
