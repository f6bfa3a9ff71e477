//! What is written is read; what is cut off is read as far as it goes; no bytes make the reader
//! panic.

use proptest::prelude::*;
use std::collections::BTreeMap;
use toft_trace::chunk::{FILE_HEADER, VERSION, file_header};
use toft_trace::{Action, Error, Event, Summary, Trace, Warning, Writer};

/// What a step does; objects are chosen among those that exist, by an index.
#[derive(Clone, Debug)]
enum Step {
    Allocate { size: u64, align: u32, site: u32, zeroed: bool },
    Free(usize),
    Resize(usize, u64),
    Site(u32, u64),
    Life(bool),
}

fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(value, shift)| value >> shift)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (number(), 0..63u32, any::<u32>(), any::<bool>())
            .prop_map(|(size, align, site, zeroed)| Step::Allocate { size, align, site, zeroed }),
        any::<usize>().prop_map(Step::Free),
        (any::<usize>(), number()).prop_map(|(index, size)| Step::Resize(index, size)),
        (any::<u32>(), number()).prop_map(|(site, address)| Step::Site(site, address)),
        any::<bool>().prop_map(Step::Life),
    ]
}

type Written = (Vec<u8>, BTreeMap<u32, Vec<Event>>, BTreeMap<u32, u64>);

/// Writes the steps, and says what a reader must find.
fn written(steps: &[(u32, Step)], chunk: usize) -> Written {
    let mut writer = Writer::new(Vec::new(), 77).unwrap().with_chunks_of(chunk);
    let mut threads: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
    let mut sites = BTreeMap::new();
    let mut objects = Vec::new();
    for (thread, step) in steps {
        let object = |index: usize| objects.get(index.checked_rem(objects.len())?).copied();
        let action = match *step {
            Step::Allocate { size, align, site, zeroed } => {
                Action::Allocate { size, align: 1 << align, site, zeroed }
            }
            Step::Free(index) => match object(index) {
                Some(object) => Action::Free { object },
                None => continue,
            },
            Step::Resize(index, size) => match object(index) {
                Some(object) => Action::Resize { object, size, site: 3 },
                None => continue,
            },
            Step::Site(site, address) => Action::Site { site, address },
            Step::Life(start) => {
                if start {
                    Action::Start
                } else {
                    Action::End
                }
            }
        };
        let sequence = writer.event(*thread, action).unwrap();
        let events = threads.entry(*thread).or_default();
        match action {
            Action::Site { site, address } => {
                sites.insert(site, address);
                continue;
            }
            Action::Allocate { .. } => objects.push(sequence),
            _ => {}
        }
        events.push(Event { sequence, action });
    }
    (writer.finish().unwrap(), threads, sites)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(
        steps in prop::collection::vec((0..5u32, step()), 0..200),
        chunk in 1..400usize,
    ) {
        let (bytes, threads, sites) = written(&steps, chunk);
        let trace = Trace::read(&bytes).unwrap();
        prop_assert_eq!(&trace.warnings, &[]);
        prop_assert_eq!(trace.pid, 77);
        let read: BTreeMap<_, _> =
            trace.threads.iter().map(|thread| (thread.number, thread.events.clone())).collect();
        prop_assert_eq!(read, threads);
        // Threads are not in order among each other in the file, so of two meanings either holds.
        prop_assert_eq!(
            trace.sites.keys().collect::<Vec<_>>(),
            sites.keys().collect::<Vec<_>>()
        );
        let _ = Summary::of(&trace);
    }

    #[test]
    fn a_trace_that_is_cut_off_is_read_up_to_there(
        steps in prop::collection::vec((0..3u32, step()), 1..100),
        chunk in 1..200usize,
        cut in any::<prop::sample::Index>(),
    ) {
        let (bytes, threads, _) = written(&steps, chunk);
        let end = FILE_HEADER + cut.index(bytes.len() + 1 - FILE_HEADER);
        let trace = Trace::read(&bytes[..end]).unwrap();
        for thread in &trace.threads {
            prop_assert!(threads[&thread.number].starts_with(&thread.events));
        }
        let read: usize = trace.threads.iter().map(|thread| thread.events.len()).sum();
        let all: usize = threads.values().map(Vec::len).sum();
        prop_assert_eq!(read == all || end < bytes.len(), true);
        let cut_off = |warning: &Warning| matches!(warning, Warning::Truncated { .. });
        prop_assert!(trace.warnings.iter().all(cut_off));
        prop_assert!(trace.warnings.len() <= 1);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        headed: bool,
        events: bool,
    ) {
        let mut all = Vec::new();
        if headed {
            all.extend(file_header(1));
            if events {
                all.extend(*b"EVNT");
                all.extend([0; 4]);
                all.extend(300u32.to_le_bytes());
                all.extend([0; 12]);
            }
        }
        all.extend(bytes);
        if let Ok(trace) = Trace::read(&all) {
            let _ = Summary::of(&trace);
        }
    }

    #[test]
    fn a_changed_byte_makes_no_panic(
        steps in prop::collection::vec((0..3u32, step()), 1..60),
        place in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let (mut bytes, ..) = written(&steps, 50);
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if let Ok(trace) = Trace::read(&bytes) {
            let _ = Summary::of(&trace);
        }
    }
}

#[test]
fn foreign_newer_and_short_files_are_told_apart() {
    assert_eq!(Trace::read(b""), Err(Error::Foreign));
    assert_eq!(Trace::read(b"\x7fELF and more of it"), Err(Error::Foreign));
    let mut header = file_header(1);
    assert_eq!(Trace::read(&header[..9]), Err(Error::Short));
    assert!(Trace::read(&header).unwrap().threads.is_empty());
    header[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let error = Trace::read(&header).unwrap_err();
    assert_eq!(error, Error::Newer { version: VERSION + 1 });
    assert!(error.to_string().contains("version 2") && error.to_string().contains("version 1"));
}

#[test]
fn what_comes_behind_a_damaged_chunk_is_read_and_behind_no_chunk_is_not() {
    let take = Action::Allocate { size: 5, align: 1, site: 0, zeroed: false };
    let mut writer = Writer::new(Vec::new(), 1).unwrap().with_chunks_of(1);
    for thread in 0..3 {
        writer.event(thread, take).unwrap();
    }
    let whole = writer.finish().unwrap();
    let second = FILE_HEADER + (whole.len() - FILE_HEADER) / 3;
    let mut damaged = whole.clone();
    damaged[second + 24] = 0xff;
    let trace = Trace::read(&damaged).unwrap();
    assert_eq!(trace.warnings, [Warning::Damaged { at: second }]);
    let counts: Vec<_> = trace.threads.iter().map(|thread| thread.events.len()).collect();
    assert_eq!(counts, [1, 0, 1]);
    let mut lost = whole.clone();
    lost[second] = 0;
    let trace = Trace::read(&lost).unwrap();
    assert_eq!(trace.warnings, [Warning::Lost { at: second }]);
    assert_eq!(trace.threads.len(), 1);
    // A kind of a later writer is passed over.
    let mut later = whole;
    later[second..second + 4].copy_from_slice(b"NEWS");
    let trace = Trace::read(&later).unwrap();
    assert_eq!((trace.warnings.len(), trace.threads.len()), (0, 2));
}
