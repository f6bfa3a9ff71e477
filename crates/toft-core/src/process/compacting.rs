//! Forks of a process whose slabs may share pages (`TOFT_COMPACT`).

use crate::allocator::{allocator, inside, is_ready};
use crate::os::process;

/// Has a function called before and after each fork. The child must not share pages with its
/// parent: before a fork there is nothing that is shared.
pub(super) fn watch_forks() {
    if !process::on_fork(begins, is_done) {
        allocator().compactor().never_compact();
    }
}

unsafe extern "C" fn begins() {
    if is_ready() {
        inside(|| allocator().compactor().prepare_fork());
    }
}

unsafe extern "C" fn is_done() {
    if is_ready() {
        inside(|| allocator().compactor().fork_is_done());
    }
}
