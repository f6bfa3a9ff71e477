//! One event, and how it is coded.
//!
//! An event is a byte, the rest of its sequence number if that does not fit into the byte, and its
//! numbers. The byte's low three bits say what happened; the high five are the distance to the
//! sequence number before it in the thread, 1 to 31, or 0: then the distance follows as a number.

use crate::varint::{self, Put};

/// What happened, when, in the order of the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number. An allocation's is also the name of its object.
    pub sequence: u64,
    /// What happened.
    pub action: Action,
}

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A block was had. The object is called by the event's sequence number.
    Allocate {
        /// The bytes that were asked for.
        size: u64,
        /// The alignment that was asked for, a power of two; 1 when none was.
        align: u64,
        /// Whose return address; 0 when that is not known.
        site: u32,
        /// Whether the bytes were to be zero.
        zeroed: bool,
    },
    /// A block was given back.
    Free {
        /// The block.
        object: u64,
    },
    /// A block has another size, and perhaps another address.
    Resize {
        /// The block.
        object: u64,
        /// The bytes that were asked for.
        size: u64,
        /// As for an allocation.
        site: u32,
    },
    /// The number of a site that is used from here on. It takes no sequence number.
    Site {
        /// The number.
        site: u32,
        /// The return address that it stands for.
        address: u64,
    },
    /// The thread made its first call.
    Start,
    /// The thread ended.
    End,
}

/// The most bytes that an event takes: the byte, and four numbers.
pub const LONGEST: usize = 1 + 4 * varint::LONGEST;

const PLAIN: u8 = 0;
const ZEROED: u8 = 1;
const ALIGNED: u8 = 2;
const FREE: u8 = 3;
const RESIZE: u8 = 4;
const SITE: u8 = 5;
const LIFE: u8 = 6;

impl Event {
    /// Writes the event behind one with the sequence number `before`, and returns its length.
    ///
    /// # Panics
    /// When `place` is shorter than [`LONGEST`] and the event does not fit.
    pub fn encode(&self, before: u64, place: &mut [u8]) -> usize {
        let mut put = Put::new(place);
        let distance = self.sequence.wrapping_sub(before);
        let mut start = |kind: u8| {
            let near = if (1..32).contains(&distance) { distance as u8 } else { 0 };
            put.byte(kind | near << 3);
            if near == 0 {
                put.number(distance);
            }
        };
        match self.action {
            Action::Allocate { size, align, site, zeroed } => {
                let kind = match (align > 1, zeroed) {
                    (true, _) => ALIGNED,
                    (false, true) => ZEROED,
                    (false, false) => PLAIN,
                };
                start(kind);
                if kind == ALIGNED {
                    put.byte(align.trailing_zeros() as u8 | u8::from(zeroed) << 7);
                }
                put.number(size);
                put.number(u64::from(site));
            }
            Action::Free { object } => {
                start(FREE);
                put.number(self.sequence.wrapping_sub(object));
            }
            Action::Resize { object, size, site } => {
                start(RESIZE);
                put.number(self.sequence.wrapping_sub(object));
                put.number(size);
                put.number(u64::from(site));
            }
            Action::Site { site, address } => {
                start(SITE);
                put.number(u64::from(site));
                put.number(address);
            }
            Action::Start | Action::End => {
                start(LIFE);
                put.byte(u8::from(self.action == Action::End));
            }
        }
        put.len()
    }

    /// Takes an event off the front; nothing when it is cut off or makes no sense.
    pub fn decode(before: u64, bytes: &mut &[u8]) -> Option<Event> {
        let first = varint::byte(bytes)?;
        let distance = match first >> 3 {
            0 => varint::number(bytes)?,
            near => u64::from(near),
        };
        let kind = first & 7;
        if (distance == 0) != (kind == SITE) {
            return None;
        }
        let sequence = before.checked_add(distance)?;
        let object = |bytes: &mut &[u8]| {
            let distance = varint::number(bytes)?;
            sequence.checked_sub(distance).filter(|&object| object > 0 && object < sequence)
        };
        let site = |bytes: &mut &[u8]| u32::try_from(varint::number(bytes)?).ok();
        let action = match kind {
            PLAIN | ZEROED => Action::Allocate {
                size: varint::number(bytes)?,
                align: 1,
                site: site(bytes)?,
                zeroed: kind == ZEROED,
            },
            ALIGNED => {
                let how = varint::byte(bytes)?;
                let align = 1u64.checked_shl(u32::from(how & 0x7f)).filter(|&align| align > 1)?;
                let size = varint::number(bytes)?;
                Action::Allocate { size, align, site: site(bytes)?, zeroed: how & 0x80 != 0 }
            }
            FREE => Action::Free { object: object(bytes)? },
            RESIZE => {
                let object = object(bytes)?;
                let size = varint::number(bytes)?;
                Action::Resize { object, size, site: site(bytes)? }
            }
            SITE => {
                let site = site(bytes)?;
                Action::Site { site, address: varint::number(bytes)? }
            }
            LIFE => match varint::byte(bytes)? {
                0 => Action::Start,
                1 => Action::End,
                _ => return None,
            },
            _ => return None,
        };
        Some(Event { sequence, action })
    }
}
