//! This program runs on the engine: it is its global allocator.

use toft_small_bins::{Allocator, variant::Hysteresis};

static HEAP: Allocator<Hysteresis> = Allocator::new();
#[global_allocator]
static GLOBAL: &Allocator<Hysteresis> = &HEAP;

#[test]
fn the_global_allocator_is_the_engine() {
    let text = "x".repeat(100);
    // SAFETY: a live block.
    assert_eq!(unsafe { GLOBAL.usable_size(text.as_ptr().cast_mut()) }, 104);
    let threads = [1, 2, 3].map(|n| std::thread::spawn(move || vec![n; 1000 * n].len()));
    assert_eq!(threads.map(|thread| thread.join().unwrap()), [1000, 2000, 3000]);
}
