//! A program of one thread over a fake system, for tests of one thing.

use super::plain::birth;
use super::shadow::bytes_of;
use super::world::code_address;
use toft_core::Allocator;
use toft_core::options::Options;
use toft_core::os::HugeHabit;
use toft_core::os::fake::{Fake, Machine, Request};
use toft_core::report::Call;
use toft_core::thread::Heap;

/// A program of one thread. Test files add what they need.
pub struct Program {
    pub fake: Fake,
    pub allocator: Allocator<Fake>,
    pub heap: &'static Heap,
}

impl Program {
    /// Returns a program on a large machine.
    pub fn with(options: Options) -> Program {
        Program::on(Fake::new(Machine::LARGE), options)
    }

    /// Returns a program on a large machine that makes huge pages by this habit.
    pub fn with_habit(habit: HugeHabit, options: Options) -> Program {
        let fake = Fake::new(Machine::LARGE);
        fake.set_huge_habit(habit);
        Program::on(fake, options)
    }

    /// Returns a program on this system.
    pub fn on(fake: Fake, options: Options) -> Program {
        let allocator = Allocator::new(fake.clone(), options, false).unwrap();
        allocator.filter().watch();
        let heap = birth(&allocator);
        Program { fake, allocator, heap }
    }

    pub fn take(&self, size: usize, site: usize) -> usize {
        self.allocator.allocate(self.heap, size, code_address(site)).expect("there is memory")
    }

    /// Returns a block each byte of which is `fill`.
    pub fn take_filled(&self, size: usize, site: usize, fill: u8) -> usize {
        let address = self.take(size, site);
        bytes_of(address, size).fill(fill);
        address
    }

    pub fn free(&self, address: usize) {
        self.allocator.free(self.heap, address, Call::Free);
    }

    /// Returns the number of calls that populated pages.
    pub fn prefaulted(&self) -> u64 {
        self.fake.calls(Request::Populate)
    }
}
