//! Under an inherited filter of system calls (seccomp), as in a container: what is done before it
//! was probed, and after, for each thing that a filter may forbid.

use crate::common::program::Program;
use toft_core::keeper::Which;
use toft_core::options::{Options, Reclaim};
use toft_core::os::HugeHabit;
use toft_core::os::fake::{Fake, Machine};
use toft_core::os::seccomp::{Answers, Calls};

impl Program {
    /// A program that was started under a filter of which a probe finds this.
    fn under(found: Option<Answers>) -> Program {
        let fake = Fake::new(Machine::LARGE);
        fake.set_huge_habit(HugeHabit { unasked: true, middle: false });
        fake.set_filtered(Some(true));
        fake.set_probe(found);
        let options =
            Options { partitions: 1, reclaim: Reclaim::Auto, prefault: true, ..Options::DEFAULT };
        Program::on(fake, options)
    }

    /// Takes some blocks. Returns the first.
    fn take_blocks(&self, blocks: usize) -> usize {
        let first = self.take(1000, 3);
        (1..blocks).for_each(|_| _ = self.take(1000, 3));
        first
    }
}

fn all_but(calls: Calls) -> Answers {
    let safe = Calls::from_bits(Answers::ALL.safe.bits() & !calls.bits());
    Answers { safe, works: safe }
}

#[test]
fn nothing_unusual_is_called_before_the_filter_was_probed() {
    let program = Program::under(Some(Answers::ALL));
    let block = program.take_blocks(4000);
    program.allocator.sweeper().sweep(Which::Free);
    assert_eq!((program.prefaulted(), program.fake.probes()), (0, 0));
    assert!(!program.fake.is_kept_small(block));
}

#[test]
fn once_it_was_probed_all_is_as_without_a_filter_and_what_is_there_is_made_up_for() {
    let program = Program::under(Some(Answers::ALL));
    let before = program.take_blocks(1000);
    assert!(!program.fake.is_kept_small(before));
    assert!(program.allocator.maintenance().probe_filter());
    assert!(program.fake.is_kept_small(before), "mapped before");
    program.take_blocks(4000);
    assert!(program.prefaulted() > 0);
    assert!(program.allocator.maintenance().probe_filter() && program.fake.probes() == 1, "once");
}

#[test]
fn what_would_kill_is_not_called_and_the_rest_is() {
    let program = Program::under(Some(all_but(Calls::HUGE)));
    let before = program.take_blocks(1000);
    assert!(program.allocator.maintenance().probe_filter());
    program.take_blocks(4000);
    assert!(!program.fake.is_kept_small(before));
    assert_eq!(program.prefaulted(), 0, "it would ask for larger pages");
    let program = Program::under(Some(all_but(Calls::POPULATE)));
    let before = program.take_blocks(1000);
    assert!(program.allocator.maintenance().probe_filter());
    program.take_blocks(4000);
    assert!(program.fake.is_kept_small(before));
    assert_eq!(program.prefaulted(), 0);
}

#[test]
fn where_no_child_could_be_created_all_is_as_before() {
    let program = Program::under(None);
    let block = program.take_blocks(1000);
    assert!(!program.allocator.maintenance().probe_filter());
    program.take_blocks(4000);
    assert!(!program.fake.is_kept_small(block));
    assert_eq!((program.prefaulted(), program.fake.probes()), (0, 1));
}
