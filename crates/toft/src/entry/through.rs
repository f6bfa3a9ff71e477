//! Who called the wrapper of malloc that called.

use super::Allocator;
use crate::os::Os;
use crate::site::{Place, REACH, STEP_FIRST};
use crate::thread::Heap;

/// Wrappers of wrappers that are looked through: a `Vec` that grows in a debug build has seven.
const LEVELS: usize = 12;

impl<O: Os> Allocator<O> {
    /// The first return address, from the one at `place` upwards, that does not lie in a wrapper; or the last that
    /// can be reached. What is learnt is remembered in `heap`, which the caller holds.
    pub(super) fn site_behind(&self, heap: &Heap, mut place: Place) -> usize {
        let limit = place.stack.saturating_add(REACH);
        for _ in 0..LEVELS {
            // SAFETY: (1) the call's own place, or what was made of it below.
            let site = unsafe { place.site() };
            let code = match heap.known_code(site) {
                0 => self.learn(heap, site),
                code => code,
            };
            if code < STEP_FIRST {
                return site;
            }
            // SAFETY: (1) the code of the site that lies there; whoever called is still in its call.
            match unsafe { place.above(code, limit) } {
                Some(above) => place = above,
                None => return site,
            }
        }
        // SAFETY: (1) as above.
        unsafe { place.site() }
    }
}
