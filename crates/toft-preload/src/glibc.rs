//! glibc's own questions: how much, and please give some back.

use core::ffi::{c_int, c_void};
use toft_core::process;
use toft_core::process::inside;
use toft_core::stats::{Snapshot, snapshot};

/// glibc's `struct mallinfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MallInfo {
    arena: c_int,
    ordblks: c_int,
    smblks: c_int,
    hblks: c_int,
    hblkhd: c_int,
    usmblks: c_int,
    fsmblks: c_int,
    uordblks: c_int,
    fordblks: c_int,
    keepcost: c_int,
}

/// glibc's `struct mallinfo2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MallInfo2 {
    /// Bytes in slabs that are in use or were: what glibc calls the arena.
    arena: usize,
    /// Free slots in slabs: not counted one by one here, so the number of slabs.
    ordblks: usize,
    smblks: usize,
    /// Large blocks and guarded ones, and their bytes.
    hblks: usize,
    hblkhd: usize,
    usmblks: usize,
    fsmblks: usize,
    /// Bytes in use in slabs.
    uordblks: usize,
    /// Bytes free in slabs.
    fordblks: usize,
    /// Bytes of empty slabs and free large blocks that have pages: a purge returns at least these.
    keepcost: usize,
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

/// As [`mallinfo2`], in `int`s, which stop at their largest value.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> MallInfo {
    let int = |value: usize| value.min(c_int::MAX as usize) as c_int;
    let m = mallinfo2();
    MallInfo {
        arena: int(m.arena),
        ordblks: int(m.ordblks),
        smblks: int(m.smblks),
        hblks: int(m.hblks),
        hblkhd: int(m.hblkhd),
        usmblks: int(m.usmblks),
        fsmblks: int(m.fsmblks),
        uordblks: int(m.uordblks),
        fordblks: int(m.fordblks),
        keepcost: int(m.keepcost),
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
    let mut text = Text::new(libc::STDERR_FILENO);
    for (name, value) in rows(&s) {
        text.put("toft: ").put(name).put(" ").number(value).put("\n");
    }
    text.flush();
    toft_core::process::print_profile(libc::STDERR_FILENO);
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
    let mut text = Text::new(-1);
    text.put("<malloc version=\"1\" allocator=\"toft ").put(toft_core::VERSION).put("\">\n");
    let slabs = s.mapped_bytes.saturating_sub(s.large_bytes + s.kept_bytes);
    for (kind, count, size) in [
        ("small", s.live_blocks - s.large_blocks - s.guarded_blocks, s.small_bytes),
        ("medium", 0, s.medium_bytes),
        ("mmap", s.large_blocks + s.guarded_blocks, s.large_bytes + s.guarded_bytes),
        ("kept", 0, s.kept_bytes),
    ] {
        text.put("<total type=\"").put(kind).put("\" count=\"").number(count);
        text.put("\" size=\"").number(size).put("\"/>\n");
    }
    text.put("<system type=\"current\" size=\"").number(slabs + s.large_bytes + s.kept_bytes);
    text.put("\"/>\n<aspace type=\"total\" size=\"").number(s.mapped_bytes + s.metadata_bytes);
    text.put("\"/>\n</malloc>\n");
    // SAFETY: (1) the caller's; the buffer is as long as stated.
    let written =
        unsafe { libc::fwrite(text.bytes.as_ptr().cast::<c_void>(), 1, text.len, stream) };
    if written == text.len { 0 } else { -1 }
}

/// A page of text, without allocation.
struct Text {
    descriptor: c_int,
    bytes: [u8; 1024],
    len: usize,
}

impl Text {
    fn new(descriptor: c_int) -> Text {
        Text { descriptor, bytes: [0; 1024], len: 0 }
    }

    #[inline(never)]
    fn put(&mut self, text: &str) -> &mut Text {
        for &byte in text.as_bytes() {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
        self
    }

    fn number(&mut self, number: usize) -> &mut Text {
        if number >= 10 {
            self.number(number / 10);
        }
        let digit = [b'0' + (number % 10) as u8];
        self.put(core::str::from_utf8(&digit).unwrap_or(""))
    }

    fn flush(&self) {
        let bytes = self.bytes.get(..self.len).unwrap_or(&[]);
        toft_core::os::process::write_all(self.descriptor, bytes);
    }
}
