//! Where CPython keeps what a walk reads, by version. No version promises these offsets to the
//! next, so a version that is not listed is not read.
//!
//! The offsets are those of 64-bit builds without `--disable-gil`. A build with other offsets fails
//! the checks of the walk, and its functions have no names. Since 3.13 `_PyRuntime` begins with
//! most of these offsets (`_Py_DebugOffsets`), but their places there also change with the version.

/// Offsets in bytes.
#[derive(Debug)]
pub(super) struct Layout {
    /// The two upper numbers of the version, as in `PY_VERSION_HEX`.
    pub version: u32,
    /// In `_PyRuntime`, the address of the main interpreter.
    pub interpreter: usize,
    /// In an interpreter, the address of its newest thread state.
    pub threads: usize,
    /// In a thread state, the address of the next one.
    pub next_thread: usize,
    /// In a thread state, what `pthread_self` returns there.
    pub thread: usize,
    /// In a thread state, the address of the current frame, or of a record that has it.
    pub frame: usize,
    /// In that record, the address of the current frame.
    pub record: Option<usize>,
    /// In a frame, the address of its code object, with [`REFERENCE`] bits.
    pub code: usize,
    /// In a frame, the address of the caller's frame.
    pub previous: usize,
    /// In a frame, the address of the running instruction.
    pub instruction: usize,
    /// In a frame, a byte that says what owns it.
    pub owner: usize,
    /// In a code object, the line that its function begins in.
    pub first_line: usize,
    /// In a code object, the address of the source file's name.
    pub file: usize,
    /// In a code object, the address of the function's name with its classes.
    pub name: usize,
    /// In a code object, the address of the table of lines.
    pub lines: usize,
    /// In a code object, the first instruction.
    pub instructions: usize,
    /// In a string of ASCII, and in any other, the first character.
    pub characters: [usize; 2],
}

/// In an object, the address of its type.
pub(super) const TYPE: usize = 8;
/// In an object of variable size, the number of its items: instructions or bytes.
pub(super) const ITEMS: usize = 16;
/// In an object of bytes, the first byte.
pub(super) const BYTES: usize = 32;
/// In a string, the number of characters.
pub(super) const LENGTH: usize = 16;
/// In a string, the bits that say how characters are stored.
pub(super) const STATE: usize = 32;
/// The bits of a reference that say how it is counted, and belong to no address. 3.14 has them.
pub(super) const REFERENCE: usize = 3;
/// The least owner of a frame that no Python function has: the interpreter's own mark on the stack.
pub(super) const OWNER_INTERPRETER: u8 = 3;

const PYTHON_3_11: Layout = Layout {
    version: 0x030b,
    interpreter: 48,
    threads: 16,
    next_thread: 8,
    thread: 152,
    frame: 56,
    record: Some(8),
    code: 32,
    previous: 48,
    instruction: 56,
    owner: 69,
    first_line: 72,
    file: 112,
    name: 128,
    lines: 136,
    instructions: 184,
    characters: [48, 72],
};

const PYTHON_3_12: Layout = Layout {
    version: 0x030c,
    threads: 72,
    thread: 136,
    record: Some(0),
    code: 0,
    previous: 8,
    owner: 70,
    first_line: 68,
    instructions: 192,
    characters: [40, 56],
    ..PYTHON_3_11
};

const PYTHON_3_13: Layout = Layout {
    version: 0x030d,
    interpreter: 640,
    threads: 7344,
    thread: 152,
    frame: 72,
    record: None,
    instructions: 200,
    ..PYTHON_3_12
};

const PYTHON_3_14: Layout =
    Layout { version: 0x030e, interpreter: 816, owner: 74, instructions: 208, ..PYTHON_3_13 };

const PYTHON_3_15: Layout =
    Layout { version: 0x030f, interpreter: 944, threads: 7336, thread: 176, ..PYTHON_3_14 };

/// The versions that are read.
pub(super) static LAYOUTS: [Layout; 5] =
    [PYTHON_3_11, PYTHON_3_12, PYTHON_3_13, PYTHON_3_14, PYTHON_3_15];
