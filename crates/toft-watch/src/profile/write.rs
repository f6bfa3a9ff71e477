//! Writes a profile in its saved form. docs/profiles.md describes the fields.

use super::Profiler;
use super::Room;
use super::Why;
use super::table::Entry;
use super::table::Table;
use crate::reports::place_json_by;
use core::ffi::c_int;
use toft_core::os::process;
use toft_core::report::{Desk, Writer, name_of_process};
use toft_core::sample::OBJECT_BITS;

impl Profiler<'_> {
    /// Writes a table to a file, in the form that `toft report` reads. Returns true if all of it
    /// was written.
    #[inline(never)]
    pub(super) fn write_profile(
        self,
        room: &mut Room,
        file: c_int,
        table: &Table,
        why: Why,
    ) -> bool {
        let Room { writer: w, desk, .. } = room;
        w.begin(file);
        w.text("{\"toft_profile\":1").word("toft", toft_core::VERSION.as_bytes());
        let source: &[u8] = match why {
            Why::Exit => b"exit",
            Why::Signal => b"signal",
            Why::Growth => b"growth",
            Why::Call => b"call",
        };
        w.word("source", source).field("time", process::seconds());
        w.field("pid", process::pid() as u64);
        w.word("name", name_of_process(&mut [0; 16], desk.pieces()));
        w.field("partitions", self.options().partitions as u64).text(",\"rows\":[");
        let (mut objects, mut bytes, mut any) = (0, 0, false);
        let given = |entry: &&Entry| entry.objects != 0 || entry.allocations != 0;
        for entry in table.entries().iter().filter(given) {
            w.text(if any { ",\n{\"site\":\"0x" } else { "\n{\"site\":\"0x" });
            w.digits(entry.site.address() as u64, 16).text("\"");
            place_json_by(w, desk, entry.site.address());
            w.field("partition", entry.partition.number() as u64).field("size", entry.size as u64);
            w.field("objects", entry.objects as u64).field("bytes", entry.bytes as u64);
            w.field("allocations", entry.allocations).field("allocated", entry.allocated);
            let share: &[u8] = match entry.size {
                0 => b"exact",
                _ if self.sites().is_own(entry.partition) => b"exact",
                _ if table.is_shared(entry.partition) => b"shared",
                _ => b"alone",
            };
            w.word("share", share).text("}");
            any = true;
            objects += entry.objects;
            bytes += entry.bytes;
        }
        w.text("]");
        self.write_stacks(w, desk);
        let [missed, _] = self.large().tally().missed();
        if missed != 0 {
            w.text(",\"notes\":[\"")
                .digits(missed, 10)
                .text(" large blocks could not be counted for lack of memory\"]");
        }
        w.field("objects", objects as u64).field("bytes", bytes as u64).text("}\n");
        w.flush()
    }

    /// Writes the stacks of sampled allocations, if they are kept.
    #[inline(never)]
    fn write_stacks(self, w: &mut Writer, desk: &mut Desk) {
        if !self.samples().is_on() {
            return;
        }
        let [missed, ..] = self.samples().missed();
        w.text(",\"sampled\":{\"interval\":").digits(self.options().interval() as u64, 10);
        w.field("missed", missed).text(",\"stacks\":[");
        let mut any = false;
        self.samples().for_each(|stack| {
            w.text(if any { ",\n{\"calls\":[" } else { "\n{\"calls\":[" });
            for (number, &site) in stack.frames.iter().take(stack.depth).enumerate() {
                w.text(if number == 0 { "{\"site\":\"0x" } else { ",{\"site\":\"0x" });
                w.digits(site as u64, 16).text("\"");
                match self.samples().names(site) {
                    Some(names) => {
                        w.text(",\"frames\":[{\"function\":").string(names.function());
                        w.word("file", names.file());
                        if names.line != 0 {
                            w.field("line", names.line.into());
                        }
                        w.text("}]");
                    }
                    None => place_json_by(w, desk, site),
                }
                w.text("}");
            }
            w.text(if stack.truncated { "],\"truncated\":true" } else { "]" });
            let blocks = |count: u64| (count >> OBJECT_BITS) + (count >> (OBJECT_BITS - 1) & 1);
            let [samples, had, allocated] = stack.had;
            let [freed_samples, freed, freed_bytes] = stack.freed;
            w.field("samples", samples)
                .field("live_samples", samples.saturating_sub(freed_samples));
            w.field("objects", blocks(had.saturating_sub(freed)));
            w.field("bytes", allocated.saturating_sub(freed_bytes));
            w.field("allocations", blocks(had)).field("allocated", allocated).text("}");
            any = true;
        });
        w.text("]}");
    }
}
