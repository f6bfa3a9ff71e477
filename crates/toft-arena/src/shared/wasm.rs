//! The arena of a WebAssembly module without threads.

use super::{Exclusive, OneThread, Shared};
use crate::shape::Shape;
use crate::source::{Linear, WasmMemory};
use crate::space::Anywhere;

/// An arena over the linear memory of a WebAssembly module. A module with threads needs a lock, so
/// this exists only where the target has no atomics.
pub type Wasm<S> = Shared<S, Linear<WasmMemory>, OneModule>;

/// The lock of a module without threads. It notices a caller that has it already.
#[derive(Debug)]
pub struct OneModule(OneThread);

// SAFETY: a module without atomics has one thread, and no interrupts.
unsafe impl Sync for OneModule {}

// SAFETY: 1. as `OneThread`: there is one thread.
unsafe impl Exclusive for OneModule {
    fn hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        self.0.hold(work)
    }
}

impl<S: Shape<Space = Anywhere>> Wasm<S> {
    /// An arena that grows the linear memory as blocks are requested.
    #[must_use]
    pub const fn wasm() -> Self {
        Self::new(Anywhere, Linear::new(WasmMemory), OneModule(OneThread::new()))
    }
}
