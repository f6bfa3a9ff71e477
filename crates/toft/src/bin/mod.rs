//! L4: where one thread finds a free slot of one (partition, class): the current slab and the
//! slabs after it.

mod bins;
mod distance;

pub use bins::{
    BIN_WORDS, Bins, BinsHead, FETCHED_BY_LINES, ROW_WORDS, Taken, address_of, slab_at,
};
pub use distance::Distance;
