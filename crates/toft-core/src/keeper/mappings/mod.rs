//! How the pages of a mapping are to be: advice, guard pages, prefaulting, what is resident.

mod guard_pages;
mod mapping_options;
mod non_resident;
mod prefault;

use crate::allocator::{Allocator, handle};

handle!(Mapper, mapper);
