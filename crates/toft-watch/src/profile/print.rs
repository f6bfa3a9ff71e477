//! Prints the call sites with the most live memory, as lines of text: a part of `malloc_stats`.
//!
//! The lines use a fixed buffer, and the table of sites is in memory mapped for it. Nothing is
//! allocated.

use super::Profiler;
use super::table::Table;
use crate::reports::place_text;
use core::ffi::c_int;
use toft_core::os::seccomp::Calls;
use toft_core::report::Writer;

/// The number of call sites that have a line.
const LINES: usize = 10;

impl Profiler<'_> {
    #[inline(never)]
    pub(super) fn print_sites(self, descriptor: c_int) {
        let Some(mut table) = Table::of(&self) else { return };
        table.merge_sites();
        table.sort_by(|a, b| (b.bytes, a.site) < (a.bytes, b.site));
        let live = table.entries().iter().filter(|entry| entry.objects != 0);
        let sites = live.clone().count();
        let mut w: Writer = Writer::new(descriptor);
        w.text("toft: call sites with live blocks: ").digits(sites as u64, 10);
        w.text(if sites > 0 { "; live bytes, blocks, allocations ever, place:\n" } else { "\n" });
        for entry in live.clone().take(LINES) {
            w.text("toft:   ").digits(entry.bytes as u64, 10).text(" ");
            w.digits(entry.objects as u64, 10).text(" ");
            w.digits(entry.allocations, 10).text(" ");
            // Finding the file takes system calls that a filter may not allow.
            match self.filter().permit(self.os(), Calls::REPORT, false) {
                Some(_permit) => place_text(&mut w, entry.site.address()),
                None => _ = w.text("0x").digits(entry.site.address() as u64, 16),
            }
            w.text("\n");
        }
        if sites > LINES {
            let (bytes, objects) = live
                .skip(LINES)
                .fold((0, 0), |(bytes, objects), e| (bytes + e.bytes, objects + e.objects));
            w.text("toft:   ").digits(bytes as u64, 10).text(" ").digits(objects as u64, 10);
            w.text(" of ").digits((sites - LINES) as u64, 10).text(" more\n");
        }
        w.flush();
        table.unmap();
    }

    #[inline(never)]
    pub(super) fn profile_to(self, descriptor: c_int) -> bool {
        self.on_request(|room| self.profile_into(room, descriptor, super::Why::Call))
    }
}
