//! Tests of permits, of probes, and of the words that are read from outside.

use super::*;
use crate::os::Linux;
use crate::os::fake::{Fake, Machine};

fn watched() -> Filter {
    let filter = Filter::new();
    filter.watch();
    filter.inherited.store(FREE, Relaxed);
    filter
}

#[test]
fn a_permit_is_had_only_where_there_can_be_no_filter() {
    let os = Linux::detect();
    let filter = Filter::new();
    assert_eq!(filter.state(&os), FilterState::Unwatched);
    assert!(filter.permit(&os, Calls::NONE, false).is_none());
    let filter = watched();
    assert_eq!(filter.state(&os), FilterState::None);
    assert!(filter.permit(&os, Calls::NONE, false).is_some());
    filter.about_to_install(&os);
    assert_eq!(filter.state(&os), FilterState::Installed);
    assert!(filter.permit(&os, Calls::NONE, false).is_none());
    filter.was_refused();
    assert!(filter.permit(&os, Calls::NONE, false).is_some());
    filter.inherited.store(FILTERED, Relaxed);
    assert_eq!(filter.state(&os), FilterState::Inherited);
    assert!(filter.permit(&os, Calls::NONE, false).is_none());
    assert_eq!(filter.in_flight.load(Relaxed), 0);
}

#[test]
fn one_that_is_about_to_end_asks_though_nobody_watches() {
    for (answer, state) in [
        (Some(false), FilterState::None),
        (Some(true), FilterState::Inherited),
        (None, FilterState::Unwatched),
    ] {
        let os = Fake::new(Machine::SMALL);
        os.set_filtered(answer);
        os.pass(1);
        let filter = Filter::new();
        assert!(filter.permit(&os, Calls::REPORT, false).is_none());
        filter.nothing_follows(&os);
        assert_eq!(filter.state(&os), state);
        assert_eq!(filter.permit(&os, Calls::REPORT, false).is_some(), answer == Some(false));
    }
    // A filter that the process has installed is known, so there is no query.
    let os = Fake::new(Machine::SMALL);
    let filter = watched();
    filter.about_to_install(&os);
    filter.nothing_follows(&os);
    assert_eq!(filter.state(&os), FilterState::Installed);
}

#[test]
fn a_program_that_starts_has_a_permit_if_no_filter_forbids_it() {
    for answer in [Some(false), Some(true), None] {
        let os = Fake::new(Machine::SMALL);
        os.set_filtered(answer);
        os.pass(1);
        let filter = Filter::new();
        let permit = filter.permit_at_start(&os, Calls::REPORT);
        // Under an inherited one, a child has tried the calls.
        assert_eq!(permit.is_some(), answer.is_some(), "{answer:?}");
        assert_eq!(filter.answers().is_some(), answer == Some(true));
        drop(permit);
        // Afterwards it may install one at any time.
        assert_eq!(filter.state(&os), FilterState::Unwatched);
        assert!(filter.permit(&os, Calls::REPORT, false).is_none());
    }
    // A program that promises to report them keeps its promise.
    let (os, filter) = (Fake::new(Machine::SMALL), watched());
    os.pass(1);
    assert!(filter.permit_at_start(&os, Calls::REPORT).is_some() && filter.is_watched());
}

#[test]
fn what_could_not_be_looked_up_is_looked_up_again() {
    for (answer, state) in [(false, FilterState::None), (true, FilterState::Inherited)] {
        let os = Fake::new(Machine::SMALL);
        let filter = Filter::new();
        filter.watch();
        os.set_filtered(None);
        for _ in 0..3 {
            os.pass(1);
            assert_eq!(filter.state(&os), FilterState::Unknown);
            assert!(filter.permit(&os, Calls::NONE, false).is_none());
        }
        // In the same tick there is no second query. An answer holds for ever.
        os.set_filtered(Some(answer));
        assert_eq!(filter.state(&os), FilterState::Unknown);
        os.pass(1);
        assert_eq!(filter.state(&os), state);
        os.set_filtered(Some(!answer));
        os.pass(1);
        assert_eq!(filter.state(&os), state);
    }
}

#[test]
fn each_feature_asks_for_what_it_calls() {
    let os = Fake::new(Machine::SMALL);
    let filter = watched();
    filter.inherited.store(FILTERED, Relaxed);
    os.pass(1);
    let found = Answers { safe: Calls::BARRIER.and(Calls::BATCH), works: Calls::BARRIER };
    os.set_probe(Some(found));
    assert!(filter.permit(&os, Calls::NONE, false).is_none(), "not before it was probed");
    assert!(filter.permit(&os, Calls::THREAD, true).is_some(), "the user says so");
    assert!(filter.probe(&os) && filter.probe(&os));
    assert_eq!((os.probes(), filter.answers()), (1, Some(found)));
    assert!(filter.permit(&os, Calls::BARRIER, false).is_some());
    assert!(filter.permit(&os, Calls::BARRIER.and(Calls::BATCH), false).is_some());
    for trusted in [false, true] {
        assert!(filter.permit(&os, Calls::THREAD, trusted).is_none(), "it would kill");
        assert!(filter.permit(&os, Calls::BARRIER.and(Calls::THREAD), trusted).is_none());
    }
    // The child of a fork has the filter and the result of the probe.
    filter.repair();
    assert!(filter.probe(&os) && os.probes() == 1);
    // A filter that the program installs itself is never probed.
    filter.about_to_install(&os);
    assert!(!filter.probe(&os) && filter.permit(&os, Calls::BARRIER, false).is_none());
}

