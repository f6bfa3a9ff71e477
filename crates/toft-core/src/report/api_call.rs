//! The calls that a report can name.

macro_rules! calls {
    ($($(#[$doc:meta])* $call:ident $name:literal,)*) => {
        /// The call that was given a bad pointer. It is only a number, because free's fast path
        /// passes it on in a register.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call { $($(#[$doc])* $call,)* }

        impl Call {
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Call::$call => $name,)*
                }
            }
        }
    };
}

calls! {
    /// `free`, `cfree`, Rust's `dealloc`, and the library's own frees.
    Free "free",
    /// `operator delete` in all its forms.
    Delete "operator delete",
    /// `free_sized`.
    FreeSized "free_sized",
    /// `free_aligned_sized`.
    FreeAlignedSized "free_aligned_sized",
    /// `toft_free_permanently`.
    FreePermanently "toft_free_permanently",
    /// `realloc` and `reallocarray`.
    Realloc "realloc",
    /// `malloc_usable_size`.
    UsableSize "malloc_usable_size",
    /// Any call that allocates.
    Malloc "malloc",
    /// The owner thread, when it collected the frees of other threads.
    RemoteFree "free by another thread",
    /// `memcpy`, of `libtoft_checked.so`.
    Memcpy "memcpy",
    /// `mempcpy`.
    Mempcpy "mempcpy",
    /// `memmove`.
    Memmove "memmove",
    /// `memset`.
    Memset "memset",
    /// `bzero`.
    Bzero "bzero",
    /// `toft_verify`, or a verification that the library has started itself.
    Verify "verify",
    /// `toft_dangling`, or a scan that the library has started itself.
    Look "look",
    /// `toft_zone_malloc`, `toft_zone_calloc` and `toft_zone_aligned_alloc`.
    ZoneMalloc "toft_zone_malloc",
    /// `toft_zone_free`.
    ZoneFree "toft_zone_free",
    /// `toft_zone_usable_size`.
    ZoneUsableSize "toft_zone_usable_size",
    /// `toft_zone_verify`.
    ZoneVerify "toft_zone_verify",
    /// `toft_zone_name` and `toft_zone_rename`.
    ZoneName "toft_zone_rename",
    /// `toft_zone_stats`.
    ZoneStats "toft_zone_stats",
    /// `toft_zone_destroy`.
    ZoneDestroy "toft_zone_destroy",
    /// `toft_zone_tag`.
    ZoneTag "toft_zone_tag",
    /// `toft_zone_resolve`.
    ZoneResolve "toft_zone_resolve",
    /// No call: an instruction that reads.
    Read "read",
    /// No call: an instruction that writes.
    Write "write",
    /// The kernel, in a system call of the program.
    System "system call",
    /// `rallocx`, of jemalloc's interface.
    Rallocx "rallocx",
    /// `xallocx`, of jemalloc's interface.
    Xallocx "xallocx",
    /// `sallocx`, of jemalloc's interface.
    Sallocx "sallocx",
    /// `dallocx`, of jemalloc's interface.
    Dallocx "dallocx",
    /// `sdallocx`, of jemalloc's interface.
    Sdallocx "sdallocx",
}
