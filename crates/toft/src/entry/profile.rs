//! Profiles written from inside, by call site: `TOFT_PROFILE`.
//!
//! ```text
//! at exit     --> NAME            a signal that the user has chosen, or growth by so much --> NAME.1, NAME.2, ...
//! ```
//!
//! The slabs know their call sites: a profile is a walk over their states, merged in memory that is mapped for it and
//! given back. What is written is the form that `toft report` reads (docs/profiles.md). Nothing here runs before it is
//! asked for; a handler and the slow path of malloc may be in the middle of anything, so that tables are only read,
//! nobody is waited for, and of two that write at once the second does not. The one at exit waits, for some seconds at
//! most: there is no other after it. A handler may run on a stack of 8 KiB of which the kernel has taken a good part:
//! what is large is in memory that is mapped for it.

use super::Allocator;
use super::doors::inside;
use super::start::allocator;
use crate::large::BlockState;
use crate::os::{Linux, Os, process, wait_for};
use crate::reclaim::heap_sort;
use crate::report::{Desk, Writer, place_json_by};
use crate::slab::SlotState;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicUsize};
use core::ffi::{CStr, c_int};

/// What is remembered of the profiles that were written. All zero at first; in the tables, because the library's own
/// data is read-only.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Written {
    /// The process that has the name to itself; set at the start, by the thread that loads the library. A child that
    /// was forked since writes beside it.
    first: AtomicUsize,
    /// How many were written beside the one at exit. Counted up by whoever writes one.
    number: AtomicUsize,
    /// Bytes beyond which the next one is written for growth; raised by exchange by whoever writes it.
    mark: AtomicUsize,
    /// The number of the thread that writes, or zero: taken by exchange (`Acquire`), and released by whom it was taken
    /// (`Release`).
    busy: AtomicU32,
}

impl Written {
    /// In the child of a fork: nobody else writes.
    pub(super) fn repair(&self) {
        self.busy.store(0, Relaxed);
    }
}

/// Why one is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Exit,
    Signal,
    Growth,
}

/// What a call site has in slots of one size.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Entry {
    partition: usize,
    site: usize,
    /// Bytes in a slot; zero for large blocks.
    size: usize,
    objects: usize,
    bytes: usize,
}

impl Entry {
    fn key(&self) -> (usize, usize, usize) {
        (self.partition, self.site, self.size)
    }
}

/// All of them, in memory that was mapped for it.
struct Table {
    address: usize,
    mapped: usize,
    entries: &'static mut [Entry],
    len: usize,
}

/// How often the exit waits for who writes, a fifth of a second each time.
const EXIT_WAITS: usize = 25;

/// Room for what other threads do while the table is filled.
const SPARE: usize = 4096;

impl Table {
    fn of<O: Os>(allocator: &Allocator<O>) -> Option<Table> {
        let mut count = SPARE;
        allocator.for_each_slab(|_| count += 1);
        allocator.large().for_each(|_| count += 1);
        let mapped = count.checked_mul(size_of::<Entry>())?;
        let address = process::scratch(mapped)?;
        let first: *mut Entry = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: so many bytes were mapped a moment ago, for nobody else, and stay until `give_back`; zero is an
        // `Entry`.
        let entries = unsafe { core::slice::from_raw_parts_mut(first, count) };
        let mut table = Table { address, mapped, entries, len: 0 };
        allocator.for_each_slab(|slab| {
            let live = (0..slab.slots()).filter(|&slot| slab.state(slot) == SlotState::Live);
            let (objects, size) = (live.count(), slab.size());
            let (partition, site) = (slab.partition(), slab.site());
            table.add(Entry { partition, site, size, objects, bytes: objects * size });
        });
        allocator.large().for_each(|block| {
            if block.state() == BlockState::Live {
                let (partition, site, bytes) = (block.partition(), block.site(), block.bytes());
                table.add(Entry { partition, site, size: 0, objects: 1, bytes });
            }
        });
        table.merge();
        Some(table)
    }

    fn add(&mut self, entry: Entry) {
        if let Some(place) = self.entries.get_mut(self.len) {
            *place = entry;
            self.len += 1;
        }
    }

