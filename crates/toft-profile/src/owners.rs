//! The owners of slabs: heaps, and the threads that have them.
//!
//! A heap belongs to a thread while that runs. When the thread has exited, its heap keeps the
//! blocks that other threads still use, until the next new thread adopts it. Large blocks are
//! unowned, and are not here.

use std::cmp::Reverse;

use crate::kernel::{self, Task};
use crate::memory::read_u64;
use crate::{Account, Error, Memory, Process, Tables, Thread, account, find};

/// A heap, and the thread that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The heap's memory.
    pub heap: Thread,
    /// The running thread that has it, if known.
    pub task: Option<Task>,
}

impl Owner {
    /// Formats it as `1234 (worker), sleeps`, or with less where less is known.
    pub fn words(&self) -> String {
        let number = self.heap.heap;
        match (self.heap.running, &self.task) {
            _ if self.heap.shared => format!("heap {number}, shared by threads"),
            (true, Some(task)) => format!("{} ({}), {}", task.number, task.name, task.doing()),
            (true, None) => format!("heap {number}"),
            (false, _) => format!("heap {number} of an exited thread"),
        }
    }
}

/// Returns the heaps of a process or of a core file, most live bytes first, without their threads.
pub fn owners_of_heaps(memory: &impl Memory) -> Result<Vec<Owner>, Error> {
    let tables = Tables { root: find(memory)?.root };
    let account = account(memory, &tables)?;
    memory.still_there()?;
    Ok(in_use(&account))
}

/// Returns the heaps of a running process, with their threads.
pub fn owners(process: &Process) -> Result<Vec<Owner>, Error> {
    let tasks = kernel::tasks(process.pid());
    let mut owners = owners_of_heaps(process)?;
    find_threads(process, &tasks, &mut owners);
    Ok(owners)
}

/// Returns the heaps of an account. A heap that has no slabs, and whose thread has exited, waits
/// for the next thread and is left out.
pub(crate) fn in_use(account: &Account) -> Vec<Owner> {
    let heaps = account.threads.iter().filter(|heap| heap.running || heap.slabs > 0);
    let mut owners: Vec<Owner> =
        heaps.map(|heap| Owner { heap: heap.clone(), task: None }).collect();
    owners.sort_by_key(|owner| (Reverse(owner.heap.live_bytes), owner.heap.heap));
    owners
}

/// Finds the thread of each running heap. The control block of a thread is at an address that the
/// heap has. glibc keeps the thread's number there, which must be that of one of the threads.
pub(crate) fn find_threads(process: &Process, tasks: &[Task], owners: &mut [Owner]) {
    /// The offset of `tid` in `struct pthread` on x86-64, in every glibc with NPTL.
    const TID: u64 = 720;
    let number_at = |block: u64| {
        let address = block.checked_add(TID).filter(|_| block != 0)?;
        read_u64(process, address).map(|word| word as u32 as i32)
    };
    for owner in owners.iter_mut().filter(|owner| owner.heap.running) {
        let number = number_at(owner.heap.thread_block);
        owner.task = tasks.iter().find(|task| Some(task.own_number) == number).cloned();
    }
}
