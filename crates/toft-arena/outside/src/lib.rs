//! Firmware whose heap is an array, for a processor that has no compare-exchange: a lock that
//! switches interrupts off.
#![no_std]

use toft_arena::source::Once;
use toft_arena::{Anywhere, Interrupts, NoInterrupts, Shared, Small, Unlocked};

toft_arena::array!(Memory, 16 << 10);

/// Where this is only built, there are none to switch off.
pub struct None;

// SAFETY: nothing is ever interrupted.
unsafe impl Interrupts for None {
    type State = ();
    fn disable() {}
    fn restore((): ()) {}
}

// SAFETY: no other arena has the array, and interrupts are off while the arena is used.
#[global_allocator]
static ARENA: Shared<Small, Once<Memory>, NoInterrupts<None, Unlocked>> =
    Shared::new(Anywhere, unsafe { Once::array() }, NoInterrupts::new(unsafe { Unlocked::new() }));

extern crate alloc;

/// Something that allocates.
pub fn words(count: usize) -> alloc::vec::Vec<alloc::string::String> {
    (0..count).map(|number| alloc::format!("word {number}")).collect()
}
