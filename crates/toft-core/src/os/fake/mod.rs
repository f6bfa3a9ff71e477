//! A fake operating system: an address space in an array, and failure on demand.
//!
//! The array is a range of this process's own address space, because the allocator hands out real
//! addresses that the tests write to. The fake's record of its pages is separate ([`Space`]). A
//! page that is not mapped faults on access. Everything is deterministic. The same seed, the same
//! requests and the same [`Fault`] give the same answers. Only the address of the array differs
//! from run to run.
//!
//! A request that breaks the rules of [`Os`](super::Os), such as an unmap of a range that was never
//! mapped, is a defect of the allocator, and panics.

mod faults;
mod host;
mod huge;
mod mapping_options;
mod memory;
mod os;
mod page_idleness;
mod page_sharing;
mod residency;
mod space;
mod threads;

extern crate std;

pub use faults::{Fault, Request};
pub use space::{PageState, Space};

use super::seccomp::Answers;
use super::{Error, Group};
use core::ops::Range;
use faults::{Faults, Verdict};
use host::{EMULATED, Host};
use std::boxed::Box;
use std::string::String;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

/// The properties of a [`Fake`].
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The number of bytes of address space. It is a power of two, and at least 2 GiB, or the
    /// allocator finds no place.
    pub address_space: usize,
    /// The number of bytes in a page, which is a power of two and at least 4096.
    pub page_size: usize,
    /// The seed of `random`.
    pub seed: u64,
    /// True if the system supports guard pages.
    pub guards: bool,
}

impl Machine {
    /// A machine of 16 TiB with 4 KiB pages, or of 64 GiB under an emulator. Plots are as large as
    /// on a real machine of that size.
    pub const LARGE: Machine = Machine {
        address_space: 1 << if EMULATED { 36 } else { 44 },
        page_size: 4096,
        seed: 1,
        guards: true,
    };
    /// The smallest machine on which the allocator starts. It has few plots, and far ones are as
    /// small as near ones.
    pub const SMALL: Machine = Machine { address_space: 1 << 31, ..Machine::LARGE };
}

/// A handle of a fake operating system. Clones are handles of the same one.
#[derive(Clone, Debug)]
pub struct Fake {
    machine: Machine,
    host: Arc<Host>,
    state: Arc<Mutex<State>>,
}

/// See [`Fake::at_barrier`].
struct Meanwhile(Box<dyn FnMut() -> bool + Send>);

impl core::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Meanwhile")
    }
}

/// See [`Fake::at_map`].
#[derive(Clone)]
struct WhileMapping(Arc<dyn Fn(Range<usize>) + Send + Sync>);

impl core::fmt::Debug for WhileMapping {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("WhileMapping")
    }
}

#[derive(Debug)]
struct State {
    space: Space,
    faults: Faults,
    random: u64,
    /// The largest number of bytes that may be mapped.
    limit: usize,
    reports: Vec<String>,
    /// The number of mappings that were refused because something was there.
    collisions: u64,
    /// The number of calls of `wait_briefly`.
    waits: u64,
    ticks: u32,
    /// The number of milliseconds that threads have slept, and whether these move the clock.
    slept: u64,
    sleeps: bool,
    hooks: bool,
    at_barrier: Option<Meanwhile>,
    at_map: Option<WhileMapping>,
    filtered: Option<bool>,
    /// The result of a probe, and the number of probes.
    probe: Option<Answers>,
    probes: usize,
    group: Group,
    memory: Option<usize>,
    process: u32,
    idleness: page_idleness::Known,
    huge: huge::Pages,
    asked: mapping_options::Asked,
}

