//! A malloc of arenas: each thread has one, which serves it without a lock. A block that another
//! thread frees goes onto a stack of its arena, which the owner empties with its next call. The
//! arena of a thread that has ended is the next one's.
//!
//! Every arena has a slot of one reservation of address space, so an address says whose it is.

use std::alloc::Layout;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::marker::PhantomData;
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, OnceLock};
use std::thread::LocalKey;
use toft_arena::source::{Pages, Reserved, SystemPages};
use toft_arena::{Anywhere, Arena, Shape};

/// The address space of an arena.
const SLOT: usize = 1 << 28;
/// The most threads that there may be at once.
const SLOTS: usize = 64;
/// What every block is aligned to.
const ALIGN: usize = 16;

/// How much of the free memory at its end an arena keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// What the source keeps when nothing is said: hysteresis.
    Ordinary,
    /// An eighth of what it has.
    Little,
}

/// An allocator: a shape, what it keeps, and its own statics, so that several may be in a process.
pub(super) trait Kind: Sized + 'static {
    type Shape: Shape<Space = Anywhere>;
    const KEEP: Keep;
    fn local() -> &'static LocalKey<Local<Self::Shape>>;
    fn shared() -> &'static Shared<Self::Shape>;
}

/// What a thread knows.
pub(super) struct Local<S: Shape> {
    /// The thread's arena; null before its first block.
    mine: Cell<*const Own<S>>,
    /// Where its slot begins; no block's address when it has none.
    start: Cell<usize>,
}

/// What all threads know.
pub(super) struct Shared<S: Shape> {
    /// Where the slots begin; 0 where there is not so much address space.
    start: OnceLock<usize>,
    /// Of each slot its arena, which is never dropped. Written once (`Release`), before any block
    /// of the slot is handed out; the freeing thread reads it (`Acquire`).
    owners: [AtomicPtr<Own<S>>; SLOTS],
    slots: Mutex<Slots>,
}

struct Slots {
    /// Those whose threads have ended.
    idle: Vec<usize>,
    /// How many have ever been used.
    used: usize,
}

/// What belongs to a thread.
pub(super) struct Own<S: Shape> {
    /// Used only by the thread that has this in `mine`.
    arena: UnsafeCell<Arena<S, Reserved<Slot>>>,
    /// The first of the blocks that others have freed; each has the address of the next in its
    /// first word. Others push with `Release`, the owner takes all with `Acquire`.
    remote: AtomicPtr<u8>,
}

impl<S: Shape> Local<S> {
    pub(super) const fn new() -> Self {
        Self { mine: Cell::new(null()), start: Cell::new(usize::MAX) }
    }
}

impl<S: Shape> Shared<S> {
    pub(super) const fn new() -> Self {
        Self {
            start: OnceLock::new(),
            owners: [const { AtomicPtr::new(null_mut()) }; SLOTS],
            slots: Mutex::new(Slots { idle: Vec::new(), used: 0 }),
        }
    }

    fn start(&self) -> Option<usize> {
        let reserve =
            || SystemPages.reserve(SLOTS * SLOT).map_or(0, |start| start.expose_provenance());
        Some(*self.start.get_or_init(reserve)).filter(|start| *start != 0)
    }
}

/// The pages of a slot, which begins at this address.
#[derive(Debug)]
struct Slot(usize);

// SAFETY: 1. a slot is given to one arena, which is never dropped. 2. as `SystemPages`.
unsafe impl Pages for Slot {
    const PAGE: usize = SystemPages::PAGE;
    fn reserve(&mut self, _: usize) -> Option<*mut u8> {
        Some(std::ptr::with_exposed_provenance_mut(self.0))
    }
    unsafe fn commit(&mut self, start: *mut u8, size: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe { SystemPages.commit(start, size) }
    }
    unsafe fn decommit(&mut self, start: *mut u8, size: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe { SystemPages.decommit(start, size) }
    }
    unsafe fn release(&mut self, _: *mut u8, _: usize) {}
}

thread_local! {
    static LEAVES: Leaves = const { Leaves(RefCell::new(Vec::new())) };
}

/// What is done when a thread ends, for each allocator that it has used: a function, and the
/// thread's slot.
struct Leaves(RefCell<Vec<Leave>>);

type Leave = (fn(usize), usize);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|(leave, slot)| leave(slot));
    }
}

/// The malloc of a kind.
pub(super) struct Arenas<K>(PhantomData<K>);

impl<K: Kind> Arenas<K> {
    #[inline(never)]
    pub(super) fn malloc(size: usize) -> *mut u8 {
        Self::allocate(size, ALIGN, false)
    }

    #[inline(never)]
    pub(super) fn calloc(size: usize) -> *mut u8 {
        Self::allocate(size, ALIGN, true)
    }

    #[inline(never)]
    pub(super) fn aligned(align: usize, size: usize) -> *mut u8 {
        Self::allocate(size, align.max(ALIGN), false)
    }

    #[inline(always)]
    fn allocate(size: usize, align: usize, zeroed: bool) -> *mut u8 {
        let Ok(layout) = Layout::from_size_align(size, align) else { return null_mut() };
        let Some(own) = Self::mine() else { return null_mut() };
        if !own.remote.load(Relaxed).is_null() {
            own.collect();
        }
        // SAFETY: this thread's alone, and no other reference to it is alive.
        let arena = unsafe { &mut *own.arena.get() };
        let block = if zeroed { arena.allocate_zeroed(layout) } else { arena.allocate(layout) };
        block.map_or(null_mut(), NonNull::as_ptr)
    }

