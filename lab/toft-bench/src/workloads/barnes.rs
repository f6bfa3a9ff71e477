//! After Barnes and Hut: bodies that attract each other, as two spheres that fall together. Each
//! step builds an octree over them out of blocks of two sizes, reads it some hundred times for each
//! body, and frees it. The sum of the energies must stay what it was, or the run fails.

use super::prelude::*;
use crate::mapped::{Mapped, Plain};
use std::ptr::null_mut;

pub const WORKLOAD: Workload = workload!("barnes", run);

type Vector = [f64; 3];

/// Bodies of a leaf; one more and it becomes a cell.
const LEAF: usize = 8;
/// A cell counts as a point where its width is less than this part of its distance.
const OPENING: f64 = 0.5;
/// The square of a length that keeps near bodies from throwing each other out.
const SOFT: f64 = 0.05 * 0.05;
const TIME_STEP: f64 = 0.01;
/// Halving the whole more often than this parts no two bodies whose places differ at all.
const DEEPEST: u32 = 200;

#[derive(Clone, Copy)]
struct Body {
    place: Vector,
    speed: Vector,
    pull: Vector,
    potential: f64,
}

// SAFETY: plain numbers, of which zero is a value.
unsafe impl Plain for Body {}

/// What cells and leaves begin with.
#[repr(C)]
struct Node {
    mass: f64,
    centre: Vector,
    /// The number of bodies of a leaf, or [`CELL`].
    bodies: usize,
}

const CELL: usize = usize::MAX;

#[repr(C)]
struct Cell {
    node: Node,
    parts: [*mut Node; 8],
}

#[repr(C)]
struct Leaf {
    node: Node,
    bodies: [u32; LEAF],
}

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let steps = params.get("steps", 5);
    let mut bodies = two_spheres(params.size("bodies", 1000), params.get("seed", 1));
    let mut nodes = attract(heap, &mut bodies, OPENING);
    let before = energy(&bodies);
    let start = Instant::now();
    for _ in 0..steps {
        nodes += step(heap, &mut bodies, TIME_STEP);
    }
    let seconds = start.elapsed().as_secs_f64();
    let drift = (energy(&bodies) / before - 1.0).abs();
    assert!(drift < 0.01, "the energy changed by {} %", drift * 100.0);
    Outcome::timed(steps, seconds).with("nodes", nodes as f64)
}

/// Two spheres of evenly spread bodies, that move about a little and towards each other. The mass
/// of all is 1.
fn two_spheres(count: usize, seed: u64) -> Mapped<Body> {
    let mut rng = Rng::new(seed);
    let mut bodies = Mapped::<Body>::new(count);
    for (index, body) in bodies.iter_mut().enumerate() {
        let side = if index % 2 == 0 { 1.0 } else { -1.0 };
        body.place = in_sphere(&mut rng);
        body.place[0] += 1.5 * side;
        body.speed = in_sphere(&mut rng).map(|part| part * 0.5);
        body.speed[0] -= 0.3 * side;
    }
    bodies
}

/// A point within 1 of the origin.
fn in_sphere(rng: &mut Rng) -> Vector {
    loop {
        let point: Vector =
            std::array::from_fn(|_| rng.below(1 << 30) as f64 / f64::from(1 << 29) - 1.0);
        if square(point) < 1.0 {
            return point;
        }
    }
}

fn square(vector: Vector) -> f64 {
    vector.iter().map(|part| part * part).sum()
}

fn energy(bodies: &[Body]) -> f64 {
    // Each pair is in the potential of both.
    let sum: f64 = bodies.iter().map(|body| square(body.speed) + body.potential).sum();
    sum / 2.0 / bodies.len() as f64
}

/// A leapfrog step: half of the pull, the way, the new pull's half. Returns the nodes of the tree.
fn step<H: Heap>(heap: H, bodies: &mut [Body], time: f64) -> u64 {
    for body in &mut *bodies {
        for axis in 0..3 {
            body.speed[axis] += body.pull[axis] * time / 2.0;
            body.place[axis] += body.speed[axis] * time;
        }
    }
    let nodes = attract(heap, bodies, OPENING);
    for body in bodies {
        for axis in 0..3 {
            body.speed[axis] += body.pull[axis] * time / 2.0;
        }
    }
    nodes
}

/// Sets the pull and the potential of each body. Returns the number of nodes that were allocated.
fn attract<H: Heap>(heap: H, bodies: &mut [Body], opening: f64) -> u64 {
    let reach = bodies.iter().flat_map(|body| body.place).fold(1.0, |far, x| x.abs().max(far));
    let mut tree = Tree { heap, reach, nodes: 0 };
    let mut root = null_mut();
    for index in 0..bodies.len() {
        tree.insert(&mut root, bodies, index as u32);
    }
    tree.weigh(root, bodies);
    for index in 0..bodies.len() {
        let mut body = bodies[index];
        (body.pull, body.potential) = ([0.0; 3], 0.0);
        tree.pull(root, 2.0 * reach * (1.0 / opening), bodies, index as u32, &mut body);
        bodies[index] = body;
    }
    tree.remove(root);
    tree.nodes
}

