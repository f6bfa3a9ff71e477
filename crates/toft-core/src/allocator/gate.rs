//! Opens the tables to the calling thread for the time of a call, where `TOFT_PKEY` closes them to
//! all others. Secure build only: in the default build `inside` adds no instruction.

use super::instance::allocator;
use crate::os::keys;
use crate::policy::SECURE;

/// Does something with tables that can be written to.
#[inline(always)]
pub fn inside<R>(body: impl FnOnce() -> R) -> R {
    if SECURE && allocator().os().key() != 0 { with_key_open(body) } else { body() }
}

#[cold]
#[inline(never)]
fn with_key_open<R>(body: impl FnOnce() -> R) -> R {
    let before = allocator().os().key();
    // The first call of all finds no key yet, and may write when it has taken one.
    let stays_open = before != keys::UNKNOWN && keys::open(before);
    let result = body();
    let key = allocator().os().key();
    if !stays_open && key != 0 && key != keys::UNKNOWN {
        keys::close(key);
    }
    result
}
