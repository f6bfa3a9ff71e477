//! Minimises random boolean functions (complement, expand, irredundant, reduce), on cubes and
//! covers in small heap blocks: the load of the classic `espresso` benchmark, rewritten.

mod cover;

use crate::workloads::prelude::*;
use cover::{Cover, Cube};

pub const WORKLOAD: Workload = workload!("espresso", run);

fn run<H: Heap>(heap: H, params: &Params) -> Outcome {
    let mut rng = Rng::new(params.get("seed", 1));
    let functions = params.get("functions", 4);
    let variables = params.size("variables", 10);
    let cubes = params.size("cubes", 40);
    let start = Instant::now();
    for _ in 0..functions {
        let function = random(heap, variables, cubes, &mut rng);
        let smaller = minimise(heap, &function, variables);
        assert!(cost(&smaller) <= cost(&function), "the minimum is larger");
    }
    Outcome::timed(functions, start.elapsed().as_secs_f64())
}

fn random<H: Heap>(heap: H, variables: usize, cubes: usize, rng: &mut Rng) -> Cover<H> {
    Cover::of(
        heap,
        (0..cubes).map(|_| {
            (0..variables).fold(Cube::full(heap, variables), |cube, variable| {
                cube.with(variable, [1, 2, 3, 3][rng.below(4)])
            })
        }),
    )
}

/// Cubes first, then literals.
fn cost<H: Heap>(cover: &Cover<H>) -> (usize, u32) {
    (cover.cubes().len(), cover.cubes().iter().map(Cube::literals).sum())
}

fn minimise<H: Heap>(heap: H, function: &Cover<H>, variables: usize) -> Cover<H> {
    let outside = complement(heap, function, variables);
    let mut best = irredundant(heap, expand(heap, function, &outside, variables), variables);
    loop {
        let smaller = reduce(heap, best.copy(), variables);
        let next = irredundant(heap, expand(heap, &smaller, &outside, variables), variables);
        if cost(&next) >= cost(&best) {
            return best;
        }
        best = next;
    }
}

/// Everything outside of a cover, by splitting on one variable after the other.
fn complement<H: Heap>(heap: H, cover: &Cover<H>, variables: usize) -> Cover<H> {
    if cover.cubes().iter().any(Cube::is_full) {
        return Cover::new(heap);
    }
    let Some(variable) = cover.splitter(variables) else {
        return Cover::of(heap, [Cube::full(heap, variables)]);
    };
    let mut result = Cover::new(heap);
    for sense in [1, 2] {
        let half = Cube::full(heap, variables).with(variable, sense);
        let part = complement(heap, &cover.cofactor(&half), variables);
        for cube in part.cubes() {
            // A cube that the other half has, too, needs no literal.
            let twin = result.cubes().iter().position(|other| {
                other.get(variable) == 1
                    && sense == 2
                    && other.with(variable, 3).contains(cube)
                    && cube.contains(other)
            });
            match twin {
                Some(at) => {
                    let joined = result.take(at).with(variable, 3);
                    result.push(joined);
                }
                None => {
                    result.push(cube.meet(&half).expect("a half of a cube that does not split"))
                }
            }
        }
    }
    result
}

/// Whether a cover is everything.
fn tautology<H: Heap>(heap: H, cover: &Cover<H>, variables: usize) -> bool {
    if cover.cubes().iter().any(Cube::is_full) {
        return true;
    }
    cover.splitter(variables).is_some_and(|variable| {
        [1, 2].into_iter().all(|sense| {
            let half = Cube::full(heap, variables).with(variable, sense);
            tautology(heap, &cover.cofactor(&half), variables)
        })
    })
}

/// Grows each cube, literal by literal, as long as it stays off the outside, and drops the cubes
/// that a grown one swallows.
fn expand<H: Heap>(heap: H, cover: &Cover<H>, outside: &Cover<H>, variables: usize) -> Cover<H> {
    let mut result: Cover<H> = Cover::new(heap);
    for cube in cover.cubes() {
        if result.cubes().iter().any(|grown| grown.contains(cube)) {
            continue;
        }
        let mut grown = cube.copy();
        for variable in (0..variables).filter(|&variable| cube.get(variable) != 3) {
            let larger = grown.with(variable, 3);
            if !outside.cubes().iter().any(|off| off.meets(&larger)) {
                grown = larger;
            }
        }
        let mut at = 0;
        while at < result.cubes().len() {
            if grown.contains(&result.cubes()[at]) {
                drop(result.take(at));
            } else {
                at += 1;
            }
        }
        result.push(grown);
    }
    result
}

/// Drops the cubes that the others cover.
fn irredundant<H: Heap>(heap: H, mut cover: Cover<H>, variables: usize) -> Cover<H> {
    let mut at = 0;
    while at < cover.cubes().len() {
        if tautology(heap, &cover.cofactor_of_the_rest(at), variables) {
            drop(cover.take(at));
        } else {
            at += 1;
        }
    }
    cover
}

/// Shrinks each cube to what the others do not cover, to give the next expansion another start.
fn reduce<H: Heap>(heap: H, mut cover: Cover<H>, variables: usize) -> Cover<H> {
    for at in 0..cover.cubes().len() {
        let missing = complement(heap, &cover.cofactor_of_the_rest(at), variables);
        let around = missing.cubes().iter().map(Cube::copy).reduce(|a, b| a.join(&b));
        if let Some(smaller) = around.and_then(|around| around.meet(&cover.cubes()[at])) {
            cover.set(at, smaller);
        }
    }
    cover
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Libc;

    const VARIABLES: usize = 7;

    fn holds(cover: &Cover<Libc>, point: u32) -> bool {
        cover.cubes().iter().any(|cube| {
            (0..VARIABLES).all(|variable| cube.get(variable) >> (point >> variable & 1) & 1 == 1)
        })
    }

    #[test]
    fn the_minimum_is_the_same_function_with_fewer_cubes() {
        let mut rng = Rng::new(5);
        let mut saved = 0;
        for _ in 0..60 {
            let function = random(Libc, VARIABLES, 24, &mut rng);
            let outside = complement(Libc, &function, VARIABLES);
            let smaller = minimise(Libc, &function, VARIABLES);
            for point in 0..1 << VARIABLES {
                assert_eq!(holds(&function, point), holds(&smaller, point));
                assert_ne!(holds(&function, point), holds(&outside, point));
            }
            saved += function.cubes().len() - smaller.cubes().len();
        }
        assert!(saved > 300, "{saved}");
    }

    #[test]
    fn both_senses_of_a_variable_are_everything() {
        let full = Cube::full(Libc, VARIABLES);
        let cover = Cover::of(Libc, [full.with(3, 1), full.with(3, 2)]);
        assert!(tautology(Libc, &cover, VARIABLES));
        assert!(complement(Libc, &cover, VARIABLES).cubes().is_empty());
        assert!(!tautology(Libc, &Cover::of(Libc, [full.with(3, 1)]), VARIABLES));
    }
}
