//! A program whose whole heap is an array: as a kernel has it, or firmware. Nothing is ever asked
//! of the system.
//!
//! `cargo run -p toft-arena --example static_arena`

use std::cell::UnsafeCell;
use toft_arena::source::Once;
use toft_arena::{Anywhere, Packed, Shared, Spin};

const SIZE: usize = 1 << 20;

/// Memory that only the arena uses.
#[repr(align(4096))]
struct Memory(UnsafeCell<[u8; SIZE]>);

// SAFETY: only the arena, which has a lock, uses what is inside.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; SIZE]));

// SAFETY: the array is this arena's alone, is zero, and stays.
#[global_allocator]
static ARENA: Shared<Packed, Once, Spin> =
    Shared::new(Anywhere, unsafe { Once::zeroed(MEMORY.0.get().cast(), SIZE) }, Spin::new());

fn main() {
    let words: Vec<String> = (0..1000).map(|number| format!("word {number}")).collect();
    let inside = MEMORY.0.get().addr()..MEMORY.0.get().addr() + SIZE;
    assert!(words.iter().all(|word| inside.contains(&word.as_ptr().addr())));
    let survey = ARENA.survey().expect("nobody else has the lock");
    println!("{} words in an arena of {} bytes: {survey:?}", words.len(), SIZE);
    drop(words);
    let mut large = Vec::<u8>::new();
    assert!(large.try_reserve(2 * SIZE).is_err(), "more than there is");
    ARENA.check().expect("nobody else has the lock").expect("sound");
}
