//! The figures about memory that comes back tell apart heaps that are made for it. One keeps all,
//! one gives all back at once, one does so later, one wants to be asked, one wakes the threads of
//! the program.
//!
//! Resident memory is that of the whole process, so the tests take turns, in a separate process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use toft_bench::heap::Heap;
use toft_bench::outcome::Outcome;
use toft_bench::params::Params;
use toft_bench::resident::resident_at;
use toft_bench::workloads::{burst_idle, churn, site_churn, thrash};

/// Counts what each thread allocates by way of Rust.
struct Counted;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does it all; to count is to add to a cell of the thread.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

/// The turn of a test. With it begins the thread of the next one, which has its own memory: that
/// must be there before anything is compared.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::sleep(Duration::from_millis(200));
    turn
}

/// What a heap does with a block that is freed.
#[derive(Clone, Copy, PartialEq)]
enum Habit {
    /// Nothing.
    Keep,
    /// Gives its pages back.
    Return,
    /// Gives its pages back on request, or when [`Paged::later`] has waited.
    Wait,
}

/// Every block in its own pages, before them one that has their length.
#[derive(Clone, Copy)]
struct Paged(Habit);

const PAGE: usize = 4096;

static WAITING: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static THREADS: Mutex<Vec<libc::pid_t>> = Mutex::new(Vec::new());

impl Paged {
    fn give_back(block: usize) {
        // SAFETY: `malloc` wrote the length there, and the block is not in use any more.
        unsafe {
            let start = (block - PAGE) as *mut libc::c_void;
            libc::munmap(start, *start.cast::<usize>());
        }
    }

    fn all_that_wait() {
        std::mem::take(&mut *WAITING.lock().unwrap()).into_iter().for_each(Self::give_back);
    }

    /// Runs the work, and gives back so long after the last block was freed.
    fn later(delay: Duration, work: impl FnOnce() -> Outcome) -> Outcome {
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut seen = (0, Instant::now());
                while seen.0 == 0 || seen.1.elapsed() < delay {
                    std::thread::sleep(Duration::from_millis(5));
                    let now = WAITING.lock().unwrap().len();
                    if now != seen.0 {
                        seen = (now, Instant::now());
                    }
                }
                Self::all_that_wait();
            });
            work()
        })
    }
}

impl Heap for Paged {
    fn malloc(self, size: usize) -> *mut u8 {
        let length = PAGE + size.next_multiple_of(PAGE);
        let (rights, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe { libc::mmap(null_mut(), length, rights, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the mapping is of two pages at least.
        unsafe {
            *start.cast::<usize>() = length;
            start.cast::<u8>().add(PAGE)
        }
    }
    unsafe fn free(self, block: *mut u8) {
        match self.0 {
            _ if block.is_null() => {}
            Habit::Keep => {}
            Habit::Return => Self::give_back(block.addr()),
            Habit::Wait => {
                WAITING.lock().unwrap().push(block.addr());
                // SAFETY: the call has no preconditions.
                let thread = unsafe { libc::gettid() };
                let mut threads = THREADS.lock().unwrap();
                if !threads.contains(&thread) {
                    threads.push(thread);
                }
            }
        }
    }
    fn purge(self) {
        Self::all_that_wait();
    }
}

/// A block of a few pages has as much of one of Paged's, so sizes begin at that.
fn burst(habit: Habit) -> Outcome {
    let words = "threads=2 bytes=32mi low=16384 high=65536 idle_ms=2000";
    burst_idle::run(Paged(habit), &Params::parse(words.split(' ')).unwrap())
}

fn figure(outcome: &Outcome, key: &str) -> f64 {
    *outcome.metrics.get(key).unwrap_or_else(|| panic!("no {key} in {outcome:?}"))
}

#[test]
fn a_heap_that_keeps_all_has_nothing_back_and_all_of_it_left() {
    let _turn = alone();
    let outcome = burst(Habit::Keep);
    assert!(figure(&outcome, "grown_mb") > 33.0, "{outcome:?}");
    for key in ["back_100ms_pct", "back_500ms_pct", "back_1s_pct", "back_2s_pct"] {
        assert!(figure(&outcome, key) < 5.0, "{key} {outcome:?}");
    }
    assert!(figure(&outcome, "left_mb") > 0.95 * figure(&outcome, "grown_mb"), "{outcome:?}");
    assert_eq!(figure(&outcome, "woken"), 0.0);
    assert!(!outcome.metrics.contains_key("back_4s_pct"), "it did not look so long");
}

#[test]
fn a_heap_that_returns_all_has_all_back_at_once() {
    let _turn = alone();
    let outcome = burst(Habit::Return);
    for key in ["back_100ms_pct", "back_2s_pct"] {
        assert!((95.0..=101.0).contains(&figure(&outcome, key)), "{key} {outcome:?}");
    }
    assert!(figure(&outcome, "left_mb") < 2.0, "{outcome:?}");
}

#[test]
fn what_comes_back_late_is_seen_late_and_not_before() {
    let _turn = alone();
    let outcome = Paged::later(Duration::from_millis(1000), || burst(Habit::Wait));
    // On a busy machine half a second more or less is nothing.
    assert!(figure(&outcome, "back_100ms_pct") < 5.0, "{outcome:?}");
    assert!(figure(&outcome, "back_2s_pct") > 95.0, "{outcome:?}");
    // Another thread did it: those of the program slept.
    assert_eq!(figure(&outcome, "woken"), 0.0);
}

/// A handler that does nothing, sent to the threads that had freed something.
#[test]
fn who_wakes_the_threads_of_the_program_is_seen() {
    extern "C" fn nothing(_: libc::c_int) {}
    let _turn = alone();
    THREADS.lock().unwrap().clear();
    // SAFETY: the handler touches nothing.
    unsafe { libc::signal(libc::SIGUSR1, nothing as *const () as usize) };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while THREADS.lock().unwrap().len() < 2 {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(1000));
            for thread in THREADS.lock().unwrap().iter() {
                // SAFETY: the threads sleep until the workload has looked for two seconds.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), *thread, libc::SIGUSR1) };
            }
        });
        burst(Habit::Wait)
    });
    Paged::all_that_wait();
    assert!(figure(&outcome, "woken") >= 2.0, "{outcome:?}");
}

