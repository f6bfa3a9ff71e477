//! A trace as it is played: an array of steps, those of each thread together, and a place for each
//! object. Everything is in mappings.

use crate::mapped::{Mapped, Plain};
use crate::threads::Patience;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Acquire};
use toft_trace::read::{Error, chunks};
use toft_trace::{Action, Event};
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Call {
    /// `malloc`.
    #[default]
    Malloc,
    Calloc,
    Aligned,
    Realloc,
    Free,
}

/// One event, ready to be played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Its number in the order of the process.
    pub sequence: u64,
    pub size: u64,
    /// The place of the object.
    pub object: u32,
    /// How many events the object had before this one.
    pub turn: u32,
    /// The thread, by its index.
    thread: u32,
    /// What is called.
    pub call: Call,
    /// The logarithm of the alignment.
    pub align: u8,
    /// Whether an aligned block is to be zero.
    pub zeroed: bool,
    /// Whether the object's event before this one is another thread's.
    pub waits: bool,
    /// Whether the object's event after this one is another thread's.
    pub tells: bool,
}

pub struct Place {
    /// Its block; null before and after its life.
    pub block: AtomicPtr<u8>,
    /// How many of its events are done; kept only where another thread waits for that. Written by
    /// the thread whose step `tells`.
    pub turn: AtomicU32,
}

impl Place {
    /// Waits until the events before that number `turn` are done.
    pub fn wait_for(&self, turn: u32) {
        let mut patience = Patience::default();
        // Acquires what the other thread Released in `play`.
        while self.turn.load(Acquire) != turn {
            patience.wait();
        }
    }
}

/// A thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thread {
    /// Its steps.
    from: usize,
    to: usize,
    /// The sequence numbers of its first and last step.
    pub first: u64,
    /// See `first`.
    pub last: u64,
}

// SAFETY: zero is a value of each field (of the call, `Malloc`), and there is no drop glue.
unsafe impl Plain for Step {}
// SAFETY: zero is null and 0, and there is no drop glue.
unsafe impl Plain for Place {}
// SAFETY: numbers only.
unsafe impl Plain for Thread {}
pub struct Script {
    steps: Mapped<Step>,
    places: Mapped<Place>,
    threads: Mapped<Thread>,
    thread_count: usize,
    pub events: u64,
    /// Events of objects that the trace does not know, or whose life is over: not played.
    pub skipped: u64,
}

/// Reads a file into a mapping.
pub fn contents(path: &Path) -> io::Result<Mapped<u8>> {
    let mut file = File::open(path)?;
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if length == 0 {
        return Err(io::Error::other(Error::Foreign));
    }
    let mut bytes = Mapped::new(length);
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Script {
    /// Makes a script of a trace. What is cut off or damaged is left out, as far as needed.
    pub fn of(bytes: &[u8]) -> Result<Script, Error> {
        let (mut events, mut objects) = (0, 0);
        each_event(bytes, |_, event| {
            events += 1;
            objects += usize::from(matches!(event.action, Action::Allocate { .. }));
        })?;
        let mut names = Mapped::<u64>::new(objects.max(1));
        let mut steps = Mapped::<Step>::new(events.max(1));
        let (mut object, mut step) = (0, 0);
        each_event(bytes, |_, event| {
            if let Action::Allocate { .. } = event.action {
                names[object] = event.sequence;
                object += 1;
            }
        })?;
        let names = &mut names[..objects];
        names.sort_unstable();
        let mut skipped = 0;
        each_event(bytes, |thread, event| match planned(thread, event, names) {
            Some(planned) => {
                steps[step] = planned;
                step += 1;
            }
            None => skipped += 1,
        })?;
        let mut places = Mapped::new(objects.max(1));
        let kept = in_order(&mut steps[..step], &mut places);
        skipped += (step - kept) as u64;
        let (threads, thread_count) = by_thread(&mut steps[..kept]);
        Ok(Script { steps, places, threads, thread_count, events: kept as u64, skipped })
    }

    /// The threads, in the order in which they began.
    pub fn threads(&self) -> &[Thread] {
        &self.threads[..self.thread_count]
    }

    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// What all this takes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.steps) + size_of_val(&*self.places) + size_of_val(&*self.threads)
    }

    pub fn steps_of(&self, thread: &Thread) -> &[Step] {
        &self.steps[thread.from..thread.to]
    }
}

