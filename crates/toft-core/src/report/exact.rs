//! Finds the callers by the unwind tables.
//!
//! If Toft is a shared library, the tables lead out of its code. If it is part of the program (an
//! archive or a crate), the linker mixes its functions with the program's. The symbol table then
//! tells the two apart. A program that is linked with `-static` has no search table, but it has the
//! frame descriptions.

use super::call::read;
use super::module::Module;
use super::symbols::{for_each_function, section};
use super::unwind::{Base, Frame, Pointer, Source, describe, frame_in, frame_of, table_of};
use super::{is_return, module_of};

/// The most frames that are walked: the library's own, and those of the program that are kept.
const MOST: usize = 40;
/// The largest frame that is believed.
const LARGEST_FRAME: usize = 1 << 20;
const WORD: usize = size_of::<usize>();

/// Frames, the innermost first, and the place of the last one.
pub(super) struct Callers {
    addresses: [usize; MOST],
    count: usize,
    /// The number of frames that are this library's.
    own: usize,
    /// Where the last return address is, and the frame pointer of the function that it is in.
    pub(super) slot: usize,
    pub(super) frame: usize,
}

impl Callers {
    /// Returns the callers of a function of this library. The walk begins at an instruction of the
    /// function, with its registers. `own` is the file of the function. Returns `None` if the
    /// frames do not lead out of this library. In a stripped file no frame is known to be this
    /// library's.
    pub(super) fn walk(
        own: &Module,
        (instruction, stack, frame): (usize, usize, usize),
    ) -> Option<Callers> {
        let mut callers = Callers { addresses: [0; MOST], count: 0, own: 0, slot: 0, frame };
        let mut steps = Steps { module: *own, plain: None, asked: false };
        let (mut address, mut stack) = (instruction, stack);
        while let Some(place) = callers.addresses.get_mut(callers.count)
            && let Some((slot, frame)) = steps.up(address, stack, callers.frame)
            && let Some(next) = read(slot).filter(|&next| is_return(next))
        {
            *place = next;
            callers.count += 1;
            (callers.slot, callers.frame) = (slot, frame);
            (address, stack) = (next, slot + WORD);
        }
        callers.find_own(own);
        (callers.own < callers.count).then_some(callers)
    }

    /// Returns true if this library's frames were told apart from the program's.
    pub(super) fn has_own_frames(&self) -> bool {
        self.own > 0
    }

    /// Returns the return addresses into the program.
    pub(super) fn programs(&self) -> impl Iterator<Item = usize> + '_ {
        self.addresses.iter().take(self.count).skip(self.own).copied()
    }

    /// Counts the frames up to the outermost of this library. The only other code between those is
    /// Rust's `core`.
    fn find_own(&mut self, own: &Module) {
        let (addresses, count) = (&self.addresses, self.count);
        let mut innermost = 0;
        for_each_function(own, |name, start, end| {
            if !is_own(name) {
                return;
            }
            let is_in = |&address: &usize| (start..end).contains(&address.wrapping_sub(1));
            let last = addresses.iter().take(count).rposition(is_in);
            innermost = last.map_or(innermost, |last| innermost.max(last + 1));
        });
        self.own = innermost;
    }
}

/// This library, if it is a separate file: its code, and its search table.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnFile {
    /// The range of its code. Empty if the library is a part of the program.
    pub(super) text: (usize, usize),
    table: usize,
}

impl OwnFile {
    /// A library that is a part of the program.
    pub const NONE: OwnFile = OwnFile { text: (0, 0), table: 0 };

    pub(super) fn of(library: &Module) -> OwnFile {
        OwnFile { text: library.text, table: table_of(library).unwrap_or(0) }
    }

    /// Returns the stack slot of the first return address outside the library, and the frame
    /// pointer of the function there. Starts at an instruction of the library, with its stack and
    /// frame pointers.
    pub(super) fn way_out(
        &self,
        (mut address, mut stack, mut frame): (usize, usize, usize),
    ) -> Option<(usize, usize)> {
        for _ in 0..MOST {
            let described = describe(Source::KERNEL, self.table, address)?.frame?;
            let (slot, before) = step(&described, stack, frame)?;
            let next = read(slot).filter(|&next| is_return(next))?;
            if !(self.text.0..self.text.1).contains(&next) {
                return Some((slot, before));
            }
            (address, stack, frame) = (next, slot + WORD, before);
        }
        None
    }
}

/// Returns where the return address of a function with this frame is, and its caller's frame
/// pointer. The stack pointer is as it is after the call that the function waits for.
fn step(frame: &Frame, stack: usize, pointer: usize) -> Option<(usize, usize)> {
    let end = match frame.base {
        Base::AboveStack(bytes) => stack.checked_add(bytes)?,
        Base::AboveFrame(bytes) => pointer.checked_add(bytes)?,
    };
    if end <= stack || end - stack > LARGEST_FRAME {
        return None;
    }
    let before = match frame.pointer {
        Pointer::Untouched => pointer,
        Pointer::Below(bytes) => read(end.checked_sub(bytes)?)?,
        Pointer::Unknown => 0,
    };
    Some((end - WORD, before))
}

