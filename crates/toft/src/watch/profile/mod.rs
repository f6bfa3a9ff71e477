//! Profiles written from inside, by call site: `TOFT_PROFILE`.
//!
//! ```text
//! at exit     --> NAME            a signal that the user has chosen, or growth by so much --> NAME.1, NAME.2, ...
//! ```
//!
//! The slabs know their call sites. A profile is a walk over their states, merged in memory that is
//! mapped for it and given back. It is written in the form that `toft report` reads
//! (docs/profiles.md). Nothing here runs before it is requested. A handler, and the slow path of
//! malloc, may interrupt anything: so tables are only read, no thread waits, and of two that write
//! at once the second does not. The profile at exit waits, for some seconds at most: no other
//! follows it. A handler may run on a stack of 8 KiB of which the kernel has taken a good part:
//! large tables are in mapped memory.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | when one is written, and by whom |
//! | `table.rs` | what each call site has: the walk |
//! | `write.rs` | the saved form |
//! | `path.rs` | the file's name |
//! | `metrics.rs` | the figures of the whole for monitoring: `toft_metrics` |
//! | `print.rs` | the largest sites as lines for a person: `malloc_stats` |

mod metrics;
mod path;
mod print;
mod table;
mod write;

use crate::allocator::{Allocator, allocator, inside};
use crate::os::seccomp::Calls;
use crate::os::{Linux, Os, process, wait_for};
use crate::report::{Desk, Writer};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use core::ffi::{CStr, c_int};
use path::Path;
use table::Table;

/// How often the exit waits for a thread that writes, a fifth of a second each time.
const EXIT_WAITS: usize = 25;

/// Why one is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Exit,
    Signal,
    Growth,
    /// The program has asked for it.
    Call,
}

/// The library is in place: what is to be done by signal or by growth begins.
pub(crate) fn at_start(allocator: &Allocator<Linux>) {
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
            .report(b"toft: TOFT_PROFILE_AT: the kernel does not allow a handler for it\n");
    }
}

/// The program ends.
pub(crate) fn at_exit(allocator: &Allocator<Linux>) {
    allocator.profile(Why::Exit);
}

/// The handler. The calls that it makes are the kernel's own, which leave `errno` alone.
extern "C" fn by_signal(_number: c_int) {
    inside(|| allocator().profile(Why::Signal));
}

impl<O: Os> Allocator<O> {
    /// The heap is about to grow by so much: writes a profile where it has since the last one by as
    /// much as was asked for.
    #[inline]
    pub(crate) fn profile_when_grown(&self, bytes: usize) {
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

    /// Writes a profile, if any was requested. Reports no failure: no caller could handle it.
    #[cold]
    #[inline(never)]
    fn profile(&self, why: Why) {
        let Some(name) = &self.options.profile else { return };
        let written = self.written();
        let me = process::thread_number();
        let taken = || written.busy.compare_exchange(0, me, Acquire, Relaxed);
        match taken() {
            Ok(_) => {}
            // A handler of this thread that has interrupted the writing and ends the program: it
            // does not go on.
            Err(who) if why != Why::Exit || who == me => return,
            Err(_) => {
                if !(0..EXIT_WAITS).any(|_| wait_for(&self.os, || taken().is_ok())) {
                    return;
                }
            }
        }
        self.with_room(|room| self.profile_in(room, name.as_c_str(), why));
        written.busy.store(0, Release);
    }

    /// Does something with a room, if there is memory for one.
    fn with_room<R>(&self, body: impl FnOnce(&mut Room) -> R) -> Option<R> {
        let address = process::scratch(size_of::<Room>())?;
        let room: *mut Room = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: mapped a moment ago, for this call alone, and given back below; zero is a `Room`.
        let result = body(unsafe { &mut *room });
        process::give_back(address, size_of::<Room>());
        Some(result)
    }

    #[inline(never)]
    fn profile_in(&self, room: &mut Room, name: &CStr, why: Why) {
        let written = self.written();
        let number = (why != Why::Exit).then(|| written.number.fetch_add(1, Relaxed) + 1);
        let inherited = written.first.load(Relaxed) != process::pid();
        room.path.set(name, inherited, number);
        // By this option the user states that an inherited filter allows it.
        if let Some(_permit) = self.filter().permit(&self.os, Calls::REPORT, true)
            && let Some(file) = process::open_to_replace(room.path.as_c_str())
        {
            self.profile_into(room, file, why);
            process::close(file);
        }
    }

    /// Writes what there is now to an open file; returns true if all of it was taken.
    #[inline(never)]
    fn profile_into(&self, room: &mut Room, file: c_int, why: Why) -> bool {
        let Some(table) = Table::of(self) else { return false };
        let taken = self.write_profile(room, file, &table, why);
        table.give_back();
        taken
    }
}

/// Writes the process's name; returns its number of bytes.
fn own_name(name: &mut [u8; 16], pieces: &mut [u8]) -> usize {
    let mut len = 0;
    let _ = process::read_file_with(c"/proc/self/comm", pieces, |bytes| {
        let text = bytes.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
        len = name.iter_mut().zip(text).map(|(to, &from)| *to = from).count();
    });
    len
}

/// What writing takes and the stack may not have. All zero at first.
#[repr(C)]
struct Room {
    path: Path,
    writer: Writer,
    desk: Desk,
}
