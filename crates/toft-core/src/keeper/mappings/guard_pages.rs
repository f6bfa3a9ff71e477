//! Setting up the guard pages of slabs (`slab/guard_pages.rs`), in the secure build.
//!
//! By guards that cost no mapping, where the system has them (Linux 6.13); else by mappings, which
//! are counted: a process may have 65 530, and needs them for other things. As they become many,
//! guard pages become few. A process that has installed a filter of system calls gets mappings,
//! too: a filter that knows `madvise` may not know this advice.

use crate::keeper::mappings::Mapper;
use crate::keyed::below;
use crate::os::Os;
use crate::policy::{GUARD_PAGE_MAPPINGS, SECURE};
use crate::slab::Slab;
use crate::sync::Ordering::Relaxed;

/// Mapper that one run of guard pages costs: the mapping around it is cut in two.
const MAPPINGS: usize = 2;

impl<O: Os> Mapper<'_, O> {
    /// Chooses which of the `slots` slots of a slab being opened are guard pages or reserved.
    #[inline]
    pub(crate) fn choose_guard_pages(self, slab: &Slab, slots: usize) {
        if SECURE {
            slab.canary_seeds.set(self.secret.canary_seeds(slab.base()));
            slab.guard_pages()
                .choose(self.os.page_size(), slots, |limit| below(self.draw(), limit));
            slab.reserved().choose(slots, |limit| below(self.draw(), limit));
        }
    }

    /// Sets up the guard pages of a slab that was mapped a moment ago.
    #[inline]
    pub(crate) fn set_up_guard_pages(self, slab: &Slab) {
        if SECURE {
            slab.guard_pages().for_each_run(self.os.page_size(), |start, bytes, end| {
                self.set_up(start, bytes, end)
            });
        }
    }

    fn set_up(self, start: usize, bytes: usize, end: bool) {
        // SAFETY: (1) pages of a slab without any slot that is handed out.
        let guard = |_permit| unsafe { self.os.guard(start, bytes) }.is_ok();
        if self.filter().permit_unless_installed().is_some_and(guard) {
            return;
        }
        let most = if end { GUARD_PAGE_MAPPINGS } else { GUARD_PAGE_MAPPINGS / 2 };
        let spent = self.guard_page_mappings();
        // Those of slabs that were unmapped since are counted still: better too many than too few.
        if spent.fetch_add(MAPPINGS, Relaxed) + MAPPINGS > most {
            spent.fetch_sub(MAPPINGS, Relaxed);
            return;
        }
        // SAFETY: (1) as above. Where that fails the slab is without these guard pages.
        if unsafe { self.os.forbid(start, bytes) }.is_err() {
            spent.fetch_sub(MAPPINGS, Relaxed);
        }
    }
}
