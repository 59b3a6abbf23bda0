//! Rising curves through noisy points.

use goodput_stats::stats::isotonic::isotonic;

/// Returns the rising curve nearest to points in order of their first coordinate: a queue grows with the load, and what falls is
/// chance.
pub(crate) fn rising(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let values: Vec<f64> = points.iter().map(|p| p.1).collect();
    points.iter().map(|p| p.0).zip(isotonic(&values)).collect()
}

/// Returns the value of a curve at a place, between its points; `None` outside.
pub(crate) fn at(curve: &[(f64, f64)], x: f64) -> Option<f64> {
    let high = curve.iter().position(|p| p.0 >= x)?;
    let (x1, y1) = curve[high];
    let Some(low) = high.checked_sub(1) else { return (x1 - x < 1e-9).then_some(y1) };
    let (x0, y0) = curve[low];
    Some(if x1 > x0 { y0 + (y1 - y0) * (x - x0) / (x1 - x0) } else { y1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_of_noisy_means_rises() {
        let curve = rising(&[(1.0, 1.0), (2.0, 5.0), (3.0, 3.0), (4.0, 9.0)]);
        assert_eq!(curve, [(1.0, 1.0), (2.0, 4.0), (3.0, 4.0), (4.0, 9.0)]);
        assert_eq!(rising(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), [(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]);
        for (x, y) in [(0.5, None), (1.0, Some(1.0)), (1.5, Some(2.5)), (3.5, Some(6.5)), (5.0, None)] {
            assert_eq!(at(&curve, x), y, "{x}");
        }
    }
}
