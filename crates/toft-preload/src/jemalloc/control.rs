//! `mallctl`, `mallctlnametomib` and `mallctlbymib`: the arguments, as jemalloc checks them.

use super::figures::Figures;
use super::names::{self, Found};
use super::values::{self, Access, Value};
use core::ffi::{CStr, c_char, c_int, c_void};

/// What the program wants to have, and what it gives.
struct Arguments {
    old: *mut c_void,
    old_len: *mut usize,
    new: *mut c_void,
    new_len: usize,
}

impl Arguments {
    fn reads(&self) -> bool {
        !self.old.is_null() || !self.old_len.is_null()
    }

    fn writes(&self) -> bool {
        !self.new.is_null() || self.new_len != 0
    }

    /// Hands a value over. `EINVAL` if the program has other room than the value needs: it gets
    /// what fits.
    ///
    /// # Safety
    /// 1. As for jemalloc's mallctl: each pointer is null, or leads to as many bytes as stated.
    unsafe fn hand_over(&self, value: Value) -> Result<(), c_int> {
        if self.old.is_null() || self.old_len.is_null() {
            return Ok(());
        }
        let (bytes, size) = value.bytes();
        // SAFETY: duty 1.
        let room = unsafe { *self.old_len };
        let copied = room.min(size);
        // SAFETY: duty 1; `bytes` has at least as many.
        unsafe { self.old.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), copied) };
        if room == size {
            return Ok(());
        }
        // SAFETY: duty 1.
        unsafe { *self.old_len = copied };
        Err(libc::EINVAL)
    }

    /// Returns the new value of `size` bytes; `None` if the program gives none, `EINVAL` if it has
    /// another size.
    ///
    /// # Safety
    /// 1. As for [`Arguments::hand_over`].
    unsafe fn new_value(&self, size: usize) -> Result<Option<u64>, c_int> {
        if self.new.is_null() {
            return Ok(None);
        }
        let mut bytes = [0u8; 8];
        if self.new_len != size || size > bytes.len() {
            return Err(libc::EINVAL);
        }
        // SAFETY: duty 1; `bytes` is as long.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.new.cast(), size) };
        Ok(Some(u64::from_le_bytes(bytes)))
    }
}

/// # Safety
/// 1. As for [`Arguments::hand_over`].
unsafe fn control(found: Found, arguments: &Arguments) -> Result<(), c_int> {
    let figures = Figures::get().ok_or(libc::EAGAIN)?;
    match found.name.access() {
        Access::Read if arguments.writes() => Err(libc::EPERM),
        // SAFETY: (1) the caller's.
        Access::Read => unsafe { arguments.hand_over(values::read(found, figures)?) },
        Access::ReadWrite(size) => {
            // SAFETY: (1) the caller's.
            if let Some(new) = unsafe { arguments.new_value(size) }? {
                values::write(found, new, figures)?;
            }
            // SAFETY: (1) the caller's.
            unsafe { arguments.hand_over(values::read(found, figures)?) }
        }
        Access::Write(_) if arguments.reads() => Err(libc::EPERM),
        Access::Write(size) => {
            // SAFETY: (1) the caller's.
            let new = unsafe { arguments.new_value(size) }?.ok_or(libc::EINVAL)?;
            values::write(found, new, figures)
        }
        Access::Create if !arguments.new.is_null() => {
            // Functions of the program that map memory for an arena: Toft would not call them.
            Err(libc::EPERM)
        }
        Access::Create => {
            if arguments.old_len.is_null() {
                return Err(libc::EINVAL);
            }
            // SAFETY: (1) the caller's.
            let room = unsafe { &mut *arguments.old_len };
            if arguments.old.is_null() || *room != size_of::<u32>() {
                *room = 0;
                return Err(libc::EINVAL);
            }
            // SAFETY: (1) the caller's.
            unsafe { arguments.hand_over(values::read(found, figures)?) }
        }
        Access::Act if arguments.reads() || arguments.writes() => Err(libc::EPERM),
        Access::Act => values::act(found, figures),
    }
}

fn status(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(0)
}

/// `mallctl`: reads or writes what a name stands for. Returns 0 or an error number.
///
/// # Safety
/// 1. `name` is a C string.
/// 2. Each other pointer is null, or leads to as many bytes as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallctl(
    name: *const c_char,
    old: *mut c_void,
    old_len: *mut usize,
    new: *mut c_void,
    new_len: usize,
) -> c_int {
    // SAFETY: duty 1.
    let name = unsafe { CStr::from_ptr(name) };
    let arguments = Arguments { old, old_len, new, new_len };
    let found = names::by_name(name.to_bytes());
    // SAFETY: (1) duty 2.
    status(found.and_then(|found| unsafe { control(found, &arguments) }))
}

/// `mallctlnametomib`: the numbers that stand for a name. Returns 0 or an error number.
///
/// # Safety
/// 1. `name` is a C string, `len` a number, and `mib` has room for that many numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallctlnametomib(
    name: *const c_char,
    mib: *mut usize,
    len: *mut usize,
) -> c_int {
    // SAFETY: duty 1.
    let (name, room) = unsafe { (CStr::from_ptr(name), *len) };
    let found = names::numbers(name.to_bytes(), |at, number| {
        if at < room {
            // SAFETY: duty 1.
            unsafe { mib.add(at).write(number) };
        }
    });
    if let Ok(depth) = found {
        // SAFETY: duty 1.
        unsafe { *len = depth.min(room) };
    }
    let exists = || match (names::by_name(name.to_bytes()), Figures::get()) {
        (Ok(found), Some(figures)) => values::exists(found, figures),
        _ => Ok(()),
    };
    status(found.and_then(|_| exists()))
}

/// `mallctlbymib`: as `mallctl`, by the numbers of a name.
///
/// # Safety
/// 1. `mib` leads to `mib_len` numbers.
/// 2. As for [`mallctl`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallctlbymib(
    mib: *const usize,
    mib_len: usize,
    old: *mut c_void,
    old_len: *mut usize,
    new: *mut c_void,
    new_len: usize,
) -> c_int {
    if mib.is_null() || mib_len == 0 {
        return libc::ENOENT;
    }
    // SAFETY: duty 1.
    let mib = unsafe { core::slice::from_raw_parts(mib, mib_len) };
    let arguments = Arguments { old, old_len, new, new_len };
    // SAFETY: (1) duty 2.
    status(names::by_mib(mib).and_then(|found| unsafe { control(found, &arguments) }))
}
