//! The path that a call takes when all is as usual, found in the code itself.
//!
//! Fast functions here have one way to their `ret`; every way that is not usual leaves for another
//! function, kept out of line on purpose. So: of all ways through the code from the start to a
//! `ret`, without leaving for another function, the shortest that stores something. (A way that
//! stores nothing answers a question of no interest, such as free of a null pointer.)

use super::image::Image;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register,
};
use std::collections::VecDeque;

/// Instructions after which a way is no fast path.
const LONGEST: usize = 300;
/// Steps to look at.
const MOST: usize = 200_000;

/// The instructions of the fast path from `start`.
pub fn fast_path(image: &Image, start: u64) -> Result<Vec<Instruction>, String> {
    // Breadth first: the first way that ends is the shortest.
    let mut open = VecDeque::from([Way { next: start, so_far: Vec::new(), entered: false }]);
    let mut seen = 0;
    while let Some(mut way) = open.pop_front() {
        seen += 1;
        if seen > MOST {
            break;
        }
        let Some(instruction) = decode(image, way.next) else { continue };
        let again = way.so_far.iter().any(|one| one.ip() == instruction.ip());
        if again || way.so_far.len() == LONGEST {
            continue;
        }
        way.so_far.push(instruction);
        match instruction.flow_control() {
            FlowControl::Return if way.so_far.iter().any(stores) => return Ok(way.so_far),
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                way.go(image, instruction.next_ip(), &mut open);
            }
            FlowControl::UnconditionalBranch => {
                way.go(image, instruction.near_branch_target(), &mut open);
            }
            FlowControl::ConditionalBranch => {
                way.entered = true;
                way.clone().go(image, instruction.next_ip(), &mut open);
                way.go(image, instruction.near_branch_target(), &mut open);
            }
            _ => {}
        }
    }
    Err("no way to a return without leaving for another function".into())
}

#[derive(Clone)]
struct Way {
    next: u64,
    so_far: Vec<Instruction>,
    /// Whether it is past its first branch. Up to there a jump to another function is a shim's.
    entered: bool,
}

impl Way {
    fn go(mut self, image: &Image, to: u64, open: &mut VecDeque<Way>) {
        if self.entered && image.is_start(to) {
            return;
        }
        self.next = to;
        open.push_back(self);
    }
}

fn decode(image: &Image, address: u64) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(64, image.code_at(address)?, address, DecoderOptions::NONE);
    Some(decoder.decode()).filter(|instruction| !instruction.is_invalid())
}

/// Whether an instruction writes to memory other than the stack.
pub fn stores(instruction: &Instruction) -> bool {
    accesses(instruction, |access| {
        matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    })
}

/// Whether an instruction reads memory other than the stack.
pub fn loads(instruction: &Instruction) -> bool {
    accesses(instruction, |access| {
        matches!(
            access,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    })
}

fn accesses(instruction: &Instruction, kind: impl Fn(OpAccess) -> bool) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    info.used_memory().iter().any(|memory| memory.base() != Register::RSP && kind(memory.access()))
}
