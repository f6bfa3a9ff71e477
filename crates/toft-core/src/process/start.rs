//! The start of the process's allocator, the birth of a thread's heap, and its end.
//!
//! The first call to anything builds the allocator by raw system calls only, and gives the calling
//! thread a heap. Only then it asks libc for notices of thread exit and fork: libc may allocate for
//! them, and by then it can. Other threads see the allocator when all of it is done.

use crate::allocator::{
    Allocator, FRESH, GLOBAL, Global, READY, STARTING, allocator, calls_are_looked_at, inside,
    is_ready, toft_root,
};
use crate::guarded::Guarded;
use crate::hook::process_hook;
use crate::keeper::reclaimer_thread::run;
use crate::options::{Leaks, Options, PARTITIONS_EXACT, Problem, SiteMode, nearest};
use crate::os::thread::thread_block;
use crate::os::{Error, Linux, Memory, Os, keys, probes, process};
use crate::policy::SECURE;
use crate::process::thread_exit::{arm_exit, exit_key, thread_exits};
use crate::process::{compacting, environment, hints, key_fault};
use crate::report::Line;
use crate::stats::Root;
use crate::sync::{AtomicU32, Ordering, pause};
use crate::thread::{CAREFUL_HEAP, EMPTY_HEAP, EXITED_HEAP, Heap, current_heap, set_current_heap};
use crate::watch::guarded::fault;
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// How long another thread waits for a start that does not end (a child forked during its parent's
/// first allocation) before it reports that there is no memory.
const START_SPINS: u32 = 50_000_000;

/// Makes sure that the allocator is there.
#[inline]
pub(crate) fn ready() -> bool {
    GLOBAL.state.load(Acquire) == READY || start()
}

/// The thread's heap. A thread that has none gets one; a thread that has ended keeps none.
#[inline]
pub(crate) fn heap_or_start() -> Option<&'static Heap> {
    let heap = current_heap();
    if heap.is_sentinel() { first_heap() } else { Some(heap) }
}

#[cold]
#[inline(never)]
fn first_heap() -> Option<&'static Heap> {
    if !ready() {
        return None;
    }
    // The start gives the thread that runs it a heap.
    let heap = current_heap();
    if core::ptr::eq(heap, CAREFUL_HEAP.heap()) {
        return Some(own_heap());
    }
    if !core::ptr::eq(heap, EMPTY_HEAP.heap()) {
        return Some(heap);
    }
    birth()
}

/// The heap of the calling thread, where every call is looked at: libc keeps it. A thread that is
/// about to end, between libc's taking it and our notice, borrows one.
fn own_heap() -> &'static Heap {
    match exit_key().map_or(0, process::thread_value) {
        0 => EXITED_HEAP.heap(),
        // SAFETY: as in `thread_exits`.
        address => unsafe { &*core::ptr::with_exposed_provenance(address) },
    }
}

/// From now on the calling thread finds nothing on the fast paths, where every call is to be looked
/// at: its word leads to a heap of nothing, and libc keeps its own.
fn be_careful() {
    if calls_are_looked_at() {
        set_current_heap(CAREFUL_HEAP.heap());
    }
}

fn birth() -> Option<&'static Heap> {
    let allocator = allocator();
    if exit_key().is_none() {
        // The program holds every thread key: the kernel is asked which threads still run.
        allocator.heaps.orphan_exited(process::thread_runs);
    }
    let heap = allocator.held_heaps().acquire_heap().ok()?;
    set_current_heap(heap);
    heap.set_thread_block(thread_block());
    heap.set_thread(process::own_thread());
    // May allocate: the heap is in place, so that is an ordinary call.
    if arm_exit(heap) {
        be_careful();
    }
    Some(heap)
}

unsafe extern "C" fn forked() {
    if is_ready() {
        let careful = core::ptr::eq(current_heap(), CAREFUL_HEAP.heap());
        let mine = if careful { own_heap() } else { current_heap() };
        inside(|| {
            allocator().after_fork_in_child(mine);
            (allocator().hook.forked)();
            // The only thread of the child has another number than in the parent: the process's.
            if mine.thread().is_some() {
                mine.set_thread(process::pid() as u32);
            }
        });
    }
}

#[cold]
#[inline(never)]
fn start() -> bool {
    match GLOBAL.state.compare_exchange(FRESH, STARTING, AcqRel, Acquire) {
        Ok(_) => {
            // `build` says READY itself, before the page that says so becomes read-only.
            let done = build();
            if !done {
                GLOBAL.state.store(FRESH, Release);
            }
            done
        }
        Err(READY) => true,
        // Re-entry of the starting thread: it has its heap by now, or cannot be served.
        Err(_) if !current_heap().is_sentinel() => true,
        Err(_) => {
            for _ in 0..START_SPINS {
                match GLOBAL.state.load(Acquire) {
                    READY => return true,
                    FRESH => return false,
                    _ => pause(),
                }
            }
            false
        }
    }
}

/// Not zero in a program that has the allocator for its Rust code. Written before the start, by the
/// only thread.
static RUST: AtomicU32 = AtomicU32::new(0);

/// Notes that the allocator is built into a Rust program. Has an effect before the first allocation
/// only.
pub(super) fn is_rust() {
    RUST.store(1, Relaxed);
}

