//! Where labels go so that none lies on another or on a point.

/// An upright box: its corners with the smallest and the largest numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) x0: f64,
    pub(super) y0: f64,
    pub(super) x1: f64,
    pub(super) y1: f64,
}

impl Area {
    fn overlap(&self, other: &Self) -> f64 {
        let wide = self.x1.min(other.x1) - self.x0.max(other.x0);
        let high = self.y1.min(other.y1) - self.y0.max(other.y0);
        wide.max(0.0) * high.max(0.0)
    }

    fn outside(&self, bounds: &Self) -> f64 {
        (self.x1 - self.x0) * (self.y1 - self.y0) - self.overlap(bounds)
    }
}

/// The width of a text, from above: the page's font is not known, and its digits and small letters
/// are rather narrower than this.
#[must_use]
pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.6
}

/// Chooses an area for the label of each point, given its width and height: near its point, inside
/// of the bounds, and on no point and no label before it. Where there is no such place it takes the
/// one that covers least. Give the points that matter first.
pub(super) fn labels(
    points: &[(f64, f64)],
    radius: f64,
    sizes: &[(f64, f64)],
    bounds: &Area,
) -> Vec<Area> {
    let dots: Vec<Area> = points
        .iter()
        .map(|(x, y)| Area { x0: x - radius, y0: y - radius, x1: x + radius, y1: y + radius })
        .collect();
    let mut placed: Vec<Area> = Vec::new();
    for (point, size) in points.iter().zip(sizes) {
        let badness = |area: &Area| {
            let covered: f64 = dots.iter().chain(&placed).map(|other| area.overlap(other)).sum();
            covered + 10.0 * area.outside(bounds)
        };
        let best = candidates(*point, radius + 3.0, *size)
            .map(|area| (badness(&area), area))
            .reduce(|best, next| if next.0 < best.0 - 1e-9 { next } else { best });
        placed.extend(best.map(|(_, area)| area));
    }
    placed
}

/// Places around a point, the best first: right, left, above, below, the corners, and the same
/// further out.
fn candidates(
    (x, y): (f64, f64),
    gap: f64,
    (width, height): (f64, f64),
) -> impl Iterator<Item = Area> {
    const SIDES: [(f64, f64); 8] = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (1.0, -1.0),
        (1.0, 1.0),
        (-1.0, -1.0),
        (-1.0, 1.0),
    ];
    [1.0, 2.0, 3.5, 5.0, 7.0].into_iter().flat_map(move |far| {
        SIDES.into_iter().map(move |(right, down)| {
            let middle_x = x + right * (gap * far + width / 2.0);
            let middle_y = y + down * (gap * far + height / 2.0);
            Area {
                x0: middle_x - width / 2.0,
                y0: middle_y - height / 2.0,
                x1: middle_x + width / 2.0,
                y1: middle_y + height / 2.0,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Area = Area { x0: 0.0, y0: 0.0, x1: 400.0, y1: 300.0 };

    #[test]
    fn labels_of_a_crowd_lie_on_no_other_and_on_no_point() {
        let points: Vec<(f64, f64)> = (0..9)
            .map(|n| (200.0 + f64::from(n % 3) * 14.0, 150.0 + f64::from(n / 3) * 11.0))
            .collect();
        let sizes = vec![(60.0, 12.0); points.len()];
        let areas = labels(&points, 4.0, &sizes, &BOUNDS);
        for (n, area) in areas.iter().enumerate() {
            assert_eq!(area.outside(&BOUNDS), 0.0, "{area:?}");
            for other in &areas[n + 1..] {
                assert_eq!(area.overlap(other), 0.0, "{area:?} {other:?}");
            }
            for (x, y) in &points {
                let dot = Area { x0: x - 4.0, y0: y - 4.0, x1: x + 4.0, y1: y + 4.0 };
                assert_eq!(area.overlap(&dot), 0.0, "{area:?} {x} {y}");
            }
        }
    }

    #[test]
    fn a_label_alone_is_on_the_right_and_at_the_right_edge_on_the_left() {
        let size = [(60.0, 12.0)];
        assert!(labels(&[(100.0, 100.0)], 4.0, &size, &BOUNDS)[0].x0 > 100.0);
        assert!(labels(&[(390.0, 100.0)], 4.0, &size, &BOUNDS)[0].x1 < 390.0);
    }
}
