//! Decides whether a child may be created under an inherited filter, and by which call.
//!
//! A filter may kill for `clone`, and no call can query that. A child is therefore created only if
//! processes or threads have been created under this filter already:
//!
//! | evidence | by which call |
//! |---|---|
//! | this process has other threads | the call by which the C library creates threads |
//! | this process is the child of a fork since it was executed | `clone` |
//! | its parent has as many filters, and is not the first process | `clone` |
//! | it is in a container of a known runtime, whose first process has as many filters | `clone` |
//!
//! The last rests on the behaviour of such runtimes: their profiles refuse by errors. The first
//! process does not count as a parent, because one such as bubblewrap's installs its filter after
//! it has forked. Files are read by calls that the loader has made under the same filter.

use super::super::Text;
use super::super::process::{self, Status};
use crate::options::parse_number;
use core::ffi::CStr;

/// The call that creates a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `clone`.
    Clone,
    /// `clone3`, or `clone` if `clone3` is not supported (ENOSYS).
    Clone3,
}

/// Returns the call that may create a child, or `None` if there is no evidence that one may.
pub(super) fn way(cloned: bool) -> Option<Way> {
    if cloned {
        return Some(Way::Clone);
    }
    let read = |path: &CStr| Status::read(path).unwrap_or_default();
    let own = Status::of_thread().unwrap_or_default();
    if own.threads > 1 {
        return Some(way_of_threads());
    }
    if own.filters == 0 {
        return None;
    }
    let same = |path: &CStr| read(path).filters == own.filters;
    let parent = path_of(own.parent);
    let forked = own.parent > 1 && same(parent.as_c_str());
    (forked || is_in_container() && same(c"/proc/1/status")).then_some(Way::Clone)
}

/// Returns the path `/proc/N/status`.
pub(super) fn path_of(process: usize) -> Text<40> {
    *Text::new().add(b"/proc/").digits(process as u64, 10).add(b"/status")
}

/// Returns the call by which the C library creates threads. glibc uses `clone3` since 2.34.
#[cfg(target_env = "gnu")]
fn way_of_threads() -> Way {
    let version = {
        // SAFETY: a constant text of the C library.
        unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_bytes()
    };
    if at_least(version, (2, 34)) { Way::Clone3 } else { Way::Clone }
}

/// Returns the call by which the C library creates threads. musl uses `clone`.
#[cfg(not(target_env = "gnu"))]
fn way_of_threads() -> Way {
    Way::Clone
}

/// Returns true if a text that begins with two numbers is this version or a later one.
pub(super) fn at_least(text: &[u8], wanted: (usize, usize)) -> bool {
    let mut numbers =
        text.split(|byte| !byte.is_ascii_digit()).map(|digits| parse_number(digits).unwrap_or(0));
    match (numbers.next(), numbers.next()) {
        (Some(first), Some(second)) => (first, second) >= wanted,
        _ => false,
    }
}

/// Returns true if a mark of Docker, Podman or Kubernetes is present.
fn is_in_container() -> bool {
    const MARKS: [&CStr; 3] = [
        c"/.dockerenv",
        c"/run/.containerenv",
        c"/var/run/secrets/kubernetes.io/serviceaccount/namespace",
    ];
    MARKS.iter().any(|mark| process::read_file_with(mark, &mut [0u8; 64], |_| {}).is_ok())
}

/// Returns true if the child may share its parent's memory, although a signal that dumps core may
/// kill it. Before Linux 5.16 the kernel would then kill every process that has the memory.
pub(super) fn may_share_memory() -> bool {
    let mut shares = false;
    process::read_lines_by::<64>(c"/proc/sys/kernel/osrelease", |line| {
        shares = at_least(line, (5, 16));
    });
    shares
}
