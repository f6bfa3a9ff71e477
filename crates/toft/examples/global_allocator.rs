//! Toft as the allocator of a Rust program: `cargo run -p toft --example global_allocator`.
//!
//! Builds a little index from several threads, and then says where its memory is.

use std::collections::HashMap;

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

fn main() {
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            std::thread::spawn(move || {
                let mut index: HashMap<String, Vec<usize>> = HashMap::new();
                for i in 0..10_000 {
                    index.entry(format!("word {}", i % 1000)).or_default().push(i * thread);
                }
                index
            })
        })
        .collect();
    let indexes: Vec<_> =
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    let words: usize = indexes.iter().map(HashMap::len).sum();
    let figures = toft::statistics();
    println!(
        "{words} words; {} live blocks in {} KiB, {} KiB mapped, {} threads",
        figures.live_blocks,
        figures.live_bytes >> 10,
        figures.mapped_bytes >> 10,
        figures.threads,
    );
}
