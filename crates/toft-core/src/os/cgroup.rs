//! The memory limit of the process's cgroup, and how short of memory the cgroup is.
//!
//! ```text
//! /proc/self/cgroup   0::/a/b            v2: /sys/fs/cgroup/a/b, its parents, and the root
//!                     4:memory:/a/b      v1: /sys/fs/cgroup/memory/a/b and so on
//! ```
//!
//! A container sees its own group at the root, with or without a name space of cgroups. A path that
//! does not exist is skipped, and the root is read in any case. All reads are raw system calls, and
//! use no memory of malloc. If nothing can be read, the result is empty.

use super::filter::Permit;
use super::process::{self, LINE, Lines};
use core::ffi::CStr;

/// How short of memory a group of processes is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The used memory, without what the kernel can just drop, in thousandths of a limit. The limit
    /// is `memory.high` or `memory.max` of the group or of a group above it, whichever is nearest
    /// to being reached.
    pub fullness: Option<u32>,
    /// The share of the last ten seconds in which some task waited for memory, in hundredths of a
    /// percent.
    pub pressure: Option<u32>,
}

/// Returns how short of memory the process's group is. A filter of system calls may kill a process
/// that opens a file. Each file therefore needs a permit, and a file without one is not read.
pub fn group<'a>(permit: &dyn Fn() -> Option<Permit<'a>>) -> Group {
    group_in(&|path, each| {
        if let Some(_permit) = permit() {
            process::read_file(path, each);
        }
    })
}

/// Returns the bytes of memory that the process's group, or else the machine, has. Call it only at
/// the start of a process. A process that has just loaded its libraries may open files, even under
/// a filter.
#[cold]
#[inline(never)]
pub fn memory_there_is() -> Option<usize> {
    there_is_in(&|path, each| process::read_file(path, each))
}

/// Reads a file by its path and passes its pieces on. Passes nothing if there is no such file.
type Read<'a> = &'a dyn Fn(&CStr, &mut dyn FnMut(&[u8]));

const LONGEST: usize = 512;
/// The value that v1 writes for "no limit" is a little less than 2^63.
const NO_LIMIT: usize = 1 << 60;

/// The names of the files that are read, in one version of cgroups.
struct Names {
    root: &'static [u8],
    limits: &'static [&'static [u8]],
    /// The number of soft limits, which come first in `limits`. Beyond a soft limit the kernel
    /// slows the group down.
    soft: usize,
    current: &'static [u8],
    /// The part of the current bytes that is pages of files, which the kernel drops first.
    droppable: &'static [u8],
    pressure: Option<&'static [u8]>,
}

const V2: Names = Names {
    root: b"/sys/fs/cgroup",
    limits: &[b"/memory.high", b"/memory.max"],
    soft: 1,
    current: b"/memory.current",
    droppable: b"inactive_file ",
    pressure: Some(b"/memory.pressure"),
};

const V1: Names = Names {
    root: b"/sys/fs/cgroup/memory",
    limits: &[b"/memory.limit_in_bytes"],
    soft: 0,
    current: b"/memory.usage_in_bytes",
    droppable: b"total_inactive_file ",
    pressure: None,
};

/// A path that ends with a zero.
#[derive(Clone, Copy)]
struct Path {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Path {
    fn of(parts: &[&[u8]]) -> Option<Path> {
        let mut path = Path { bytes: [0; LONGEST], len: 0 };
        parts.iter().try_for_each(|part| path.push(part))?;
        Some(path)
    }

    fn push(&mut self, part: &[u8]) -> Option<()> {
        let end = self.len.checked_add(part.len()).filter(|&end| end < LONGEST)?;
        self.bytes.get_mut(self.len..end)?.copy_from_slice(part);
        self.len = end;
        Some(())
    }

    /// Returns the path without its last part, or `None` if there is none after the first `least`
    /// bytes.
    fn parent(mut self, least: usize) -> Option<Path> {
        let slash = self.bytes.get(least..self.len)?.iter().rposition(|&byte| byte == b'/')?;
        self.bytes.get_mut(least + slash..self.len)?.fill(0);
        self.len = least + slash;
        Some(self)
    }

    fn with(mut self, part: &[u8]) -> Option<Path> {
        self.push(part)?;
        Some(self)
    }

