//! What `TOFT_MAPPINGS` asks for, done as addresses are mapped: where it is not set, that costs a
//! comparison on a path that has just made a system call.
//!
//! The calls are unusual ones: under a filter of system calls nothing of it is done. What the
//! system refuses is said once on standard error, and the program goes on without it: here, and for
//! the preload library's `dlopen`.

use crate::keeper::mappings::Mapper;
use crate::os::seccomp::Calls;
use crate::os::{Error, Os};
use crate::report::Line;
use crate::slab::Slab;
use crate::sync::Ordering::Relaxed;
use core::ffi::CStr;

/// The mapping options, as bits of `reported_options`.
const PREPOPULATE: u32 = 1;
const MLOCK: u32 = 2;
const NAMES: u32 = 4;
const DEEPBIND: u32 = 8;

impl<O: Os> Mapper<'_, O> {
    /// Addresses of slabs were mapped, and are not in use yet.
    pub(crate) fn slabs_were_mapped(self, address: usize, len: usize) {
        self.keep_small(address, len);
        if self.options.has_mapping_options() && len != 0 {
            self.apply_mapping_options(address, len);
            self.name_slabs();
        }
    }

    /// A large block of `bytes` bytes was handed out at an address.
    #[inline]
    pub(crate) fn block_was_mapped(self, address: usize, bytes: usize) {
        if self.options.has_mapping_options() && bytes != 0 {
            let page = self.os.page_size();
            let start = address & !(page - 1);
            let len = ((address + bytes + page - 1) & !(page - 1)) - start;
            self.apply_mapping_options(start, len);
            self.name(start, len, c"toft large block");
        }
    }

    #[cold]
    #[inline(never)]
    fn apply_mapping_options(self, address: usize, len: usize) {
        if self.options.mlock
            && let Some(_permit) = self.permit(Calls::LOCK)
            && self.os.lock(address, len).is_err()
        {
            self.cannot(MLOCK, "TOFT_MAPPINGS=lock: the system does not lock so much memory");
        }
        if self.options.prepopulate
            && let Some(_permit) = self.permit(Calls::POPULATE)
        {
            // SAFETY: (1) the callers have mapped the range.
            let done = unsafe { self.os.populate(address, len) };
            // Where too few pages are left, the program will find that out when it uses them.
            if let Err(Error::Unsupported) = done {
                self.cannot(PREPOPULATE, "TOFT_MAPPINGS=populate: the kernel is older than 5.14");
            }
        }
    }

    /// Names what is mapped at the start.
    pub(crate) fn name_at_start(self) {
        if self.options.has_mapping_options() {
            self.name_slabs();
        }
    }

    /// Names whatever of slabs and metadata is mapped: few mappings, in ranges that are mostly
    /// holes.
    fn name_slabs(self) {
        if !self.options.names {
            return;
        }
        let layout = self.layout();
        let windows = layout.windows;
        if windows.medium_span() == 0 {
            self.name(windows.data, windows.span, c"toft slabs");
        } else {
            self.name(windows.data, windows.span, c"toft small slabs");
            self.name(windows.medium(), windows.medium_span(), c"toft medium slabs");
        }
        let metadata = layout.windows.metadata;
        self.name(metadata, layout.end - metadata, c"toft metadata");
    }

    fn name(self, address: usize, len: usize, name: &CStr) {
        if self.options.names
            && let Some(_permit) = self.permit(Calls::NAMES)
            && self.os.name(address, len, name).is_err()
        {
            self.cannot(NAMES, "TOFT_MAPPINGS=names: this kernel gives mappings no names");
        }
    }

    /// A library was to be opened with `RTLD_DEEPBIND`, and the C library's table of symbols could
    /// not be changed.
    pub(crate) fn cannot_bind_deeply(self) {
        self.cannot(DEEPBIND, "RTLD_DEEPBIND: libc's malloc cannot be replaced for such libraries");
    }

    /// Reports once that the system has refused an option.
    #[cold]
    fn cannot(self, option: u32, what: &str) {
        if self.reported_options().fetch_or(option, Relaxed) & option == 0 {
            let mut line = Line::new(self.hide_addresses);
            line.text("toft: ").text(what).text("; going on without it");
            self.os.report(line.end());
        }
    }

    /// Addresses of slabs were mapped: there the system makes no huge pages by itself, because a
    /// slab is rarely full, and what is given back must not be put together again.
    pub(crate) fn keep_small(self, address: usize, len: usize) {
        if self.small_pages
            && len != 0
            && let Some(_permit) = self.permit(Calls::HUGE)
        {
            self.os.keep_small(address, len);
        }
    }

    /// Keeps small what was mapped before it was known that such advice is allowed.
    pub(crate) fn keep_all_small(self) {
        if self.small_pages {
            let page = self.os.page_size();
            let there = |slab: &Slab| slab.pages().present_bytes(page);
            self.slabs.for_each_range(there, |start, bytes| self.keep_small(start, bytes));
        }
    }
}
