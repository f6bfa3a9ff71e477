//! Two threads on a fake machine, one of which sweeps; and blocks of the other that are free in
//! part.

use crate::common::plain::{allocator, birth, fill_short_slabs, filling, slot, with_slab};
use crate::common::shadow::bytes_of;
use crate::common::world::code_address;
use std::collections::BTreeSet;
use std::sync::Arc;
use toft_core::Allocator;
use toft_core::keeper::{Swept, Which};
use toft_core::options::Options;
use toft_core::os::fake::Fake;
use toft_core::policy::SLACK_MIN;
use toft_core::report::Call;
use toft_core::stats::snapshot;
use toft_core::thread::Heap;

// What is freed is free at once, in the secure build, too.
pub const OPTIONS: Options = Options { partitions: 4, quarantine: 0, ..Options::DEFAULT };
pub const WARN: Options = Options { warn_only: true, ..OPTIONS };
pub const SITE: usize = 3;
/// The barrier that is passed while slots of the first batch are held, and the next one.
pub const HELD: usize = 1;
pub const LET_GO: usize = 2;

/// Two threads: one that sleeps, or does what a test says at a barrier, and one that sweeps.
#[derive(Clone)]
pub struct Program {
    pub fake: Fake,
    pub allocator: Arc<Allocator<Fake>>,
    pub owner: &'static Heap,
    pub other: &'static Heap,
}

impl Program {
    pub fn new(options: Options) -> Program {
        let (fake, allocator) = allocator(options);
        let (owner, other) = (birth(&allocator), birth(&allocator));
        let program = Program { fake, allocator: Arc::new(allocator), owner, other };
        // What it needs itself is resident from here on.
        program.allocator.sweeper().purge(Some(program.other));
        program.sweep();
        program
    }

    pub fn take(&self, heap: &Heap, size: usize) -> usize {
        self.allocator.allocate(heap, size, code_address(SITE)).unwrap()
    }

    /// A block that is filled with its address.
    pub fn filled(&self, heap: &Heap, size: usize) -> usize {
        let address = self.take(heap, size);
        bytes_of(address, size).fill(mark(address));
        address
    }

    pub fn free(&self, heap: &Heap, address: usize) {
        self.allocator.free(heap, address, Call::Free);
    }

    pub fn sweep(&self) -> Swept {
        self.allocator.sweeper().sweep(Which::Free).expect("no other thread sweeps")
    }

    pub fn resident(&self) -> usize {
        // A sweep reads bins. Their pages are read here first, so that they count before and after.
        assert_eq!(self.allocator.check(), Ok(()));
        self.fake.resident_bytes()
    }

    /// Holds the allocator to its invariants, to the figures, and to the contents of what is live.
    pub fn check(&self, live: &[usize], size: usize) {
        if let Err(violation) = self.allocator.check() {
            panic!("{size}: {violation:?}");
        }
        for &address in live {
            let same = bytes_of(address, size).iter().all(|&byte| byte == mark(address));
            assert!(same, "{size}: the block at {address:#x} has changed");
        }
        let figures = snapshot(&self.allocator);
        let bytes = live.len() * slot(size);
        assert_eq!((figures.live_blocks, figures.live_bytes()), (live.len(), bytes), "{size}");
    }

    /// At the barrier with this number, counted from the next sweep on, and at no other.
    pub fn at(&self, number: usize, mut act: impl FnMut(&Program) + Send + 'static) {
        let (mut seen, program) = (0, self.clone());
        self.fake.at_barrier(move || {
            if seen == number {
                act(&program);
            }
            seen += 1;
            true
        });
    }

    /// The owner collects what others have freed.
    pub fn collect(&self) {
        let guard = self.owner.enter().unwrap();
        self.owner.collect(&guard, |_, _| panic!("a double free"), |_| {});
    }

    pub fn no_more(&self) {
        self.fake.at_barrier(|| true);
    }