    fn text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

/// Calls `each` with each line of a file, which is cut off if it is too long.
fn lines(read: Read<'_>, path: &CStr, mut each: impl FnMut(&[u8])) {
    let mut lines = Lines { line: &mut [0; LINE], len: 0 };
    read(path, &mut |piece| lines.take(piece, &mut each));
    if lines.len != 0 {
        lines.take(b"\n", each);
    }
}

/// Returns the number at the start of a text.
fn number(text: &[u8]) -> Option<usize> {
    let digits = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    crate::options::parse_number(text.get(..digits)?)
}

/// Returns the number in a file, or `None` if it is `max` or the value that means no limit.
fn value(read: Read<'_>, path: Option<Path>) -> Option<usize> {
    let mut found = None;
    lines(read, path?.text(), |line| found = found.or_else(|| number(line)));
    found.filter(|&bytes| bytes < NO_LIMIT)
}

/// Calls `each` with the process's group and all groups above it, in each version of cgroups.
fn for_each_level(read: Read<'_>, mut each: impl FnMut(&Names, &Path, bool)) {
    let mut groups = [None; 2];
    // No file is read while another is open, because each needs a separate permit.
    lines(read, c"/proc/self/cgroup", |line| {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            return;
        };
        let (names, place) = if controllers.is_empty() {
            (&V2, 0)
        } else if controllers.split(|&byte| byte == b',').any(|name| name == b"memory") {
            (&V1, 1)
        } else {
            return;
        };
        // The group may be outside of what the process can see.
        let outside = path.windows(3).any(|part| part == b"/..");
        let path = if outside || path == b"/" { &[] } else { path };
        let level = Path::of(&[names.root, path]).or_else(|| Path::of(&[names.root]));
        if let Some(group) = groups.get_mut(place) {
            *group = level;
        }
    });
    for (names, group) in [&V2, &V1].into_iter().zip(groups) {
        let mut level = group;
        let mut own = true;
        while let Some(path) = level {
            each(names, &path, own);
            own = false;
            level = path.parent(names.root.len());
        }
    }
}

fn there_is_in(read: Read<'_>) -> Option<usize> {
    limit_in(read).into_iter().chain(machine_in(read)).min()
}

/// Returns the bytes of the machine's memory from a line such as `MemTotal:  24683752 kB`.
fn machine_in(read: Read<'_>) -> Option<usize> {
    let mut found = None;
    lines(read, c"/proc/meminfo", |line| {
        if let Some(text) = line.strip_prefix(b"MemTotal:") {
            found = number(text.trim_ascii_start()).and_then(|kib| kib.checked_mul(1024));
        }
    });
    found
}

/// Returns the least hard limit of all levels.
fn limit_in(read: Read<'_>) -> Option<usize> {
    let mut least = None;
    for_each_level(read, |names, level, _| {
        for name in names.limits.iter().skip(names.soft) {
            let limit = value(read, level.with(name));
            least = least.into_iter().chain(limit).min();
        }
    });
    least
}

fn group_in(read: Read<'_>) -> Group {
    let mut group = Group::default();
    for_each_level(read, |names, level, own| {
        let limit = names.limits.iter().filter_map(|name| value(read, level.with(name))).min();
        if let Some(limit) = limit
            && let Some(current) = value(read, level.with(names.current))
        {
            let used = current.saturating_sub(droppable(read, names, level));
            let fullness = (used as u128 * 1000 / limit.max(1) as u128).min(1 << 20) as u32;
            group.fullness = group.fullness.max(Some(fullness));
        }
        if own && let Some(name) = names.pressure {
            group.pressure = group.pressure.max(pressure(read, level.with(name)));
        }
    });
    group
}

fn droppable(read: Read<'_>, names: &Names, level: &Path) -> usize {
    let mut bytes = 0;
    if let Some(path) = level.with(b"/memory.stat") {
        lines(read, path.text(), |line| {
            bytes = line.strip_prefix(names.droppable).and_then(number).unwrap_or(bytes);
        });
    }
    bytes
}

/// Returns the pressure: `some avg10=1.50 avg60=...` is 150.
fn pressure(read: Read<'_>, path: Option<Path>) -> Option<u32> {
    let mut found = None;
    lines(read, path?.text(), |line| {
        if let Some(text) = line.strip_prefix(b"some avg10=") {
            let whole = number(text);
            let cents = text.iter().position(|&byte| byte == b'.');
            let cents = cents.and_then(|dot| number(text.get(dot + 1..dot + 3)?)).unwrap_or(0);
            found = whole.map(|whole| (whole.min(100) * 100 + cents.min(99)) as u32);
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `body` on a system with these files.
    fn with<R>(files: &[(&str, &str)], body: impl Fn(Read<'_>) -> R) -> R {
        // The text is passed in pieces, as a file may be read.
        body(&|path, each| {
            let wanted = path.to_str().unwrap();
            for (_, text) in files.iter().filter(|(name, _)| *name == wanted) {
                text.as_bytes().chunks(7).for_each(&mut *each);
            }
        })
    }

    const GROUP: (&str, &str) = ("/proc/self/cgroup", "0::/a/b\n");

    #[test]
    fn the_tightest_limit_of_all_levels_counts() {
        let level = |name, text| (name, text);
        let files = [
            GROUP,
            level("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            level("/sys/fs/cgroup/a/memory.max", "2000000\n"),
            level("/sys/fs/cgroup/memory.max", "3000000\n"),
        ];
        assert_eq!(with(&files, limit_in), Some(2_000_000));
        assert_eq!(with(&files[..2], limit_in), None);
        assert_eq!(with(&files[..1], limit_in), None);
        assert_eq!(with(&[], limit_in), None);
        // A soft limit is not a limit.
        let soft = [GROUP, ("/sys/fs/cgroup/a/b/memory.high", "1000\n")];
        assert_eq!(with(&soft, limit_in), None);
    }

    #[test]
    fn no_file_is_read_while_another_is_open() {
        let open = core::cell::Cell::new(false);
        let mut files = 0;
        let count = core::cell::Cell::new(0);
        for_each_level(
            &|_, each| {
                assert!(!open.replace(true));
                count.set(count.get() + 1);
                each(b"0::/a/b\n4:memory:/c\n");
                open.set(false);
            },
            |_, _, _| {
                assert!(!open.get());
                files += 1;
            },
        );
        assert_eq!((files, count.get()), (5, 1));
        let group = group_in(&|_, each| {
            assert!(!open.replace(true), "{open:?}");
            each(b"0::/a\n");
            open.set(false);
        });
        assert_eq!(group.pressure, None);
    }

    #[test]
    fn the_machine_counts_where_no_group_says_less() {
        let machine = ("/proc/meminfo", "MemFree:  1 kB\nMemTotal:       24683752 kB\nx\n");
        assert_eq!(with(&[machine], there_is_in), Some(24_683_752 << 10));
        let group = ("/sys/fs/cgroup/memory.max", "4096\n");
        assert_eq!(with(&[machine, GROUP, group], there_is_in), Some(4096));
        assert_eq!(with(&[GROUP, group], there_is_in), Some(4096));
        assert_eq!(with(&[GROUP], there_is_in), None);
    }

    #[test]
    fn version_one_and_containers_without_a_name_space() {
        let groups = "9:name=systemd:/x\n4:cpu,memory:/docker/0\n3:memoryless:/y\n0::/\n";
        let files = [
            ("/proc/self/cgroup", groups),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n"),
        ];
        assert_eq!(with(&files, limit_in), Some(100 << 20));
        let none = [
            ("/proc/self/cgroup", groups),
            ("/sys/fs/cgroup/memory/docker/0/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(with(&none, limit_in), None);
        let outside = [
            ("/proc/self/cgroup", "0::/../../z\n"),
            ("/sys/fs/cgroup/memory.max", "77\n"),
            ("/sys/fs/cgroup/../../z/memory.max", "5\n"),
        ];
        assert_eq!(with(&outside, limit_in), Some(77));
    }

    #[test]
    fn a_path_that_is_too_long_leaves_the_root() {
        let long = format!("0::/{}\n", "x".repeat(LONGEST));
        let files = [("/proc/self/cgroup", &long[..]), ("/sys/fs/cgroup/memory.max", "77\n")];
        assert_eq!(with(&files, limit_in), Some(77));
    }

    #[test]
    fn fullness_is_of_the_nearest_limit_without_what_can_be_dropped() {
        let files = [
            GROUP,
            ("/sys/fs/cgroup/a/b/memory.high", "1000000\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "2000000\n"),
            ("/sys/fs/cgroup/a/b/memory.current", "950000\n"),
            ("/sys/fs/cgroup/a/b/memory.stat", "anon 1\nfile 300000\ninactive_file 200000\n"),
            ("/sys/fs/cgroup/a/b/memory.pressure", "some avg10=12.34 avg60=0\nfull avg10=99.00\n"),
            ("/sys/fs/cgroup/a/memory.pressure", "some avg10=50.00\n"),
        ];
        let group = with(&files, group_in);
        assert_eq!(group, Group { fullness: Some(750), pressure: Some(1234) });
        let parent = [
            GROUP,
            ("/sys/fs/cgroup/a/memory.max", "1000\n"),
            ("/sys/fs/cgroup/a/memory.current", "990\n"),
            ("/sys/fs/cgroup/memory.max", "max\n"),
            ("/sys/fs/cgroup/memory.current", "123456789\n"),
        ];
        assert_eq!(with(&parent, group_in), Group { fullness: Some(990), pressure: None });
        assert_eq!(with(&[GROUP], group_in), Group::default());
    }

    #[test]
    fn pressures_are_read_to_the_hundredth() {
        let of = |text| with(&[("/p", text)], |read| pressure(read, Path::of(&[b"/p"])));
        assert_eq!(of("some avg10=0.00 avg60=1.00\n"), Some(0));
        assert_eq!(of("some avg10=100.00 avg60=1.00"), Some(10_000));
        assert_eq!(of("some avg10=7.5\n"), Some(700));
        assert_eq!(of("some\n"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn numbers_of_any_length_are_no_danger() {
        let files = [GROUP, ("/sys/fs/cgroup/memory.max", "99999999999999999999999999\n")];
        assert_eq!(with(&files, limit_in), None);
        let zero =
            [GROUP, ("/sys/fs/cgroup/memory.max", "0\n"), ("/sys/fs/cgroup/memory.current", "5\n")];
        assert_eq!(with(&zero, group_in).fullness, Some(5000));
    }
}