    /// # Safety
    /// 1. As C's `free`.
    #[inline(never)]
    pub(super) unsafe fn free(block: *mut u8) {
        let Some(block) = NonNull::new(block) else { return };
        let mine = K::local().with(|local| {
            let near = block.addr().get().wrapping_sub(local.start.get()) < SLOT;
            if near { local.mine.get() } else { null() }
        });
        // SAFETY: a block of this slot is of this thread's arena, which is no other thread's; live
        // by 1.
        unsafe {
            match mine.as_ref() {
                Some(own) => (*own.arena.get()).deallocate(block),
                None => Self::free_remote(block),
            }
        }
    }

    /// # Safety
    /// 1. A live block of another thread's.
    #[cold]
    #[inline(never)]
    unsafe fn free_remote(block: NonNull<u8>) {
        let shared = K::shared();
        let slot = (block.addr().get() - shared.start().unwrap_or(0)) / SLOT;
        // SAFETY: the slot of a block has an owner, which is never dropped; the block has room for
        // a pointer, and is not in use until the owner takes it.
        unsafe {
            let owner = &*shared.owners[slot].load(Acquire);
            let mut first = owner.remote.load(Relaxed);
            loop {
                block.cast::<*mut u8>().write(first);
                let new = block.as_ptr();
                match owner.remote.compare_exchange_weak(first, new, Release, Relaxed) {
                    Ok(_) => return,
                    Err(now) => first = now,
                }
            }
        }
    }

    /// # Safety
    /// 1. As C's `realloc`; and the block is this thread's, or the process ends.
    #[inline(never)]
    pub(super) unsafe fn realloc(block: *mut u8, size: usize) -> *mut u8 {
        let Some(block) = NonNull::new(block) else { return Self::malloc(size) };
        let Some(own) = Self::mine() else { return null_mut() };
        let start = K::local().with(|local| local.start.get());
        if block.addr().get().wrapping_sub(start) >= SLOT {
            // Its owner may write to its tag now.
            eprintln!("toft-bench: this malloc does not resize blocks of other threads");
            std::process::abort();
        }
        // SAFETY: this thread's arena, and a live block of it (by 1).
        unsafe {
            let arena = &mut *own.arena.get();
            let usable = arena.heap().usable_size(block);
            let layout = Layout::from_size_align_unchecked(usable, ALIGN);
            arena.reallocate(block, layout, size).map_or(null_mut(), NonNull::as_ptr)
        }
    }

    pub(super) fn purge() {
        if let Some(own) = Self::mine() {
            own.collect();
            // SAFETY: this thread's alone.
            unsafe { (*own.arena.get()).trim() };
        }
    }

    /// Whether this thread's arena is sound, and how many blocks of it live.
    #[cfg(test)]
    pub(super) fn live() -> usize {
        let own = Self::mine().expect("an arena");
        own.collect();
        // SAFETY: this thread's alone.
        let arena = unsafe { &*own.arena.get() };
        arena.check().expect("a sound arena");
        arena.survey().live_blocks
    }

    #[inline(always)]
    fn mine() -> Option<&'static Own<K::Shape>> {
        let mine = K::local().with(|local| local.mine.get());
        // SAFETY: `born` set it for this thread, and it is never dropped.
        unsafe { mine.as_ref() }.or_else(Self::born)
    }

    /// Gives this thread an arena: one that another has left, or a new one.
    #[cold]
    #[inline(never)]
    fn born() -> Option<&'static Own<K::Shape>> {
        let shared = K::shared();
        let begins = shared.start()?;
        let mut slots = shared.slots.lock().ok()?;
        let slot = match slots.idle.pop() {
            Some(slot) => slot,
            None if slots.used < SLOTS => {
                slots.used += 1;
                slots.used - 1
            }
            None => return None,
        };
        drop(slots);
        let start = begins + slot * SLOT;
        let owner = &shared.owners[slot];
        if owner.load(Acquire).is_null() {
            let source = Reserved::new(Slot(start), SLOT);
            let source = match K::KEEP {
                Keep::Ordinary => source,
                Keep::Little => source.with_steps(Slot::PAGE, 0),
            };
            let arena = UnsafeCell::new(Arena::new(Anywhere, source));
            let own = Box::new(Own { arena, remote: AtomicPtr::new(null_mut()) });
            owner.store(Box::into_raw(own), Release);
        }
        let mine = owner.load(Acquire);
        K::local().with(|local| {
            local.mine.set(mine);
            local.start.set(start);
        });
        let _ = LEAVES.try_with(|leaves| leaves.0.borrow_mut().push((Self::leave, slot)));
        // SAFETY: it is never dropped.
        unsafe { mine.as_ref() }
    }

    /// The thread that has this slot ends.
    fn leave(slot: usize) {
        K::local().with(|local| {
            local.mine.set(null());
            local.start.set(usize::MAX);
        });
        if let Ok(mut slots) = K::shared().slots.lock() {
            slots.idle.push(slot);
        }
    }
}

impl<S: Shape> Own<S> {
    /// Frees what others have freed. Only by the owner.
    #[cold]
    #[inline(never)]
    fn collect(&self) {
        let mut block = self.remote.swap(null_mut(), Acquire);
        while let Some(first) = NonNull::new(block) {
            // SAFETY: each was pushed once, by the thread that freed it, with the next in its first
            // word. The arena is this thread's alone.
            unsafe {
                block = first.cast::<*mut u8>().read();
                (*self.arena.get()).deallocate(first);
            }
        }
    }
}
