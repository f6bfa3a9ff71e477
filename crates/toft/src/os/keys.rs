//! Protection keys (`pkey_alloc`, x86-64): pages that a thread can write to only after it opens the
//! key, without a system call.
//!
//! What a thread may do with pages of a key are two bits of its register PKRU: the lower forbids
//! all access, the upper writing. A new thread has its maker's register. A signal handler begins
//! with the kernel's own, which forbids all keys but the first; what was before it comes back with
//! its return.

#[cfg(target_arch = "x86_64")]
use super::syscall::syscall;

/// A key of the kernel's; zero is none, and every page has it at first.
pub type KeyNumber = u32;

/// Stands for a key that was not asked for yet.
pub const UNKNOWN: KeyNumber = u32::MAX;

/// A key of one's own, to which the calling thread may write; `None` where the processor or the
/// kernel has none.
#[cfg(target_arch = "x86_64")]
pub fn take() -> Option<KeyNumber> {
    // SAFETY: changes this thread's register, for a key that no page has.
    let key = unsafe { syscall(libc::SYS_pkey_alloc, [0; 6]) };
    (1..16).contains(&key).then_some(key as KeyNumber)
}

/// Gives pages that can be read and written a key; returns true if that was possible.
#[cfg(target_arch = "x86_64")]
pub fn put(address: usize, len: usize, key: KeyNumber) -> bool {
    let rights = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: the pages stay what they are for threads that may write to the key's.
    unsafe { syscall(libc::SYS_pkey_mprotect, [address, len, rights, key as usize, 0, 0]) == 0 }
}

/// Lets the calling thread write to pages of the key; returns true if it could before.
#[cfg(target_arch = "x86_64")]
pub fn open(key: KeyNumber) -> bool {
    let (before, bits) = (rights(), 3 << (2 * key));
    if before & bits == 0 {
        return true;
    }
    set_rights(before & !bits);
    false
}

/// From now on the calling thread can read pages of the key, and no more.
#[cfg(target_arch = "x86_64")]
pub fn close(key: KeyNumber) {
    let bits = 3 << (2 * key);
    set_rights(rights() & !bits | 2 << (2 * key));
}

#[cfg(target_arch = "x86_64")]
fn rights() -> u32 {
    let rights: u32;
    // SAFETY: a processor with keys has this register.
    unsafe {
        core::arch::asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _, options(nostack));
    }
    rights
}

#[cfg(target_arch = "x86_64")]
fn set_rights(rights: u32) {
    // SAFETY: as above; no access is moved across it, because it may change what memory there is.
    unsafe {
        core::arch::asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack));
    }
}

/// No keys on other processors.
#[cfg(not(target_arch = "x86_64"))]
pub fn take() -> Option<KeyNumber> {
    None
}

/// No keys on other processors.
#[cfg(not(target_arch = "x86_64"))]
pub fn put(_: usize, _: usize, _: KeyNumber) -> bool {
    false
}

/// No keys on other processors.
#[cfg(not(target_arch = "x86_64"))]
pub fn open(_: KeyNumber) -> bool {
    true
}

/// No keys on other processors.
#[cfg(not(target_arch = "x86_64"))]
pub fn close(_: KeyNumber) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::os::process::scratch;

    #[test]
    fn a_closed_key_can_be_read_and_opened_again() {
        // Where there are no keys there is nothing to see.
        let Some(key) = take() else { return };
        let address = scratch(4096).unwrap();
        assert!(put(address, 4096, key) && open(key), "whoever takes a key may write");
        let word: *mut u32 = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: a page of our own.
        unsafe {
            word.write_volatile(7);
            close(key);
            assert_eq!(word.read_volatile(), 7);
            assert_eq!(rights() >> (2 * key) & 3, 2);
            assert!(!open(key));
            word.write_volatile(8);
            assert!(open(key));
        }
    }
}