struct Tree<H> {
    heap: H,
    /// The tree is over the cube of all places with coordinates of no larger size.
    reach: f64,
    nodes: u64,
}

impl<H: Heap> Tree<H> {
    fn leaf(&mut self) -> *mut Node {
        let leaf = take(self.heap, size_of::<Leaf>()).cast::<Leaf>();
        self.nodes += 1;
        let node = Node { mass: 0.0, centre: [0.0; 3], bodies: 0 };
        // SAFETY: a fresh block of that size, aligned as malloc's are.
        unsafe { leaf.write(Leaf { node, bodies: [0; LEAF] }) };
        leaf.cast()
    }

    fn cell(&mut self) -> *mut Cell {
        let cell = take(self.heap, size_of::<Cell>()).cast::<Cell>();
        self.nodes += 1;
        let node = Node { mass: 0.0, centre: [0.0; 3], bodies: CELL };
        // SAFETY: as in `leaf`.
        unsafe { cell.write(Cell { node, parts: [null_mut(); 8] }) };
        cell
    }

    fn insert(&mut self, root: &mut *mut Node, bodies: &[Body], index: u32) {
        let place = bodies[index as usize].place;
        let (mut middle, mut half) = ([0.0; 3], self.reach);
        let mut link: *mut *mut Node = root;
        for _ in 0..DEEPEST {
            // SAFETY: the link is the root's or a part of a live cell, and null or to a live node;
            // a node that is no cell is a leaf.
            unsafe {
                if (*link).is_null() || ((**link).bodies != CELL && (**link).bodies < LEAF) {
                    self.add(link, index);
                    return;
                }
                if (**link).bodies != CELL {
                    self.split(link, bodies, middle);
                }
                link = &raw mut (*(*link).cast::<Cell>()).parts[descend(&mut middle, half, place)];
            }
            half /= 2.0;
        }
        panic!("{} bodies are in one place", LEAF + 1);
    }

    /// Adds a body to a leaf that has room, or makes one.
    ///
    /// # Safety
    /// The link is writable, and null or to a live leaf with room.
    unsafe fn add(&mut self, link: *mut *mut Node, index: u32) {
        // SAFETY: see above.
        unsafe {
            if (*link).is_null() {
                *link = self.leaf();
            }
            let leaf = (*link).cast::<Leaf>();
            (*leaf).bodies[(*leaf).node.bodies] = index;
            (*leaf).node.bodies += 1;
        }
    }

    /// Puts a cell with the same bodies in the place of a full leaf.
    ///
    /// # Safety
    /// The link is writable and to a live leaf.
    unsafe fn split(&mut self, link: *mut *mut Node, bodies: &[Body], middle: Vector) {
        let cell = self.cell();
        // SAFETY: the leaf is live until it is freed here, and each part gets at most all its
        // bodies.
        unsafe {
            let leaf = (*link).cast::<Leaf>();
            for index in (*leaf).bodies {
                let octant = octant(middle, bodies[index as usize].place);
                self.add(&raw mut (*cell).parts[octant], index);
            }
            self.heap.free(leaf.cast());
            *link = cell.cast();
        }
    }

    /// Sets the mass and its centre of a node and of all below it.
    fn weigh(&self, node: *mut Node, bodies: &[Body]) {
        let each = 1.0 / bodies.len() as f64;
        let (mut mass, mut centre) = (0.0, [0.0; 3]);
        let mut add = |part: f64, place: Vector| {
            mass += part;
            for axis in 0..3 {
                centre[axis] += place[axis] * part;
            }
        };
        // SAFETY: the node is a live one of this tree, and so are its parts.
        unsafe {
            if (*node).bodies == CELL {
                for part in (*node.cast::<Cell>()).parts.into_iter().filter(|part| !part.is_null())
                {
                    self.weigh(part, bodies);
                    add((*part).mass, (*part).centre);
                }
            } else {
                let leaf = node.cast::<Leaf>();
                for at in 0..(*leaf).node.bodies {
                    add(each, bodies[(*leaf).bodies[at] as usize].place);
                }
            }
            (*node).mass = mass;
            (*node).centre = centre.map(|part| part / mass);
        }
    }

