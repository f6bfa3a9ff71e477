//! The whole of a process's resident memory, each byte named: ours by what it is, the rest by what
//! it is mapped from.

use serde::Serialize;
use toft_core::stats::Root;

use crate::kernel::{self, Area, Counts, Kernel, Task};
use crate::module::Modules;
use crate::{Account, Error, Memory, Owner, Process, Tables, account, find, owners};

/// How often a process that changes much is read, before the calmest reading is taken.
const READINGS: u32 = 3;
/// A reading is calm enough when meanwhile the process has not grown or shrunk by more than this
/// share of itself, as a divisor.
const CALM: u64 = 200;

/// How much the process changed while it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// How often it was read.
    pub tries: u32,
    /// Resident bytes before.
    pub rss_before: u64,
    /// And after.
    pub rss_after: u64,
}

impl Reading {
    fn moved(&self) -> u64 {
        self.rss_before.abs_diff(self.rss_after)
    }
}

/// Resident memory that is not Toft's, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Others {
    /// The program, its libraries and other files that it runs code from, their zeroed data
    /// included.
    pub programs: u64,
    /// Other files that are mapped.
    pub files: u64,
    /// Shared memory.
    pub shared: u64,
    /// The first thread's stack, and those of threads that sleep.
    pub stacks: u64,
    /// The heap that `brk` makes: something of the program does not use malloc.
    pub brk: u64,
    /// Other anonymous memory: the program's own mappings, stacks of threads that were running.
    pub anonymous: u64,
    /// The kernel's own: vdso and the like.
    pub kernel: u64,
}

impl Others {
    /// All of it.
    pub fn sum(&self) -> u64 {
        self.programs
            + self.files
            + self.shared
            + self.stacks
            + self.brk
            + self.anonymous
            + self.kernel
    }
}

/// A process's resident memory, explained.
#[derive(Clone, Debug)]
pub struct Rss {
    /// The process.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// The version of Toft that it runs on.
    pub version: String,
    /// The file that its Toft is in.
    pub library: String,
    /// Number of partitions.
    pub partitions: u64,
    /// The limit of Toft's memory in bytes, if it has one.
    pub limit: Option<u64>,
    /// The kernel's view.
    pub counts: Counts,
    /// Of that, what is in Toft's windows.
    pub ours: Counts,
    /// The most that was ever resident.
    pub peak_rss: u64,
    /// Page tables, on top of everything else.
    pub page_tables: u64,
    /// What is not ours.
    pub others: Others,
    /// What is ours.
    pub account: Account,
    /// Its heaps and their threads, most live bytes first.
    pub owners: Vec<Owner>,
    /// What it knows about filters of system calls.
    pub filter: toft_core::os::filter::Words,
    /// How calm the process was.
    pub reading: Reading,
    /// The files that code runs from, for naming call sites.
    pub modules: Modules,
}

impl Rss {
    /// Explains a process.
    pub fn of(process: &Process) -> Result<Rss, Error> {
        let found = find(process)?;
        let tables = Tables { root: found.root };
        let mut best: Option<Rss> = None;
        for tries in 1..=READINGS {
            let mut rss = Rss::read(process, &tables)?;
            rss.version.clone_from(&found.version);
            rss.library.clone_from(&found.file);
            if best.as_ref().is_none_or(|best| rss.reading.moved() < best.reading.moved()) {
                best = Some(rss);
            }
            if let Some(best) = &mut best {
                best.reading.tries = tries;
                if best.reading.moved() <= best.counts.rss / CALM {
                    break;
                }
            }
        }
        best.ok_or(Error::Ended(process.pid()))
    }

    /// Returns the unaccounted bytes: those that the kernel counts and no term does. Negative if
    /// memory was freed between the two readings.
    pub fn remainder(&self) -> i64 {
        self.counts.rss as i64 - (self.account.resident() + self.others.sum()) as i64
    }

    fn read(process: &Process, tables: &Tables) -> Result<Rss, Error> {
        let pid = process.pid();
        let kernel = Kernel::of(pid)?;
        let account = account(process, tables)?;
        let rss_after = kernel::rollup(pid)?.rss;
        let (mut counts, mut ours, mut others) = Default::default();
        for area in &kernel.areas {
            Counts::add(&mut counts, &area.counts);
            if is_ours(&tables.root, &account, area) {
                Counts::add(&mut ours, &area.counts);
            } else {
                add_other(&mut others, area, &kernel);
            }
        }
        let mut owners = owners::in_use(&account);
        owners::find_threads(process, &kernel.tasks, &mut owners);
        Ok(Rss {
            pid,
            name: kernel.name.clone(),
            version: String::new(),
            library: String::new(),
            partitions: tables.root.partitions,
            limit: Some(tables.root.limit).filter(|&bytes| bytes != u64::MAX),
            counts,
            ours,
            peak_rss: kernel.peak_rss,
            page_tables: kernel.page_tables,
            others,
            account,
            owners,
            filter: tables.filter(process)?,
            reading: Reading { tries: 1, rss_before: counts.rss, rss_after },
            modules: Modules::of(process, &process.mappings()?),
        })
    }
}

/// Returns true if a mapping is in a used part of the windows, or is a large block outside them.
/// The windows are a third of all addresses, and a runtime that maps at random addresses often
/// lands in them.
fn is_ours(root: &Root, account: &Account, area: &Area) -> bool {
    let within = |start, end| area.mapping.start >= start && area.mapping.end <= end;
    let data = within(root.data, root.data + root.span + root.large_span);
    let (start, end) = (area.mapping.start, area.mapping.end);
    data && account.uses(start, end)
        || within(root.metadata, root.end)
        || account.is_outside(start, end)
}

fn add_other(others: &mut Others, area: &Area, kernel: &Kernel) {
    let (mapping, rss) = (&area.mapping, area.counts.rss);
    let path = mapping.path.as_str();
    let is_stack = |task: &Task| {
        task.stack.is_some_and(|pointer| mapping.start <= pointer && pointer < mapping.end)
    };
    let runs = |path: &str| {
        kernel.areas.iter().any(|other| other.mapping.executable && other.mapping.path == path)
    };
    // Data of a program that no file has: the zeroed rest of its data, mapped right behind.
    let is_rest = |before: &Area| {
        before.mapping.end == mapping.start
            && before.mapping.path.starts_with('/')
            && runs(&before.mapping.path)
    };
    let term = match path {
        "[heap]" => &mut others.brk,
        "[vdso]" | "[vvar]" | "[vvar_vclock]" | "[vsyscall]" | "[uprobes]" => &mut others.kernel,
        _ if path.starts_with("[stack") => &mut others.stacks,
        _ if path.starts_with("/dev/shm/") || path.starts_with("/SYSV") => &mut others.shared,
        _ if path.starts_with("/dev/zero") || path.starts_with("[anon_shmem") => &mut others.shared,
        _ if path.starts_with('/') && runs(path) => &mut others.programs,
        _ if path.starts_with("/memfd:") => &mut others.shared,
        _ if path.starts_with('/') => &mut others.files,
        "" if kernel.areas.iter().any(is_rest) => &mut others.programs,
        _ if kernel.tasks.iter().any(is_stack) => &mut others.stacks,
        _ => &mut others.anonymous,
    };
    *term += rss;
}
