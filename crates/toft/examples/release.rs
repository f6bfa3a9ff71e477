//! The driver of `cargo xtask experiment release`: gives scattered ranges back by one method, alone
//! or beside a thread that does something else, and prints how long that took.
//!
//! ```text
//! release METHOD BYTES BATCH BESIDE MILLISECONDS
//! ```
//!
//! `BESIDE` is `alone`, `touching` (the other thread writes to pages that it has) or `faulting` (it
//! writes to pages that it has not). Pieces lie apart, between pages that stay; all are written to
//! before each pass. A pass gives back every piece, one batch after the other, in a mixed order.
//! Prints nanoseconds for each piece: that pass, this process's processor time for it (kernel
//! threads that work for it included), and what the other thread has lost meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use toft::os::filter::Filter;
use toft::os::release::{Method, Piece, Release, probe};
use toft::os::{Linux, Os};

const PAGE: usize = 4096;
/// Bytes that a pass gives back, if a batch is not more.
const PASS_BYTES: usize = 32 << 20;
/// Passes that count, whatever time they take.
const PASSES_LEAST: usize = 3;
/// Pages that the other thread touches, in turn; and pages that it faults in before it begins
/// again.
const TOUCHED: usize = 256;
const FAULTED: usize = 16384;

/// Anonymous memory for the life of the process.
struct Area {
    start: usize,
    len: usize,
}

impl Area {
    fn new(len: usize) -> Area {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, wherever the kernel likes.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: advice about the memory that was mapped a moment ago.
        unsafe { libc::madvise(start, len, libc::MADV_NOHUGEPAGE) };
        Area { start: start.expose_provenance(), len }
    }

    /// Writes to a page.
    #[inline(always)]
    fn touch(&self, page: usize) {
        assert!(page * PAGE < self.len);
        let byte = std::ptr::with_exposed_provenance_mut::<u8>(self.start + page * PAGE);
        // SAFETY: within the area, to which no reference is ever made.
        unsafe { byte.write_volatile(1) };
    }

    fn is_zero(&self, page: usize) -> bool {
        assert!(page * PAGE < self.len);
        let byte = std::ptr::with_exposed_provenance::<u8>(self.start + page * PAGE);
        // SAFETY: as above.
        unsafe { byte.read_volatile() == 0 }
    }
}

/// The other thread: how often it has done its work.
#[derive(Default)]
struct Beside {
    done: AtomicU64,
    ends: AtomicBool,
}

impl Beside {
    fn touch(&self) {
        let area = Area::new(TOUCHED * PAGE);
        self.work(|number| area.touch(number as usize % TOUCHED));
    }

    fn fault(&self) {
        let mut area = Area::new(FAULTED * PAGE);
        self.work(|number| {
            let page = number as usize % FAULTED;
            if page == 0 {
                // SAFETY: nothing refers to the old area.
                unsafe {
                    libc::munmap(std::ptr::with_exposed_provenance_mut(area.start), area.len)
                };
                area = Area::new(FAULTED * PAGE);
            }
            area.touch(page);
        });
    }

    fn work(&self, mut step: impl FnMut(u64)) {
        let mut number = 0;
        while !self.ends.load(Relaxed) {
            step(number);
            number += 1;
            self.done.store(number, Relaxed);
        }
    }

    /// How much it does in a nanosecond while no other thread does anything.
    fn calm_rate(&self) -> f64 {
        let (begin, before) = (Instant::now(), self.done.load(Relaxed));
        while begin.elapsed() < Duration::from_millis(10) {
            std::hint::spin_loop();
        }
        (self.done.load(Relaxed) - before) as f64 / begin.elapsed().as_nanos() as f64
    }
}

fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Puts the pieces into an order that is the same every time, in which neighbours are apart.
fn mix(pieces: &mut [Piece]) {
    let mut state = 1u64;
    for place in (1..pieces.len()).rev() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        pieces.swap(place, (state >> 33) as usize % (place + 1));
    }
}

/// One pass: wall time, processor time, and how much the other thread did in it, and how much it
/// does in a nanosecond when it is left alone.
struct Pass {
    took: f64,
    processor: f64,
    worked: f64,
    calm_rate: f64,
}