/// Returns true if a function is this library's by its name. It is then of this crate or of one
/// that carries it, in either mangling, or one that the archive exports.
fn is_own(name: &[u8]) -> bool {
    const OPERATORS: [&[u8]; 4] = [b"_Znw", b"_Zna", b"_Zdl", b"_Zda"];
    const CALLS: [&[u8]; 8] = [
        b"free",
        b"cfree",
        b"__libc_free",
        b"free_sized",
        b"free_aligned_sized",
        b"realloc",
        b"reallocarray",
        b"malloc_usable_size",
    ];
    const CRATES: [&[u8]; 8] = [
        b"4toft",
        b"9toft_core",
        b"10toft_watch",
        b"9toft_zone",
        b"$LT$toft..",
        b"$LT$toft_core..",
        b"$LT$toft_watch..",
        b"$LT$toft_zone..",
    ];
    let has = |part: &[u8]| name.windows(part.len()).any(|bytes| bytes == part);
    CALLS.contains(&name)
        || OPERATORS.iter().any(|operator| name.starts_with(operator))
        || name.starts_with(b"toft_")
        || (name.starts_with(b"_ZN") || name.starts_with(b"_R")) && CRATES.into_iter().any(has)
}

/// Steps from a frame to its caller's, by the tables of the file that contains each.
struct Steps {
    module: Module,
    /// The descriptions of a file without a search table. `asked` is true if they were looked for.
    plain: Option<(usize, usize)>,
    asked: bool,
}

impl Steps {
    /// Returns where the return address of the function at `address` is, and its caller's frame
    /// pointer.
    fn up(&mut self, address: usize, stack: usize, pointer: usize) -> Option<(usize, usize)> {
        let (start, end) = self.module.text;
        if !(start..end).contains(&address) {
            *self = Steps { module: module_of(address)?, plain: None, asked: false };
        }
        step(&self.describe(address)?, stack, pointer)
    }

    fn describe(&mut self, address: usize) -> Option<Frame> {
        if let Some(frame) = frame_of(&self.module, address) {
            return Some(frame);
        }
        if !self.asked {
            self.asked = true;
            self.plain = section(&self.module, b".eh_frame");
        }
        frame_in(self.plain?, address)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::call::here;
    use super::*;

    #[test]
    fn names_of_this_crate_and_of_what_the_archive_exports_are_own() {
        for name in [
            "_ZN10toft_watch4exit6report17hcdd2b4865b88c8b1E",
            "_ZN55_$LT$toft..global..Toft$u20$as$u20$core..alloc..GlobalAlloc$GT$7dealloc17h0E",
            "_RNvNtCs1234_9toft_core4path4free",
            "_ZN9toft_zone5calls4free17hcdd2b4865b88c8b1E",
            "_ZN48_$LT$toft_zone..lock..Held$LT$O$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0E",
            "_ZN4toft3cxx6new_at17hcdd2b4865b88c8b1E",
            "free",
            "_ZdlPvm",
            "toft_purge",
        ] {
            assert!(is_own(name.as_bytes()), "{name}");
        }
        for name in [
            "main",
            "free_list",
            "_ZN9toft_user4main17h0E",
            "_start",
            "my_4toft",
            "_ZN3foo4bar17hE",
        ] {
            assert!(!is_own(name.as_bytes()), "{name}");
        }
    }

    #[inline(never)]
    fn inner(found: &mut Option<(std::vec::Vec<usize>, usize)>) {
        let (own, mut addresses) =
            (module_of(inner as *const () as usize).unwrap(), std::vec::Vec::new());
        let (mut address, mut stack, mut frame) = here();
        let mut steps = Steps { module: own, plain: None, asked: false };
        while let Some((slot, pointer)) = steps.up(address, stack, frame)
            && let Some(next) = read(slot).filter(|&next| is_return(next))
        {
            addresses.push(next);
            (address, stack, frame) = (next, slot + WORD, pointer);
        }
        // The descriptions alone give the same frames, as in a program without a table.
        let all = section(&own, b".eh_frame").unwrap();
        let same = addresses.iter().filter(|&&address| {
            module_of(address).is_some_and(|module| module.base == own.base)
                && frame_in(all, address) == frame_of(&own, address)
        });
        let count = same.count();
        *found = Some((addresses, count));
    }

    #[inline(never)]
    fn outer(found: &mut Option<(std::vec::Vec<usize>, usize)>) {
        inner(found);
        core::hint::black_box(());
    }

    // A frame that the compiler keeps. The test's own frame may be part of its caller's.
    #[inline(never)]
    fn outermost(found: &mut Option<(std::vec::Vec<usize>, usize)>) {
        outer(found);
        core::hint::black_box(());
    }

    #[test]
    fn tables_lead_from_frame_to_frame_to_the_thread_s_beginning() {
        let mut found = None;
        outermost(&mut found);
        let (addresses, same) = found.unwrap();
        let own = module_of(inner as *const () as usize).unwrap();
        // The linker may give one address several names.
        let names = addresses.iter().map(|&address| {
            let mut names = std::string::String::new();
            for_each_function(&own, |name, start, end| {
                if (start..end).contains(&(address - 1)) {
                    names.push_str(&std::string::String::from_utf8_lossy(name));
                    names.push(' ');
                }
            });
            names
        });
        let names: std::vec::Vec<_> = names.collect();
        assert!(names[0].contains("outer"), "{names:?}");
        assert!(names[1].contains("outermost"), "{names:?}");
        assert!(
            names.iter().any(|name| name.contains("thread_start") || name.contains("Thread")),
            "{names:?}"
        );
        // All except the frames in libc.
        assert!(same + 3 >= addresses.len() && same > 5, "{same} of {}", addresses.len());
    }
}
