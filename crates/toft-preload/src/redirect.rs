//! Lets the C library's `malloc` and its family name the process's, by changing those entries of
//! its table of symbols in memory. Whatever the loader binds from then on gets the process's. So
//! does a library that is opened with `RTLD_DEEPBIND`, which otherwise keeps the meaning of the
//! flag.
//!
//! The table is private to the process. It costs a copy of some ten pages, and only where the flag
//! is used.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};
use libc::{Elf64_Addr, Elf64_Phdr, Elf64_Sym, dl_phdr_info};
use toft_core::os::{process::page_size, syscall};

/// Names of the C library's that lead to the process's functions: all that allocate, free or
/// measure blocks, and those by which a filter of system calls is installed.
const NAMES: [&CStr; 27] = [
    c"malloc",
    c"free",
    c"calloc",
    c"realloc",
    c"reallocarray",
    c"posix_memalign",
    c"aligned_alloc",
    c"memalign",
    c"valloc",
    c"pvalloc",
    c"cfree",
    c"malloc_usable_size",
    c"malloc_trim",
    c"mallopt",
    c"mallinfo",
    c"mallinfo2",
    c"malloc_stats",
    c"malloc_info",
    c"__libc_malloc",
    c"__libc_free",
    c"__libc_calloc",
    c"__libc_realloc",
    c"__libc_memalign",
    c"__libc_valloc",
    c"__libc_pvalloc",
    c"prctl",
    c"syscall",
];

/// What a walk over the process's libraries is about.
struct Walk {
    /// The functions that the process has under these names; zero for none.
    functions: [usize; NAMES.len()],
    /// The table could not be changed.
    refused: bool,
}

/// Changes the table, unless that is done; returns false if it cannot be done. In a process without
/// a shared C library there is nothing to change.
pub fn redirect() -> bool {
    // Asked before the walk, because the loader takes its two locks in this order.
    // SAFETY: C strings.
    let functions =
        NAMES.map(|name| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize);
    let mut walk = Walk { functions, refused: false };
    // SAFETY: `visit` has the signature that is asked for, and gets what is passed on here.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut walk).cast()) };
    !walk.refused
}

/// One library, under the loader's lock: so no two threads change the table, or the rights of its
/// pages, at a time.
unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: usize, walk: *mut c_void) -> c_int {
    // SAFETY: the loader's description of a library that is mapped.
    let Some(tables) = (unsafe { Tables::of_libc(&*info) }) else { return 0 };
    // SAFETY: what `redirect` passed on, which lives until the walk has ended.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    walk.refused = !tables.lead_to(&walk.functions);
    1
}

/// The C library's tables, as the loader uses them.
struct Tables<'a> {
    base: usize,
    segments: &'a [Elf64_Phdr],
    symbols: *mut Elf64_Sym,
    strings: *const c_char,
    /// Of the GNU kind.
    hash: *const u32,
}

/// An entry of the dynamic section.
#[repr(C)]
struct Entry {
    tag: i64,
    value: u64,
}

const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_SONAME: i64 = 14;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

