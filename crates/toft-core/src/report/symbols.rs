//! Finds functions and variables of a module by their names, in the symbol tables of its file.
//!
//! The file is mapped while it is read, because the names of a program that was not stripped are
//! nowhere else. For the names that a library exports the loader's tables would do, but their form
//! in memory is private to the loader. Nothing that is read is trusted.

use super::module::Module;
use crate::os::process::with_file;
use core::ffi::CStr;

const SYMTAB: usize = 2;
const DYNSYM: usize = 11;
/// The types of variables, of functions, and of functions that are chosen at the start.
const VARIABLE: u8 = 1;
const FUNCTION: u8 = 2;
const INDIRECT: u8 = 10;
/// The most bytes of a path, with a final zero.
const PATH: usize = 512;

/// Passes every function of the file that `module` was mapped from to `each`: its name, and its
/// start and end in this process. Returns false if the file cannot be read.
pub fn for_each_function(module: &Module, each: impl FnMut(&[u8], usize, usize)) -> bool {
    for_each(module, &[FUNCTION, INDIRECT], each)
}

/// Passes every function and every variable of the file that `module` was mapped from to `each`:
/// its name, and its start and end in this process. Returns false if the file cannot be read.
pub fn for_each_symbol(module: &Module, each: impl FnMut(&[u8], usize, usize)) -> bool {
    for_each(module, &[VARIABLE, FUNCTION, INDIRECT], each)
}

fn for_each(module: &Module, kinds: &[u8], mut each: impl FnMut(&[u8], usize, usize)) -> bool {
    let bias = module.bias();
    let mut fits = false;
    with_file_of(module, |file| {
        fits = symbols(file, kinds, |name, start, bytes| {
            each(name, bias.wrapping_add(start), bias.wrapping_add(start).wrapping_add(bytes));
        })
        .is_some();
    });
    fits
}

/// Returns the address in this process, and the bytes, of a section of the file that `module` was
/// mapped from.
pub fn section(module: &Module, wanted: &[u8]) -> Option<(usize, usize)> {
    let mut found = None;
    with_file_of(module, |file| found = section_of(file, wanted));
    let (start, bytes) = found?;
    Some((module.bias().wrapping_add(start), bytes))
}

fn with_file_of(module: &Module, body: impl FnOnce(&[u8])) {
    let mut path = [0u8; PATH];
    let name = module.path();
    let Some(place) = path.get_mut(..name.len()) else { return };
    place.copy_from_slice(name);
    if let Ok(path) = CStr::from_bytes_until_nul(&path) {
        with_file(path, body);
    }
}

fn section_of(file: &[u8], wanted: &[u8]) -> Option<(usize, usize)> {
    if !file.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let (table, size, count) = (number(file, 40, 8)?, number(file, 58, 2)?, number(file, 60, 2)?);
    let section = |index: usize| part(file, table.checked_add(index.checked_mul(size)?)?, 64);
    let names = section(number(file, 62, 2)?)?;
    let names = part(file, number(names, 24, 8)?, number(names, 32, 8)?)?;
    let is_wanted = |header: &&[u8]| {
        let name = number(header, 0, 4).and_then(|at| names.get(at..));
        name.and_then(|name| name.strip_prefix(wanted)).is_some_and(|rest| rest.first() == Some(&0))
    };
    let header = (0..count).map_while(section).find(is_wanted)?;
    Some((number(header, 16, 8)?, number(header, 32, 8)?))
}

fn number(bytes: &[u8], at: usize, count: usize) -> Option<usize> {
    let mut word = [0u8; 8];
    word.get_mut(..count)?.copy_from_slice(bytes.get(at..at.checked_add(count)?)?);
    usize::try_from(u64::from_le_bytes(word)).ok()
}

fn part(file: &[u8], at: usize, bytes: usize) -> Option<&[u8]> {
    file.get(at..at.checked_add(bytes)?)
}

/// Passes each symbol of these kinds of a 64-bit ELF file to `each`: its name, address and bytes. A
/// symbol in both tables is passed twice.
fn symbols(file: &[u8], kinds: &[u8], mut each: impl FnMut(&[u8], usize, usize)) -> Option<()> {
    if !file.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let (table, size, count) = (number(file, 40, 8)?, number(file, 58, 2)?, number(file, 60, 2)?);
    let section = |index: usize| part(file, table.checked_add(index.checked_mul(size)?)?, 64);
    for index in 0..count {
        let header = section(index)?;
        let kind = number(header, 4, 4)?;
        if kind != SYMTAB && kind != DYNSYM {
            continue;
        }
        let entries = part(file, number(header, 24, 8)?, number(header, 32, 8)?)?;
        let strings = section(number(header, 40, 4)?)?;
        let strings = part(file, number(strings, 24, 8)?, number(strings, 32, 8)?)?;
        for symbol in entries.chunks_exact(24) {
            let kind = symbol.get(4)? & 15;
            let bytes = number(symbol, 16, 8)?;
            if !kinds.contains(&kind) || number(symbol, 6, 2)? == 0 || bytes == 0 {
                continue;
            }
            let name = strings.get(number(symbol, 0, 4)?..).unwrap_or(&[]);
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(0);
            each(name.get(..end)?, number(symbol, 8, 8)?, bytes);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::module::module_of;
    use super::*;

    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn toft_test_of_symbols() -> usize {
        core::hint::black_box(7)
    }

    #[test]
    fn a_function_of_this_program_is_where_its_name_says() {
        let here = toft_test_of_symbols as *const () as usize;
        assert_eq!(toft_test_of_symbols(), 7);
        let (mut found, mut count) = (Vec::new(), 0);
        assert!(for_each_function(&module_of(here).unwrap(), |name, start, end| {
            count += 1;
            if name == b"toft_test_of_symbols" {
                found.push((start, end));
            }
        }));
        assert!(!found.is_empty() && found.iter().all(|&(start, end)| start == here && end > here));
        assert!(count > 100, "{count}");
    }

    #[test]
    fn a_library_s_exported_functions_are_found() {
        let here = libc::getpid as *const () as usize;
        let mut hit = false;
        assert!(for_each_function(&module_of(here).unwrap(), |name, start, end| {
            hit |= name.ends_with(b"getpid") && (start..end).contains(&here);
        }));
        assert!(hit);
    }

    /// Cuts the file off or changes it anywhere. The process must not end.
    #[test]
    fn files_that_make_no_sense_do_no_harm() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        let functions = |file: &[u8]| symbols(file, &[FUNCTION], |_, _, _| {});
        assert!(functions(b"").is_none());
        assert!(functions(&file[..60]).is_none());
        for cut in (64..file.len()).step_by(file.len() / 50) {
            assert!(functions(&file[..cut]).is_none());
        }
        for at in 0..64 {
            let mut bad = file[..].to_vec();
            bad[at] ^= 0xff;
            functions(&bad);
        }
    }
}