    /// One entry for each partition, site and size, in that order.
    fn merge(&mut self) {
        let Some(entries) = self.entries.get_mut(..self.len) else { return };
        heap_sort(
            entries,
            |entries, a, b| match (entries.get(a), entries.get(b)) {
                (Some(a), Some(b)) => a.key() < b.key(),
                _ => false,
            },
            |entries, a, b| entries.swap(a, b),
        );
        let mut kept = 0;
        for place in 0..entries.len() {
            let Some(&entry) = entries.get(place) else { break };
            match entries.get_mut(kept.max(1) - 1) {
                Some(last) if kept > 0 && last.key() == entry.key() => {
                    last.objects += entry.objects;
                    last.bytes += entry.bytes;
                }
                _ => {
                    if let Some(to) = entries.get_mut(kept) {
                        *to = entry;
                    }
                    kept += 1;
                }
            }
        }
        self.len = kept;
    }

    fn entries(&self) -> &[Entry] {
        self.entries.get(..self.len).unwrap_or(&[])
    }

    /// Whether the slots of a partition are of several sites. Slabs in which nothing is live tell of sites, too.
    fn is_shared(&self, partition: usize) -> bool {
        let entries = self.entries();
        let first = entries.partition_point(|entry| entry.partition < partition);
        let mut slots = entries
            .iter()
            .skip(first)
            .take_while(|entry| entry.partition == partition)
            .filter(|entry| entry.size != 0);
        let site = slots.next().map(|entry| entry.site);
        slots.any(|entry| Some(entry.site) != site)
    }

    fn give_back(self) {
        process::give_back(self.address, self.mapped);
    }
}

/// The library is in place: what is to be done by signal or by growth begins.
pub(super) fn at_start(allocator: &Allocator<Linux>) {
    let options = allocator.options();
    if options.profile.is_none() {
        return;
    }
    allocator.written().first.store(process::pid(), Relaxed);
    if let Ok(number) = c_int::try_from(options.profile_signal)
        && number != 0
        && !process::on_signal(number, by_signal)
    {
        allocator
            .os()
            .report(b"toft: TOFT_PROFILE_SIGNAL: the kernel does not allow a handler for it\n");
    }
}

/// The program ends.
pub(super) fn at_exit(allocator: &Allocator<Linux>) {
    allocator.profile(Why::Exit);
}

/// The handler. The calls that it makes are the kernel's own, which leave `errno` alone.
extern "C" fn by_signal(_number: c_int) {
    inside(|| allocator().profile(Why::Signal));
}

