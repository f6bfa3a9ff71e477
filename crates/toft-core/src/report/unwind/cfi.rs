//! Runs call frame instructions: the program of a description, up to one place in its function. The
//! result tells where the frame begins there, and where the caller's frame pointer is.

use super::reader::Bytes;
use super::{FRAME_POINTER, Pointer};

/// The most states that a program may remember at a time.
const REMEMBERED: usize = 8;

/// The state of a program that is being run.
pub(super) struct State {
    /// The place that the program has reached, in bytes of code.
    pub(super) place: u64,
    /// The requested place.
    pub(super) until: u64,
    /// The register and the distance that give the frame's beginning.
    pub(super) frame: Option<(u64, u64)>,
    /// Where the caller's frame pointer is.
    pub(super) pointer: Pointer,
}

/// Returns the place that is `units` data units from a frame's beginning.
fn below(units: i64, data: i64) -> Pointer {
    let bytes = units.checked_mul(data).and_then(i64::checked_neg);
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).map_or(Pointer::Unknown, Pointer::Below)
}

impl State {
    fn keeps(&mut self, register: u64, pointer: Pointer) {
        if register == FRAME_POINTER {
            self.pointer = pointer;
        }
    }

    /// Runs a program to its end, or up to the requested place.
    pub(super) fn run(&mut self, program: &mut Bytes<'_>, code: u64, data: i64) -> Option<()> {
        let mut remembered = [(None, Pointer::Untouched); REMEMBERED];
        let mut depth = 0usize;
        while let Some(operation) = program.byte() {
            let low = u64::from(operation & 0x3f);
            let step = match operation {
                0x40..=0x7f => Some(low),
                0x02 => Some(program.number(1)?),
                0x03 => Some(program.number(2)?),
                0x04 => Some(program.number(4)?),
                _ => None,
            };
            if let Some(step) = step {
                self.place = self.place.checked_add(step.checked_mul(code)?)?;
                if self.place > self.until {
                    return Some(());
                }
                continue;
            }
            match operation {
                0x00 => {}
                0x2e => {
                    program.unsigned()?;
                }
                // A register is unchanged, or was saved the given units from the frame's beginning.
                0xc0..=0xff => self.keeps(low, Pointer::Untouched),
                0x06 | 0x08 => {
                    let register = program.unsigned()?;
                    self.keeps(register, Pointer::Untouched);
                }
                0x80..=0xbf => {
                    let units = i64::try_from(program.unsigned()?).ok()?;
                    self.keeps(low, below(units, data));
                }
                0x05 => {
                    let register = program.unsigned()?;
                    let units = i64::try_from(program.unsigned()?).ok()?;
                    self.keeps(register, below(units, data));
                }
                0x11 => {
                    let register = program.unsigned()?;
                    let units = program.signed()?;
                    self.keeps(register, below(units, data));
                }
                // A register is somewhere else.
                0x07 | 0x09 | 0x10 | 0x14..=0x16 => {
                    let register = program.unsigned()?;
                    match operation {
                        0x07 => {}
                        0x10 | 0x16 => {
                            let length = program.unsigned()?;
                            program.skip(usize::try_from(length).ok()?)?;
                        }
                        _ => {
                            program.unsigned()?;
                        }
                    }
                    self.keeps(register, Pointer::Unknown);
                }
                0x0a => {
                    *remembered.get_mut(depth)? = (self.frame, self.pointer);
                    depth += 1;
                }
                0x0b => {
                    depth = depth.checked_sub(1)?;
                    (self.frame, self.pointer) = *remembered.get(depth)?;
                }
                0x0c => self.frame = Some((program.unsigned()?, program.unsigned()?)),
                0x0d => self.frame = Some((program.unsigned()?, self.frame?.1)),
                0x0e => self.frame = Some((self.frame?.0, program.unsigned()?)),
                0x0f => {
                    let length = program.unsigned()?;
                    program.skip(usize::try_from(length).ok()?)?;
                    self.frame = None;
                }
                0x12 => {
                    let register = program.unsigned()?;
                    let offset = program.signed()?.checked_mul(data)?;
                    self.frame = Some((register, u64::try_from(offset).ok()?));
                }
                0x13 => {
                    let offset = program.signed()?.checked_mul(data)?;
                    self.frame = Some((self.frame?.0, u64::try_from(offset).ok()?));
                }
                _ => return None,
            }
        }
        (!program.cut_off).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::STACK_POINTER;
    use super::*;

    #[test]
    fn programs_that_make_no_sense_have_no_frame() {
        let run = |program: &[u8], cut_off| {
            let (frame, pointer) = (Some((STACK_POINTER, 8)), Pointer::Untouched);
            let mut state = State { place: 0, until: 10, frame, pointer };
            state.run(&mut Bytes { rest: program, cut_off }, 1, -8)?;
            state.frame
        };
        assert_eq!(run(&[0x0e, 16], false), Some((7, 16)));
        assert_eq!(run(&[0x41, 0x0e, 16, 0x4a, 0x0e, 32], false), Some((7, 16)));
        assert_eq!(run(&[0x41, 0x0e, 16], true), None, "there is more of it before the place");
        assert_eq!(run(&[0x4b], true), Some((7, 8)), "what is cut off lies behind the place");
        assert_eq!(run(&[0x0b], false), None);
        assert_eq!(run(&[0x0a; 9], false), None);
        assert_eq!(run(&[0x0f, 1, 0], false), None);
        assert_eq!(run(&[0x0f, 9, 0], false), None);
        assert_eq!(run(&[0x3f], false), None);
        assert_eq!(run(&[0x0e], false), None);
        assert_eq!(run(&[0x12, 7, 0x7e], false), Some((7, 16)));
    }
}
