//! One instruction of a path, whatever the architecture.

/// Where execution goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Next,
    /// To a function, and then to the next instruction.
    Call,
    Jump(u64),
    /// There, or to the next instruction.
    Branch(u64),
    Return,
    /// To an address from a register or memory, or into a trap.
    Elsewhere,
}

/// An instruction, as far as the figures need it.
#[derive(Clone, Debug)]
pub struct Step {
    pub address: u64,
    pub next: u64,
    pub flow: Flow,
    /// It reads memory other than the stack.
    pub loads: bool,
    /// It writes to memory other than the stack.
    pub stores: bool,
    pub multiplies: bool,
    /// It asks for the address of thread-local storage.
    pub tls: bool,
    /// Why it has no place on a fast path.
    pub wrong: Option<&'static str>,
}
