//! Sums of products in heap blocks: a cube is a small block of bits, a cover a growing block of
//! pointers to cubes.

use crate::heap::{Heap, launder};

/// Two bits per variable: may be 0, may be 1. Both are set where the cube does not care, and none
/// where it is empty.
pub struct Cube<H: Heap> {
    heap: H,
    words: *mut u32,
    len: usize,
}

const PER_WORD: usize = 16;
const LOW: u32 = 0x5555_5555;

impl<H: Heap> Drop for Cube<H> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: allocated by `build`, owned by this value alone.
        unsafe { self.heap.free(self.words.cast()) };
    }
}

impl<H: Heap> Cube<H> {
    fn build(heap: H, len: usize, word: impl Fn(usize) -> u32) -> Self {
        let words = launder(heap.malloc(4 * len)).cast::<u32>();
        assert!(!words.is_null(), "no memory for a cube");
        for at in 0..len {
            // SAFETY: within the block, which is aligned for its words.
            unsafe { words.add(at).write(word(at)) };
        }
        Self { heap, words, len }
    }

    /// The cube of everything, in `variables` variables.
    pub fn full(heap: H, variables: usize) -> Self {
        Self::build(heap, variables.div_ceil(PER_WORD), |_| u32::MAX)
    }

    fn words(&self) -> &[u32] {
        // SAFETY: `len` words, written by `build`.
        unsafe { std::slice::from_raw_parts(self.words, self.len) }
    }

    pub fn copy(&self) -> Self {
        Self::build(self.heap, self.len, |at| self.words()[at])
    }

    /// The two bits of a variable: 1 is "is 0", 2 is "is 1", 3 is "either".
    pub fn get(&self, variable: usize) -> u32 {
        self.words()[variable / PER_WORD] >> (2 * (variable % PER_WORD)) & 3
    }

    /// A copy with another literal.
    pub fn with(&self, variable: usize, bits: u32) -> Self {
        let shift = 2 * (variable % PER_WORD);
        Self::build(self.heap, self.len, |at| {
            let word = self.words()[at];
            if at == variable / PER_WORD { word & !(3 << shift) | bits << shift } else { word }
        })
    }

    pub fn meet(&self, other: &Self) -> Option<Self> {
        self.meets(other)
            .then(|| Self::build(self.heap, self.len, |at| self.words()[at] & other.words()[at]))
    }

    pub fn meets(&self, other: &Self) -> bool {
        self.words().iter().zip(other.words()).all(|(a, b)| {
            let both = a & b;
            (both | both >> 1) & LOW == LOW
        })
    }

    /// The smallest cube around both.
    pub fn join(&self, other: &Self) -> Self {
        Self::build(self.heap, self.len, |at| self.words()[at] | other.words()[at])
    }

    pub fn contains(&self, other: &Self) -> bool {
        self.words().iter().zip(other.words()).all(|(a, b)| a & b == *b)
    }

    /// This cube as seen from within the other.
    pub fn cofactor(&self, other: &Self) -> Self {
        Self::build(self.heap, self.len, |at| self.words()[at] | !other.words()[at])
    }

    /// Whether it is everything.
    pub fn is_full(&self) -> bool {
        self.words().iter().all(|&word| word == u32::MAX)
    }

    /// How many literals it has: variables that it does care about.
    pub fn literals(&self) -> u32 {
        self.words().iter().map(|word| (!(word & word >> 1) & LOW).count_ones()).sum()
    }
}

/// A sum of cubes, in a block that grows by `realloc`.
pub struct Cover<H: Heap> {
    heap: H,
    cubes: *mut Cube<H>,
    len: usize,
    room: usize,
}

impl<H: Heap> Drop for Cover<H> {
    fn drop(&mut self) {
        for at in 0..self.len {
            // SAFETY: the first `len` cubes are initialised and owned by this cover.
            unsafe { self.cubes.add(at).drop_in_place() };
        }
        // SAFETY: null or the block of `push`.
        unsafe { self.heap.free(self.cubes.cast()) };
    }
}

impl<H: Heap> Cover<H> {
    pub fn new(heap: H) -> Self {
        Self { heap, cubes: std::ptr::null_mut(), len: 0, room: 0 }
    }

    pub fn of(heap: H, cubes: impl IntoIterator<Item = Cube<H>>) -> Self {
        let mut cover = Self::new(heap);
        for cube in cubes {
            cover.push(cube);
        }
        cover
    }

    pub fn push(&mut self, cube: Cube<H>) {
        if self.len == self.room {
            self.room = (self.room * 2).max(4);
            let bytes = self.room * size_of::<Cube<H>>();
            // SAFETY: the block is null or this cover's own.
            self.cubes = unsafe { launder(self.heap.realloc(self.cubes.cast(), bytes)) }.cast();
            assert!(!self.cubes.is_null(), "no memory for a cover");
        }
        // SAFETY: there is room for one more behind the first `len`.
        unsafe { self.cubes.add(self.len).write(cube) };
        self.len += 1;
    }

    /// Takes a cube out; the last takes its place.
    pub fn take(&mut self, at: usize) -> Cube<H> {
        assert!(at < self.len);
        self.len -= 1;
        // SAFETY: both are initialised; after the swap the last is outside of the cover, and so
        // owned by the caller alone.
        unsafe {
            self.cubes.add(at).swap(self.cubes.add(self.len));
            self.cubes.add(self.len).read()
        }
    }

    pub fn cubes(&self) -> &[Cube<H>] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the first `len` are initialised.
        unsafe { std::slice::from_raw_parts(self.cubes, self.len) }
    }

    pub fn copy(&self) -> Self {
        Self::of(self.heap, self.cubes().iter().map(Cube::copy))
    }

    pub fn set(&mut self, at: usize, cube: Cube<H>) {
        assert!(at < self.len);
        // SAFETY: initialised, and owned by this cover.
        unsafe { *self.cubes.add(at) = cube };
    }

    /// The parts of all cubes that meet `cube`, as seen from within it.
    pub fn cofactor(&self, cube: &Cube<H>) -> Self {
        let parts = self.cubes().iter().filter(|part| part.meets(cube));
        Self::of(self.heap, parts.map(|part| part.cofactor(cube)))
    }

    /// All cubes but one, as seen from within that one.
    pub fn cofactor_of_the_rest(&self, at: usize) -> Self {
        let cube = &self.cubes()[at];
        let rest = self.cubes().iter().enumerate().filter(|(other, _)| *other != at);
        let parts = rest.map(|(_, part)| part).filter(|part| part.meets(cube));
        Self::of(self.heap, parts.map(|part| part.cofactor(cube)))
    }

    /// The variable to split on: the one that most cubes care about, preferring those that occur in
    /// both senses; `None` when no cube cares about any.
    pub fn splitter(&self, variables: usize) -> Option<usize> {
        let count = |variable| {
            let mut senses = [0u32; 4];
            for cube in self.cubes() {
                senses[cube.get(variable) as usize] += 1;
            }
            (senses[1].min(senses[2]), senses[1] + senses[2])
        };
        let (variable, (_, uses)) = (0..variables)
            .map(|variable| (variable, count(variable)))
            .max_by_key(|(_, count)| *count)?;
        (uses > 0).then_some(variable)
    }
}