fn build() -> bool {
    let secure = process::is_secure();
    let mut options = Options::DEFAULT;
    if !secure {
        environment::for_each_variable(|variable| {
            if let Err(problem) = options.take(variable) {
                complain(variable, problem);
            }
        });
    }
    if RUST.load(Relaxed) != 0 {
        options.look_through_rust();
    }
    options.for_each_idle(|name, why| {
        let mut line = Line::new(false);
        line.text("toft: ").text(name).text(" changes nothing ").text(why);
        process::write_all(libc::STDERR_FILENO, line.end());
    });
    if options.leaks != Leaks::Off || options.profile.is_some() {
        // A slab knows the first call site that drew from it: no other does, but those that come
        // when all partitions are given out.
        options.partitions = options.partitions.max(PARTITIONS_EXACT);
        options.sites = SiteMode::Exact;
    }
    let hints = hints::read(&mut options);
    let os = Linux::detect().with_key(table_key(&options));
    let built = match Allocator::with_hook(process_hook(), os, options, secure) {
        Ok(built) => built,
        Err(Error::Unsupported) => {
            process::write_all(
                libc::STDERR_FILENO,
                b"toft: the kernel gives no random numbers; there is no safe way to go on\n",
            );
            process::abort();
        }
        Err(_) => return false,
    };
    let built = built.with_hints(hints).with_interpreter();
    let built = match guarded(&built) {
        Some(guarded) => built.with_guarded(guarded),
        None => built,
    };
    // SAFETY: the state is STARTING, so this thread is the only one that writes, and other threads
    // use only the empty bounds of the old value.
    // Of `living_for_ever`: (1) this is where it stays.
    unsafe { GLOBAL.allocator.get().write(built.living_for_ever(run::<Linux>, heap_or_start)) };
    if birth().is_none() {
        return false;
    }
    let key = process::thread_exit_key(thread_exits);
    if let Some(key) = key {
        GLOBAL.exit_key.store(key + 1, Release);
        process::arm_thread_exit(key, current_heap().address());
    }
    process::on_fork_child(forked);
    if allocator().options().compact {
        compacting::watch_forks();
    }
    let root = Root::of(allocator());
    // SAFETY: as for the allocator above; no thread of this process reads it. Through the anchor,
    // so that no linker takes it for unused.
    unsafe { toft_root.root().write(root) };
    if allocator().guarded.is_on() {
        fault::begin(&allocator().guarded);
    }
    if allocator().os().key() != 0 {
        key_fault::begin();
    }
    if allocator().samples.is_on() {
        probes::ask_for_blocks();
    }
    // Not earlier: until the start is done, its own calls of malloc know this thread by its heap.
    be_careful();
    let looks_through = allocator().wrappers.are_there();
    GLOBAL.looks_through.store(usize::from(looks_through), Relaxed);
    GLOBAL.state.store(READY, Release);
    seal();
    true
}

fn seal() {
    if allocator().os().page_size() == 4096 {
        // SAFETY: (1) nothing writes to the allocator after this, and its type is whole pages.
        unsafe { process::seal((&raw const GLOBAL).addr(), size_of::<Global>()) };
    }
}

/// Has `write` write to [`GLOBAL`] after the start; it is sealed again afterwards. Nothing happens
/// where the kernel does not let it be written to. Only while the process has one thread.
pub(crate) fn write_sealed(write: impl FnOnce(&Global)) {
    if ready() && process::allow((&raw const GLOBAL).addr(), size_of::<Global>()) {
        write(&GLOBAL);
        seal();
    }
}

/// The protection key that tables get; zero for none.
fn table_key(options: &Options) -> u32 {
    let why = match (options.pkey, SECURE) {
        (false, _) => return 0,
        (true, false) => &b"toft: TOFT_PKEY is for the secure build; going on without it\n"[..],
        (true, true) => match keys::take() {
            Some(key) => return key,
            None => b"toft: TOFT_PKEY: this processor or kernel has no protection key; going on without it\n",
        },
    };
    process::write_all(libc::STDERR_FILENO, why);
    0
}

/// The pool of sampled blocks, where there is to be one.
fn guarded(allocator: &Allocator<Linux>) -> Option<Guarded> {
    let options = allocator.options();
    if options.guarded == 0 {
        return None;
    }
    let os = allocator.os();
    let random = os.random().ok()?;
    match Guarded::new(Guarded::PLACES, options.guarded, os.page_size(), random) {
        Ok(guarded) => Some(guarded),
        Err(_) => {
            os.report(b"toft: TOFT_GUARDED: there is no address space for the pool; it is off\n");
            None
        }
    }
}

#[cold]
#[inline(never)]
fn complain(variable: &[u8], problem: Problem) {
    let mut line = Line::new(false);
    let name_len = variable.iter().position(|&byte| byte == b'=').unwrap_or(variable.len());
    match problem {
        Problem::Unknown => {
            let name = variable.get(..name_len).unwrap_or(&[]);
            line.text("toft: unknown option ").raw(name);
            if let Some(meant) = nearest(name) {
                line.text("; did you mean ").text(meant.name).text("?");
            }
        }
        // Only the secure build's.
        Problem::Weaker(_) | Problem::Needless(_) if !SECURE => {}
        Problem::Needless(_) => {
            line.text("toft: ").raw(variable);
            line.text(
                " changes nothing: the secure build clears what is freed, and new memory is zero",
            );
        }
        Problem::Weaker(entry) => {
            line.text("toft: ").raw(variable).text(" is not for the secure build; using ");
            line.text(entry.default);
        }
        Problem::BadValue(entry) => {
            line.text("toft: ").raw(variable).text(" is not ").text(entry.values);
            line.text("; using ").text(entry.default);
        }
    }
    process::write_all(libc::STDERR_FILENO, line.end());
}
