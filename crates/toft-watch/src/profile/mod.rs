//! Profiles by call site, written from inside the process: `TOFT_PROFILE`.
//!
//! ```text
//! at exit                                                           --> NAME
//! at a signal that the user has chosen, or at growth by an amount   --> NAME.1, NAME.2, ...
//! ```
//!
//! Slabs know their call sites. A profile is a walk over the states of their slots, merged in
//! memory that is mapped for it and unmapped afterwards. It is written in the form that
//! `toft report` reads (docs/profiles.md). No code here runs before a profile is requested.
//!
//! A signal handler and the slow path of malloc write profiles, and may interrupt anything. So
//! tables are only read, and no thread waits. If two threads write at once, the second gives up.
//! The profile at exit waits for a few seconds at most, because no other follows it.
//!
//! A handler may run on a stack of 8 KiB, and the kernel uses a good part of it. So large tables
//! are in mapped memory.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | when a profile is written, and by which thread |
//! | `table.rs` | the walk, and the blocks of each call site |
//! | `write.rs` | the saved form |
//! | `path.rs` | the file's name |
//! | `metrics.rs` | figures of the whole process for monitoring: `toft_metrics` |
//! | `print.rs` | the largest sites as lines of text: `malloc_stats` |

mod metrics;
mod path;
mod print;
mod table;
mod write;

use core::ffi::{CStr, c_int};
use path::Path;
use table::Table;
use toft_core::Allocator;
use toft_core::os::seccomp::Calls;
use toft_core::os::{Linux, Os, process, wait_for};
use toft_core::process::{inside, instance};
use toft_core::report::{Desk, Writer};
use toft_core::sync::Ordering::{Acquire, Relaxed, Release};

/// The allocator of which profiles are written.
#[derive(Clone, Copy)]
struct Profiler<'a>(&'a Allocator<Linux>);

impl core::ops::Deref for Profiler<'_> {
    type Target = Allocator<Linux>;

    fn deref(&self) -> &Allocator<Linux> {
        self.0
    }
}

/// The number of times that the exit waits for a writing thread, a fifth of a second each.
const EXIT_WAITS: usize = 25;

/// The reason for a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Exit,
    Signal,
    Growth,
    /// The program requested it.
    Call,
}

