//! A program that names nothing of Toft but its allocator: `cargo run -p toft --example smallest`.

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

fn main() {
    println!("{}", "toft".repeat(1000).len());
}
