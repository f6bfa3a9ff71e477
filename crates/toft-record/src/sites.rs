//! The numbers of call sites: a table of return addresses that only grows.

use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Memory is only taken for those that are used.
const PLACES: usize = 1 << 18;
/// Beyond this many, a site has no number: the table must keep free places. Readers of the file
/// count the calls of such sites, so that they are not taken for few.
const MOST: u32 = 1 << 17;

/// Written once, by the thread that finds the place free.
static ADDRESSES: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];
/// Written by the thread that wrote the address; 0 until then.
static NUMBERS: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The number of a site, and whether this is the first time that it is asked for; 0 when there are
/// too many.
pub fn number(address: usize) -> (u32, bool) {
    let mut place = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize
        >> (usize::BITS - PLACES.ilog2());
    loop {
        place &= PLACES - 1;
        let mut found = ADDRESSES[place].load(Relaxed);
        if found == 0 {
            if COUNT.load(Relaxed) >= MOST {
                return (0, false);
            }
            match ADDRESSES[place].compare_exchange(0, address, AcqRel, Acquire) {
                Ok(_) => {
                    let number = COUNT.fetch_add(1, Relaxed) + 1;
                    // Pairs with the Acquire below.
                    NUMBERS[place].store(number, Release);
                    return (number, true);
                }
                Err(other) => found = other,
            }
        }
        if found == address {
            loop {
                let number = NUMBERS[place].load(Acquire);
                if number != 0 {
                    return (number, false);
                }
                std::hint::spin_loop();
            }
        }
        place += 1;
    }
}

/// Forgets all sites, so that they are defined again: for the child of a fork, which writes a
/// separate file.
pub fn forget() {
    if COUNT.load(Relaxed) == 0 {
        return;
    }
    for (address, number) in ADDRESSES.iter().zip(&NUMBERS) {
        if address.load(Relaxed) != 0 {
            address.store(0, Relaxed);
            number.store(0, Relaxed);
        }
    }
    COUNT.store(0, Relaxed);
}