/// Prepares profiles by signal and by growth, once the library is in place.
pub fn at_start() {
    let Some(allocator) = instance() else { return };
    let options = allocator.options();
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

/// Writes the profile at the program's end, if one was requested: only then is its code loaded.
pub fn at_exit(allocator: &Allocator<Linux>) {
    if allocator.options().profile.is_some() {
        Profiler(allocator).profile(Why::Exit);
    }
}

/// Handles the signal. It makes only raw system calls, which leave `errno` alone.
extern "C" fn by_signal(_number: c_int) {
    inside(|| {
        if let Some(allocator) = instance() {
            Profiler(allocator).profile(Why::Signal);
        }
    });
}

/// Writes a profile if the heap, about to grow by `bytes` bytes, has grown by the requested amount
/// since the last profile.
pub fn when_grown(bytes: usize) {
    if let Some(allocator) = instance() {
        Profiler(allocator).profile_growth(bytes);
    }
}

/// Writes the largest call sites to a descriptor.
pub fn print_sites(descriptor: c_int) {
    inside(|| {
        if let Some(allocator) = instance() {
            Profiler(allocator).print_sites(descriptor);
        }
    });
}

/// Writes a profile, in the form that `toft report` reads, to a descriptor. Returns true if it
/// could. Not while another thread writes one, and not where there may be a filter that does not
/// know the calls that it takes.
pub fn profile_to(descriptor: c_int) -> bool {
    inside(|| instance().is_some_and(|allocator| Profiler(allocator).profile_to(descriptor)))
}

/// Writes the figures of this process to a descriptor, in Prometheus' text format. Returns true if
/// it could. Not while another thread writes these or a profile, and not where there may be a
/// filter that does not know the calls that it takes.
pub fn metrics_to(descriptor: c_int) -> bool {
    inside(|| instance().is_some_and(|allocator| Profiler(allocator).metrics_to(descriptor)))
}

impl Profiler<'_> {
    #[cold]
    #[inline(never)]
    fn profile_growth(self, bytes: usize) {
        let mark = self.written().mark.load(Relaxed).max(self.options().profile_growth);
        let has = self.counted_bytes().saturating_add(bytes);
        if has < mark {
            return;
        }
        let next = has.saturating_add(self.options().profile_growth);
        let old = self.written().mark.load(Relaxed);
        // If this exchange fails, the other thread writes the profile.
        if old <= mark && self.written().mark.compare_exchange(old, next, Relaxed, Relaxed).is_ok()
        {
            self.profile(Why::Growth);
        }
    }

    /// Writes a profile, if one was requested. Reports no failure, because no caller could handle
    /// it.
    #[cold]
    #[inline(never)]
    fn profile(self, why: Why) {
        let Some(name) = &self.options().profile else { return };
        let written = self.written();
        let me = process::thread_number();
        let taken = || written.busy.compare_exchange(0, me, Acquire, Relaxed);
        match taken() {
            Ok(_) => {}
            // If `who` is this thread, the exit comes from a handler that interrupted the writing.
            // The writing does not go on, so there is nothing to wait for.
            Err(who) if why != Why::Exit || who == me => return,
            Err(_) => {
                if !(0..EXIT_WAITS).any(|_| wait_for(self.os(), || taken().is_ok())) {
                    return;
                }
            }
        }
        self.with_room(|room| self.profile_in(room, name.as_c_str(), why));
        written.busy.store(0, Release);
    }

    /// Runs `body` with a room on the program's request. Returns false if a filter may forbid the
    /// system calls, or another thread is writing.
    fn on_request(self, body: impl FnOnce(&mut Room) -> bool) -> bool {
        let Some(_permit) = self.filter().permit(self.os(), Calls::REPORT, false) else {
            return false;
        };
        let busy = &self.written().busy;
        if busy.compare_exchange(0, process::thread_number(), Acquire, Relaxed).is_err() {
            return false;
        }
        let done = self.with_room(body);
        busy.store(0, Release);
        done == Some(true)
    }

    /// Runs `body` with a room, if there is memory for one.
    fn with_room<R>(self, body: impl FnOnce(&mut Room) -> R) -> Option<R> {
        let address = process::scratch(size_of::<Room>())?;
        let room: *mut Room = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: mapped a moment ago, for this call alone, and unmapped below; zero is a `Room`.
        let result = body(unsafe { &mut *room });
        process::unmap(address, size_of::<Room>());
        Some(result)
    }

    #[inline(never)]
    fn profile_in(self, room: &mut Room, name: &CStr, why: Why) {
        let written = self.written();
        let number = (why != Why::Exit).then(|| written.number.fetch_add(1, Relaxed) + 1);
        let inherited = written.first.load(Relaxed) != process::pid();
        path::set(&mut room.path, name, inherited, number);
        // With this option the user states that an inherited filter allows the system calls.
        if let Some(_permit) = self.filter().permit(self.os(), Calls::REPORT, true)
            && let Some(file) = process::open_to_replace(room.path.as_c_str())
        {
            self.profile_into(room, file, why);
            process::close(file);
        }
    }

    /// Writes the present state to an open file. Returns true if all of it was written.
    #[inline(never)]
    fn profile_into(self, room: &mut Room, file: c_int, why: Why) -> bool {
        let Some(table) = Table::of(&self) else { return false };
        let taken = self.write_profile(room, file, &table, why);
        table.unmap();
        taken
    }
}

/// The buffers for writing, which may be too large for the stack. All zero at first.
#[repr(C)]
struct Room {
    path: Path,
    writer: Writer,
    desk: Desk,
}
