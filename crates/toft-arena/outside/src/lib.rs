//! Firmware whose heap is an array, for a processor that has no compare-exchange: a lock that
//! switches interrupts off.
#![no_std]

use core::cell::UnsafeCell;
use toft_arena::source::Once;
use toft_arena::{Anywhere, Interrupts, NoInterrupts, Packed, Shared, Unlocked};

const SIZE: usize = 16 << 10;

/// Memory that only the arena uses.
#[repr(align(4096))]
struct Memory(UnsafeCell<[u8; SIZE]>);

// SAFETY: only the arena, which has a lock, uses what is inside.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; SIZE]));

/// Where this is only built, there are none to switch off.
pub struct None;

// SAFETY: nothing is ever interrupted.
unsafe impl Interrupts for None {
    type State = ();
    fn disable() {}
    fn restore((): ()) {}
}

// SAFETY: the array is this arena's alone, is zero, and stays.
#[global_allocator]
static ARENA: Shared<Packed, Once, NoInterrupts<None, Unlocked>> = Shared::new(
    Anywhere,
    unsafe { Once::zeroed(MEMORY.0.get().cast(), SIZE) },
    NoInterrupts::new(unsafe { Unlocked::new() }),
);

extern crate alloc;

/// Something that allocates.
pub fn words(count: usize) -> alloc::vec::Vec<alloc::string::String> {
    (0..count).map(|number| alloc::format!("word {number}")).collect()
}
