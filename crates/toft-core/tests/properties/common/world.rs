//! The world: an allocator over a fake system, its "threads", and the shadow. Carries out
//! operations and compares every answer.

use super::misuse;
use super::ops::{Op, THREADS};
use super::shadow::{Block, Kind, Shadow, Tier, UNIT, ZERO_SIZE_STEP, bytes_of};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use toft_core::Allocator;
use toft_core::keeper::Which;
use toft_core::large::large_class;
use toft_core::options::Options;
use toft_core::os::Memory;
use toft_core::os::fake::Fake;
use toft_core::path::Resized;
use toft_core::report::Call;
use toft_core::slab::{MEDIUM_MAX, SMALL_MAX};
use toft_core::stats::snapshot;
use toft_core::thread::{EXITED_HEAP, Heap, SHARE_FROM};

/// Bytes that the program may have at once: the fake's memory is real memory.
const LIVE_MAX: usize = 192 << 20;
/// What must be had while the system gives memory, and no more is live than `LIVE_MAX`.
const SURE: usize = 32 << 20;

pub struct World {
    pub allocator: Arc<Allocator<Fake>>,
    pub fake: Fake,
    pub shadow: Shadow,
    heaps: Vec<&'static Heap>,
    /// Threads that do nothing.
    idle: usize,
    /// The ends of slabs, their partitions and the bytes of their slots, by their first address.
    slabs: BTreeMap<usize, (usize, usize, usize)>,
    /// Whether requests of a reasonable size must be met.
    pub must_succeed: bool,
    /// Whether the system has done, and will do, whatever it was asked for.
    pub undisturbed: bool,
    interrupted: Option<usize>,
    /// What is left of the script: a sweep takes from it what other threads do meanwhile.
    script: VecDeque<Op>,
    /// Whether a sweep is under way, and the barriers that were ever passed.
    sweeping: bool,
    barriers: usize,
    steps: usize,
    /// How often everything is compared; the block at hand always is.
    pub thoroughness: usize,
    /// Requests that were not met.
    pub refused: usize,
}

impl World {
    /// A separate world; an error when the system has no memory for the allocator's tables.
    pub fn new(fake: Fake, options: Options) -> Result<World, toft_core::os::Error> {
        let options = Options { warn_only: true, ..options };
        let by_demand = options.partitions == 0 && !options.is_exact();
        let allocator = Allocator::new(fake.clone(), options, false)?;
        allocator.filter().watch();
        let mut shadow = Shadow::default();
        shadow.by_demand = by_demand;
        Ok(World {
            allocator: Arc::new(allocator),
            fake,
            shadow,
            heaps: Vec::new(),
            idle: 0,
            slabs: BTreeMap::new(),
            must_succeed: true,
            undisturbed: true,
            interrupted: None,
            script: VecDeque::new(),
            sweeping: false,
            barriers: 0,
            steps: 0,
            thoroughness: 8,
            refused: 0,
        })
    }