    /// Adds the pull of a node on a body. Nodes further away than `far` count as a point.
    fn pull(&self, node: *mut Node, far: f64, bodies: &[Body], index: u32, body: &mut Body) {
        // SAFETY: as in `weigh`.
        unsafe {
            if (*node).bodies == CELL {
                if apart((*node).centre, body.place) > far * far {
                    attract_to((*node).centre, (*node).mass, body);
                    return;
                }
                for part in (*node.cast::<Cell>()).parts.into_iter().filter(|part| !part.is_null())
                {
                    self.pull(part, far / 2.0, bodies, index, body);
                }
            } else {
                let leaf = node.cast::<Leaf>();
                for at in 0..(*leaf).node.bodies {
                    let other = (*leaf).bodies[at];
                    if other != index {
                        attract_to(bodies[other as usize].place, 1.0 / bodies.len() as f64, body);
                    }
                }
            }
        }
    }

    fn remove(&self, node: *mut Node) {
        // SAFETY: as in `weigh`; each node is in one place of the tree, which ends here.
        unsafe {
            if (*node).bodies == CELL {
                for part in (*node.cast::<Cell>()).parts.into_iter().filter(|part| !part.is_null())
                {
                    self.remove(part);
                }
            }
            self.heap.free(node.cast());
        }
    }
}

fn octant(middle: Vector, place: Vector) -> usize {
    (0..3).map(|axis| usize::from(place[axis] >= middle[axis]) << axis).sum()
}

/// Moves from the middle of a cube to that of the part where `place` lies, and says which that is.
fn descend(middle: &mut Vector, half: f64, place: Vector) -> usize {
    let octant = octant(*middle, place);
    for (axis, middle) in middle.iter_mut().enumerate() {
        *middle += if octant >> axis & 1 == 1 { half / 2.0 } else { -half / 2.0 };
    }
    octant
}

fn apart(a: Vector, b: Vector) -> f64 {
    square(std::array::from_fn(|axis| a[axis] - b[axis]))
}

fn attract_to(centre: Vector, mass: f64, body: &mut Body) {
    let near = 1.0 / (apart(centre, body.place) + SOFT).sqrt();
    let weight = mass * near * near * near;
    for (axis, pull) in body.pull.iter_mut().enumerate() {
        *pull += weight * (centre[axis] - body.place[axis]);
    }
    body.potential -= mass * near;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;
    use crate::workloads::test_heaps::Recorder;

    /// What each body of a small system feels, without a tree.
    fn direct(bodies: &[Body]) -> Vec<Body> {
        let mut felt = bodies.to_vec();
        for (index, body) in felt.iter_mut().enumerate() {
            (body.pull, body.potential) = ([0.0; 3], 0.0);
            for (_, other) in bodies.iter().enumerate().filter(|(other, _)| *other != index) {
                attract_to(other.place, 1.0 / bodies.len() as f64, body);
            }
        }
        felt
    }

    /// The largest error of a pull, as a share of the mean pull.
    fn error(bodies: &[Body]) -> f64 {
        let exact = direct(bodies);
        let mean =
            exact.iter().map(|body| square(body.pull).sqrt()).sum::<f64>() / exact.len() as f64;
        let errors = bodies.iter().zip(&exact).map(|(a, b)| apart(a.pull, b.pull).sqrt() / mean);
        errors.fold(0.0, f64::max)
    }

    #[test]
    fn a_tree_of_which_every_cell_is_opened_gives_the_exact_pull_and_the_usual_one_is_near() {
        let mut bodies = two_spheres(500, 1);
        assert!(attract(Libc, &mut bodies, 1e-9) > 100);
        assert!(error(&bodies) < 1e-9, "{}", error(&bodies));
        attract(Libc, &mut bodies, OPENING);
        assert!((1e-9..0.05).contains(&error(&bodies)), "{}", error(&bodies));
    }

    #[test]
    fn the_energy_is_kept_by_small_steps_and_not_by_large_ones() {
        let drift = |time: f64, steps: u32| {
            let mut bodies = two_spheres(300, 1);
            attract(Libc, &mut bodies, OPENING);
            let before = energy(&bodies);
            for _ in 0..steps {
                step(Libc, &mut bodies, time);
            }
            (energy(&bodies) / before - 1.0).abs()
        };
        assert!(drift(TIME_STEP, 100) < 0.01, "{}", drift(TIME_STEP, 100));
        assert!(drift(1.0, 5) > 0.05, "{}", drift(1.0, 5));
    }

    #[test]
    fn a_tree_is_of_two_sizes_and_grows_with_the_bodies() {
        let most = |bodies| {
            let heap = Recorder::new();
            let _ = run(heap, &Params::parse([bodies, "steps=1"]).unwrap());
            assert_eq!(heap.range(), (size_of::<Leaf>(), size_of::<Cell>()));
            heap.most_live()
        };
        assert!(most("bodies=1000") > 5 * most("bodies=100"));
    }

    #[test]
    #[should_panic(expected = "in one place")]
    fn more_bodies_in_one_place_than_a_leaf_holds_are_refused() {
        let mut bodies = Mapped::<Body>::new(LEAF + 1);
        attract(Libc, &mut bodies, OPENING);
    }
}
