//! Part of a sweep: pages of what threads have claimed and not used, a sleeping thread above all.
//!
//! Such a slot cannot be kept from its thread. So the pages go on condition that the thread does
//! not begin to use them, as [`crate::os::Pin`] tells.

use crate::keeper::sweeper::Sweeper;
use crate::keeper::sweeper::Swept;
use crate::os::seccomp::Calls;
use crate::os::{Error, Os, PIECE_BYTES};
use crate::reclaim::{BATCH, Turn};
use crate::slab::Slab;

impl<O: Os> Sweeper<'_, O> {
    /// Gives back unused pages of those slabs of the batch whose bit in `chosen` is set. The owner
    /// was not in the middle of something when they had been taken hold of. Nothing is held by now,
    /// but such slabs still cannot change hands, nor lose their mapping.
    pub(crate) fn discard_unused(self, turn: &Turn<'_>, chosen: u64, swept: &mut Swept) {
        const { assert!(BATCH <= 64) };
        let page = self.os.page_size();
        let chosen_ones = || {
            let all = turn.slabs().enumerate();
            all.filter(|(number, _)| chosen >> number & 1 != 0)
        };
        let mut done = true;
        // A bit for each slab that has pages to go.
        let mut named = 0u64;
        for (number, slab) in chosen_ones() {
            slab.pages().unused(page, |start, len| {
                named |= 1 << number;
                for at in (start..start + len).step_by(PIECE_BYTES) {
                    let len = (start + len - at).min(PIECE_BYTES);
                    done = done && self.pin(turn, slab, (at, len), swept);
                }
            });
        }
        done = done && self.discard_pinned(turn, swept);
        turn.pinned().clear();
        for (number, slab) in chosen_ones() {
            slab.note_unused(done || named >> number & 1 == 0);
        }
    }

    /// Adds what is in memory of a range of a slab, but for what was written to after it was freed.
    /// Where there is no room for it, what was added before goes first. No, where that fails.
    fn pin(
        self,
        turn: &Turn<'_>,
        slab: &Slab,
        (start, len): (usize, usize),
        swept: &mut Swept,
    ) -> bool {
        let mut done = true;
        let known = self.permit(Calls::RESIDENT).is_some_and(|_permit| {
            self.os.resident_pieces(start, len, |at, bytes| {
                if done
                    && !slab.pages().is_unused_written(at, bytes)
                    && !turn.pinned().add(at, bytes)
                {
                    done = self.discard_pinned(turn, swept) && turn.pinned().add(at, bytes);
                }
            })
        });
        known && done
    }

    /// Returns true if everything added was dealt with, or never can be.
    fn discard_pinned(self, turn: &Turn<'_>, swept: &mut Swept) -> bool {
        let pinned = turn.pinned();
        if pinned.is_empty() {
            return true;
        }
        let is_unused =
            |address, len| turn.slabs().any(|slab: &Slab| slab.pages().is_unused(address, len));
        // In the child of a handler that forks here, freed pages would be kept by no thread.
        let gone = match self.block_signals() {
            // SAFETY: (1) pages of slabs that are not shared; HOLDING in their owner word keeps
            // them mapped, and their own.
            Some(_undisturbed) => unsafe {
                self.os.discard_unused(pinned, &|| self.permit(Calls::CLAIMS), is_unused)
            },
            None => Err(Error::NoMemory),
        };
        pinned.clear();
        swept.bytes += gone.unwrap_or(0);
        gone != Err(Error::NoMemory)
    }
}