impl Fake {
    /// Returns a new, empty system. Panics if the host has no address space for it.
    pub fn new(machine: Machine) -> Fake {
        assert!(machine.address_space.is_power_of_two() && machine.page_size.is_power_of_two());
        // A real address space begins at zero, which is a multiple of every alignment.
        let align = 1 << 32;
        let host = Host::reserve(machine.address_space, align);
        let state = State {
            space: Space::default(),
            faults: Faults::default(),
            random: machine.seed,
            limit: usize::MAX,
            reports: Vec::new(),
            collisions: 0,
            waits: 0,
            ticks: 0,
            slept: 0,
            sleeps: false,
            hooks: false,
            at_barrier: None,
            at_map: None,
            filtered: Some(false),
            probe: Some(Answers::ALL),
            probes: 0,
            group: Group::default(),
            memory: None,
            process: 1,
            idleness: page_idleness::Known::default(),
            huge: huge::Pages::default(),
            asked: mapping_options::Asked::default(),
        };
        Fake {
            machine,
            host: Arc::new(host.expect("the host has no address space for the fake")),
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that has panicked in here is failing already; its clean-up need not panic again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes later calls fail according to `fault`. `None` ends that.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.state().faults.set(fault);
    }

    /// Returns the number of calls that the current fault has made fail.
    pub fn failed(&self) -> u64 {
        self.state().faults.failed()
    }

    /// Limits the mapped bytes. Mappings beyond `bytes` bytes in all fail for lack of memory.
    pub fn set_limit(&self, bytes: usize) {
        self.state().limit = bytes;
    }

    /// Returns the number of calls of one kind ever made.
    pub fn calls(&self, kind: Request) -> u64 {
        self.state().faults.count(kind)
    }

    /// Returns the number of calls ever made.
    pub fn all_calls(&self) -> u64 {
        self.state().faults.total()
    }

    /// Returns the number of mappings ever refused because something was in the way. With one
    /// thread and nothing foreign there should be none.
    pub fn collisions(&self) -> u64 {
        self.state().collisions
    }

    /// Returns the number of times that the allocator has let time pass for another thread.
    pub fn waits(&self) -> u64 {
        self.state().waits
    }

    /// Maps a range as foreign. Returns false if the range is not free.
    pub fn occupy(&self, range: Range<usize>) -> bool {
        let mut state = self.state();
        self.check_range(range.start, range.len());
        let free = state.space.is_free(range.clone());
        if free {
            state.space.set(range, PageState::Foreign);
        }
        free
    }

    /// Maps everything that is free as foreign, except for `holes`, which are in order.
    pub fn occupy_all_but(&self, holes: &[Range<usize>]) {
        let mut state = self.state();
        let all = self.host.range();
        let starts = core::iter::once(all.start).chain(holes.iter().map(|hole| hole.end));
        let ends = holes.iter().map(|hole| hole.start).chain(core::iter::once(all.end));
        for part in starts.zip(ends).map(|(start, end)| start..end) {
            while let Some(start) = state.space.highest_hole(part.clone(), self.machine.page_size) {
                let used = state.space.within(part.start..start).last();
                let first = used.map_or(part.start, |(range, _)| range.end);
                let end = start + self.machine.page_size;
                state.space.set(first..end, PageState::Foreign);
            }
        }
    }

    /// Returns the state of the page of an address.
    pub fn page(&self, address: usize) -> PageState {
        self.state().space.at(address)
    }

    /// Returns the first foreign address, if there is one.
    pub fn foreign(&self) -> Option<usize> {
        let state = self.state();
        let mut all = state.space.within(self.host.range());
        all.find(|&(_, page)| page == PageState::Foreign).map(|(range, _)| range.start)
    }

    /// Returns the number of bytes mapped by the allocator, guard pages included.
    pub fn mapped_bytes(&self) -> usize {
        self.state().mapped_bytes()
    }

    /// Returns the number of mapped bytes that were touched and not released since.
    pub fn resident_bytes(&self) -> usize {
        let state = self.state();
        let mapped = state.space.within(self.host.range());
        let mapped = mapped.filter(|&(_, page)| page == PageState::Mapped);
        let resident: usize = mapped.map(|(range, _)| self.host.resident(range)).sum();
        drop(state);
        resident - self.swapped_bytes()
    }

    /// Sets the number of the process.
    pub fn set_process(&self, process: u32) {
        self.state().process = process;
    }

    /// Returns the number of bytes that are views of stores.
    pub fn shared_bytes(&self) -> usize {
        self.state().space.bytes(PageState::Shared)
    }

    /// Sets how short of memory the process's group is.
    pub fn set_group(&self, group: Group) {
        self.state().group = group;
    }

    /// Sets the number of bytes of memory that the machine has.
    pub fn set_memory(&self, bytes: usize) {
        self.state().memory = Some(bytes);
    }

    /// Lets time pass.
    pub fn pass(&self, ticks: u32) {
        let mut state = self.state();
        state.ticks = state.ticks.wrapping_add(ticks);
    }

    /// Lets time pass in each sleep from now on.
    pub fn let_sleeps_pass(&self) {
        self.state().sleeps = true;
    }

    /// Returns the number of milliseconds that the allocator has slept.
    pub fn slept(&self) -> u64 {
        self.state().slept
    }

    /// Lets the program have memory hooks, or none.
    pub fn set_hooks(&self, hooks: bool) {
        self.state().hooks = hooks;
    }

    /// Sets what happens while a barrier is passed. `meanwhile` returns true if the system has
    /// barriers. It may play other threads.
    pub fn at_barrier(&self, meanwhile: impl FnMut() -> bool + Send + 'static) {
        self.state().at_barrier = Some(Meanwhile(Box::new(meanwhile)));
    }

    /// Sets what happens while a range is mapped, before the system has mapped it. `meanwhile` may
    /// play other threads: the thread that maps is stopped until it returns. If these map, it is
    /// called again, so that several threads are stopped at once.
    pub fn at_map(&self, meanwhile: impl Fn(Range<usize>) + Send + Sync + 'static) {
        self.state().at_map = Some(WhileMapping(Arc::new(meanwhile)));
    }

    /// Sets the kernel's answer to whether there is a filter of system calls. `None` means that it
    /// cannot answer.
    pub fn set_filtered(&self, filtered: Option<bool>) {
        self.state().filtered = filtered;
    }

    /// Sets the result of a probe of the filter. `None` means that no child may be created.
    pub fn set_probe(&self, answers: Option<Answers>) {
        self.state().probe = answers;
    }

    /// Returns the number of probes so far.
    pub fn probes(&self) -> usize {
        self.state().probes
    }

    /// Returns the number of separate mappings, as a kernel would count them.
    pub fn mappings(&self) -> usize {
        self.state().space.mappings()
    }

    /// Returns every line that was reported since the last call.
    pub fn take_reports(&self) -> Vec<String> {
        core::mem::take(&mut self.state().reports)
    }

    fn check_range(&self, addr: usize, len: usize) {
        let page = self.machine.page_size;
        assert!(addr.is_multiple_of(page), "{addr:#x} is not the start of a page");
        assert!(len != 0 && len.is_multiple_of(page), "{len:#x} bytes are not whole pages");
    }

    /// Counts and checks a request that needs no further memory. Returns the state, or the error of
    /// a fault.
    fn admit(
        &self,
        kind: Request,
        addr: usize,
        len: usize,
    ) -> Result<MutexGuard<'_, State>, Error> {
        self.check_range(addr, len);
        let mut state = self.state();
        assert!(state.space.is_ours(addr..addr + len), "{kind:?} of what is not mapped");
        // A discard of a view would leave the contents of the store. Pages that other views share
        // must not be moved.
        let views = state.space.within(addr..addr + len).filter(|&(_, p)| p == PageState::Shared);
        let views = views.count();
        assert!(views == 0 || kind == Request::Renew, "{kind:?} of what is shared");
        match state.faults.judge(kind) {
            Verdict::Fail(error) => Err(error),
            Verdict::Proceed | Verdict::Obstruct => Ok(state),
        }
    }

