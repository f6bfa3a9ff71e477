//! An arena for each request of a server: what a request allocates is gone at once when it ends,
//! whatever it forgot, and none takes more than its share.
//!
//! `cargo run -p toft-arena --features allocator-api2 --example per_request`

use allocator_api2::vec::Vec;
use toft_arena::shape::Packed;
use toft_arena::source::Manual;
use toft_arena::{Anywhere, OneThread, Shared};

type Request<'a> = &'a Shared<Packed, Manual, OneThread>;

/// Handles one request in its own memory. `None`: the request needed more.
fn handle(arena: Request<'_>, size: usize) -> Option<usize> {
    let mut words = Vec::new_in(arena);
    words.try_reserve(size).ok()?;
    words.extend((0..size).map(|number| number as u64));
    // Forgotten, as a request that is cancelled may leave it.
    let sum = words.iter().sum::<u64>() as usize;
    std::mem::forget(words);
    Some(sum)
}

fn main() {
    const SHARE: usize = 64 << 10;
    let mut memory = vec![0_u8; SHARE];
    let mut arena = Shared::new(Anywhere, Manual, OneThread::new());
    // SAFETY: the vector outlives the arena, and the program uses it nowhere else.
    unsafe { arena.get_mut().heap_mut().claim(memory.as_mut_ptr(), SHARE) }.expect("large enough");
    let (mut served, mut refused) = (0, 0);
    for request in 0..1000 {
        match handle(&arena, request * 10) {
            Some(_) => served += 1,
            None => refused += 1,
        }
        // SAFETY: no block of the request is used any more.
        unsafe { arena.get_mut().heap_mut().reset() };
        assert_eq!(arena.survey().map(|survey| survey.live_blocks), Some(0));
    }
    println!("{served} requests served in {SHARE} bytes, {refused} were too large");
    assert!(served > 800 && refused > 100);
}
