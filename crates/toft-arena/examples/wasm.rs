//! A WebAssembly module whose global allocator is an arena over its linear memory. Node calls it
//! (`wasm.mjs`); on other machines it is empty.
//!
//! ```sh
//! cargo build --release -p toft-arena --target wasm32-unknown-unknown --example wasm
//! node crates/toft-arena/examples/wasm.mjs target/wasm32-unknown-unknown/release/examples/wasm.wasm
//! ```

#[cfg(target_arch = "wasm32")]
mod module {
    use std::collections::BTreeMap;
    use toft_arena::{Small, Wasm};

    #[global_allocator]
    static ARENA: Wasm<Small> = Wasm::wasm();

    /// Makes `count` words, and returns how many bytes they have together.
    #[unsafe(no_mangle)]
    pub extern "C" fn words(count: u32) -> u32 {
        let words: BTreeMap<u32, String> =
            (0..count).map(|number| (number, format!("word {number}"))).collect();
        words.values().map(|word| word.len() as u32).sum()
    }

    /// What is live, or `u32::MAX` if the arena is not sound.
    #[unsafe(no_mangle)]
    pub extern "C" fn live() -> u32 {
        match ARENA.check() {
            Some(Ok(())) => ARENA.survey().map_or(u32::MAX, |survey| survey.live_blocks as u32),
            _ => u32::MAX,
        }
    }

    /// Asks for more than 32 bits can address; how many of three requests are met.
    #[unsafe(no_mangle)]
    pub extern "C" fn huge() -> u32 {
        let mut all: [Vec<u8>; 3] = Default::default();
        let met = all.iter_mut().map(|one| one.try_reserve(0x7000_0000).is_ok());
        let met = met.filter(|met| *met).count() as u32;
        std::hint::black_box(&all);
        met
    }
}
