//! A program whose whole heap is a static array, as a kernel or firmware has it. Nothing is ever
//! requested from the system.
//!
//! `cargo run -p toft-arena --example static_arena`

use toft_arena::source::{Array, Once};
use toft_arena::{Anywhere, Fast, Shared, Spin};

const SIZE: usize = 1 << 20;
toft_arena::array!(Memory, SIZE);

#[global_allocator]
static ARENA: Shared<Fast, Once<Memory>, Spin> = Shared::new(Anywhere, Once::array(), Spin::new());

fn main() {
    let words: Vec<String> = (0..1000).map(|number| format!("word {number}")).collect();
    let memory = Memory::bytes();
    let start = std::ptr::from_ref(memory).addr();
    let inside = start..start + size_of_val(memory);
    assert!(words.iter().all(|word| inside.contains(&word.as_ptr().addr())));
    let survey = ARENA.survey().expect("no other thread has the lock");
    println!("{} words in an arena of {SIZE} bytes: {survey:?}", words.len());
    drop(words);
    let mut large = Vec::<u8>::new();
    assert!(large.try_reserve(2 * SIZE).is_err(), "more than there is");
    ARENA.check().expect("no other thread has the lock").expect("sound");
}
