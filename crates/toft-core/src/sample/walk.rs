//! Walks the stack of a sampled allocation by frame pointers.
//!
//! Each frame pointer must lead up, to an aligned address that is not too far away. There it must
//! find the caller's frame pointer, and a return address above that:
//! `[frame] = caller's frame pointer, [frame + 8] = return address`. The kernel reads the words, a
//! piece of the stack at a time, and refuses what is not there. So neither the loader nor an
//! unwinder is needed, and an overwritten frame pointer causes no fault. A walk costs a system call
//! for each KiB of stack.
//!
//! In a program without frame pointers the register holds any value. A walk then ends early, and
//! the trace is marked as truncated.

use super::words::{WORD, Words};
use crate::region::Site;
use crate::report::{is_return, registers};

use core::ops::Range;

/// The most return addresses that are kept.
pub const DEPTH: usize = 54;
/// The largest frame that is believed.
const LARGEST_FRAME: usize = 1 << 20;
/// The number of bytes above the stack pointer that are searched for the call, if its place is
/// unknown.
pub const REACH: usize = 4096;
/// Lower words are no addresses. The outermost frame has such a word for a frame pointer.
const LOWEST: usize = 4096;

/// The place of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The address of the return address.
    pub stack: usize,
    /// The frame pointer at the call, or an address that leads nowhere if unknown.
    pub frame: usize,
}

/// The bit of a frame that is no return address, but the address of a [`NamedFrame`]. No address of
/// a program has it, and no call site that is a program's token.
///
/// [`NamedFrame`]: super::NamedFrame
pub const NAMED: usize = 1 << (usize::BITS - 2);

/// A walked stack: return addresses, the innermost first.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    frames: [usize; DEPTH],
    depth: usize,
    /// True if the stack has more frames than the trace.
    truncated: bool,
}

impl Trace {
    /// Returns a trace of the site alone.
    pub fn of_site(site: Site) -> Trace {
        let mut trace = Trace { frames: [0; DEPTH], depth: 0, truncated: true };
        trace.push(site.address());
        trace
    }

    /// Returns the stack of `call`, which returns to `site`. Makes unusual system calls: the caller
    /// holds a permit.
    #[inline(never)]
    pub fn of_call(site: Site, call: Call) -> Trace {
        let mut trace = Trace::of_site(site);
        trace.truncated = !trace.follow(&mut Words::new(), call.stack, call.frame);
        trace
    }

    /// Returns the stack of a call of this library that returns to `site`, if its place is unknown.
    /// Makes unusual system calls: the caller holds a permit.
    #[inline(never)]
    pub fn of_search(site: Site) -> Trace {
        let mut trace = Trace::of_site(site);
        let mut words = Words::new();
        if let Some((slot, frame)) = find(&mut words, site.address()) {
            trace.truncated = !trace.follow(&mut words, slot, frame);
        }
        trace
    }

    /// Returns the return addresses, the innermost first.
    pub fn frames(&self) -> &[usize] {
        self.frames.get(..self.depth).unwrap_or(&[])
    }

    /// Returns true if the stack has more frames than the trace.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Ends the return addresses before the first one that does not follow a call instruction.
    /// Named frames stay. Makes a system call for each return address, so it is for stacks that
    /// were not seen before.
    pub fn verify(&mut self) {
        let whole = *self;
        let (mut good, mut has_names) = (true, false);
        self.depth = 0;
        for (number, &word) in whole.frames().iter().enumerate() {
            let is_named = is_named(word);
            has_names |= is_named;
            good = good && (is_named || number == 0 || is_return(word));
            if good || is_named {
                self.push(word);
            }
        }
        self.truncated |= !good && !has_names;
    }

    /// Inserts named frames, the innermost first, after the innermost return address into
    /// `interpreter`, or after all return addresses if there is none. They are the program's own
    /// stack: if it is `whole`, the trace is not truncated, unless it is too long.
    pub fn insert(&mut self, interpreter: Range<usize>, named: &[usize], whole: bool) {
        let native = *self;
        let inside = native.frames().iter().position(|word| interpreter.contains(word));
        let before = inside.map_or(native.depth, |at| at + 1).min(DEPTH / 2);
        let Some((inner, outer)) = native.frames().split_at_checked(before) else { return };
        self.depth = 0;
        let mut all = inner.iter().chain(named).chain(outer);
        let fits = all.all(|&word| self.push(word));
        self.truncated = !whole || !fits;
    }

    fn push(&mut self, address: usize) -> bool {
        let Some(place) = self.frames.get_mut(self.depth) else { return false };
        *place = address;
        self.depth += 1;
        true
    }

    /// Follows the frame pointers from a call, whose return address is at `slot` and whose frame
    /// pointer is `frame`. Returns true if it has reached the end of the stack.
    fn follow(&mut self, words: &mut Words, slot: usize, frame: usize) -> bool {
        let (mut below, mut frame) = (slot, frame);
        while frame >= LOWEST {
            if !leads_up(below, frame) {
                return false;
            }
            let (Some(next), Some(address)) = (words.at(frame), words.at(frame + WORD)) else {
                return false;
            };
            if address == 0 {
                return true;
            }
            if address < LOWEST || is_named(address) || !self.push(address) {
                return false;
            }
            (below, frame) = (frame, next);
        }
        true
    }
}

/// Returns true if a frame is named.
pub(super) const fn is_named(frame: usize) -> bool {
    frame >> (usize::BITS - 2) == 1
}

fn leads_up(from: usize, to: usize) -> bool {
    to.is_multiple_of(WORD) && to > from && to - from < LARGEST_FRAME
}

