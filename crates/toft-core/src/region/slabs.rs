//! Where slabs come from: the field in the default build, and two tiers of plots far apart in the
//! secure builds. Both have the same methods.

use super::field::{Field, FieldPlaces, descriptor_space};
use super::plot::{PlotPlace, Plots};
use super::{Descriptor, Layout, MEDIUM, Partition, SMALL};
use crate::os::{Error, Os};

/// The slabs of an allocator, with descriptors `D`.
#[cfg(not(feature = "secure-light"))]
pub type Slabs<D> = Field<D>;
/// The slabs of an allocator, with descriptors `D`.
#[cfg(feature = "secure-light")]
pub type Slabs<D> = Tiers<D>;

/// The field begins at a multiple of this number of bytes: as many as the largest power of two that
/// divides the size of a slot.
const FIELD_ALIGN: usize = 128 << 10;
/// The number of places, so far apart, where the field may begin in its window.
const LEADS: usize = 16;

/// What a new slab needs.
#[derive(Clone, Copy, Debug)]
pub struct SlabNeed {
    /// The partition that gets it.
    pub partition: Partition,
    /// True if its slots are small.
    pub small: bool,
    /// The bytes of its slots.
    pub bytes: usize,
    /// Its first address is a multiple of this number, a power of two.
    pub align: usize,
}

/// A place in the order of all slabs. The default is the first.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlabPlace {
    /// Plots: true in the medium tier.
    pub medium: bool,
    /// The place in the tier, or in the field.
    pub place: PlotPlace,
}

impl<D: Descriptor> Field<D> {
    /// Returns the number of zeroed bytes of tables that `at` needs.
    pub fn table_bytes(_span: usize, _partitions: usize) -> usize {
        Self::TABLE_BYTES
    }

    /// Returns the field of a layout.
    ///
    /// # Safety
    /// 1. As for [`Field::new`].
    /// 2. The layout's places for slabs are for this object alone.
    pub unsafe fn at(
        os: &impl Os,
        layout: &Layout,
        _partitions: usize,
        tables: usize,
    ) -> Result<Self, Error> {
        // The window has fewer places, because large blocks in it may have huge pages.
        let lead = (os.random()? as usize & (LEADS - 1)) * FIELD_ALIGN;
        let places = FieldPlaces {
            data: (layout.windows.data + lead, layout.windows.span - lead),
            descriptors: (layout.small_slabs, descriptor_space(layout.windows.span)),
            map: layout.medium_slabs,
        };
        // SAFETY: (1) duty 1; (2) duty 2.
        unsafe { Field::new(os, places, tables) }
    }

    /// Returns the same as `slab_at`: the field has one kind of slabs.
    #[inline(always)]
    pub fn small_at(&self, address: usize) -> Option<&D> {
        self.slab_at(address)
    }

    /// Returns the same as `slab_at`.
    #[inline(always)]
    pub fn medium_at(&self, address: usize) -> Option<&D> {
        self.slab_at(address)
    }
}

/// Two tiers of plots.
#[derive(Debug)]
pub struct Tiers<D> {
    /// Small slabs.
    pub small: Plots<SMALL, D>,
    /// Medium slabs.
    pub medium: Plots<MEDIUM, D>,
}

impl<D: Descriptor> Tiers<D> {
    /// Returns the number of zeroed bytes of tables that `at` needs.
    pub fn table_bytes(span: usize, partitions: usize) -> usize {
        let small = Plots::<SMALL, D>::table_bytes(span, partitions).next_multiple_of(64);
        small + Plots::<MEDIUM, D>::table_bytes(span, partitions)
    }

    /// Returns an object that contains no address, for use before the allocator starts.
    pub const fn none() -> Self {
        Tiers { small: Plots::none(), medium: Plots::none() }
    }

    /// Returns the plots of a layout.
    ///
    /// # Safety
    /// 1. `tables` is the address of `table_bytes` zero bytes that live for ever, are aligned to
    ///    64, and belong to this object alone.
    /// 2. The layout's places for slabs are for this object alone.
    pub unsafe fn at(
        os: &impl Os,
        layout: &Layout,
        partitions: usize,
        tables: usize,
    ) -> Result<Self, Error> {
        let (data, span) = (layout.windows.data, layout.windows.span);
        let behind = tables + Plots::<SMALL, D>::table_bytes(span, partitions).next_multiple_of(64);
        // SAFETY: (1) each has its own part of the tables; (2) duty 2.
        unsafe {
            Ok(Tiers {
                small: Plots::new(os, data, span, partitions, layout.small_slabs, tables)?,
                medium: Plots::new(
                    os,
                    layout.windows.medium(),
                    span,
                    partitions,
                    layout.medium_slabs,
                    behind,
                )?,
            })
        }
    }

