//! What `TOFT_MAPPINGS` asks for, done as addresses are mapped: where it is not set, that costs a
//! comparison on a path that has just made a system call.
//!
//! The calls are unusual ones: under a filter of system calls nothing of it is done. What the
//! system refuses is said once on standard error, and the program goes on without it: here, and for
//! the preload library's `dlopen`.

use crate::keeper::mappings::Mapper;
use crate::large::BlockState;
use crate::options::Huge;
use crate::os::filter::Permit;
use crate::os::seccomp::Calls;
use crate::os::{Error, HUGE, Os};
use crate::policy::SECURE;
use crate::report::Line;
use crate::slab::Slab;
use crate::sync::Ordering::Relaxed;
use core::ffi::CStr;

/// The mapping options, as bits of `reported_options`.
const PREPOPULATE: u32 = 1;
const MLOCK: u32 = 2;
const NAMES: u32 = 4;
const DEEPBIND: u32 = 8;

/// The bytes of all slabs from which on huge pages may fit. In the secure builds slabs are in many
/// plots, and this counts only if their steps are small because memory is short.
const MAPPED_OF_HUGE: usize = if SECURE { 8 * HUGE } else { HUGE };

/// Returns true if a huge page may fit in a plot that has grown by `len` bytes at `address`. A step
/// is at least as large as all steps of its plot before it, unless it has the largest size. So the
/// plot's slabs begin at most about `len` bytes before.
fn may_hold_huge_page(address: usize, len: usize) -> bool {
    let last = (address.saturating_add(len) & !(HUGE - 1)).saturating_sub(HUGE);
    len >= HUGE / 2 && last >= address.saturating_sub(len)
}

/// Returns a permit for calls of a kind, or `None` if a filter may forbid them.
type Permits<'a> = dyn Fn(Calls) -> Option<Permit<'a>> + 'a;

/// Bits of `huge_habit`. The system's behaviour is known.
const KNOWN: u32 = 1;
/// The system is advised to make no huge pages of slabs on its own.
const SMALL: u32 = 2;
/// Prefaulted bytes are put into pages of 64 KiB.
const MIDDLE_PAGES: u32 = 4;