#[test]
fn to_look_at_memory_asks_for_none() {
    let _turn = alone();
    let mut seen = [0; 2];
    let times = [Duration::from_millis(1), Duration::from_millis(20)];
    let start = Instant::now();
    let before = COUNT.with(Cell::get);
    resident_at(start, &times, &mut seen);
    let after = COUNT.with(Cell::get);
    assert!(start.elapsed() >= times[1] && seen.iter().all(|&bytes| bytes > 100_000), "{seen:?}");
    assert_eq!(after, before);
    drop(std::hint::black_box(vec![1u8]));
    assert_eq!(COUNT.with(Cell::get), before + 1, "the counter is dead");
}

#[test]
fn what_a_purge_gives_back_is_what_is_gone_after_it() {
    let _turn = alone();
    let drained = |habit| {
        let words = "slots=2000 ops=1000 settle_ms=0 purge=1";
        let outcome = churn::run(Paged(habit), &Params::parse(words.split(' ')).unwrap());
        ["drained_mb", "drained_purged_mb", "purge_ms"].map(|key| figure(&outcome, key))
    };
    // 3100 blocks and more, of two pages at least.
    let [before, after, took] = drained(Habit::Wait);
    assert!(before > 25.0 && after < 2.0 && took > 0.0, "{before} {after} {took}");
    let [before, after, _] = drained(Habit::Keep);
    assert!(before > 25.0 && after > 25.0, "a purge that does nothing: {before} {after}");
    let [before, after, _] = drained(Habit::Return);
    assert!(before < 2.0 && after < 2.0, "{before} {after}");
}

#[test]
fn a_heap_that_maps_anew_faults_in_every_round_and_one_that_reuses_does_not() {
    let _turn = alone();
    let faults = |outcome: Outcome| figure(&outcome, "faults_per_round");
    let params = Params::parse("objects=500 rounds=6 low=64 high=4096".split(' ')).unwrap();
    // A page for the length, one or two for the ends.
    let anew = faults(thrash::run(Paged(Habit::Return), &params));
    assert!((1000.0..1600.0).contains(&anew), "{anew}");
    let reused = faults(thrash::run(toft_bench::heap::Libc, &params));
    assert!(reused < 300.0, "{reused}");
}

/// Twice, before and after everything is freed.
#[test]
fn a_pause_without_calls_is_as_long() {
    let _turn = alone();
    for calls in ["calls=0", "calls=1"] {
        let words = format!("slots=50 ops=100 settle_ms=100 {calls}");
        let start = Instant::now();
        let _ = churn::run(Paged(Habit::Return), &Params::parse(words.split(' ')).unwrap());
        assert!(start.elapsed() >= Duration::from_millis(200), "{calls}");
    }
}

/// An allocator that never uses an address twice looks like it, and one that does so does not.
#[test]
fn growth_of_address_space_and_of_page_tables_is_seen() {
    let _turn = alone();
    let figures = |habit| {
        let words = "sites=90 window=10 pass=9 slots=200 rounds=32";
        let outcome = site_churn::run(Paged(habit), &Params::parse(words.split(' ')).unwrap());
        let keys = ["mapped_25_mb", "mapped_50_mb", "mapped_mb", "tables_mb", "steady_mb"];
        let purged = ["mapped_purged_mb", "tables_purged_mb", "drained_purged_mb"];
        (keys.map(|key| figure(&outcome, key)), purged.map(|key| figure(&outcome, key)))
    };
    // 1600 blocks in each quarter, of two pages and more, each with 8 bytes of page tables.
    let page = PAGE as f64 / 1e6;
    let ([quarter, half, whole, tables, resident], purged) = figures(Habit::Keep);
    assert!(purged[0] >= whole - 1.0, "what is kept stays mapped: {purged:?}");
    assert!(quarter >= 3200.0 * page, "{quarter}");
    assert!(half >= quarter + 3000.0 * page && whole >= half + 6000.0 * page, "{half} {whole}");
    assert!(tables >= 12_000.0 * 8.0 / 1e6 && resident >= 12_000.0 * page, "{tables} {resident}");
    // At most 200 blocks of 9 KiB and two pages, whatever the round.
    let ([quarter, _, whole, tables, resident], _) = figures(Habit::Return);
    let most = 200.0 * 5.0 * page;
    assert!(quarter <= most && whole <= most && resident <= most, "{quarter} {whole} {resident}");
    assert!(tables < 0.1, "{tables}");
    let (before, purged) = figures(Habit::Wait);
    assert!(before[2] >= 12_000.0 * page, "{before:?}");
    assert!(purged[0] < 10.0 && purged[1] < 0.05 && purged[2] < 2.0, "{purged:?}");
}