    /// Counts and checks a request about views. Returns the error of a fault, if any.
    fn admit_views(&self, kind: Request, addr: usize, len: usize) -> Result<(), Error> {
        self.check_range(addr, len);
        let mut state = self.state();
        let views = state.space.is_all(addr..addr + len, PageState::Shared);
        assert!(views, "{kind:?} of what is not shared");
        match state.faults.judge(kind) {
            Verdict::Fail(error) => Err(error),
            Verdict::Proceed | Verdict::Obstruct => Ok(()),
        }
    }

    /// Maps a free range, if the limit allows it.
    fn place(&self, state: &mut State, addr: usize, len: usize) -> Result<(), Error> {
        let all = self.host.range();
        let end = addr.checked_add(len).ok_or(Error::NoMemory)?;
        if addr < all.start || end > all.end {
            return Err(Error::NoMemory);
        }
        if !state.space.is_free(addr..end) {
            state.collisions += 1;
            return Err(Error::Occupied);
        }
        if state.mapped_bytes().saturating_add(len) > state.limit || !self.host.open(addr..end) {
            return Err(Error::NoMemory);
        }
        state.space.set(addr..end, PageState::Mapped);
        Ok(())
    }
}

impl State {
    fn mapped_bytes(&self) -> usize {
        let states =
            [PageState::Mapped, PageState::Guarded, PageState::Forbidden, PageState::Shared];
        states.into_iter().map(|state| self.space.bytes(state)).sum()
    }
}

#[cfg(test)]
mod tests;