    /// Returns the descriptor of the slab that contains an address, if it is mapped.
    #[inline(always)]
    pub fn slab_at(&self, address: usize) -> Option<&D> {
        match self.small.slab_at(address) {
            None => self.medium.slab_at(address),
            slab => slab,
        }
    }

    /// Returns the descriptor of the small slab that contains an address, if it is mapped.
    #[inline(always)]
    pub fn small_at(&self, address: usize) -> Option<&D> {
        self.small.slab_at(address)
    }

    /// Returns the descriptor of the medium slab that contains an address, if it is mapped.
    #[inline(always)]
    pub fn medium_at(&self, address: usize) -> Option<&D> {
        self.medium.slab_at(address)
    }

    /// Returns a slab that was never used: its descriptor, still zero, and its address. If slabs
    /// were mapped for it, calls `mapped` with their start and length.
    pub fn take(
        &self,
        os: &impl Os,
        need: SlabNeed,
        mapped: impl Fn(usize, usize),
    ) -> Result<(&D, usize), Error> {
        if need.small {
            self.small.take(os, need.partition, mapped)
        } else {
            self.medium.take(os, need.partition, mapped)
        }
    }

    /// Lets plots map ahead of need again.
    pub fn grow_ahead(&self) {
        self.small.grow_ahead();
        self.medium.grow_ahead();
    }

    /// Unmaps what was mapped ahead of need, because memory has run out.
    pub fn retract(&self, os: &impl Os) {
        self.small.retract(os);
        self.medium.retract(os);
    }

    /// Repairs the plots in the child of a fork. The first `partitions` partitions are in use.
    pub fn repair(&self, os: &impl Os, partitions: usize) {
        self.small.repair(os, partitions);
        self.medium.repair(os, partitions);
    }

    /// Returns true if a place is after the last slab.
    pub fn is_end(&self, at: SlabPlace) -> bool {
        at.medium && self.medium.is_end(at.place)
    }

    /// Returns the slab at a place that is not the end, and moves the place on. Returns `None`
    /// where there is no open slab.
    pub fn step(&self, at: &mut SlabPlace) -> Option<&D> {
        if at.medium {
            return self.medium.step(&mut at.place);
        }
        if self.small.is_end(at.place) {
            *at = SlabPlace { medium: true, place: PlotPlace::default() };
            return None;
        }
        self.small.step(&mut at.place)
    }

    /// Calls `each` with every slab that was handed out.
    pub fn for_each(&self, mut each: impl FnMut(&D)) {
        self.small.for_each(&mut each);
        self.medium.for_each(&mut each);
    }

    /// Calls `each` with every slab from a place on, until `each` returns false. Moves the place
    /// on: a number for each tier. Returns false if `each` has ended it.
    pub fn for_each_from(
        &self,
        [small, medium]: [&mut usize; 2],
        mut each: impl FnMut(&D) -> bool,
    ) -> bool {
        self.small.for_each_from(small, &mut each) && self.medium.for_each_from(medium, &mut each)
    }

    /// Calls `each` with the start and length of the mapped addresses: of each slab the bytes from
    /// its start that `mapped_bytes` returns. The ranges are as few as possible.
    pub fn for_each_range(
        &self,
        mapped_bytes: impl Fn(&D) -> usize,
        mut each: impl FnMut(usize, usize),
    ) {
        self.small.for_each_range(&mapped_bytes, &mut each);
        self.medium.for_each_range(&mapped_bytes, &mut each);
    }

    /// Returns the bytes of descriptors that may have pages.
    pub fn descriptor_bytes(&self) -> usize {
        self.small.descriptor_bytes() + self.medium.descriptor_bytes()
    }

    /// Returns the bytes of slabs that were mapped.
    pub fn mapped_at_most(&self) -> usize {
        self.small.mapped_at_most() + self.medium.mapped_at_most()
    }

    /// Returns the bytes of mapped slabs, and of their mapped descriptors.
    pub fn mapped_bytes(&self) -> (usize, usize) {
        let (small, medium) = (self.small.mapped_bytes(), self.medium.mapped_bytes());
        (small.0 + medium.0, small.1 + medium.1)
    }
}
