//! The shadow: what the program has been given, told from nothing but the allocator's answers.
//!
//! Every block is filled with a separate pattern from end to end of its usable size. So a byte that
//! the allocator, or another block, writes into it shows. Every address that was ever handed out is
//! remembered with its kind (law 1).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use toft_core::thread::PARTITIONS_FIRST;

/// A live block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub address: usize,
    pub usable: usize,
    /// Bytes of its slot: more than are usable, where the requested size is kept exactly.
    pub room: usize,
    pub tier: Tier,
    /// The slab that contains it, or the large block itself: start and end.
    pub home: (usize, usize),
    /// What the pattern is made from.
    token: u64,
    /// Its place in `order`.
    place: usize,
}

/// A block that was freed, and whose address was not handed out again.
#[derive(Clone, Copy, Debug)]
pub struct Freed {
    pub address: usize,
    pub usable: usize,
    pub room: usize,
    pub tier: Tier,
}

/// Where a block lies. A large block may be as small as a page, for its alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    Small,
    Medium,
    Large,
    /// Nowhere: a zero-size block.
    ZeroSize,
}

/// Where extents of large blocks begin, and in the secure build blocks less than that after it.
pub const UNIT: usize = 64 << 10;
/// Addresses between two zero-size blocks.
pub const ZERO_SIZE_STEP: usize = 16;

/// Whose an address is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub tier: Tier,
    pub partition: usize,
    /// A slot's size; of a large block the class.
    pub class: usize,
}

#[derive(Debug, Default)]
pub struct Shadow {
    live: BTreeMap<usize, Block>,
    /// Addresses of live blocks in an order that stays put, for picking one.
    order: Vec<usize>,
    pub live_bytes: usize,
    freed: Vec<Freed>,
    /// Every address that was ever handed out.
    ever: BTreeSet<usize>,
    /// Law 1: by a slab's first address, or a large block's.
    kinds: BTreeMap<usize, (usize, Kind)>,
    /// The partition of each call site.
    partitions: HashMap<usize, usize>,
    tokens: u64,
    /// Whether the number of partitions in use grows.
    pub by_demand: bool,
}

/// The bytes of a block, as the program may use them.
pub fn bytes_of(address: usize, len: usize) -> &'static mut [u8] {
    let start: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: callers name live blocks, or pages of the fake that are mapped, one at a time.
    unsafe { core::slice::from_raw_parts_mut(start, len) }
}

/// The positions of a block that carry the pattern: all of a small one, both ends and samples of
/// every page of a larger one.
fn positions(len: usize) -> impl Iterator<Item = usize> {
    const EDGE: usize = 64;
    let dense = if len <= 512 { len } else { EDGE };
    (0..dense).chain((dense..len).step_by(509)).chain(len.saturating_sub(EDGE).max(dense)..len)
}

