//! Slabs and slots for tests and models.

use super::*;

impl Slab {
    /// The census of this slab alone.
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        self.count(&mut census);
        census
    }

    /// A slab without blocks.
    #[cfg(loom)]
    pub fn model(slots: u16) -> &'static Slab {
        let links: Vec<AtomicU16> = (0..slots).map(|_| AtomicU16::new(0)).collect();
        let class = Class::all().next().unwrap();
        Box::leak(Box::new(Slab::header(class, slots, links.leak().as_ptr(), (0, 0))))
    }
}

#[cfg(loom)]
impl SlotIndex {
    /// A slot of a model.
    pub fn model(index: u16) -> SlotIndex {
        SlotIndex(index)
    }
}