#[test]
fn a_probe_in_vain_is_made_again_after_longer_and_longer_pauses() {
    let os = Fake::new(Machine::SMALL);
    let filter = watched();
    filter.inherited.store(FILTERED, Relaxed);
    os.set_probe(None);
    let mut attempts = Vec::new();
    for tick in 0..5000 {
        assert!(!filter.probe(&os));
        if os.probes() > attempts.len() {
            attempts.push(tick);
        }
        os.pass(1);
    }
    assert_eq!(attempts[..5], [0, 1, 3, 7, 15]);
    assert!(attempts.windows(2).all(|pair| pair[1] - pair[0] <= PAUSE_MOST as usize));
    assert_eq!(attempts.len(), 14, "{attempts:?}");
    os.pass(PAUSE_MOST);
    os.set_probe(Some(Answers::ALL));
    assert!(filter.probe(&os));
}

#[test]
fn a_process_without_a_filter_is_not_probed() {
    let os = Fake::new(Machine::SMALL);
    let filter = watched();
    assert!(filter.probe(&os) && os.probes() == 0);
    assert!(!Filter::new().probe(&os) && os.probes() == 0, "nobody would tell");
}

#[test]
fn the_child_of_a_fork_does_not_wait_for_a_prober_that_it_does_not_have() {
    let os = Fake::new(Machine::SMALL);
    let filter = watched();
    filter.inherited.store(FILTERED, Relaxed);
    filter.probe.store(PROBING, Relaxed);
    os.set_probe(Some(Answers::ALL));
    assert!(!filter.probe(&os));
    filter.repair();
    assert!(filter.probe(&os));
}

#[test]
fn the_words_are_read_from_outside() {
    let os = Fake::new(Machine::SMALL);
    let filter = watched();
    let read = |filter: &Filter| {
        let first: *const u8 = (&raw const *filter).cast();
        // SAFETY: words of a filter, which no thread writes meanwhile.
        Words::of(Words::OFFSETS.map(|at| unsafe { first.add(at).cast::<u32>().read() }))
    };
    assert_eq!((read(&filter).state(), read(&filter).answers), (FilterState::None, None));
    filter.inherited.store(FILTERED, Relaxed);
    let found = Answers { safe: Calls::BARRIER.and(Calls::BATCH), works: Calls::BATCH };
    os.set_probe(Some(found));
    filter.probe(&os);
    assert_eq!(
        (read(&filter).state(), read(&filter).answers),
        (FilterState::Inherited, Some(found))
    );
    filter.about_to_install(&os);
    assert_eq!(read(&filter).state(), FilterState::Installed);
    assert_eq!(read(&Filter::new()).state(), FilterState::Unwatched);
}

#[test]
fn a_process_without_a_descriptor_to_spare_is_not_taken_for_a_filtered_one() {
    let os = Linux::detect();
    let filtered = os.is_filtered();
    assert!(filtered.is_some());
    // The limit is the process's, so this uses a child.
    // SAFETY: the child makes only system calls, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let all = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 64 };
            libc::setrlimit(libc::RLIMIT_NOFILE, &none);
            let without = os.is_filtered();
            libc::setrlimit(libc::RLIMIT_NOFILE, &all);
            libc::_exit(i32::from(without.is_some() || os.is_filtered() != filtered));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "in the child");
    }
}

#[test]
fn installing_waits_for_permits_and_not_for_ever() {
    let os = Linux::detect();
    let filter = watched();
    let permit = filter.permit(&os, Calls::NONE, false).unwrap();
    // No thread drops the permit, so the wait ends at its limit.
    filter.about_to_install(&os);
    assert_eq!(filter.in_flight.load(Relaxed), 1);
    filter.was_refused();
    // A thread drops the permit. No installation goes on while the permit is held.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            filter.about_to_install(&os);
            filter.in_flight.load(SeqCst)
        });
        while !filter.is_installed() {
            std::thread::yield_now();
        }
        assert!(filter.permit(&os, Calls::NONE, false).is_none());
        drop(permit);
        assert_eq!(thread.join().unwrap(), 0);
    });
}

#[test]
fn a_child_forgets_the_permits_of_threads_that_it_does_not_have() {
    let os = Linux::detect();
    let filter = watched();
    let permit = filter.permit(&os, Calls::NONE, false).unwrap();
    filter.repair();
    drop(permit);
    assert_eq!(filter.in_flight.load(Relaxed), 0);
}
