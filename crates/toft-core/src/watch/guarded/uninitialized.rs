//! Reports reads of uninitialized memory: `TOFT_GUARDED=uninit`.
//!
//! The watcher is a thread of the library. The kernel notifies it of each first access to a page of
//! a watched block (`guarded/watch.rs`). The watcher's response depends on the access:
//!
//! ```text
//! write          fill the page with zeros; the program goes on
//! read           make the page inaccessible and fill it; the reader faults, and the handler
//!                reports the read (`fault.rs`)
//! read by a      report it here, such as `write(2)` of a buffer that was never written
//! system call
//! ```

use crate::allocator::Allocator;
use crate::guarded::{Slot, SlotCondition, Watcher};
use crate::os::seccomp::Calls;
use crate::os::userfault::{self, Doing};
use crate::os::{Os, process, thread, wait_for};
use crate::report::{Call, Line, Stack, head};
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, pause};
use crate::watch::guarded::UninitializedReads;
use crate::watch::reports::facts::site_of;

/// The most times that the watcher asks what a thread is doing, until it has stopped.
const LOOKS: u32 = 1000;

impl<O: Os> UninitializedReads<'_, O> {
    /// Returns the descriptor that reports reads, if requested and available. The first caller
    /// starts the watcher.
    pub(crate) fn watcher(self) -> Option<i32> {
        if !self.options.uninit || self.thread_body.is_none() {
            return None;
        }
        match self.guarded.watcher(process::pid()) {
            Watcher::At(file) => Some(file),
            Watcher::Nobody if self.guarded.begin_watcher() => self.start_watcher(),
            Watcher::Nobody | Watcher::None => None,
        }
    }

    #[cold]
    #[inline(never)]
    fn start_watcher(self) -> Option<i32> {
        // With this option the user states that an inherited filter allows the system calls.
        let permit = self.filter().permit(
            &self.os,
            Calls::REPORT.and(Calls::FAULTS).and(Calls::THREAD),
            true,
        );
        let file = permit.as_ref().and_then(|_| userfault::open());
        self.guarded.set_watcher(file, process::pid());
        let this = (&raw const *self).expose_provenance();
        let number = AtomicU32::new(0);
        let before = self.os.block_signals();
        let started = file.is_some() && thread::spawn(watch::<O>, this, &number);
        self.os.restore_signals(before);
        if started {
            self.guarded.set_watcher_thread(number.load(Relaxed));
            return file;
        }
        self.guarded.set_watcher(None, process::pid());
        file.into_iter().for_each(process::close);
        self.os.report(
            b"toft: TOFT_GUARDED=uninit: the system does not allow userfaultfd with the kernel's accesses; no read is reported\n",
        );
        None
    }

    /// Stops the reports, because a filter of system calls is about to be installed. The filter may
    /// be for all threads, and need not allow the watcher's calls. Waits until the watcher is
    /// waiting in `read`, where it stays. Never called on a path of malloc.
    pub(crate) fn stop_watcher(self) {
        self.guarded.stop_watcher();
        if let Some(thread) = self.guarded.watcher_thread(process::pid()) {
            let waits = || matches!(userfault::doing(thread), Doing::Call(libc::SYS_read, ..));
            wait_for(&self.os, || waits() || !process::thread_runs(thread));
        }
    }

    /// Runs the watcher, until its descriptor is of no use any more.
    fn watch(self) {
        let Watcher::At(file) = self.guarded.watcher(process::pid()) else { return };
        thread::prepare_own_thread(c"toft-watcher");
        userfault::keep_alone(file);
        while let Some(fault) = userfault::next(file) {
            if !fault.writes
                && let Some(slot) = self.guarded.wanted(fault.address)
                && slot.condition() == SlotCondition::Live
            {
                self.read_too_early(slot, fault.address, fault.thread);
            }
            self.guarded.fill(file, fault.address);
        }
    }

    /// Handles a read of memory that was never written, by the thread `reader`.
    fn read_too_early(self, slot: &Slot, address: usize, reader: u32) {
        let mut doing = userfault::doing(reader);
        for _ in 0..LOOKS {
            if doing != Doing::Unknown || !process::thread_runs(reader) {
                break;
            }
            pause();
            doing = userfault::doing(reader);
        }
        match doing {
            // Reads by the library itself, and by a debugger, which is no thread of this process.
            Doing::Unknown | Doing::Call(libc::SYS_process_vm_readv, ..) => {}
            Doing::Code => {
                self.guarded.shut_out(slot, address);
            }
            Doing::Call(number, at, pointer) => {
                // A read of a watched page would wait for this very thread.
                let readable = |word| !self.guarded.contains(word);
                let stack = Stack::of_stopped(at, pointer, readable);
                // An older kernel reports only the page, which may begin before the block.
                let address = address.max(slot.begin());
                self.report_uninitialized(slot, Call::System, address, Some(number), Some(&stack));
            }
        }
    }

    /// Reports a read of memory that was never written. `number` is the system call that reads it.
    pub(crate) fn report_uninitialized(
        self,
        slot: &Slot,
        call: Call,
        address: usize,
        number: Option<i64>,
        stack: Option<&Stack>,
    ) {
        let mut line = Line::new(self.hide_addresses);
        head(&mut line, "uninitialised read", call, address);
        line.subject.block = Some(slot.begin());
        line.text("byte ").number(address.wrapping_sub(slot.begin()) as u64);
        line.text(" of the ").number(slot.bytes() as u64).text("-byte block at ");
        line.address(slot.begin()).text(" was never written");
        if let Some(number) = number {
            line.text(", and system call ").number(number as u64).text(" reads it");
        }
        line.text(" (guarded block, live; call site ").address(site_of(slot).address()).text(")");
        self.reports().conclude_with(&mut line, stack);
    }
}

/// The function where the watcher's thread begins.
///
/// # Safety
/// 1. `allocator` is the address of an `Allocator<O>` that lives for ever.
unsafe extern "C" fn watch<O: Os>(allocator: usize, top: usize) -> ! {
    let allocator: &Allocator<O> = {
        // SAFETY: duty 1.
        unsafe { &*core::ptr::with_exposed_provenance(allocator) }
    };
    allocator.uninitialized_reads().watch();
    // SAFETY: (1) duty 2.
    unsafe { thread::end_own(top) }
}
