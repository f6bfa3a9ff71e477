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

use crate::os::process::peek;
use crate::report::{is_return, registers};

/// The most return addresses that are kept.
pub const DEPTH: usize = 54;
/// The largest frame that is believed.
const LARGEST_FRAME: usize = 1 << 20;
/// The number of bytes above the stack pointer that are searched for the call, if its place is
/// unknown.
const REACH: usize = 4096;
/// The number of bytes that a form of `operator new` puts between its call and Toft's.
const NEW: usize = 4 * WORD;
/// Lower words are no addresses. The outermost frame has such a word for a frame pointer.
const LOWEST: usize = 4096;

const WORD: usize = size_of::<usize>();
const PIECE: usize = 1024;

/// The place of a call: the address of its return address, and the frame pointer at the call. Both
/// are zero if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The address of the return address, or of something below it.
    pub stack: usize,
    /// The frame pointer.
    pub frame: usize,
}

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
    pub fn of_site(site: usize) -> Trace {
        let mut trace = Trace { frames: [0; DEPTH], depth: 0, truncated: true };
        trace.push(site);
        trace
    }

    /// Returns the stack of `call`, which returns to `site`. Makes unusual system calls: the caller
    /// holds a permit.
    #[inline(never)]
    pub fn of_call(site: usize, call: Call) -> Trace {
        let mut trace = Trace::of_site(site);
        let mut words = Words::new();
        let known = |words: &mut Words| {
            let places = [call.stack, call.stack.wrapping_add(NEW)];
            places.into_iter().find(|&place| call.stack != 0 && words.at(place) == Some(site))
        };
        let begin = match known(&mut words) {
            Some(slot) => Some((slot, call.frame)),
            None => find(&mut words, site),
        };
        if let Some((slot, frame)) = begin {
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

    /// Ends the trace before the first word that does not follow a call instruction. Makes a system
    /// call for each frame, so it is for stacks that were not seen before.
    pub fn verify(&mut self) {
        let good = self.frames().iter().skip(1).take_while(|&&word| is_return(word)).count();
        if good + 1 < self.depth {
            (self.depth, self.truncated) = (good + 1, true);
        }
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
            if address < LOWEST || !self.push(address) {
                return false;
            }
            (below, frame) = (frame, next);
        }
        true
    }
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

/// A copy of a piece of memory.
struct Words {
    at: usize,
    got: usize,
    bytes: [u8; PIECE],
}

impl Words {
    fn new() -> Words {
        Words { at: 0, got: 0, bytes: [0; PIECE] }
    }

    /// Returns the word at an address, if it can be read.
    fn at(&mut self, address: usize) -> Option<usize> {
        let inside = address.wrapping_sub(self.at);
        if inside.checked_add(WORD).is_none_or(|end| end > self.got) {
            self.at = address;
            self.got = peek(address, &mut self.bytes);
            return self
                .bytes
                .get(..self.got)?
                .first_chunk()
                .map(|&word| usize::from_ne_bytes(word));
        }
        let word = self.bytes.get(inside..inside + WORD)?;
        word.first_chunk().map(|&word| usize::from_ne_bytes(word))
    }
}

#[cfg(all(test, not(loom), target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Walks memory that looks like frames. Each has two words: the next frame pointer and an
    /// address.
    fn walk(frames: &[[usize; 2]]) -> (std::vec::Vec<usize>, bool) {
        let slot = [7usize, 0];
        let mut trace = Trace::of_site(7);
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
        let mut trace = Trace::of_site(7);
        let call = |_: usize| core::hint::black_box(());
        call(1);
        for word in [0x40_1000, 0x40_2000] {
            trace.push(word);
        }
        trace.truncated = false;
        trace.verify();
        assert_eq!((trace.frames(), trace.is_truncated()), (&[7usize][..], true));
    }
}
