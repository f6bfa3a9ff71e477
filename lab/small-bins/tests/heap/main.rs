//! Each variant is a sound heap, sorts what its name says, and stops at a corrupted link.

mod common;
mod corruption;
mod counts;
mod model;
mod release;
mod size;
mod threads;
