//! Protection keys (`pkey_alloc`, x86-64). A thread can write to the pages of a key only after it
//! opens the key, which needs no system call.
//!
//! Two bits of a thread's PKRU register are its rights to the pages of a key. The lower bit forbids
//! all access, and the upper bit forbids writing. A new thread gets its maker's register. A signal
//! handler begins with the kernel's value, which forbids all keys but the first. Its return
//! restores the value from before.

#[cfg(target_arch = "x86_64")]
use super::syscall::syscall;

/// The number of a kernel key. Zero means none, and every page has it at first.
pub type KeyNumber = u32;

/// Means that no key was requested yet.
pub const UNKNOWN: KeyNumber = u32::MAX;
/// No key.
pub const NONE: KeyNumber = 0;

/// Takes a new key, to which the calling thread may write. Returns `None` if the processor or the
/// kernel has none.
#[cfg(target_arch = "x86_64")]
pub fn take() -> Option<KeyNumber> {
    // SAFETY: changes this thread's register, for a key that no page has.
    let key = unsafe { syscall(libc::SYS_pkey_alloc, [0; 6]) };
    (1..16).contains(&key).then_some(key as KeyNumber)
}

/// Gives a key to pages that can be read and written. Returns true if it could.
#[cfg(target_arch = "x86_64")]
pub fn put(address: usize, len: usize, key: KeyNumber) -> bool {
    let rights = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: the pages do not change for threads that may write to the key's pages.
    unsafe { syscall(libc::SYS_pkey_mprotect, [address, len, rights, key as usize, 0, 0]) == 0 }
}

/// Lets the calling thread write to pages of the key. Returns true if it could before.
#[cfg(target_arch = "x86_64")]
pub fn open(key: KeyNumber) -> bool {
    let (before, bits) = (rights(), 3 << (2 * key));
    if before & bits == 0 {
        return true;
    }
    set_rights(before & !bits);
    false
}

/// Lets the calling thread only read pages of the key.
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
    // SAFETY: a processor with keys has this register. No access is moved across the instruction,
    // because it may change which memory can be accessed.
    unsafe {
        core::arch::asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack));
    }
}

/// Returns `None`: other processors have no keys.
#[cfg(not(target_arch = "x86_64"))]
pub fn take() -> Option<KeyNumber> {
    None
}

/// Returns false: other processors have no keys.
#[cfg(not(target_arch = "x86_64"))]
pub fn put(_: usize, _: usize, _: KeyNumber) -> bool {
    false
}

/// Returns true: other processors have no keys.
#[cfg(not(target_arch = "x86_64"))]
pub fn open(_: KeyNumber) -> bool {
    true
}

/// Does nothing: other processors have no keys.
#[cfg(not(target_arch = "x86_64"))]
pub fn close(_: KeyNumber) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::os::process::scratch;

    #[test]
    fn a_closed_key_can_be_read_and_opened_again() {
        // Without keys there is nothing to test.
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
