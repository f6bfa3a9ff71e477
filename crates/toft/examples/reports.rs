//! What the tests of reports in Rust programs run: allocates, and ends as its word says.
//!
//! ```text
//! reports nothing | leak | twice | once | exit | abort
//! ```

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

/// Frees a block, and again if `again` is set.
#[inline(never)]
fn inner(block: *mut u8, again: bool) {
    let layout = Layout::new::<[u8; 100]>();
    // SAFETY: allocated with this layout. The second call is the misuse that is to be reported.
    unsafe {
        ALLOCATOR.dealloc(block, layout);
        if again {
            ALLOCATOR.dealloc(block, layout);
        }
    }
    black_box(());
}

#[inline(never)]
fn outer(block: *mut u8, again: bool) {
    inner(block, again);
    black_box(());
}

#[inline(never)]
fn lose() {
    std::mem::forget(black_box(vec![1u8; 1000]));
}

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    let kept: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    match word.as_str() {
        "leak" => (0..4).for_each(|_| lose()),
        "twice" | "once" => {
            let layout = Layout::new::<[u8; 100]>();
            // SAFETY: of 100 bytes.
            outer(black_box(unsafe { ALLOCATOR.alloc(layout) }), word == "twice");
        }
        "exit" => std::process::exit(3),
        "abort" => std::process::abort(),
        _ => {}
    }
    // Other threads are no reason to be silent, or to speak twice.
    std::thread::spawn(move || drop(black_box(kept))).join().unwrap();
}
