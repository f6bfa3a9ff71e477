//! The path that a call takes when all is as usual, found in the code itself.
//!
//! Fast functions here have one way to their `ret`; every way that is not usual leaves for another
//! function, kept out of line on purpose. So: of all ways through the code from the start to a
//! `ret`, without leaving for another function, the shortest that stores something. (A way that
//! stores nothing answers a question of no interest, such as free of a null pointer.)

use super::image::Image;
use super::step::{Flow, Step};
use std::collections::VecDeque;

/// Instructions after which a way is no fast path.
const LONGEST: usize = 300;
/// Steps to check.
const MOST: usize = 200_000;

/// The instructions of the fast path from `start`.
pub fn fast_path(image: &Image, start: u64) -> Result<Vec<Step>, String> {
    // Breadth first: the first way that ends is the shortest.
    let mut open = VecDeque::from([Way { next: start, so_far: Vec::new(), entered: false }]);
    let mut seen = 0;
    while let Some(mut way) = open.pop_front() {
        seen += 1;
        if seen > MOST {
            break;
        }
        let Some(step) = image.step_at(way.next) else { continue };
        let again = way.so_far.iter().any(|one| one.address == step.address);
        if again || way.so_far.len() == LONGEST {
            continue;
        }
        let (flow, next) = (step.flow, step.next);
        way.so_far.push(step);
        match flow {
            Flow::Return if way.so_far.iter().any(|step| step.stores) => return Ok(way.so_far),
            Flow::Next | Flow::Call => way.go(image, next, &mut open),
            Flow::Jump(target) => way.go(image, target, &mut open),
            Flow::Branch(target) => {
                way.entered = true;
                way.clone().go(image, next, &mut open);
                way.go(image, target, &mut open);
            }
            Flow::Return | Flow::Elsewhere => {}
        }
    }
    Err("no way to a return without leaving for another function".into())
}

#[derive(Clone)]
struct Way {
    next: u64,
    so_far: Vec<Step>,
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