impl<O: Os> Mapper<'_, O> {
    /// Addresses of slabs were mapped, and are not in use yet.
    pub(crate) fn slabs_were_mapped(self, address: usize, len: usize) {
        // A smaller process need not learn how the system makes huge pages.
        let all = self.slabs.mapped_at_most();
        if SECURE && may_hold_huge_page(address, len) || all >= MAPPED_OF_HUGE {
            self.learn_huge_habit();
        }
        self.keep_small(address, len);
        if self.options.has_mapping_options() && len != 0 {
            let permits = |calls| self.permit(calls);
            self.apply_mapping_options(&permits, address, len);
            self.name_slabs(&permits);
        }
    }

    /// A large block of `bytes` bytes was handed out at an address.
    #[inline]
    pub(crate) fn block_was_mapped(self, address: usize, bytes: usize) {
        if self.options.has_mapping_options() && bytes != 0 {
            self.apply_to_block(&|calls| self.permit(calls), address, bytes);
        }
    }

    fn apply_to_block(self, permits: &Permits<'_>, address: usize, bytes: usize) {
        let page = self.os.page_size();
        let start = address & !(page - 1);
        let len = ((address + bytes + page - 1) & !(page - 1)) - start;
        self.apply_mapping_options(permits, start, len);
        self.name(permits, start, len, c"toft large block");
    }

    /// Applies the options to all that is mapped, when the program begins: until then it is not
    /// known whether a filter forbids the calls.
    pub(crate) fn apply_at_start(self) {
        if self.options.has_mapping_options() {
            self.apply_to_all(&|calls| self.filter().permit_at_start(&self.os, calls));
        }
    }

    #[cold]
    #[inline(never)]
    fn apply_to_all(self, permits: &Permits<'_>) {
        let page = self.os.page_size();
        let there = |slab: &Slab| slab.pages().present_bytes(page);
        self.slabs.for_each_range(there, |start, bytes| {
            self.apply_mapping_options(permits, start, bytes);
        });
        self.name_slabs(permits);
        self.large.units().for_each(|block| {
            if block.state() == BlockState::Live {
                let address = self.large.placement().address(block);
                self.apply_to_block(permits, address, block.bytes());
            }
        });
    }

    #[cold]
    #[inline(never)]
    fn apply_mapping_options(self, permits: &Permits<'_>, address: usize, len: usize) {
        if self.options.mlock
            && let Some(_permit) = permits(Calls::LOCK)
            && self.os.lock(address, len).is_err()
        {
            self.cannot(MLOCK, "TOFT_MAPPINGS=lock: the system does not lock so much memory");
        }
        if self.options.prepopulate
            && let Some(_permit) = permits(Calls::POPULATE)
        {
            // SAFETY: (1) the callers have mapped the range.
            let done = unsafe { self.os.populate(address, len) };
            // Where too few pages are left, the program will find that out when it uses them.
            if let Err(Error::Unsupported) = done {
                self.cannot(PREPOPULATE, "TOFT_MAPPINGS=populate: the kernel is older than 5.14");
            }
        }
    }

    /// Names whatever of slabs and metadata is mapped: few mappings, in ranges that are mostly
    /// holes.
    fn name_slabs(self, permits: &Permits<'_>) {
        if !self.options.names {
            return;
        }
        let layout = self.layout();
        let windows = layout.windows;
        self.name(permits, windows.data, windows.span, c"toft slabs");
        let metadata = layout.windows.metadata();
        self.name(permits, metadata, layout.end - metadata, c"toft metadata");
    }

    fn name(self, permits: &Permits<'_>, address: usize, len: usize, name: &CStr) {
        if self.options.names
            && let Some(_permit) = permits(Calls::NAMES)
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

    /// Learns how the system makes huge pages, unless that is known. Two files say it, and a filter
    /// may forbid to open them.
    #[inline]
    pub(crate) fn learn_huge_habit(self) {
        // What the kernel sees fit needs no advice.
        if self.huge_habit().load(Relaxed) == 0 && self.options.huge != Huge::Kernel {
            self.read_huge_habit();
        }
    }

    #[cold]
    #[inline(never)]
    fn read_huge_habit(self) {
        let Some(permit) = self.permit(Calls::HUGE) else { return };
        let Some(habit) = self.os.huge_habit() else { return };
        drop(permit);
        let middle = self.options.prefault && habit.middle;
        let small = habit.unasked || middle;
        let bits = [(small, SMALL), (middle, MIDDLE_PAGES)];
        let bits = bits.iter().filter(|bit| bit.0).fold(KNOWN, |all, bit| all | bit.1);
        self.huge_habit().store(bits, Relaxed);
        if small {
            self.keep_all_small();
        }
    }

    /// Returns true if the system is advised to make no huge pages of slabs on its own. A slab is
    /// rarely full, and pages that were returned must not be put together again.
    fn keeps_small(self) -> bool {
        self.huge_habit().load(Relaxed) & SMALL != 0
    }

    /// Returns true if prefaulted bytes are put into pages of 64 KiB.
    pub(crate) fn has_middle_pages(self) -> bool {
        self.huge_habit().load(Relaxed) & MIDDLE_PAGES != 0
    }

    /// Advises the system to make no huge pages of newly mapped addresses of slabs on its own.
    pub(crate) fn keep_small(self, address: usize, len: usize) {
        if len != 0
            && self.keeps_small()
            && let Some(_permit) = self.permit(Calls::HUGE)
        {
            self.os.keep_small(address, len);
        }
    }

    /// Keeps small what was mapped before the advice was known to be needed and allowed.
    fn keep_all_small(self) {
        let page = self.os.page_size();
        let there = |slab: &Slab| slab.pages().present_bytes(page);
        self.slabs.for_each_range(there, |start, bytes| self.keep_small(start, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "fake-os")]
    use crate::{
        allocator::Allocator,
        options::{Options, Reclaim},
        os::fake::{Fake, Machine, Request},
    };

    #[test]
    #[cfg(feature = "fake-os")]
    fn what_was_mapped_before_the_program_began_is_locked_when_it_begins() {
        for filtered in [false, true] {
            let options = Options { mlock: true, reclaim: Reclaim::Off, ..Options::DEFAULT };
            let fake = Fake::new(Machine::LARGE);
            fake.set_filtered(Some(filtered));
            let allocator = Allocator::new(fake.clone(), options, false).unwrap();
            let heap = allocator.held_heaps().acquire_heap().unwrap();
            let blocks =
                [100, 5000, 1 << 20].map(|size| allocator.allocate(heap, size, 0x5000).unwrap());
            let is_locked = |address: &usize| {
                fake.locked().iter().any(|&(start, len)| (start..start + len).contains(address))
            };
            assert_eq!(fake.calls(Request::Lock), 0, "it is not known if there is a filter");
            if filtered {
                allocator.filter().about_to_install(&fake);
            }
            allocator.mapper().apply_at_start();
            assert_eq!(
                blocks.iter().filter(|block| is_locked(block)).count(),
                [3, 0][usize::from(filtered)]
            );
            // Afterwards a program without a filter may install one.
            let later = allocator.allocate(heap, 1 << 20, 0x5000).unwrap();
            assert!(!is_locked(&later));
        }
    }

    #[test]
    fn a_plot_holds_a_huge_page_where_an_aligned_one_fits() {
        for address in (64 * HUGE..66 * HUGE).step_by(64 << 10) {
            for len in [64 << 10, 512 << 10, HUGE / 2 - 4096] {
                assert!(!may_hold_huge_page(address, len), "{address:#x} {len:#x}");
            }
            let fits = (address - HUGE / 2).is_multiple_of(HUGE);
            assert_eq!(may_hold_huge_page(address, HUGE / 2), fits, "{address:#x}");
            assert!(may_hold_huge_page(address, HUGE), "{address:#x}");
        }
        assert!(!may_hold_huge_page(0, 0) && !may_hold_huge_page(usize::MAX, 4096));
    }
}
