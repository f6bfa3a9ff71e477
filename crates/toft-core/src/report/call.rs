//! Calls in machine code: which words are return addresses, where the call before one goes, and the
//! registers of the running function.

use crate::os::process::peek;

const WORD: usize = size_of::<usize>();

/// Returns the stack pointer and the frame pointer, or what the frame pointer's register holds.
#[inline(always)]
pub fn registers() -> (usize, usize) {
    let (pointer, frame): (usize, usize);
    // SAFETY: reads two registers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("mov {}, rsp", "mov {}, rbp", out(reg) pointer, out(reg) frame, options(nomem, nostack));
    }
    // SAFETY: as above. (Untested.)
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("mov {}, sp", "mov {}, x29", out(reg) pointer, out(reg) frame, options(nomem, nostack));
    }
    (pointer, frame)
}

/// Returns an instruction of the function that this is inlined into, its stack pointer and its
/// frame pointer.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn here() -> (usize, usize, usize) {
    let (instruction, stack, frame): (usize, usize, usize);
    // SAFETY: reads three registers.
    unsafe {
        core::arch::asm!(
            "lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
            out(reg) instruction, out(reg) stack, out(reg) frame, options(nomem, nostack),
        );
    }
    (instruction, stack, frame)
}

/// Returns zeros, because no tables are read on this processor. (Untested.)
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(super) fn here() -> (usize, usize, usize) {
    (0, 0, 0)
}

/// Returns a word of memory, if it can be read.
pub(super) fn read(address: usize) -> Option<usize> {
    let mut bytes = [0u8; WORD];
    (peek(address, &mut bytes) == WORD).then(|| usize::from_ne_bytes(bytes))
}

/// Returns the target of the call before a return address. The call is direct, by a word of memory,
/// or to a linker's stub that jumps by a word of memory.
#[cfg(target_arch = "x86_64")]
pub(super) fn called_by(address: usize) -> Option<usize> {
    let mut before = [0u8; 6];
    if peek(address.wrapping_sub(before.len()), &mut before) != before.len() {
        return None;
    }
    let distance =
        |bytes: &[u8]| Some(i32::from_le_bytes(bytes.try_into().ok()?) as isize as usize);
    if before.starts_with(&[0xFF, 0x15]) {
        return read(address.wrapping_add(distance(before.get(2..)?)?));
    }
    if before.get(1) != Some(&0xE8) {
        return None;
    }
    let target = address.wrapping_add(distance(before.get(2..)?)?);
    let mut stub = [0u8; 16];
    if peek(target, &mut stub) != stub.len() {
        return Some(target);
    }
    // endbr64 and a prefix may be before the jump.
    for at in [0, 1, 4, 5] {
        if stub.get(at..at + 2) == Some(&[0xFF, 0x25]) {
            let place = target.wrapping_add(at + 6);
            return read(place.wrapping_add(distance(stub.get(at + 2..at + 6)?)?));
        }
    }
    Some(target)
}

/// Returns no target, because frame records are reliable on this processor. (Untested.)
#[cfg(target_arch = "aarch64")]
pub(super) fn called_by(_address: usize) -> Option<usize> {
    None
}

/// Returns true if an address follows a call instruction.
#[cfg(target_arch = "x86_64")]
pub fn is_return(address: usize) -> bool {
    // The lowest page is never mapped, and the upper half is the kernel's.
    if !(0x1000..1 << 47).contains(&address) {
        return false;
    }
    let mut before = [0u8; 7];
    if peek(address - before.len(), &mut before) != before.len() {
        return false;
    }
    // `call rel32`, or FF with 2 in the middle field of its second byte, in any of its lengths.
    before.get(2) == Some(&0xE8)
        || before.windows(2).take(6).any(|pair| matches!(pair, [0xFF, mode] if mode >> 3 & 7 == 2))
}

/// Returns true if an address follows a call instruction. (Untested.)
#[cfg(target_arch = "aarch64")]
pub fn is_return(address: usize) -> bool {
    let mut before = [0u8; 4];
    if address < 0x1000 || peek(address - before.len(), &mut before) != before.len() {
        return false;
    }
    let instruction = u32::from_le_bytes(before);
    instruction >> 26 == 0b10_0101 || instruction & 0xFFFF_FC1F == 0xD63F_0000
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_return_address_lies_behind_a_call() {
        // call +0; nop; call [rip + 0]; nop
        static CODE: [u8; 16] =
            [0x90, 0x90, 0x90, 0xE8, 0, 0, 0, 0, 0x90, 0xFF, 0x15, 0, 0, 0, 0, 0x90];
        let code = CODE.as_ptr().addr();
        assert!(is_return(code + 8) && is_return(code + 15));
        assert!(!is_return(code + 9) && !is_return(8) && !is_return(usize::MAX));
    }
}