impl Tables<'_> {
    /// Those of this library, if it is the C library.
    ///
    /// # Safety
    /// 1. `info` describes a library that stays mapped, as the loader describes it.
    unsafe fn of_libc(info: &dl_phdr_info) -> Option<Tables<'_>> {
        let base = info.dlpi_addr as usize;
        // SAFETY: duty 1.
        let segments =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let dynamic = segments.iter().find(|segment| segment.p_type == libc::PT_DYNAMIC)?;
        let mut entry = pointer::<Entry>(base.wrapping_add(dynamic.p_vaddr as usize));
        let (mut symbols, mut strings, mut hash, mut name) = (0, 0, 0, None);
        // SAFETY: duty 1: the dynamic section ends with a zero tag.
        while let Some(&Entry { tag, value }) = unsafe { entry.as_ref() }.filter(|e| e.tag != 0) {
            // The loader makes addresses of what the file has as offsets; the kernel's own library
            // is left as it is.
            let value = value as usize;
            let address = if value < base { value.wrapping_add(base) } else { value };
            match tag {
                DT_SYMTAB => symbols = address,
                DT_STRTAB => strings = address,
                DT_GNU_HASH => hash = address,
                DT_SONAME => name = Some(value),
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        let strings = pointer::<c_char>(strings);
        // SAFETY: duty 1: an offset into the table of strings, each of which ends with a zero.
        let name = unsafe { CStr::from_ptr(strings.wrapping_add(name?)) };
        (name == c"libc.so.6").then(|| Tables {
            base,
            segments,
            symbols: pointer::<Elf64_Sym>(symbols).cast_mut(),
            strings,
            hash: pointer(hash),
        })
    }

    /// Makes each of [`NAMES`] lead to the function beside it; returns false if that is not
    /// possible.
    fn lead_to(&self, functions: &[usize; NAMES.len()]) -> bool {
        if self.hash.is_null() {
            return false;
        }
        let (mut first, mut last) = (usize::MAX, 0);
        self.each_that_leads_elsewhere(functions, |symbol, _| {
            (first, last) = (first.min(symbol.addr()), last.max(symbol.addr()));
        });
        if last == 0 {
            return true;
        }
        let page = page_size();
        let start = first & !(page - 1);
        let len = last + size_of::<Elf64_Sym>() - start;
        let Some(rights) = self.rights_of(start, len) else { return false };
        if !protect(start, len, rights | libc::PROT_WRITE) {
            return false;
        }
        self.each_that_leads_elsewhere(functions, |symbol, value| {
            // SAFETY: a symbol in pages that can be written to now. Other threads read the word as
            // a whole, and find either function; what they have bound to the old one was theirs
            // before.
            let word = unsafe { AtomicU64::from_ptr(&raw mut (*symbol).st_value) };
            word.store(value, Ordering::Relaxed);
        });
        // If the kernel has no room to split the mapping again, the pages stay writable.
        protect(start, len, rights);
        true
    }

    /// Each symbol of these names whose value is not the one that leads to its function.
    fn each_that_leads_elsewhere(
        &self,
        functions: &[usize; NAMES.len()],
        mut each: impl FnMut(*mut Elf64_Sym, Elf64_Addr),
    ) {
        for (name, &function) in NAMES.iter().zip(functions).filter(|(_, function)| **function != 0)
        {
            let value = function.wrapping_sub(self.base) as Elf64_Addr;
            self.each_version(name, |symbol| {
                // SAFETY: an entry of the table.
                if unsafe { (*symbol).st_shndx != 0 && (*symbol).st_value != value } {
                    each(symbol, value);
                }
            });
        }
    }

    /// Each symbol of this name, as the loader looks them up.
    fn each_version(&self, name: &CStr, mut each: impl FnMut(*mut Elf64_Sym)) {
        // SAFETY: the loader follows the same words: a header, the filter, a word for each bucket,
        // one for each symbol behind the first few; the last of a bucket's has its lowest bit set.
        let word = |index: usize| unsafe { self.hash.wrapping_add(index).read() };
        let (buckets, before, filter) = (word(0), word(1) as usize, word(2) as usize);
        let first_bucket = 4 + 2 * filter;
        let first_chain = first_bucket + buckets as usize;
        let wanted = name
            .to_bytes()
            .iter()
            .fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let Some(bucket) = wanted.checked_rem(buckets) else { return };
        let mut index = word(first_bucket + bucket as usize) as usize;
        while index >= before && index != 0 {
            let hash = word(first_chain + index - before);
            let symbol = self.symbols.wrapping_add(index);
            // SAFETY: an entry of the table, and a string of the library's.
            let same = hash | 1 == wanted | 1
                && unsafe {
                    CStr::from_ptr(self.strings.wrapping_add((*symbol).st_name as usize)) == name
                };
            if same {
                each(symbol);
            }
            if hash & 1 != 0 {
                return;
            }
            index += 1;
        }
    }

    /// The rights of the library's mapping that holds these bytes.
    fn rights_of(&self, start: usize, len: usize) -> Option<c_int> {
        let segment = self.segments.iter().find(|segment| {
            let offset = start.wrapping_sub(self.base.wrapping_add(segment.p_vaddr as usize));
            segment.p_type == libc::PT_LOAD
                && offset.saturating_add(len) <= segment.p_memsz as usize
        })?;
        let right = |flag, right| if segment.p_flags & flag != 0 { right } else { 0 };
        let write = right(libc::PF_W, libc::PROT_WRITE);
        Some(right(libc::PF_R, libc::PROT_READ) | write | right(libc::PF_X, libc::PROT_EXEC))
    }
}

fn pointer<T>(address: usize) -> *const T {
    core::ptr::with_exposed_provenance(address)
}

fn protect(start: usize, len: usize, rights: c_int) -> bool {
    // SAFETY: pages of the C library, which keep the rights that they have and get or lose that to
    // be written to.
    unsafe { syscall(libc::SYS_mprotect, [start, len, rights as usize, 0, 0, 0]) == 0 }
}
