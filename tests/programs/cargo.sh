# cargo and rustc build a small crate without a network; rustc brings its own allocator.
# needs: cargo cargo
# needs: cc gcc
# timeout: 300
mkdir -p small/src
cat >small/Cargo.toml <<'T'
[package]
name = "small"
version = "0.1.0"
edition = "2021"

[workspace]
T
cat >small/src/lib.rs <<'R'
use std::collections::BTreeMap;
pub fn count(text: &str) -> BTreeMap<char, usize> {
    text.chars().fold(BTreeMap::new(), |mut m, c| {
        *m.entry(c).or_default() += 1;
        m
    })
}
#[test]
fn counts() {
    assert_eq!(count("aab")[&'a'], 2);
}
R
cat >small/src/main.rs <<'R'
fn main() {
    let text: String = (0..50_000).map(|i: u32| char::from(b'a' + (i * i % 26) as u8)).collect();
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let text = text.clone();
            std::thread::spawn(move || small::count(&text[n * 100..]).len())
        })
        .collect();
    println!("{:?}", small::count(&text));
    println!("{:?}", threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>());
}
R
cd small
cargo build --offline --quiet
./target/debug/small
cargo test --offline --quiet --lib 2>/dev/null | grep -c 'test result: ok'
