//! Allocators that this program has inside itself: its own arena, in all the shapes of the
//! small-bin experiment. No library is preloaded for them, so they serve the workloads that run
//! inside a process and nothing else.
//!
//! A process learns from [`VARIABLE`] which one it is to use; the peers in `peers/` set it. Calls
//! go through a table, as those to a library do.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | their names and their calls |
//! | `arenas.rs` | a malloc of arenas, one for each thread |

mod arenas;

use crate::heap::Heap;
use crate::peers::Peer;
use arenas::{Arenas, Keep, Kind, Local, Shared};
use std::thread::LocalKey;
use toft_arena::{Standard, Swift, control};

/// The variable that names the allocator.
pub const VARIABLE: &str = "TOFT_BENCH_INSIDE";

/// The functions of an allocator.
#[derive(Debug)]
pub struct Calls {
    name: &'static str,
    malloc: fn(usize) -> *mut u8,
    calloc: fn(usize) -> *mut u8,
    realloc: unsafe fn(*mut u8, usize) -> *mut u8,
    aligned: fn(usize, usize) -> *mut u8,
    free: unsafe fn(*mut u8),
    purge: fn(),
    #[cfg(test)]
    live: fn() -> usize,
}

/// An allocator of this program.
#[derive(Clone, Copy, Debug)]
pub struct Inside(&'static Calls);

macro_rules! calls {
    ($($name:literal: $shape:ty, $keep:expr;)*) => {
        /// All of them.
        const ALL: &[Calls] = &[$({
            struct Own;
            impl Kind for Own {
                type Shape = $shape;
                const KEEP: Keep = $keep;
                #[inline(always)]
                fn local() -> &'static LocalKey<Local<$shape>> {
                    thread_local! {
                        static LOCAL: Local<$shape> = const { Local::new() };
                    }
                    &LOCAL
                }
                fn shared() -> &'static Shared<$shape> {
                    static SHARED: Shared<$shape> = Shared::new();
                    &SHARED
                }
            }
            Calls {
                name: $name,
                malloc: Arenas::<Own>::malloc,
                calloc: Arenas::<Own>::calloc,
                realloc: Arenas::<Own>::realloc,
                aligned: Arenas::<Own>::aligned,
                free: Arenas::<Own>::free,
                purge: Arenas::<Own>::purge,
                #[cfg(test)]
                live: Arenas::<Own>::live,
            }
        }),*];
    };
}

calls! {
    "original": control::Original, Keep::Ordinary;
    "mod": control::Mod, Keep::Ordinary;
    "mod-unlikely": control::ModUnlikely, Keep::Ordinary;
    "only-unlikely": control::OnlyUnlikely, Keep::Ordinary;
    "inverted": control::ModUnlikelyInverted, Keep::Ordinary;
    "remainders": control::Remainders, Keep::Ordinary;
    "first-out": control::FirstOut, Keep::Ordinary;
    "standard": Standard, Keep::Ordinary;
    "runs": control::Runs, Keep::Ordinary;
    "thrifty": Standard, Keep::Little;
    "parking": control::Parking, Keep::Ordinary;
    "original-parking": control::OriginalParking, Keep::Ordinary;
    "inverted-parking": control::ModParking, Keep::Ordinary;
    "swift": Swift, Keep::Ordinary;
}

/// The files of the peers that are these, as those in `peers/`.
pub(crate) fn files() -> impl Iterator<Item = String> {
    ALL.iter().map(|Calls { name, .. }| {
        format!(
            "name = \"arena-{name}\"\nlicence = \"MIT OR Apache-2.0\"\nextra = true\n\
             inside = \"{name}\"\nenvironment = {{ {VARIABLE} = \"{name}\" }}\n"
        )
    })
}

impl Peer {
    /// Whether it is an allocator inside this program, on which no other program can run.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.settings().any(|(variable, _)| variable == VARIABLE)
    }
}

