//! `malloc_stats_print`: the figures as text, or as JSON in the shape that jemalloc has.

use super::figures::{Figures, resident};
use super::values::version;
use core::ffi::{CStr, c_char, c_void};
use toft_core::os::{Text, process};

/// A function of the program that takes a C string.
type Write = unsafe extern "C" fn(*mut c_void, *const c_char);

/// Writes the figures: by the program's function, or to stderr if it has none. The option `J` asks
/// for JSON; all others have no effect, because they leave out what Toft does not have.
///
/// # Safety
/// 1. `write` is null, or a function that may be called with `opaque` and a C string.
/// 2. `options` is null, or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_stats_print(
    write: Option<Write>,
    opaque: *mut c_void,
    options: *const c_char,
) {
    let Some(figures) = Figures::get() else { return };
    figures.advance();
    let t = figures.totals();
    let is_json = !options.is_null()
        // SAFETY: duty 2.
        && unsafe { CStr::from_ptr(options) }.to_bytes().contains(&b'J');
    let rows: [(&[u8], usize); 6] = [
        (b"allocated", t.live),
        (b"active", t.active),
        (b"metadata", t.metadata),
        (b"resident", resident(&t)),
        (b"mapped", t.mapped),
        (b"retained", t.unused),
    ];
    let mut page: Text<1024> = Text::new();
    if is_json {
        page.add(b"{\"jemalloc\":{\"version\":\"").add(version().to_bytes()).add(b"\",\"stats\":{");
        for (at, (name, bytes)) in rows.into_iter().enumerate() {
            page.add(if at == 0 { b"\"" } else { b",\"" }).add(name).add(b"\":");
            page.digits(bytes as u64, 10);
        }
        page.add(b"}}}\n");
    } else {
        page.add(b"___ Begin jemalloc statistics ___\nVersion: \"");
        page.add(version().to_bytes()).add(b"\"\n");
        for (at, (name, bytes)) in rows.into_iter().enumerate() {
            page.add(if at == 0 { b"" } else { b", " }).add(name).add(b": ");
            page.digits(bytes as u64, 10);
        }
        page.add(b"\n--- End jemalloc statistics ---\n");
    }
    match write {
        // The function may allocate, and call anything here.
        // SAFETY: duty 1.
        Some(write) => unsafe { write(opaque, page.as_c_str().as_ptr()) },
        None => {
            process::write_all(libc::STDERR_FILENO, page.as_bytes());
        }
    }
}