/// Returns the place of the call that returns to `site`, and its frame pointer, from the words that
/// this library's frames have kept. The place is the highest word that is the site. The pointer is
/// the lowest word below it that leads to a frame above it.
fn find(words: &mut Words, site: usize) -> Option<(usize, usize)> {
    let (pointer, register) = registers();
    let places = || (pointer..pointer + REACH).step_by(WORD);
    let mut slot = None;
    for place in places() {
        match words.at(place) {
            Some(word) if word == site => slot = Some(place),
            Some(_) => {}
            None => break,
        }
    }
    let slot = slot?;
    let mut best = None;
    let mut is_better = |words: &mut Words, word: usize| {
        if leads_up(slot, word)
            && best.is_none_or(|best| word < best)
            && words.at(word + WORD).is_some_and(is_return)
        {
            best = Some(word);
        }
    };
    is_better(words, register);
    for place in places().take_while(|&place| place < slot) {
        let word = words.at(place)?;
        is_better(words, word);
    }
    Some((slot, best.unwrap_or(usize::MAX)))
}

#[cfg(all(test, not(loom), target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Walks memory that looks like frames. Each has two words: the next frame pointer and an
    /// address.
    fn walk(frames: &[[usize; 2]]) -> (std::vec::Vec<usize>, bool) {
        let slot = [7usize, 0];
        let mut trace = Trace::of_site(Site::at(7));
        let first = frames.as_ptr().addr();
        // The call is right below, as far as the walk can tell.
        let done = trace.follow(&mut Words::new(), first - WORD, first);
        assert_eq!(slot[0], trace.frames()[0]);
        (trace.frames().to_vec(), done)
    }

    fn chain(count: usize) -> std::vec::Vec<[usize; 2]> {
        let mut frames = std::vec![[0usize, 0]; count];
        let base = frames.as_ptr().addr();
        for (i, frame) in frames.iter_mut().enumerate() {
            *frame = [base + (i + 1) * 2 * WORD, 0x40_1000 + i];
        }
        frames[count - 1][0] = 0;
        frames
    }

    #[test]
    fn frame_pointers_are_followed_to_the_end() {
        let (frames, done) = walk(&chain(20));
        assert!(done);
        assert_eq!(frames.len(), 21);
        assert!(frames[1..].iter().enumerate().all(|(i, &f)| f == 0x40_1000 + i));
        let mut end = chain(5);
        end[4][0] = 1;
        assert!(walk(&end).1, "the outermost frame's word is no address");
    }

    #[test]
    fn what_leads_nowhere_ends_the_walk_and_is_told() {
        let (frames, done) = walk(&chain(DEPTH + 10));
        assert_eq!((frames.len(), done), (DEPTH, false));
        let base = |frames: &std::vec::Vec<[usize; 2]>| frames.as_ptr().addr();
        type Harm = fn(usize) -> usize;
        let damage: [Harm; 6] = [
            |here| here,
            |here| here - 16,
            |here| here + 3,
            |here| here + LARGEST_FRAME,
            |_| usize::MAX - 7,
            |_| 0xdead_beef_dead_bee8,
        ];
        for (number, harm) in damage.iter().enumerate() {
            let mut frames = chain(20);
            frames[9][0] = harm(base(&frames) + 9 * 2 * WORD);
            let (seen, done) = walk(&frames);
            assert_eq!((seen.len(), done), (11, false), "{number}");
        }
    }

    #[test]
    fn words_that_no_call_has_left_are_taken_for_the_end() {
        let mut trace = Trace::of_site(Site::at(7));
        let call = |_: usize| core::hint::black_box(());
        call(1);
        for word in [0x40_1000, 0x40_2000] {
            trace.push(word);
        }
        trace.truncated = false;
        trace.verify();
        assert_eq!((trace.frames(), trace.is_truncated()), (&[7usize][..], true));
    }

    #[test]
    fn named_frames_come_after_the_interpreter_and_stay() {
        let named: std::vec::Vec<usize> = (1..=3).map(|i| NAMED | i << 9).collect();
        let trace = |words: &[usize]| {
            let mut trace = Trace::of_site(Site::at(words[0]));
            words[1..].iter().for_each(|&word| assert!(trace.push(word)));
            trace
        };
        let mut between = trace(&[0x5000, 0x7010, 0x6000]);
        between.insert(0x7000..0x8000, &named, true);
        assert_eq!(between.frames()[..2], [0x5000, 0x7010]);
        assert_eq!((&between.frames()[2..5], between.frames()[5]), (&named[..], 0x6000));
        assert!(!between.is_truncated());
        // Nothing here was left by a call: the first is the site, which is known.
        between.verify();
        assert_eq!(between.frames()[1..], named);
        assert!(!between.is_truncated(), "the program's own stack is whole");
        let mut after = trace(&[0x5000, 0x6000]);
        after.insert(0x7000..0x8000, &named, false);
        assert_eq!((after.frames()[2], after.is_truncated()), (named[0], true));
        // A deep native stack leaves room, and too much is cut off at the outer end.
        let deep: std::vec::Vec<usize> = (0..DEPTH).map(|i| 0x5000 + i).collect();
        let mut deep = trace(&deep);
        deep.insert(0..0, &named, true);
        assert_eq!((deep.frames().len(), deep.is_truncated()), (DEPTH, true));
        assert_eq!(deep.frames()[DEPTH / 2..DEPTH / 2 + 3], named);
    }

    #[test]
    fn a_word_that_looks_like_a_named_frame_is_no_return_address() {
        let mut frames = chain(5);
        frames[2][1] = NAMED | 0x1000;
        assert_eq!((walk(&frames).0.len(), walk(&frames).1), (3, false));
    }
}