fn pattern(token: u64, position: usize) -> u8 {
    let mixed = (token ^ position as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // Never zero: memory that was given back and mapped again must not pass for the pattern.
    (mixed >> 56) as u8 | 1
}

impl Block {
    fn fill(&self) {
        let bytes = bytes_of(self.address, self.usable);
        for position in positions(self.usable) {
            bytes[position] = pattern(self.token, position);
        }
    }

    /// Verifies the first `len` bytes, wherever they are now.
    pub fn verify(&self, address: usize, len: usize) {
        let bytes = bytes_of(address, len);
        for position in positions(self.usable).take_while(|&position| position < len) {
            assert_eq!(
                bytes[position],
                pattern(self.token, position),
                "byte {position} of the {}-byte block at {:#x} has changed",
                self.usable,
                self.address
            );
        }
    }
}

impl Shadow {
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Live blocks and their bytes, as figures count them: zero-size ones are nowhere.
    pub fn counted(&self) -> (usize, usize) {
        let counted = self.live.values().filter(|block| block.tier != Tier::ZeroSize);
        counted.fold((0, 0), |(blocks, bytes), block| {
            let more = if block.tier == Tier::Large { block.usable } else { block.room };
            (blocks + 1, bytes + more)
        })
    }

    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// A live block, by any number.
    pub fn pick(&self, which: usize) -> Option<Block> {
        let address = self.order.get(which.checked_rem(self.order.len())?)?;
        self.live.get(address).copied()
    }

    /// A freed block whose address was not handed out again, by any number.
    pub fn pick_freed(&self, which: usize) -> Option<Freed> {
        self.freed.get(which.checked_rem(self.freed.len())?).copied()
    }

    /// Whether an address was ever handed out.
    pub fn was_handed_out(&self, address: usize) -> bool {
        self.ever.contains(&address)
    }

    /// The allocator has handed out `address`, to a call site if the partition follows from it.
    pub fn born(
        &mut self,
        address: usize,
        (usable, room): (usize, usize),
        (kind, home): (Kind, (usize, usize)),
        site: Option<usize>,
    ) {
        self.check_apart(address, room);
        self.check_kind(address, home, kind);
        if let Some(site) = site {
            let partition = *self.partitions.entry(site).or_insert(kind.partition);
            // Where partitions are in use by demand, twice as many mean one more bit of the number.
            // A thread learns that later than another.
            let both = partition & kind.partition;
            let longer = both == partition || both == kind.partition;
            let changed = (partition ^ kind.partition) & (PARTITIONS_FIRST - 1) != 0;
            let may = self.by_demand && longer && !changed;
            assert!(
                partition == kind.partition || may,
                "site {site} has changed its partition: {partition}, {}",
                kind.partition
            );
        }
        self.tokens += 1;
        let place = self.order.len();
        let (tier, token) = (kind.tier, self.tokens);
        let block = Block { address, usable, room, tier, home, token, place };
        block.fill();
        self.live.insert(address, block);
        self.order.push(address);
        self.ever.insert(address);
        self.live_bytes += room;
        self.freed.retain(|freed| {
            // In the secure build an extent has blocks at other places than before.
            let same = freed.tier == Tier::Large
                && kind.tier == Tier::Large
                && freed.address / UNIT == address / UNIT;
            !same && (freed.address + freed.room <= address || address + room <= freed.address)
        });
    }

    /// The program gives a block back, or it has moved away.
    pub fn died(&mut self, address: usize) {
        let block = self.live.remove(&address).expect("the shadow knows the block");
        // The order decides which block a later operation picks, so it must not depend on
        // addresses.
        self.order.swap_remove(block.place);
        if let Some(moved) = self.order.get(block.place) {
            self.live.get_mut(moved).expect("the shadow knows the block").place = block.place;
        }
        self.live_bytes -= block.room;
        let Block { usable, room, tier, .. } = block;
        self.freed.push(Freed { address, usable, room, tier });
        if self.freed.len() > 100 {
            self.freed.remove(0);
        }
    }

    /// A block has another usable size where it is.
    pub fn resized(&mut self, address: usize, (usable, room): (usize, usize)) {
        let old = self.live.remove(&address).expect("the shadow knows the block");
        self.live_bytes = self.live_bytes - old.room + room;
        self.check_apart(address, room);
        self.tokens += 1;
        let block = Block { usable, room, token: self.tokens, ..old };
        block.fill();
        self.live.insert(address, block);
    }

    /// No two live blocks share a byte.
    fn check_apart(&self, address: usize, usable: usize) {
        let end = address.checked_add(usable).expect("a block ends within the address space");
        if let Some((_, before)) = self.live.range(..end).next_back() {
            assert!(
                before.address + before.room <= address,
                "{usable} bytes at {address:#x} overlap the {}-byte block at {:#x}",
                before.usable,
                before.address
            );
        }
    }

    /// Law 1: an address never changes its partition and class.
    fn check_kind(&mut self, address: usize, (start, end): (usize, usize), kind: Kind) {
        if let Some((&known_start, &(known_end, known))) = self.kinds.range(..end).next_back()
            && known_end > start
        {
            assert_eq!((known_start, known), (start, kind), "{address:#x} has changed its kind");
        }
        let entry = self.kinds.entry(start).or_insert((end, kind));
        entry.0 = entry.0.max(end);
    }

    /// Verifies the contents of every live block.
    pub fn verify_all(&self) {
        for block in self.live.values() {
            block.verify(block.address, block.usable);
        }
    }
}
