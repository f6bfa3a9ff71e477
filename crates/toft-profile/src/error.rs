//! Why a process cannot be explained, in words for the user.

use std::fmt;

/// Why a process cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no such process.
    NoProcess(i32),
    /// It has ended, and its parent has not asked for its status yet.
    Zombie(i32),
    /// It is a part of the kernel.
    KernelThread(i32),
    /// The kernel does not let us look; why, and the way out.
    Refused(i32, String),
    /// It has 32-bit addresses.
    Narrow(i32),
    /// Nothing of Toft is in it.
    NotToft(i32),
    /// Toft is in it, and has not been asked for anything.
    NotStarted(i32),
    /// Its Toft says where things are in a way that this one does not know: its version, and that
    /// of what it says.
    OtherVersion(i32, String, u64),
    /// What it says about itself makes no sense.
    Nonsense(i32, &'static str),
    /// It has no thread that answers requests.
    NoReclaimer(i32),
    /// A debugger holds the thread that would answer.
    Traced(i32),
    /// It was asked, and does not answer.
    NoAnswer(i32),
    /// It has ended while it was looked at.
    Ended(i32),
    /// A file is no core file that can be read: its name, and why.
    BadCore(String, String),
    /// A core file lacks what is needed: its name, what, and how to have it the next time.
    CoreLacks(String, String),
    /// Something of our own went wrong.
    Other(i32, String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoProcess(pid) => write!(f, "there is no process {pid}"),
            Error::Zombie(pid) => {
                write!(
                    f,
                    "process {pid} has ended and waits for its parent (a zombie): it has no memory"
                )
            }
            Error::KernelThread(pid) => {
                write!(f, "process {pid} is a part of the kernel: it has no memory of its own")
            }
            Error::Refused(pid, why) => write!(f, "may not look into process {pid}: {why}"),
            Error::Narrow(pid) => {
                write!(f, "process {pid} is a 32-bit program, and Toft runs in 64-bit ones only")
            }
            Error::NotToft(pid) => write!(
                f,
                "process {pid} does not run on Toft (`toft run -- PROGRAM` starts one that does)"
            ),
            Error::NotStarted(pid) => {
                write!(f, "process {pid} has Toft in it, but nothing was ever allocated from it")
            }
            Error::OtherVersion(pid, version, root) => write!(
                f,
                "process {pid} runs on Toft {version}, whose tables (version {root}) this toft {} \
                 (version {}) does not know: use the toft command of that version",
                toft_core::VERSION,
                toft_core::stats::VERSION
            ),
            Error::Nonsense(pid, what) => {
                write!(f, "process {pid} runs on a Toft whose tables make no sense: {what}")
            }
            Error::NoReclaimer(pid) => write!(
                f,
                "process {pid} has no reclaimer that could be asked: it has never had 16 MiB, was started \
                 with TOFT_RECLAIM=calls or off, or under a filter of system calls (TOFT_RECLAIM=thread \
                 has one even then); it can call malloc_trim(0) itself"
            ),
            Error::Traced(pid) => {
                write!(f, "process {pid} may not be interrupted: is a debugger at it?")
            }
            Error::NoAnswer(pid) => {
                write!(f, "process {pid} was asked and has not answered in time: is it stopped?")
            }
            Error::Ended(pid) => write!(f, "process {pid} has ended while it was read"),
            Error::BadCore(file, why) => write!(f, "{file}: {why}"),
            Error::CoreLacks(file, what) => write!(f, "{file} lacks {what}"),
            Error::Other(pid, what) => write!(f, "process {pid}: {what}"),
        }
    }
}

impl std::error::Error for Error {}
