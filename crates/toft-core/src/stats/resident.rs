//! The kernel's figures of this process, read from `/proc/self` without allocation. They are for
//! the figures at the program's end. For a process that goes on, read them from outside instead
//! (`toft rss`).

use crate::options::parse_number;
use crate::os::process::{Mapping, read_lines};
use crate::region::Layout;

/// Bytes that the kernel counts as resident, by place. All are zero if there is no `/proc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Resident {
    pub rss: u64,
    pub pss: u64,
    pub anonymous: u64,
    pub lazy_free: u64,
    pub anon_huge_pages: u64,
    pub swap: u64,
    /// Page tables, which are not part of `rss`.
    pub page_tables: u64,
    /// The largest value that `rss` ever had.
    pub peak: u64,
    /// Parts of `rss` within the windows: slabs, large blocks, metadata.
    pub slabs: u64,
    pub large: u64,
    pub metadata: u64,
    /// The other parts of `rss`: files, the first thread's stack, the `brk` heap, other anonymous
    /// memory.
    pub files: u64,
    pub stack: u64,
    pub brk: u64,
    pub other: u64,
}

/// The place of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Slabs,
    Large,
    Metadata,
    Files,
    Stack,
    Brk,
    Other,
}

/// Returns the resident bytes of this process from its status, or `None` if there is no `/proc`.
pub fn resident_now() -> Option<u64> {
    let mut resident = None;
    read_lines(c"/proc/self/status", |line| {
        if let Some((b"VmRSS", bytes)) = field(line) {
            resident = Some(bytes);
        }
    });
    resident
}

impl Resident {
    /// Returns the current figures of a process whose windows are at `layout`.
    pub fn now(layout: &Layout) -> Resident {
        let mut all = Resident::default();
        let mut place = Place::Other;
        read_lines(c"/proc/self/smaps", |line| all.take(layout, &mut place, line));
        read_lines(c"/proc/self/status", |line| match field(line) {
            Some((b"VmPTE", bytes)) => all.page_tables = bytes,
            Some((b"VmHWM", bytes)) => all.peak = bytes,
            _ => {}
        });
        all
    }

    /// Adds a line of smaps. The first line of each mapping tells its place.
    fn take(&mut self, layout: &Layout, place: &mut Place, line: &[u8]) {
        if let Some(mapping) = Mapping::parse(line) {
            *place = place_of(layout, &mapping);
            return;
        }
        let Some((name, bytes)) = field(line) else { return };
        let term = match name {
            b"Rss" => {
                self.rss += bytes;
                match place {
                    Place::Slabs => &mut self.slabs,
                    Place::Large => &mut self.large,
                    Place::Metadata => &mut self.metadata,
                    Place::Files => &mut self.files,
                    Place::Stack => &mut self.stack,
                    Place::Brk => &mut self.brk,
                    Place::Other => &mut self.other,
                }
            }
            b"Pss" => &mut self.pss,
            b"Anonymous" => &mut self.anonymous,
            b"LazyFree" => &mut self.lazy_free,
            b"AnonHugePages" => &mut self.anon_huge_pages,
            b"Swap" => &mut self.swap,
            _ => return,
        };
        *term += bytes;
    }
}

fn place_of(layout: &Layout, mapping: &Mapping) -> Place {
    let windows = &layout.windows;
    let offset = mapping.start.wrapping_sub(windows.data);
    if offset < windows.data_bytes() {
        let large = windows.span..windows.span + windows.large_span;
        return if large.contains(&offset) { Place::Large } else { Place::Slabs };
    }
    if (windows.metadata()..layout.end).contains(&mapping.start) {
        return Place::Metadata;
    }
    match mapping.name {
        b"[heap]" => Place::Brk,
        b"[stack]" => Place::Stack,
        name if name.starts_with(b"/") => Place::Files,
        _ => Place::Other,
    }
}

/// Returns the name and the number of bytes of a line such as `Rss:    12 kB`.
fn field(line: &[u8]) -> Option<(&[u8], u64)> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
    let value = value.trim_ascii().strip_suffix(b"kB")?.trim_ascii();
    Some((name, (parse_number(value)? as u64).checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Windows;

    fn layout() -> Layout {
        let windows = Windows {
            data: 0x1000_0000,
            span: 0x10_0000,
            large_span: 0x20_0000,
            first_metadata: 0x7000_0000,
        };
        Layout::new(windows, 1 << 16, 4096)
    }

    #[test]
    fn each_mapping_is_counted_where_it_lies() {
        let mut all = Resident::default();
        let mut place = Place::Other;
        for line in [
            "10000000-10001000 rw-p 00000000 00:00 0 ",
            "Size:                  4 kB",
            "Rss:                   4 kB",
            "Pss:                   2 kB",
            "VmFlags: rd wr",
            "10100000-10101000 rw-p 00000000 00:00 0",
            "Rss:                   8 kB",
            "LazyFree:              1 kB",
            "10040000-10041000 rw-p 00000000 00:00 0",
            "Rss:                  16 kB",
            "70000000-70001000 rw-p 00000000 00:00 0",
            "Rss:                  32 kB",
            "7f0000-7f1000 r-xp 00000000 fe:00 1234   /usr/lib/with space.so",
            "Rss:                  64 kB",
            "7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0                [stack]",
            "Rss:                 128 kB",
            "55550000-55560000 rw-p 00000000 00:00 0                [heap]",
            "Rss:                 256 kB",
            "AnonHugePages:       100 kB",
            "66660000-66670000 rw-p 00000000 00:00 0",
            "Rss:                 512 kB",
            "Swap:                  3 kB",
        ] {
            all.take(&layout(), &mut place, line.as_bytes());
        }
        let kilobytes = |n: u64| n * 1024;
        let expected = Resident {
            rss: kilobytes(1020),
            pss: kilobytes(2),
            lazy_free: kilobytes(1),
            anon_huge_pages: kilobytes(100),
            swap: kilobytes(3),
            slabs: kilobytes(20),
            large: kilobytes(8),
            metadata: kilobytes(32),
            files: kilobytes(64),
            stack: kilobytes(128),
            brk: kilobytes(256),
            other: kilobytes(512),
            ..Resident::default()
        };
        assert_eq!(all, expected);
    }

    #[test]
    fn nonsense_counts_for_nothing() {
        let mut all = Resident::default();
        let mut place = Place::Other;
        for line in
            ["", "-", "Rss:", "Rss: kB", "Rss: 1x kB", "Rss: 99999999999999999999 kB", "abc"]
        {
            all.take(&layout(), &mut place, line.as_bytes());
        }
        assert_eq!((all, place), (Resident::default(), Place::Other));
    }

    #[test]
    fn this_process_has_figures() {
        let now = Resident::now(&layout());
        assert!(now.rss > 0 && now.files > 0 && now.stack > 0 && now.page_tables > 0, "{now:?}");
        assert!(now.peak >= now.rss / 2);
        let sum =
            now.slabs + now.large + now.metadata + now.files + now.stack + now.brk + now.other;
        assert_eq!(sum, now.rss);
    }
}