    /// Nothing is held, and whatever is free can be had again: `count` blocks without a new slab.
    pub fn all_come_back(&self, live: &[usize], size: usize, count: usize) {
        // The last few that others have freed into a full slab would have to wait for more of them.
        self.collect();
        let slabs = snapshot(&self.allocator).slabs;
        let known: BTreeSet<usize> = live.iter().copied().collect();
        let mut all = live.to_vec();
        for number in 0..count {
            let site = code_address(SITE);
            let address = self.allocator.allocate_zeroed(self.owner, size, site).unwrap();
            assert!(!known.contains(&address), "{size}: {address:#x} is live already");
            assert!(bytes_of(address, size).iter().all(|&byte| byte == 0), "{size}: {number}");
            bytes_of(address, size).fill(mark(address));
            all.push(address);
        }
        assert_eq!(snapshot(&self.allocator).slabs, slabs, "{size}: slots are lost");
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        self.check(&all, size);
        assert_eq!(self.fake.take_reports(), [] as [String; 0]);
    }
}

/// Never zero.
pub fn mark(address: usize) -> u8 {
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 | 1
}

/// A request that fills half a page.
pub const ALMOST: usize = 2048 - SLACK_MIN;
pub const SIZES: [usize; 7] = [48, 200, 1024, 2000, 3000, 10_240, 49_152];

/// So many blocks of a size that they fill some slabs, of the owner's; all are filled.
pub fn some_slabs(program: &Program, size: usize) -> Vec<usize> {
    let size = filling(size);
    (0..6 * slots_of(size)).map(|_| program.filled(program.owner, size)).collect()
}

/// Frees all but each `stays`th, or the first of each slab; says what is live and how many went.
pub fn free_most(
    program: &Program,
    heap: &Heap,
    blocks: &[usize],
    stays: usize,
) -> (Vec<usize>, usize) {
    let (mut live, mut freed) = (Vec::new(), 0);
    let mut slabs = BTreeSet::new();
    for (number, &address) in blocks.iter().enumerate() {
        let stays_here = match stays {
            ONE_EACH => slabs.insert(with_slab(&program.allocator, address, |slab, _| slab.base())),
            _ => number % stays == stays / 2,
        };
        if stays_here {
            live.push(address);
        } else {
            program.free(heap, address);
            freed += 1;
        }
    }
    program.allocator.publish_frees(heap);
    (live, freed)
}

/// A program of which the owner has filled some slabs, and the owner or the other thread has freed
/// all but one block in each. Returns the program, the size of the blocks, those that are live, and
/// the number of those that were freed.
pub fn mostly_free(size: usize, remote: bool) -> (Program, usize, Vec<usize>, usize) {
    let program = Program::new(OPTIONS);
    let size = filling(size);
    let blocks = some_slabs(&program, size);
    let heap = if remote { program.other } else { program.owner };
    let (live, freed) = free_most(&program, heap, &blocks, ONE_EACH);
    (program, size, live, freed)
}

/// Of those that stay: one in each slab, so that none is empty.
pub const ONE_EACH: usize = 0;

/// Slots of a block's slab that a program may have.
pub fn slots_beside(program: &Program, address: usize) -> usize {
    with_slab(&program.allocator, address, |slab, _| {
        slab.all_slots().filter(|&slot| !slab.reserved().is_never_handed_out(slot)).count()
    })
}

pub fn slots_of(size: usize) -> usize {
    let slot = slot(size);
    (if slot <= 1024 { 64 << 10 } else { 512 << 10 } / slot).min(256)
}

/// A slab of which nearly all is free, and some of that claimed by the owner. Says which blocks are
/// live, the first of them in that slab, and how many of its slots are free.
pub fn some_claimed(program: &Program, size: usize) -> (Vec<usize>, usize) {
    let short = fill_short_slabs(size, || program.filled(program.owner, size));
    let mut blocks = vec![program.filled(program.owner, size)];
    let rest = slots_beside(program, blocks[0]) - 1;
    blocks.extend((0..rest).map(|_| program.filled(program.owner, size)));
    let last = blocks[blocks.len() - 1];
    for &address in blocks.iter().filter(|&&address| address != last) {
        program.free(program.owner, address);
    }
    // The claim in hand is used up, and the next one is made.
    let mut live = vec![last];
    while with_slab(&program.allocator, last, |slab, _| slab.claimed()).count_ones() < 3 {
        live.push(program.filled(program.owner, size));
    }
    let free = blocks.len() - live.len();
    live.extend(short);
    (live, free)
}
