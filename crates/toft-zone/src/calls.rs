//! The calls on the process's own zones, as C and Rust make them. What is refused is `errno`:
//!
//! | | |
//! |---|---|
//! | `ENOMEM` | the system has no memory, addresses or mappings left |
//! | `EINVAL` | an alignment that is no power of two, or a size that is not the zone's |
//! | `EINVAL` | a bad call that was only named (`TOFT_ON_MISUSE=warn`) |
//! | `EDEADLK` | a signal handler has interrupted a call about the same zone by its own thread |
//! | `ENOTSUP` | tags, where pages are larger than 4 KiB |

use crate::hook::zones_of;
use crate::private_zones::PrivateZones;
use crate::{Figures, Handle, Name, Refusal, Tagged, Terms};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use toft_core::os::{Linux, process};
use toft_core::process::{inside, instance};

type Pointer = *mut c_void;

fn errno(refusal: Refusal) -> c_int {
    match refusal {
        Refusal::NoMemory => libc::ENOMEM,
        Refusal::InHandler => libc::EDEADLK,
        Refusal::Unsupported => libc::ENOTSUP,
        _ => libc::EINVAL,
    }
}

/// An address without its tag, whether or not the processor checks it.
fn plain(address: *const c_void) -> usize {
    if cfg!(target_arch = "aarch64") {
        Tagged(address.addr() as u64).address()
    } else {
        address.addr()
    }
}

/// Makes the call, and sets `errno` where it is refused.
fn call<R>(body: impl FnOnce(PrivateZones<'_, Linux>) -> Result<R, Refusal>) -> Option<R> {
    let on_zones = |allocator| body(PrivateZones { zones: zones_of(allocator), allocator });
    match inside(|| instance().ok_or(Refusal::NoMemory).and_then(on_zones)) {
        Ok(result) => Some(result),
        Err(refusal) => {
            process::set_errno(errno(refusal));
            None
        }
    }
}

fn pointer(address: Option<usize>) -> Pointer {
    address.map_or(null_mut(), core::ptr::with_exposed_provenance_mut)
}

/// Makes a zone.
pub fn create(terms: &Terms) -> Option<Handle> {
    call(|zones| zones.create(terms))
}

/// A block of a zone.
pub fn allocate(zone: Handle, size: usize, align: usize, zeroed: bool) -> Pointer {
    if !align.is_power_of_two() {
        process::set_errno(libc::EINVAL);
        return null_mut();
    }
    pointer(call(|zones| zones.allocate(zone, size, align, zeroed)))
}

/// Blocks of a zone in a row, all zero.
pub fn allocate_zeroed(zone: Handle, count: usize, size: usize) -> Pointer {
    match count.checked_mul(size) {
        Some(bytes) => allocate(zone, bytes, 1, true),
        None => {
            process::set_errno(libc::ENOMEM);
            null_mut()
        }
    }
}

/// Takes a block of a zone back. As `free`, nothing happens to a null pointer, and `errno` stays.
///
/// # Safety
/// 1. `address` is zero, or a live block of the zone, or else is named and ends the process: no bad
///    pointer is followed. The program does not use the block afterwards.
pub unsafe fn free(zone: Handle, address: Pointer) {
    if !address.is_null()
        && let Some(allocator) = instance()
    {
        // Whatever is wrong has been named.
        let zones = PrivateZones { zones: zones_of(allocator), allocator };
        let _ = inside(|| zones.free(zone, plain(address)));
    }
}

/// Usable bytes of a live block of a zone; 0 of a null pointer.
pub fn usable_size(zone: Handle, address: *const c_void) -> usize {
    if address.is_null() {
        return 0;
    }
    call(|zones| zones.usable_size(zone, plain(address))).unwrap_or(0)
}

/// Verifies a zone; returns true if nothing is wrong with it.
pub fn verify(zone: Handle) -> bool {
    call(|zones| zones.verify(zone)) == Some(true)
}

/// Ends a zone and all blocks in it; returns true if there was one.
pub fn destroy(zone: Handle) -> bool {
    call(|zones| zones.destroy(zone)).is_some()
}

/// Gives a zone another name; returns true if there is one.
pub fn rename(zone: Handle, name: &Name) -> bool {
    call(|zones| zones.rename(zone, name)).is_some()
}

/// A zone's name and figures.
pub fn figures(zone: Handle) -> Option<(Name, Figures)> {
    call(|zones| zones.figures(zone))
}

/// The tagged word for an address in a live block of a tagged zone; zero where there is none.
pub fn tag(address: *const c_void) -> Tagged {
    call(|zones| zones.tag(plain(address))).unwrap_or(Tagged(0))
}

/// The pointer of a tagged word; null where its block was freed since.
pub fn resolve(tagged: Tagged) -> Pointer {
    pointer(call(|zones| zones.resolve(tagged)))
}
