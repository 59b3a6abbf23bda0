//! Placement of labels: they avoid data, lines and each other.

use super::canvas::{Point, Rect};

/// The areas that labels must avoid.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    rects: Vec<Rect>,
    texts: Vec<Rect>,
    strokes: Vec<(Point, Point, f64)>,
}

impl Taken {
    /// Marks a rectangle as occupied.
    pub(crate) fn rect(&mut self, r: Rect) {
        self.rects.push(r);
    }

    /// Marks a text as occupied: it is covered only as a last resort.
    pub(crate) fn text(&mut self, r: Rect) {
        self.texts.push(r);
    }

    /// Marks the area of a mark as occupied.
    pub(crate) fn mark(&mut self, at: Point, radius: f64) {
        self.rect(Rect { x: at.0 - radius, y: at.1 - radius, w: 2.0 * radius, h: 2.0 * radius });
    }

    /// Marks a line as occupied, with `room` logical pixels on both sides.
    pub(crate) fn line(&mut self, points: &[Point], room: f64) {
        self.strokes.extend(points.windows(2).map(|w| (w[0], w[1], room)));
    }

    fn hits(&self, r: &Rect) -> usize {
        let on = |all: &[Rect]| all.iter().filter(|o| overlap(o, r)).count();
        100 * on(&self.texts)
            + on(&self.rects)
            + self.strokes.iter().filter(|(a, b, room)| crosses(*a, *b, r, *room)).count()
    }

    /// Returns the rectangles, each moved up or down a little if it would cover something; `None` if that is not
    /// enough.
    pub(crate) fn nudge(&self, rects: &[Rect]) -> Option<Vec<Rect>> {
        let mut out: Vec<Rect> = Vec::new();
        for r in rects {
            let moved = [0.0, -4.0, 4.0, -8.0, 8.0, -11.0, 11.0].map(|d| Rect { y: r.y + d, ..*r });
            let free = |m: &Rect| self.hits(m) == 0 && out.iter().all(|o| !overlap(o, m));
            let found = moved.into_iter().find(free)?;
            out.push(found);
        }
        Some(out)
    }

    /// Returns the first candidate that covers nothing, and marks it as occupied.
    pub(crate) fn free(&mut self, candidates: impl IntoIterator<Item = Rect>) -> Option<Rect> {
        let found = candidates.into_iter().find(|r| self.hits(r) == 0)?;
        self.text(found);
        Some(found)
    }

    /// Returns the first candidate that covers nothing, else the one that covers least, and marks it as occupied.
    ///
    /// The second value is true if it covers something.
    pub(crate) fn place(&mut self, candidates: impl IntoIterator<Item = Rect>) -> Option<(Rect, bool)> {
        let mut best: Option<(usize, Rect)> = None;
        for r in candidates {
            let hits = self.hits(&r);
            if best.as_ref().is_none_or(|(least, _)| hits < *least) {
                best = Some((hits, r));
            }
            if hits == 0 {
                break;
            }
        }
        let (hits, r) = best?;
        self.text(r);
        Some((r, hits > 0))
    }
}

fn overlap(a: &Rect, b: &Rect) -> bool {
    a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom()
}

/// Returns true if a stroke crosses a rectangle grown by `room` (Liang and Barsky 1984).
fn crosses(a: Point, b: Point, r: &Rect, room: f64) -> bool {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let (mut enter, mut leave) = (0.0f64, 1.0f64);
    for (p, q) in [
        (-dx, a.0 - (r.x - room)),
        (dx, r.right() + room - a.0),
        (-dy, a.1 - (r.y - room)),
        (dy, r.bottom() + room - a.1),
    ] {
        if p.abs() < 1e-12 {
            if q < 0.0 {
                return false;
            }
        } else if p < 0.0 {
            enter = enter.max(q / p);
        } else {
            leave = leave.min(q / p);
        }
    }
    enter <= leave
}

/// Moves positions until each is at least `gap` from the next, as near to where they were as the range allows.
///
/// Keeps their order. If the range is too small for all, they are spread evenly over it.
pub(crate) fn spread(places: &mut [f64], gap: f64, (low, high): (f64, f64)) {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let gap = gap.min((high - low).max(0.0) / (places.len().max(2) - 1) as f64);
    for _ in 0..200 {
        let mut moved = 0.0f64;
        for w in order.windows(2) {
            let lack = gap - (places[w[1]] - places[w[0]]);
            if lack > 1e-6 {
                places[w[0]] -= lack / 2.0;
                places[w[1]] += lack / 2.0;
                moved = moved.max(lack);
            }
        }
        for i in &order {
            places[*i] = places[*i].clamp(low, high);
        }
        if moved < 1e-3 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_label_avoids_what_is_there() {
        let at = |x: f64| Rect { x, y: 0.0, w: 10.0, h: 10.0 };
        let mut taken = Taken::default();
        taken.rect(at(0.0));
        taken.line(&[(20.0, -5.0), (20.0, 30.0)], 1.0);
        assert_eq!(taken.place([at(5.0), at(15.0), at(30.0)]), Some((at(30.0), false)));
        assert_eq!(taken.place([at(28.0), at(40.0)]), Some((at(40.0), false)), "a placed label is taken too");
        assert_eq!(taken.place([at(5.0)]), Some((at(5.0), true)), "the least bad, where none is free");
        assert_eq!(taken.place([]), None);
    }

    #[test]
    fn strokes_that_pass_by_do_not_cross() {
        let r = Rect { x: 0.0, y: 0.0, w: 10.0, h: 10.0 };
        assert!(crosses((-5.0, 5.0), (15.0, 5.0), &r, 0.0));
        assert!(!crosses((-5.0, 12.0), (15.0, 12.0), &r, 1.0));
        assert!(crosses((-5.0, 12.0), (15.0, 12.0), &r, 3.0));
        assert!(!crosses((12.0, 5.0), (30.0, 5.0), &r, 1.0), "ends before it");
    }

    proptest! {
        #[test]
        fn spread_keeps_order_gap_and_range(mut ys in prop::collection::vec(0.0f64..100.0, 1..6)) {
            let before = ys.clone();
            spread(&mut ys, 12.0, (0.0, 100.0));
            for i in 0..ys.len() {
                prop_assert!((-1e-9..=100.0 + 1e-9).contains(&ys[i]));
                for j in 0..ys.len() {
                    if before[i] < before[j] {
                        prop_assert!(ys[j] - ys[i] > 11.5, "{ys:?}");
                    }
                }
            }
        }
    }
}
