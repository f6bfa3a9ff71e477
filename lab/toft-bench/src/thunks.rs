//! Call sites made while the program runs: short pieces of code, each of which calls one function
//! and returns what it returns. An allocator that reads the return address sees as many callers.

use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};

/// Bytes from one piece of code to the next.
const STEP: usize = 32;

/// Where the address of the function stands in a piece.
#[cfg(target_arch = "x86_64")]
const AT: usize = 6;
#[cfg(target_arch = "aarch64")]
const AT: usize = 24;

/// `sub rsp, 8; mov rax, function; call rax; add rsp, 8; ret`: the stack is aligned for the call as
/// the convention of C wants it, and the arguments stay where they are.
#[cfg(target_arch = "x86_64")]
const CODE: [u8; STEP] = [
    0x48, 0x83, 0xec, 0x08, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08,
    0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
];

/// `stp x29, x30, [sp, -16]!; ldr x16, function; blr x16; ldp x29, x30, [sp], 16; ret`.
#[cfg(target_arch = "aarch64")]
const CODE: [u8; STEP] = [
    0xfd, 0x7b, 0xbf, 0xa9, 0xb0, 0x00, 0x00, 0x58, 0x00, 0x02, 0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8,
    0xc0, 0x03, 0x5f, 0xd6, 0x1f, 0x20, 0x03, 0xd5, 0, 0, 0, 0, 0, 0, 0, 0,
];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the pieces of code are not written for this processor");

/// The pieces of code, in a separate mapping.
pub struct Thunks {
    start: *mut u8,
    count: usize,
}

// SAFETY: after `new` the mapping is read and executed alone.
unsafe impl Sync for Thunks {}

impl Thunks {
    /// So many pieces, each of which calls the C function at `target`: one of a size and a pointer
    /// that returns a pointer.
    pub fn new(count: usize, target: usize) -> Self {
        assert!(count > 0, "no call sites");
        let mut piece = CODE;
        piece[AT..AT + size_of::<usize>()].copy_from_slice(&target.to_ne_bytes());
        let length = count * STEP;
        let write = libc::PROT_READ | libc::PROT_WRITE;
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe { libc::mmap(null_mut(), length, write, private, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "no memory for the call sites");
        let start = start.cast::<u8>();
        for index in 0..count {
            // SAFETY: within the mapping, which nothing else refers to.
            unsafe { start.add(index * STEP).copy_from_nonoverlapping(piece.as_ptr(), STEP) };
        }
        // SAFETY: the mapping made above; from now on it is read and executed alone.
        let made = unsafe {
            libc::mprotect(start.cast::<c_void>(), length, libc::PROT_READ | libc::PROT_EXEC)
        };
        assert_eq!(made, 0, "the kernel does not let code be made");
        clear_cache(start, length);
        Self { start, count }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Calls the function from site number `site`.
    ///
    /// # Safety
    /// The function may be called with these arguments.
    #[inline]
    pub unsafe fn call<T>(&self, site: usize, size: usize, with: *const T) -> *mut u8 {
        assert!(site < self.count);
        let code = without_provenance_mut::<u8>(self.start.addr() + site * STEP);
        // SAFETY: there is code of this type, which keeps to the convention of C.
        let code = unsafe {
            std::mem::transmute::<*mut u8, unsafe extern "C" fn(usize, *const T) -> *mut u8>(code)
        };
        // SAFETY: as the caller says.
        unsafe { code(size, with) }
    }
}

impl Drop for Thunks {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; a call of it would borrow it.
        unsafe { libc::munmap(self.start.cast(), self.count * STEP) };
    }
}

/// What was written as data must be seen as instructions. On x86-64 it always is.
#[cfg(target_arch = "x86_64")]
fn clear_cache(_: *mut u8, _: usize) {}

#[cfg(target_arch = "aarch64")]
fn clear_cache(start: *mut u8, length: usize) {
    unsafe extern "C" {
        fn __clear_cache(start: *mut u8, end: *mut u8);
    }
    // SAFETY: the range is one that is mapped.
    unsafe { __clear_cache(start, start.add(length)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where it was called from, if its arguments are right and the stack is aligned.
    #[cfg(target_arch = "x86_64")]
    #[unsafe(naked)]
    unsafe extern "C" fn caller(_size: usize, _with: *const u8) -> *mut u8 {
        core::arch::naked_asm!(
            "lea rax, [rsp + 8]",
            "test al, 15",
            "jnz 2f",
            "cmp rdi, 77",
            "jne 2f",
            "cmp rsi, 99",
            "jne 2f",
            "mov rax, [rsp]",
            "ret",
            "2: xor eax, eax",
            "ret",
        )
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_site_calls_from_an_address_of_its_own_and_keeps_the_convention() {
        use std::collections::BTreeSet;
        let code = Thunks::new(10_000, caller as *const () as usize);
        let start = code.start.addr();
        let with = std::ptr::without_provenance::<u8>(99);
        // SAFETY: the function takes any arguments.
        let call = |site: usize, size: usize| unsafe { code.call(site, size, with) }.addr();
        let from: BTreeSet<usize> = (0..code.len()).map(|site| call(site, 77)).collect();
        assert_eq!(from.len(), 10_000);
        assert!(from.iter().all(|at| (start..start + 10_000 * STEP).contains(at)));
        // The function does check what it gets.
        assert_eq!(call(5, 78), 0);
    }

    #[test]
    fn what_the_function_returns_comes_back() {
        extern "C" fn next(size: usize, with: *const u8) -> *mut u8 {
            with.cast_mut().wrapping_add(size)
        }
        let code = Thunks::new(3, next as *const () as usize);
        let at = std::ptr::without_provenance::<u8>(1000);
        // SAFETY: the function takes any arguments.
        assert!((0..3).all(|site| unsafe { code.call(site, 24, at) }.addr() == 1024));
    }
}