impl<O: Os> Allocator<O> {
    /// The heap is about to grow by so much: writes a profile where it has since the last one by as much as was asked
    /// for.
    #[inline]
    pub(super) fn profile_when_grown(&self, bytes: usize) {
        if self.options.profile_growth != 0 {
            self.profile_growth(bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn profile_growth(&self, bytes: usize) {
        let mark = self.written().mark.load(Relaxed).max(self.options.profile_growth);
        let has = self.counted_bytes().saturating_add(bytes);
        if has < mark {
            return;
        }
        let next = has.saturating_add(self.options.profile_growth);
        let old = self.written().mark.load(Relaxed);
        // Who loses has been told of by who wins.
        if old <= mark && self.written().mark.compare_exchange(old, next, Relaxed, Relaxed).is_ok()
        {
            self.profile(Why::Growth);
        }
    }

    /// Writes a profile, if somebody asked for any. Says nothing: there is nobody who could do anything about it.
    #[cold]
    #[inline(never)]
    fn profile(&self, why: Why) {
        let Some(name) = &self.options.profile else { return };
        let written = self.written();
        let me = process::thread_number();
        let taken = || written.busy.compare_exchange(0, me, Acquire, Relaxed);
        match taken() {
            Ok(_) => {}
            // A handler of this thread that has interrupted the writing and ends the program: it does not go on.
            Err(who) if why != Why::Exit || who == me => return,
            Err(_) => {
                if !(0..EXIT_WAITS).any(|_| wait_for(&self.os, || taken().is_ok())) {
                    return;
                }
            }
        }
        if let Some(address) = process::scratch(size_of::<Room>()) {
            let room: *mut Room = core::ptr::with_exposed_provenance_mut(address);
            // SAFETY: mapped a moment ago, for nobody else, and given back below; zero is a `Room`.
            self.profile_in(unsafe { &mut *room }, name.as_c_str(), why);
            process::give_back(address, size_of::<Room>());
        }
        written.busy.store(0, Release);
    }

    #[inline(never)]
    fn profile_in(&self, room: &mut Room, name: &CStr, why: Why) {
        let written = self.written();
        let number = (why != Why::Exit).then(|| written.number.fetch_add(1, Relaxed) + 1);
        let inherited = written.first.load(Relaxed) != process::pid();
        room.path.set(name, inherited, number);
        // Who asks for this says that an inherited filter allows it.
        if let Some(_permit) = self.filter().permit(&self.os, true)
            && let Some(file) = process::open_to_replace(room.path.as_c_str())
        {
            if let Some(table) = Table::of(self) {
                self.write_profile(room, file, &table, why);
                table.give_back();
            }
            process::close(file);
        }
    }

    #[inline(never)]
    fn write_profile(&self, room: &mut Room, file: c_int, table: &Table, why: Why) {
        let Room { writer: w, desk, .. } = room;
        w.begin(file);
        w.text("{\"toft_profile\":1").word("toft", crate::VERSION.as_bytes());
        let source: &[u8] = match why {
            Why::Exit => b"exit",
            Why::Signal => b"signal",
            Why::Growth => b"growth",
        };
        w.word("source", source).field("time", process::seconds());
        w.field("pid", process::pid() as u64);
        let mut name = [0u8; 16];
        let mut len = 0;
        process::read_file_with(c"/proc/self/comm", desk.pieces(), |bytes| {
            let text = bytes.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
            len = name.iter_mut().zip(text).map(|(to, &from)| *to = from).count();
        });
        w.word("name", name.get(..len).unwrap_or(&[]));
        w.field("partitions", self.options.partitions as u64).text(",\"rows\":[");
        let (mut objects, mut bytes, mut any) = (0, 0, false);
        for entry in table.entries().iter().filter(|entry| entry.objects != 0) {
            w.text(if any { ",\n{\"site\":\"0x" } else { "\n{\"site\":\"0x" });
            w.digits(entry.site as u64, 16).text("\"");
            place_json_by(w, desk, entry.site);
            w.field("partition", entry.partition as u64).field("size", entry.size as u64);
            w.field("objects", entry.objects as u64).field("bytes", entry.bytes as u64);
            let share: &[u8] = match entry.size {
                0 => b"exact",
                _ if table.is_shared(entry.partition) => b"shared",
                _ => b"alone",
            };
            w.word("share", share).text("}");
            any = true;
            objects += entry.objects;
            bytes += entry.bytes;
        }
        w.text("]").field("objects", objects as u64).field("bytes", bytes as u64).text("}\n");
        w.flush();
    }
}

/// What writing takes and the stack may not have. All zero at first.
#[repr(C)]
struct Room {
    path: Path,
    writer: Writer,
    desk: Desk,
}

/// Most bytes of a file's name with what is put behind it, and a zero.
const NAME: usize = 320;

/// A file's name: `NAME` with the process's number for `%p`, else `NAME.PID` in a child that was forked, with `.1`, `.2` and so on behind it for those that are not the last.
struct Path {
    bytes: [u8; NAME],
    len: usize,
}

impl Path {
    /// Becomes that of a child that has `inherited` the name, or not; the one of that number of those that are not the last.
    fn set(&mut self, name: &CStr, inherited: bool, number: Option<usize>) {
        let path = self;
        let (mut rest, mut told) = (name.to_bytes(), false);
        while let Some((&byte, behind)) = rest.split_first() {
            if let Some(behind) = rest.strip_prefix(b"%p") {
                path.digits(process::pid());
                (rest, told) = (behind, true);
            } else {
                path.add(&[byte]);
                rest = behind;
            }
        }
        if !told && inherited {
            path.number(process::pid());
        }
        if let Some(number) = number {
            path.number(number);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // The last stays zero.
            if self.len + 1 < NAME
                && let Some(place) = self.bytes.get_mut(self.len)
            {
                *place = byte;
                self.len += 1;
            }
        }
    }

    fn number(&mut self, number: usize) {
        self.add(b".");
        self.digits(number);
    }

    fn digits(&mut self, mut number: usize) {
        let mut digits = [b'0'; 20];
        let mut first = digits.len();
        for place in digits.iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            first -= 1;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.add(digits.get(first..).unwrap_or(&[]));
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_processes_and_moments_apart() {
        let of = |name, inherited, number| {
            let mut path = Path { bytes: [0; NAME], len: 0 };
            path.set(name, inherited, number);
            std::string::String::from(path.as_c_str().to_str().unwrap())
        };
        let pid = process::pid();
        assert_eq!(of(c"/tmp/a", false, None), "/tmp/a");
        assert_eq!(of(c"/tmp/a", false, Some(7)), "/tmp/a.7");
        assert_eq!(of(c"/tmp/a", true, Some(12)), std::format!("/tmp/a.{pid}.12"));
        assert_eq!(of(c"/tmp/%p%q", true, None), std::format!("/tmp/{pid}%q"));
    }
}
