//! Who owns what: slabs, and what is in them, by the heap of a thread.
//!
//! A heap is a thread's for as long as that runs; when it has ended, its heap keeps what others still use, until the next
//! thread that is born takes it. Large blocks are nobody's, and are not here.

use crate::kernel::{self, Task};
use crate::{Error, Memory, Process, Slab, Slot, Tables, find, rss};

/// What one heap owns. Bytes are those of slots, resident or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The heap's number.
    pub heap: usize,
    /// Whether a running thread has it; else its thread has ended.
    pub running: bool,
    /// That thread, where it is known.
    pub thread: Option<Task>,
    /// Its slabs.
    pub slabs: u64,
    /// Blocks that the program has, whichever thread has asked for or uses them.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes that are free; those that are claimed among them, and not those that are lent.
    pub free_bytes: u64,
    /// Bytes that malloc hands out next to this thread: its magazines.
    pub claimed_bytes: u64,
    /// Bytes that other threads have freed, and this one has not collected yet.
    pub uncollected_bytes: u64,
    /// Bytes that were freed and wait, in whosever quarantine: of the hardened build alone.
    pub quarantined_bytes: u64,
}

impl Owner {
    /// `1234 (worker), sleeps`, or what else is known.
    pub fn words(&self) -> String {
        match (self.running, &self.thread) {
            (true, Some(task)) => {
                format!("{} ({}), {}", task.number, task.name, task.doing())
            }
            (true, None) => format!("heap {}", self.heap),
            (false, _) => format!("heap {} of an ended thread", self.heap),
        }
    }

    fn add(&mut self, slab: &Slab<'_>) {
        self.slabs += 1;
        for slot in 0..slab.slots {
            match slab.slot(slot) {
                Slot::Live => {
                    self.live_blocks += 1;
                    self.live_bytes += slab.size;
                }
                Slot::Remote => self.uncollected_bytes += slab.size,
                Slot::Lent => {}
                Slot::Claimed => {
                    self.claimed_bytes += slab.size;
                    self.free_bytes += slab.size;
                }
                Slot::Free if slab.is_quarantined(slot) => self.quarantined_bytes += slab.size,
                Slot::Free => self.free_bytes += slab.size,
            }
        }
    }
}

/// Who owns slabs in a process or in a core file, most live bytes first; whose the heaps are is not known.
pub fn owners_of_heaps(memory: &impl Memory) -> Result<Vec<Owner>, Error> {
    Ok(sorted(heaps(memory)?.into_iter().map(|(owner, _)| owner).collect()))
}

/// The same of a running process, with its threads.
pub fn owners(process: &Process) -> Result<Vec<Owner>, Error> {
    let tasks = kernel::tasks(process.pid());
    let mut owners = Vec::new();
    for (mut owner, block) in heaps(process)? {
        if owner.running {
            let number = rss::holder(process, block, &tasks);
            owner.thread = tasks.iter().find(|task| Some(task.number) == number).cloned();
        }
        owners.push(owner);
    }
    Ok(sorted(owners))
}

fn sorted(mut owners: Vec<Owner>) -> Vec<Owner> {
    // A heap whose thread has ended and that has nothing is for the next thread, and nothing to show.
    owners.retain(|owner| owner.running || owner.slabs > 0);
    owners.sort_by_key(|owner| (std::cmp::Reverse(owner.live_bytes), owner.heap));
    owners
}

/// Every heap, with the address of its thread's control block.
fn heaps(memory: &impl Memory) -> Result<Vec<(Owner, u64)>, Error> {
    let tables = Tables { root: find(memory)?.root };
    let heaps = tables.heaps(memory);
    let mut owners: Vec<(Owner, u64)> = heaps
        .iter()
        .enumerate()
        .map(|(heap, of)| (Owner { heap, running: of.live, ..Owner::default() }, of.thread_block))
        .collect();
    tables.for_each_descriptor(memory, &memory.mappings()?, |slab| {
        let number = tables.heap_number(slab.owner());
        if let Some((owner, _)) = number.and_then(|number| owners.get_mut(number)) {
            owner.add(slab);
        }
    })?;
    Ok(owners)
}