impl Inside {
    /// The allocator that the variable names, if it names one.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn asked_for() -> Result<Option<Self>, String> {
        let Some(name) = std::env::var_os(VARIABLE) else { return Ok(None) };
        let found = name.to_str().and_then(Self::find);
        found.map(Some).ok_or_else(|| format!("{VARIABLE}: there is no {}", name.display()))
    }

    /// The allocator of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        ALL.iter().find(|calls| calls.name == name).map(Self)
    }
}

impl Heap for Inside {
    #[inline(always)]
    fn malloc(self, size: usize) -> *mut u8 {
        (self.0.malloc)(size)
    }
    #[inline(always)]
    fn calloc(self, size: usize) -> *mut u8 {
        (self.0.calloc)(size)
    }
    #[inline(always)]
    unsafe fn realloc(self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps realloc's contract.
        unsafe { (self.0.realloc)(block, size) }
    }
    #[inline(always)]
    fn aligned(self, align: usize, size: usize) -> *mut u8 {
        (self.0.aligned)(align, size)
    }
    #[inline(always)]
    unsafe fn free(self, block: *mut u8) {
        // SAFETY: the caller keeps free's contract.
        unsafe { (self.0.free)(block) }
    }
    fn purge(self) {
        (self.0.purge)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Its own blocks, whose bytes nothing else writes, and all of them back: on every allocator.
    #[test]
    fn each_is_a_malloc() {
        for heap in ALL.iter().map(Inside) {
            let name = heap.0.name;
            // SAFETY: blocks are used while they live, and freed once.
            unsafe {
                let mut blocks = Vec::new();
                for n in 0..3000_usize {
                    let size = 1 + n * 7 % 2500;
                    let block = match n % 3 {
                        0 => heap.calloc(size),
                        1 => heap.aligned(64, size),
                        _ => heap.malloc(size),
                    };
                    assert!(!block.is_null() && block.addr() % 16 == 0, "{name}");
                    assert!(n % 3 != 1 || block.addr() % 64 == 0, "{name}");
                    let old = std::slice::from_raw_parts(block, size);
                    assert!(n % 3 != 0 || old.iter().all(|byte| *byte == 0), "{name}: not zero");
                    block.write_bytes(n as u8, size);
                    blocks.push((block, size, n as u8));
                    if n % 2 == 1 {
                        let (block, size, byte) = blocks.swap_remove(n * 31 % blocks.len());
                        let block = heap.realloc(block, size + 100);
                        let old = std::slice::from_raw_parts(block, size);
                        assert!(old.iter().all(|own| *own == byte), "{name}: written over");
                        heap.free(block);
                    }
                }
                blocks.into_iter().for_each(|(block, ..)| heap.free(block));
                heap.free(std::ptr::null_mut());
                assert!(heap.malloc(usize::MAX).is_null() && heap.malloc(1 << 50).is_null());
                let block = heap.malloc(100);
                assert!(heap.realloc(block, 1 << 50).is_null());
                heap.free(heap.realloc(block, 10));
            }
            heap.purge();
            assert_eq!((heap.0.live)(), 0, "{name}");
        }
    }

    #[test]
    fn a_block_that_another_thread_frees_comes_back_to_its_own() {
        for heap in ALL.iter().map(Inside) {
            let before = (heap.0.live)();
            let blocks: Vec<usize> =
                (0..500).map(|_| heap.malloc(2000).expose_provenance()).collect();
            let freed = blocks.clone();
            std::thread::spawn(move || {
                for block in freed {
                    // SAFETY: blocks of the other thread, which frees none of them.
                    unsafe { heap.free(std::ptr::with_exposed_provenance_mut(block)) };
                }
                // One of the thread's own, that it leaves behind.
                heap.malloc(100).expose_provenance()
            })
            .join()
            .unwrap();
            assert_eq!((heap.0.live)(), before, "{}", heap.0.name);
            // The arena that the other thread has left is the next one's, with what lives in it.
            let next = std::thread::spawn(move || (heap.0.live)()).join().unwrap();
            assert_eq!(next, 1, "{}", heap.0.name);
        }
    }

    #[test]
    fn names_are_found_and_others_are_not() {
        let names: BTreeSet<&str> = ALL.iter().map(|calls| calls.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(Inside::find("original").is_some() && Inside::find("no-such").is_none());
    }
}
