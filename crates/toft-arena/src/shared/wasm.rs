//! The arena of a WebAssembly module without threads.

use super::{Shared, Unlocked};
use crate::shape::Shape;
use crate::source::{Linear, WasmMemory};
use crate::space::Anywhere;

/// An arena over the linear memory of a WebAssembly module. A module with threads needs a lock, so
/// this exists only where the target has no atomics.
pub type Wasm<S> = Shared<S, Linear<WasmMemory>, Unlocked>;

impl<S: Shape<Space = Anywhere>> Wasm<S> {
    /// An arena that grows the linear memory as blocks are requested.
    #[must_use]
    pub const fn wasm() -> Self {
        // SAFETY: 1. a module without atomics has one thread, and no interrupts.
        Self::new(Anywhere, Linear::new(WasmMemory), unsafe { Unlocked::new() })
    }
}
