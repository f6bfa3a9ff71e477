//! L4: where one thread finds a free slot of one (partition, class): the current slab and the
//! slabs after it.

mod bins;
mod distance;
mod draw;
mod head;
mod index;

pub use bins::{BIN_WORDS, Bins, ROW_WORDS, address_of, slab_at};
pub use distance::Distance;
pub use draw::{FETCHED_BY_LINES, Taken};
pub use head::BinsHead;
pub use index::BinIndex;
