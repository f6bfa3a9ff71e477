//! glibc's own questions: how much, and please give some back.

use core::ffi::c_int;
use toft_core::os::Text;
use toft_core::process;
use toft_core::process::inside;
use toft_core::report::Writer;
use toft_core::stats::{Snapshot, snapshot};

macro_rules! mallinfo {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// glibc's `struct mallinfo2`.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct MallInfo2 { $($(#[$doc])* $field: usize,)* }

        /// glibc's `struct mallinfo`.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct MallInfo { $($field: c_int,)* }

        /// As [`mallinfo2`], in `int`s, which stop at their largest value.
        #[unsafe(no_mangle)]
        pub extern "C" fn mallinfo() -> MallInfo {
            let int = |value: usize| value.min(c_int::MAX as usize) as c_int;
            let m = mallinfo2();
            MallInfo { $($field: int(m.$field),)* }
        }
    };
}

mallinfo! {
    /// Bytes in slabs that are in use or were: what glibc calls the arena.
    arena,
    /// Free slots in slabs: not counted one by one here, so the number of slabs.
    ordblks,
    smblks,
    /// Large blocks and guarded ones, and their bytes.
    hblks,
    hblkhd,
    usmblks,
    fsmblks,
    /// Bytes in use in slabs.
    uordblks,
    /// Bytes free in slabs.
    fordblks,
    /// Bytes of empty slabs and free large blocks that have pages: a purge returns at least these.
    keepcost,
}

fn figures() -> Snapshot {
    inside(|| process::instance().map_or(Snapshot::default(), snapshot))
}

/// Figures of the whole process, in glibc's terms.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> MallInfo2 {
    let s = figures();
    let used = s.small_bytes + s.medium_bytes;
    let arena = s.mapped_bytes.saturating_sub(s.large_bytes + s.guarded_bytes + s.kept_bytes);
    MallInfo2 {
        arena,
        ordblks: s.slabs,
        smblks: 0,
        hblks: s.large_blocks + s.guarded_blocks,
        hblkhd: s.large_bytes + s.guarded_bytes,
        usmblks: 0,
        fsmblks: 0,
        uordblks: used,
        fordblks: arena.saturating_sub(used),
        keepcost: s.kept_bytes,
    }
}

/// Returns free memory of the whole process to the OS, if enough was freed since the last purge: it
/// may be called often. Returns 1 if any was returned, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    c_int::from(process::trim() != 0)
}

/// Returns all free memory of the whole process to the OS; returns the number of bytes of pages.
#[unsafe(no_mangle)]
pub extern "C" fn toft_purge() -> usize {
    process::purge()
}

/// Lets sparse slabs share pages, where `TOFT_COMPACT` allows it.
#[unsafe(no_mangle)]
pub extern "C" fn toft_compact() -> usize {
    process::compact()
}

/// Sends live data out to swap that nothing has happened to since the last call; returns the number
/// of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn toft_pageout_cold() -> usize {
    process::page_out_cold()
}

/// Accepts and ignores glibc's tunables: none of them means anything here.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(_parameter: c_int, _value: c_int) -> c_int {
    1
}

/// Writes the figures to stderr, for a person, and the call sites with most live memory.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    let s = figures();
    let mut text: Writer = Writer::new(libc::STDERR_FILENO);
    for (name, value) in rows(&s) {
        text.text("toft: ").text(name).text(" ").digits(value as u64, 10).text("\n");
    }
    text.flush();
    #[cfg(feature = "watch")]
    toft_watch::print_sites(libc::STDERR_FILENO);
}

fn rows(s: &Snapshot) -> [(&'static str, usize); 10] {
    [
        ("live blocks:", s.live_blocks),
        ("live bytes:", s.live_bytes()),
        ("small bytes:", s.small_bytes),
        ("medium bytes:", s.medium_bytes),
        ("large bytes:", s.large_bytes),
        ("kept bytes:", s.kept_bytes),
        ("mapped bytes:", s.mapped_bytes),
        ("metadata bytes:", s.metadata_bytes),
        ("slabs:", s.slabs),
        ("heaps:", s.heaps),
    ]
}

/// Writes the figures as XML to a stream, as glibc does.
///
/// # Safety
/// 1. `stream` is an open `FILE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        // As glibc does: the code is the result.
        return libc::EINVAL;
    }
    let s = figures();
    let mut page: Text<1024> = Text::new();
    page.add(b"<malloc version=\"1\" allocator=\"toft ").add(toft_core::VERSION.as_bytes());
    page.add(b"\">\n");
    let slabs = s.mapped_bytes.saturating_sub(s.large_bytes + s.kept_bytes);
    for (kind, count, size) in [
        ("small", s.live_blocks - s.large_blocks - s.guarded_blocks, s.small_bytes),
        ("medium", 0, s.medium_bytes),
        ("mmap", s.large_blocks + s.guarded_blocks, s.large_bytes + s.guarded_bytes),
        ("kept", 0, s.kept_bytes),
    ] {
        page.add(b"<total type=\"").add(kind.as_bytes()).add(b"\" count=\"");
        page.digits(count as u64, 10).add(b"\" size=\"").digits(size as u64, 10).add(b"\"/>\n");
    }
    let system = slabs + s.large_bytes + s.kept_bytes;
    page.add(b"<system type=\"current\" size=\"").digits(system as u64, 10);
    page.add(b"\"/>\n<aspace type=\"total\" size=\"");
    page.digits((s.mapped_bytes + s.metadata_bytes) as u64, 10);
    page.add(b"\"/>\n</malloc>\n");
    let bytes = page.as_bytes();
    // SAFETY: (1) the caller's; the buffer is as long as stated.
    let written = unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream) };
    if written == bytes.len() { 0 } else { -1 }
}