/// Calls `each` with every event that can be read and played, and its thread.
fn each_event(bytes: &[u8], mut each: impl FnMut(u32, Event)) -> Result<(), Error> {
    for chunk in chunks(bytes)?.flatten() {
        for event in chunk.events().flatten() {
            if !matches!(event.action, Action::Site { .. } | Action::Start | Action::End) {
                each(chunk.header.thread, event);
            }
        }
    }
    Ok(())
}

/// The step of an event; nothing if it is about an object that there is not, or that no program can
/// have had.
fn planned(thread: u32, event: Event, names: &[u64]) -> Option<Step> {
    let place = |object: u64| u32::try_from(names.binary_search(&object).ok()?).ok();
    let step = Step { sequence: event.sequence, thread, ..Step::default() };
    let step = match event.action {
        Action::Allocate { size, align, zeroed, .. } => {
            let object = place(event.sequence)?;
            let call = match (align > 1, zeroed) {
                (true, _) => Call::Aligned,
                (false, true) => Call::Calloc,
                (false, false) => Call::Malloc,
            };
            Step { size, object, call, align: align.trailing_zeros() as u8, zeroed, ..step }
        }
        Action::Free { object } => Step { object: place(object)?, call: Call::Free, ..step },
        Action::Resize { object, size, .. } => {
            Step { size, object: place(object)?, call: Call::Realloc, ..step }
        }
        Action::Site { .. } | Action::Start | Action::End => return None,
    };
    // A damaged file may say anything.
    (step.size < 1 << 47 && step.align < 47).then_some(step)
}

/// Gives each step its turn, in the order of the process, and moves those to the end that no
/// program can have made: before an object's allocation or after its end. Returns how many are
/// left.
fn in_order(steps: &mut [Step], places: &mut Mapped<Place>) -> usize {
    /// The object's life is over.
    const OVER: u32 = u32::MAX;
    steps.sort_unstable_by_key(|step| step.sequence);
    let mut last = Mapped::<u32>::new(places.len());
    let mut kept = 0;
    for index in 0..steps.len() {
        let mut step = steps[index];
        let object = step.object as usize;
        let turn = places[object].turn.get_mut();
        let begins = matches!(step.call, Call::Malloc | Call::Calloc | Call::Aligned);
        if *turn == OVER || begins != (*turn == 0) {
            continue;
        }
        step.turn = *turn;
        if !begins {
            let before = &mut steps[last[object] as usize];
            step.waits = before.thread != step.thread;
            before.tells = step.waits;
        }
        *turn = if step.call == Call::Free { OVER } else { *turn + 1 };
        last[object] = kept as u32;
        steps[kept] = step;
        kept += 1;
    }
    for place in places.iter_mut() {
        *place.turn.get_mut() = 0;
    }
    kept
}

/// Puts the steps of each thread together, and numbers the threads in the order of their first.
fn by_thread(steps: &mut [Step]) -> (Mapped<Thread>, usize) {
    steps.sort_unstable_by_key(|step| (step.thread, step.sequence));
    let same = |a: &Step, b: &Step| a.thread == b.thread;
    let count = steps.chunk_by(same).count();
    let mut threads = Mapped::<Thread>::new(count.max(1));
    let mut from = 0;
    for (thread, own) in threads.iter_mut().zip(steps.chunk_by(same)) {
        let to = from + own.len();
        *thread = Thread { from, to, first: own[0].sequence, last: own[own.len() - 1].sequence };
        from = to;
    }
    threads[..count].sort_unstable_by_key(|thread| thread.first);
    (threads, count)
}