    /// The heap of a thread; the last number is a thread that has none any more.
    pub fn heap(&mut self, who: usize) -> &'static Heap {
        if who == THREADS {
            return EXITED_HEAP.heap();
        }
        if self.heaps.is_empty() {
            self.birth();
        }
        match self.heaps.len() {
            0 => EXITED_HEAP.heap(),
            count => self.heaps[who % count],
        }
    }

    fn birth(&mut self) {
        if self.heaps.len() == 1 {
            // Other threads that do nothing: those that are born from now on use shared heaps.
            let idle = (self.idle..SHARE_FROM as usize)
                .take_while(|_| self.allocator.held_heaps().acquire_heap().is_ok());
            self.idle += idle.count();
            assert!(self.idle == SHARE_FROM as usize || !self.must_succeed);
        }
        match self.allocator.held_heaps().acquire_heap() {
            Ok(heap) => {
                assert!(!self.heaps.iter().any(|other| core::ptr::eq(*other, heap)));
                assert!(heap.enter().is_some(), "a heap that was left in the middle of a change");
                self.heaps.push(heap);
            }
            Err(error) => assert!(!self.must_succeed, "no heap for a new thread: {error:?}"),
        }
    }

    /// Carries out a script, and compares everything at its end.
    pub fn run(&mut self, ops: &[Op]) {
        self.script.extend(ops);
        while let Some(op) = self.script.pop_front() {
            self.step(op);
        }
        self.check();
    }

    /// Carries out a script, but only `more` operations after `event` has returned true. Compares
    /// everything at the end.
    pub fn run_beyond(&mut self, event: impl Fn() -> bool, more: usize, ops: &[Op]) {
        self.script.extend(ops);
        while !event()
            && let Some(op) = self.script.pop_front()
        {
            self.step(op);
        }
        self.script.truncate(more);
        self.run(&[]);
    }

    /// Carries out one operation.
    pub fn step(&mut self, op: Op) {
        self.steps += 1;
        // About a tenth of a second for each twenty calls.
        self.fake.pass(u32::from(self.steps.is_multiple_of(5)));
        // A change of the heap's lists is under way while a signal handler runs.
        let changed = match self.interrupted.take() {
            Some(who) if !matches!(op, Op::Fork { .. } | Op::Interrupt { .. }) => {
                let heap = self.heap(who);
                heap.enter().map(|guard| (heap, guard))
            }
            _ => None,
        };
        self.carry_out(op);
        if let Some((heap, guard)) = changed
            && !self.heaps.iter().any(|other| core::ptr::eq(*other, heap))
        {
            // The handler, or another while a sweep was under way, has ended the thread: it never
            // drops its guard.
            core::mem::forget(guard);
        }
        if !matches!(op, Op::Misuse { .. }) {
            let reports = self.fake.take_reports();
            let is_refusal = |line: &String| line.starts_with("toft: TOFT_LIMIT refused ");
            assert!(reports.iter().all(is_refusal), "{op:?} is no misuse: {reports:?}");
        }
        if self.steps.is_multiple_of(self.thoroughness) {
            self.check();
        }
    }

    fn carry_out(&mut self, op: Op) {
        match op {
            Op::Malloc { who, size, site } => {
                self.allocate(who, size, 1, site, false);
            }
            Op::Calloc { who, size, site } => {
                self.allocate(who, size, 1, site, true);
            }
            Op::Aligned { who, size, align, site } => {
                self.allocate(who, size, align, site, false);
            }
            Op::Burst { who, size, site, count } => {
                for _ in 0..count {
                    self.allocate(who, size, 1, site, false);
                }
            }
            Op::Realloc { who, which, size, site } => {
                if let Some(block) = self.shadow.pick(which) {
                    self.reallocate(who, block, size, site);
                }
            }
            Op::ReallocSame { who, which } => {
                if let Some(block) = self.shadow.pick(which) {
                    self.reallocate(who, block, block.usable, 0);
                }
            }
            Op::Free { who, which } => self.free(who, which),
            Op::FreeMany { who, which, count } => {
                for step in 0..count.min(self.shadow.len() / 2 + 1) {
                    self.free(who, which.wrapping_add(step));
                }
            }
            Op::Misuse { who, call, pointer, which, offset } => {
                misuse::carry_out(self, who, call, pointer, which, offset);
            }
            Op::Birth if self.heaps.len() < THREADS => self.birth(),
            Op::Birth => {}
            Op::Exit { who } if self.heaps.len() > 1 && who < THREADS => {
                let heap = self.heaps.remove(who % self.heaps.len());
                self.allocator.heaps.orphan(heap);
            }
            Op::Exit { .. } => {}
            Op::Fork { who, torn } => self.fork(who, torn),
            Op::Trim => {
                if self.steps.is_multiple_of(2) {
                    let which = [Which::Idle, Which::Free][self.steps / 2 % 2];
                    self.allocator.compactor().compact(which).expect("no other thread sweeps");
                }
                self.trim();
            }
            Op::Interrupt { who } => self.interrupted = Some(who),
        }
    }

    /// One allocation; verifies everything that can be said about its answer.
    pub fn allocate(
        &mut self,
        who: usize,
        size: usize,
        align: usize,
        site: usize,
        zeroed: bool,
    ) -> Option<usize> {
        let reasonable = size.max(align) <= SURE && self.shadow.live_bytes < LIVE_MAX;
        if !reasonable && size < 1 << 40 && size.max(align) > MEDIUM_MAX {
            return None;
        }
        let heap = self.heap(who);
        let code = code_address(site);
        let answer = match (zeroed, align) {
            (true, _) => self.allocator.allocate_zeroed(heap, size, code),
            (_, 1) => self.allocator.allocate(heap, size, code),
            _ => self.allocator.allocate_aligned(heap, size, align, code),
        };
        let Some(address) = answer else {
            assert!(!(self.must_succeed && reasonable), "no memory for {size} bytes by {align}");
            self.refused += 1;
            return None;
        };
        assert!(size <= isize::MAX as usize, "{size} bytes cannot be had");
        assert!(address.is_multiple_of(align.max(16)), "{address:#x} is not aligned to {align}");
        let usable = self.usable(address);
        assert!(usable >= size, "{usable} usable bytes for a request of {size}");
        if zeroed {
            assert_zero(address, size.min(SURE));
        }
        if size > SURE {
            // Too much to remember or to touch: it was given, and it is freed.
            self.allocator.free(heap, address, Call::Free);
            return None;
        }
        let (kind, room, home) = self.kind(address, usable, size);
        let site = (kind.tier != Tier::ZeroSize).then_some(site);
        self.shadow.born(address, (usable, room), (kind, home), site);
        Some(address)
    }

    /// A slot's partition and size; a large block's partition and class. And the bytes of either,
    /// and the slab that contains the slot, or the large block.
    fn kind(
        &mut self,
        address: usize,
        usable: usize,
        request: usize,
    ) -> (Kind, usize, (usize, usize)) {
        if let Some(block) = self.allocator.large().units().block_at(address) {
            let bytes = request.next_multiple_of(self.fake.page_size());
            // A block that grew may be in an extent for larger ones. In the secure build what lies
            // before a block counts.
            let class = block.class();
            assert!(class >= large_class(bytes.max((128 << 10) + 1)));
            let kind = Kind { tier: Tier::Large, partition: block.partition().number(), class };
            let room = usable.max(ZERO_SIZE_STEP);
            return (kind, room, (address & !(UNIT - 1), address + room));
        }
        if usable == 0 {
            let kind = Kind { tier: Tier::ZeroSize, partition: 0, class: 0 };
            return (kind, ZERO_SIZE_STEP, (address, address + ZERO_SIZE_STEP));
        }
        let known = |slabs: &BTreeMap<usize, (usize, usize, usize)>| {
            let (&start, &(end, partition, room)) = slabs.range(..=address).next_back()?;
            (address < end).then_some((start, end, partition, room))
        };
        if known(&self.slabs).is_none() {
            let slabs = &mut self.slabs;
            self.allocator.for_each_slab(|slab| {
                let end = slab.base() + slab.span();
                slabs.insert(slab.base(), (end, slab.partition().number(), slab.size()));
            });
        }
        let (start, end, partition, room) = known(&self.slabs).expect("this slot's slab");
        let tier = if room <= SMALL_MAX { Tier::Small } else { Tier::Medium };
        (Kind { tier, partition, class: room }, room, (start, end))
    }

    fn usable(&self, address: usize) -> usize {
        let usable = self.allocator.requests().usable_size(address, Call::UsableSize);
        usable.unwrap_or_else(|| panic!("{address:#x} is live: {:?}", self.fake.take_reports()))
    }

    fn free(&mut self, who: usize, which: usize) {
        let Some(block) = self.shadow.pick(which) else { return };
        assert_eq!(self.usable(block.address), block.usable, "usable sizes stay");
        block.verify(block.address, block.usable);
        let heap = self.heap(who);
        self.allocator.free(heap, block.address, Call::Free);
        self.shadow.died(block.address);
    }

    fn reallocate(&mut self, who: usize, block: Block, size: usize, site: usize) {
        let reasonable = size <= SURE && self.shadow.live_bytes < LIVE_MAX;
        if !reasonable && size <= isize::MAX as usize && size > block.usable {
            return;
        }
        let heap = self.heap(who);
        match self.allocator.resize(heap, block.address, size, code_address(site)) {
            Resized::Misused => panic!("{block:?} is live: {:?}", self.fake.take_reports()),
            Resized::NoMemory => {
                assert!(!(self.must_succeed && reasonable), "no memory for {size} bytes");
                assert!(size > block.usable, "what is there already needs no memory");
                self.refused += 1;
                assert_eq!(self.usable(block.address), block.usable);
                block.verify(block.address, block.usable);
            }
            Resized::At(to) => {
                assert!(size <= isize::MAX as usize);
                assert!(to.is_multiple_of(16));
                let usable = self.usable(to);
                assert!(usable >= size, "{usable} usable bytes for a request of {size}");
                block.verify(to, block.usable.min(size));
                if to == block.address {
                    let room = match block.tier {
                        Tier::Large => usable.max(ZERO_SIZE_STEP),
                        _ => block.room,
                    };
                    self.shadow.resized(to, (usable, room));
                    return;
                }
                assert_ne!(size, block.usable, "realloc to the usable size must not move");
                let (kind, room, home) = self.kind(to, usable, size);
                // A large block whose pages move stays with its own partition, whichever site asks.
                let pages_moved = block.tier == Tier::Large && kind.tier == Tier::Large;
                let site = (!pages_moved).then_some(site);
                self.shadow.died(block.address);
                self.shadow.born(to, (usable, room), (kind, home), site);
            }
        }
    }

    /// Gives back what is free, or idle. Other threads go on with the script at the barriers.
    fn trim(&mut self) {
        let heap = self.heap(self.steps);
        let allocator = self.allocator.clone();
        if self.sweeping {
            // The secure build has another barrier before, to empty quarantines.
            let swept = allocator.sweeper().sweep(Which::Free);
            assert!(swept.is_none() || cfg!(feature = "secure-light"), "{swept:?}");
            return;
        }
        let kind = self.steps % 3;
        self.sweeping = true;
        let world = Playing(self);
        self.fake.at_barrier(move || {
            // SAFETY: between here and `at_barrier` below no other code uses the world.
            unsafe { &mut *world.get() }.meanwhile()
        });
        let ended = catch_unwind(AssertUnwindSafe(|| match kind {
            0 => _ = allocator.sweeper().purge(Some(heap)),
            1 => _ = allocator.sweeper().sweep(Which::Idle).expect("no other thread sweeps"),
            _ => _ = allocator.sweeper().sweep(Which::Free).expect("no other thread sweeps"),
        }));
        self.sweeping = false;
        self.fake.at_barrier(|| true);
        match ended.map_err(|gone: Box<dyn Any + Send>| gone.downcast::<Forked>()) {
            Ok(()) => {}
            Err(Ok(forked)) => self.fork(forked.who, forked.torn),
            Err(Err(panic)) => resume_unwind(panic),
        }
    }

    /// What happens at a barrier; returns true if the system has one.
    fn meanwhile(&mut self) -> bool {
        self.barriers += 1;
        // Few at first, so that the sweep sees something of the script, too.
        for _ in 0..[0, 1, 2, 9][self.barriers % 4] {
            match self.script.pop_front() {
                // In the child there is no thread that sweeps.
                Some(Op::Fork { who, torn }) => resume_unwind(Box::new(Forked { who, torn })),
                Some(op) => self.step(op),
                None => break,
            }
        }
        !self.barriers.is_multiple_of(31)
    }

    fn fork(&mut self, who: usize, torn: u8) {
        let mine = self.heap(who);
        for (number, heap) in self.heaps.iter().enumerate() {
            if torn >> number & 1 != 0 && !core::ptr::eq(*heap, mine) {
                // That thread is gone and will never drop its guard.
                core::mem::forget(heap.enter());
            }
        }
        self.allocator.compactor().prepare_fork();
        assert_eq!(self.fake.shared_bytes(), 0, "a child that shares pages with its parent");
        self.allocator.after_fork_in_child(mine);
        self.heaps.retain(|heap| core::ptr::eq(*heap, mine));
        self.idle = 0;
    }

    /// Compares everything: the allocator's own invariants, its figures, and all contents.
    pub fn check(&self) {
        // What is held is neither free nor live.
        let checked = if self.sweeping { Ok(()) } else { self.allocator.check() };
        if let Err(violation) = checked {
            panic!("after {} steps: {violation:?}", self.steps);
        }
        let figures = snapshot(&self.allocator);
        let (blocks, bytes) = self.shadow.counted();
        assert_eq!(figures.live_blocks, blocks, "live blocks");
        assert_eq!(figures.live_bytes(), bytes, "live bytes");
        assert_eq!(figures.threads, self.heaps.len() + self.idle, "threads");
        if self.undisturbed {
            assert_eq!(self.fake.collisions(), 0, "nothing is in the way of any mapping");
        }
        self.shadow.verify_all();
    }

    /// Frees everything.
    pub fn free_all(&mut self) {
        while !self.shadow.is_empty() {
            self.free(self.shadow.len(), 0);
        }
    }

    /// Frees everything, and compares again.
    pub fn finish(&mut self) {
        self.free_all();
        self.check();
        assert_eq!(self.fake.take_reports(), [] as [String; 0]);
    }
}

/// A fork in the middle of a sweep.
struct Forked {
    who: usize,
    torn: u8,
}

/// The world, in a sweep.
struct Playing(*mut World);

impl Playing {
    fn get(&self) -> *mut World {
        self.0
    }
}

// SAFETY: the fake calls what it is given on the thread that sweeps, and that is the world's.
unsafe impl Send for Playing {}

/// An address as a call site has one.
pub fn code_address(site: usize) -> usize {
    0x5555_5555_4000 + site * 0x2B5 + site * site
}

fn assert_zero(address: usize, len: usize) {
    static ZEROS: [u8; 4096] = [0; 4096];
    for (number, chunk) in bytes_of(address, len).chunks(ZEROS.len()).enumerate() {
        assert!(*chunk == ZEROS[..chunk.len()], "calloc: chunk {number} is not zero");
    }
}