/// The medians of all passes, for each piece: one in which the machine did something else does not
/// count. Wall time, processor time, and what the other thread lost.
fn medians(passes: &[Pass], pieces: usize) -> [f64; 3] {
    let median = |of: &dyn Fn(&Pass) -> f64| {
        let mut all: Vec<f64> = passes.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2] / pieces as f64
    };
    // What disturbs the other thread makes it slower and never faster.
    let rate = passes.iter().map(|pass| pass.calm_rate).fold(0.0, f64::max);
    let lost = |pass: &Pass| if rate > 0.0 { pass.took - pass.worked / rate } else { 0.0 };
    [median(&|pass| pass.took), median(&|pass| pass.processor), median(&lost)]
}

fn measure(
    method: Method,
    bytes: usize,
    batch: usize,
    beside: Option<&Beside>,
    time: Duration,
) -> [f64; 3] {
    let number = batch.max(PASS_BYTES / bytes).next_multiple_of(batch);
    let area = Area::new(number * 2 * bytes);
    (0..area.len / PAGE).for_each(|page| area.touch(page));
    let mut pieces: Vec<_> =
        (0..number).map(|n| Piece::new(area.start + n * 2 * bytes, bytes)).collect();
    mix(&mut pieces);
    let os = Linux::detect();
    let filter = Filter::new();
    filter.watch();
    let permit = filter.permit(&os, toft::os::seccomp::Calls::NONE, false);
    let works = match &permit {
        Some(permit) => probe(method, PAGE, permit).map_err(|why| format!("{why:?}")),
        None if method == Method::Plain => Ok(()),
        None => Err("a filter of system calls".into()),
    };
    if let Err(why) = works {
        eprintln!("{}: {why}", method.name());
        std::process::exit(3);
    }
    let mut release = Release::by(method);
    let mut passes = Vec::new();
    let begin = Instant::now();
    // The first one is for warming up.
    while passes.len() < 1 + PASSES_LEAST || begin.elapsed() < time {
        for piece in &pieces {
            let page = (piece.address - area.start) / PAGE;
            (page..page + bytes / PAGE).for_each(|page| area.touch(page));
        }
        let calm_rate = beside.map_or(0.0, Beside::calm_rate);
        let work = beside.map_or(0, |beside| beside.done.load(Relaxed));
        let (start, processor) = (Instant::now(), processor_time());
        for batch in pieces.chunks_mut(batch) {
            // SAFETY: (1) whole pages of the area, which are not needed any more.
            unsafe { os.discard_all(&mut release, batch, permit.as_ref()) };
        }
        let took = start.elapsed().as_nanos() as f64;
        let processor = processor_time() - processor;
        let worked = beside.map_or(0, |beside| beside.done.load(Relaxed)) - work;
        assert!(release.method() == method && pieces.iter().all(|piece| piece.done));
        let last = (pieces[number / 2].address - area.start) / PAGE;
        assert!(area.is_zero(last) && !area.is_zero(last + bytes / PAGE));
        let worked = worked as f64;
        passes.push(Pass { took, processor, worked, calm_rate });
    }
    medians(&passes[1..], number)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [method, bytes, batch, beside, time] = &words[..] else {
        panic!("release METHOD BYTES BATCH BESIDE MILLISECONDS");
    };
    let known = |m: &Method| m.name() == method;
    let method = Method::ALL.into_iter().find(known).expect("a method's name");
    let (bytes, batch) = (bytes.parse().unwrap(), batch.parse().unwrap());
    let time = Duration::from_millis(time.parse().unwrap());
    let other = Beside::default();
    let figures = std::thread::scope(|scope| {
        let thread: Option<fn(&Beside)> = match beside.as_str() {
            "alone" => None,
            "touching" => Some(Beside::touch),
            "faulting" => Some(Beside::fault),
            _ => panic!("alone, touching or faulting"),
        };
        if let Some(thread) = thread {
            let other = &other;
            scope.spawn(move || thread(other));
            while other.done.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
        }
        let figures = measure(method, bytes, batch, thread.map(|_| &other), time);
        other.ends.store(true, Relaxed);
        figures
    });
    println!("{:.3} {:.3} {:.3}", figures[0], figures[1], figures[2]);
}
