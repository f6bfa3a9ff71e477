//! Who owns what: slabs, and what is in them, by the heap of a thread.
//!
//! A heap is a thread's for as long as that runs. When the thread has exited, its heap keeps what
//! others still use, until the next new thread takes it. Large blocks are unowned, and are not
//! here.

use crate::kernel::{self, Task};
use crate::{Error, Memory, Process, Tables, Thread, account, find, rss};

/// A heap, and the thread that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// What the heap owns.
    pub heap: Thread,
    /// The running thread that has it, where it is known.
    pub task: Option<Task>,
}

impl Owner {
    /// `1234 (worker), sleeps`, or what else is known.
    pub fn words(&self) -> String {
        if self.heap.shared {
            return format!("heap {}, shared by threads", self.heap.heap);
        }
        match (self.heap.running, &self.task) {
            (true, Some(task)) => {
                format!("{} ({}), {}", task.number, task.name, task.doing())
            }
            (true, None) => format!("heap {}", self.heap.heap),
            (false, _) => format!("heap {} of an ended thread", self.heap.heap),
        }
    }
}

/// Who owns slabs in a process or in a core file, most live bytes first; whose the heaps are is not
/// known.
pub fn owners_of_heaps(memory: &impl Memory) -> Result<Vec<Owner>, Error> {
    let tables = Tables { root: find(memory)?.root };
    let heaps = account(memory, &tables)?.threads.into_iter();
    memory.still_there()?;
    // A heap whose thread has ended and that has nothing is for the next thread, and nothing to
    // show.
    let shown = heaps.filter(|heap| heap.running || heap.slabs > 0);
    let mut owners: Vec<Owner> = shown.map(|heap| Owner { heap, task: None }).collect();
    owners.sort_by_key(|owner| (std::cmp::Reverse(owner.heap.live_bytes), owner.heap.heap));
    Ok(owners)
}

/// Who owns slabs in a running process, with its threads.
pub fn owners(process: &Process) -> Result<Vec<Owner>, Error> {
    let tasks = kernel::tasks(process.pid());
    let mut owners = owners_of_heaps(process)?;
    for owner in owners.iter_mut().filter(|owner| owner.heap.running) {
        let number = rss::holder(process, owner.heap.thread_block, &tasks);
        owner.task = tasks.iter().find(|task| Some(task.number) == number).cloned();
    }
    Ok(owners)
}
