//! Broken lines: a test for a change of the slope of a curve, its place and its interval. There are two of them:
//! throughput that stops following the load, and latency that begins to rise faster.
//!
//! Both compare one line (H0) with two that meet at a break (H1) by weighted least squares, which is the likelihood for
//! normal errors. Twice the difference of the log-likelihoods, at the best break, is compared with the 1 % critical
//! value of a supremum over breaks (Andrews 1993, table 1: 12.16 for one more parameter, 15 % trimmed). The interval is
//! that of the profile likelihood: all breaks whose deviance is within 2.706 of the best, which is χ² with one degree
//! of freedom at 90 %.

/// 1 % critical value of the supremum of the likelihood ratio over breaks. The ramp is tested after several of its
/// steps, so 5 % would not be strict enough.
const CRITICAL: f64 = 12.16;
/// χ² with one degree of freedom at 90 %.
const WITHIN: f64 = 2.706;
/// Number of breaks tried, evenly spaced.
const BREAKS: usize = 400;
/// Largest slope of throughput beyond a knee, as a share of the slope before it.
const LEVELS_OFF: f64 = 0.5;
/// Standard deviation of the slope of throughput beyond the knee, as a share of the slope before it: a saturated server
/// mostly completes as much as before. Without this, one step beyond the knee could not distinguish an early knee with
/// some growth from a late one without.
const LEVEL: f64 = 0.25;

/// One point of a curve with the variance of its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observation {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) variance: f64,
}

/// A significant break.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Break {
    /// Its most likely place, as a value of x.
    pub(super) at: f64,
    /// 90 % interval of `at`.
    pub(super) interval90: [f64; 2],
    /// Value of the curve at the break.
    pub(super) y: f64,
}

/// A fit of one line, or of two that meet.
#[derive(Debug, Clone, Copy)]
struct Fit {
    /// Weighted sum of squares.
    deviance: f64,
    /// Value of the curve at the break.
    y: f64,
    /// True if the slope beyond the break is of the kind sought.
    bends: bool,
}

/// Returns the break at which throughput stops following the load: y = a·x up to the break, and less than half as steep
/// from there on.
///
/// `None` unless two points lie below the break and one beyond it, and the break is significant.
pub(super) fn saturation(points: &[Observation]) -> Option<Break> {
    best_saturation(points, CRITICAL)
}

/// Returns the most likely break of throughput, significant or not: for a curve that another test has shown to
/// saturate.
pub(super) fn likely_saturation(points: &[Observation]) -> Option<Break> {
    best_saturation(points, 0.0)
}

fn best_saturation(points: &[Observation], critical: f64) -> Option<Break> {
    let steepest = points.iter().map(|p| p.y / p.x).fold(0.0, f64::max);
    if steepest <= 0.0 || !steepest.is_finite() {
        return None;
    }
    let one = through_origin(points, |p| p.x).deviance;
    search(points, one, critical, 3, |at| {
        let (below, beyond) = (|p: &Observation| p.x.min(at), |p: &Observation| (p.x - at).max(0.0));
        let ridge = (LEVEL * steepest).powi(-2);
        let two = plane(points, below, beyond, ridge)?;
        let [a, c] = two.slopes;
        if c <= LEVELS_OFF * a {
            return Some(Fit { deviance: two.deviance, y: a * at, bends: true });
        }
        let bent = through_origin(points, |p| below(p) + LEVELS_OFF * beyond(p));
        let deviance = bent.deviance + ridge * (LEVELS_OFF * bent.slope).powi(2);
        Some(Fit { deviance, y: bent.slope * at, bends: true })
    })
}

/// Returns the break at which a curve begins to rise faster: a line, and from the break on a steeper one with a slope
/// of at least 1. For logarithms of latency over logarithms of the load, latency grows faster than the load from there
/// on.
///
/// `None` unless two points lie on each side of the break and it is significant.
pub(super) fn bend(points: &[Observation]) -> Option<Break> {
    let one = plane(points, |_| 1.0, |p| p.x, 0.0)?.deviance;
    search(points, one, CRITICAL, 4, |at| {
        let three = [
            |_: &Observation, _: f64| 1.0,
            |p: &Observation, _| p.x,
            |p: &Observation, at: f64| (p.x - at).max(0.0),
        ];
        let (slopes, deviance) = least_squares(points, |_, p| three.map(|f| f(p, at)))?;
        let [level, before, more] = slopes;
        Some(Fit { deviance, y: level + before * at, bends: more > 0.0 && before + more >= 1.0 })
    })
}

/// A shift in the level of a line between two successive points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shift {
    /// Index of the first point after the shift.
    pub(super) at: usize,
    /// Size of the shift, in units of y.
    pub(super) by: f64,
    /// Twice the difference of the log-likelihoods of a line with the shift and of one without.
    pub(super) ratio: f64,
}

/// Returns the significant shift of a line through points in order of time: y = a + b·x, plus c from some point on.
///
/// `None` unless two points lie on each side, there is one point more than the line has parameters, and the ranges of x
/// on the two sides overlap: a curve that is not a line would otherwise look shifted. If errors are larger than their
/// variances say, such as those of a curve that is not a line, a larger shift is required.
pub(super) fn shift(points: &[Observation]) -> Option<Shift> {
    let one = plane(points, |_| 1.0, |p| p.x, 0.0)?.deviance;
    let free = points.len().checked_sub(3).filter(|free| *free > 0)? as f64;
    let apart = |at: usize| {
        let ends = |part: &[Observation]| {
            part.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), p| (l.min(p.x), h.max(p.x)))
        };
        let (before, after) = (ends(&points[..at]), ends(&points[at..]));
        before.0 > after.1 || after.0 > before.1
    };
    let tested = (2..points.len() - 1).filter(|at| !apart(*at)).filter_map(|at| {
        let (slopes, deviance) = least_squares(points, |n, p| [1.0, p.x, if n >= at { 1.0 } else { 0.0 }])?;
        Some(Shift { at, by: slopes[2], ratio: (one - deviance) / (deviance / free).max(1.0) })
    });
    tested.max_by(|a, b| a.ratio.total_cmp(&b.ratio)).filter(|s| s.ratio > CRITICAL)
}

/// Least number of points below a break.
const BELOW: usize = 2;

/// Returns the best break with its interval. `one` is the deviance of one line, `critical` the least improvement by two
/// lines, `parameters` the number of their parameters. Two points must lie beyond the break; one is enough if the slope
/// there is known beforehand, as for a saturation.
fn search(
    points: &[Observation],
    one: f64,
    critical: f64,
    parameters: usize,
    fit: impl Fn(f64) -> Option<Fit>,
) -> Option<Break> {
    let mut x: Vec<f64> = points.iter().map(|p| p.x).collect();
    x.sort_by(f64::total_cmp);
    let beyond = if parameters > 3 { 2 } else { 1 };
    if x.len() < BELOW + beyond || x.len() < parameters {
        return None;
    }
    let (from, to) = (x[BELOW - 1], x[x.len() - beyond]);
    if to <= from {
        return None;
    }
    let at = |i: usize| from + (to - from) * i as f64 / BREAKS as f64;
    let fits: Vec<(f64, Fit)> = (0..BREAKS).filter_map(|i| Some((at(i), fit(at(i))?))).collect();
    let (best_at, best) = fits.iter().copied().min_by(|a, b| a.1.deviance.total_cmp(&b.1.deviance))?;
    // Errors larger than their variances say widen everything.
    let free = x.len().saturating_sub(parameters);
    let dispersion = if free > 0 { (best.deviance / free as f64).max(1.0) } else { 1.0 };
    if !best.bends || (one - best.deviance) / dispersion <= critical {
        return None;
    }
    let inside = |f: &&(f64, Fit)| (f.1.deviance - best.deviance) / dispersion <= WITHIN;
    let (low, high) =
        fits.iter().filter(inside).fold((best_at, best_at), |(l, h), f| (l.min(f.0), h.max(f.0)));
    Some(Break { at: best_at, interval90: [low, high], y: best.y })
}

/// One line through the origin.
struct Line {
    slope: f64,
    deviance: f64,
}

fn through_origin(points: &[Observation], x: impl Fn(&Observation) -> f64) -> Line {
    let (xx, xy) = points.iter().fold((0.0, 0.0), |(xx, xy), p| {
        let (x, w) = (x(p), 1.0 / p.variance);
        (xx + w * x * x, xy + w * x * p.y)
    });
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    let deviance = points.iter().map(|p| (p.y - slope * x(p)).powi(2) / p.variance).sum();
    Line { slope, deviance }
}

/// Fit of two regressors, with a penalty `ridge` on the square of the second's slope, which is part of the deviance.
struct Plane {
    slopes: [f64; 2],
    deviance: f64,
}

fn plane(
    points: &[Observation],
    first: impl Fn(&Observation) -> f64,
    second: impl Fn(&Observation) -> f64,
    ridge: f64,
) -> Option<Plane> {
    let (mut uu, mut uv, mut vv, mut uy, mut vy) = (0.0, 0.0, ridge, 0.0, 0.0);
    for p in points {
        let (u, v, w) = (first(p), second(p), 1.0 / p.variance);
        uu += w * u * u;
        uv += w * u * v;
        vv += w * v * v;
        uy += w * u * p.y;
        vy += w * v * p.y;
    }
    let det = uu * vv - uv * uv;
    if det <= 1e-12 * uu * vv {
        return None;
    }
    let slopes = [(uy * vv - vy * uv) / det, (vy * uu - uy * uv) / det];
    let residual =
        |p: &Observation| (p.y - slopes[0] * first(p) - slopes[1] * second(p)).powi(2) / p.variance;
    let deviance = points.iter().map(residual).sum::<f64>() + ridge * slopes[1].powi(2);
    Some(Plane { slopes, deviance })
}

/// Fits three regressors, each a function of the index of a point and of the point, by Cramer's rule; returns their
/// slopes and the deviance.
fn least_squares(
    points: &[Observation],
    regressors: impl Fn(usize, &Observation) -> [f64; 3],
) -> Option<([f64; 3], f64)> {
    let (mut a, mut b) = ([[0.0_f64; 3]; 3], [0.0_f64; 3]);
    for (at, p) in points.iter().enumerate() {
        let r = regressors(at, p);
        for i in 0..3 {
            b[i] += r[i] * p.y / p.variance;
            for j in 0..3 {
                a[i][j] += r[i] * r[j] / p.variance;
            }
        }
    }
    let det = determinant(&a);
    if det.abs() <= 1e-12 * a[0][0] * a[1][1] * a[2][2] {
        return None;
    }
    let mut slopes = [0.0; 3];
    for (column, slope) in slopes.iter_mut().enumerate() {
        let mut with = a;
        (0..3).for_each(|row| with[row][column] = b[row]);
        *slope = determinant(&with) / det;
    }
    let of = |(at, p): (usize, &Observation)| {
        let r = regressors(at, p);
        (p.y - r.iter().zip(&slopes).map(|(r, s)| r * s).sum::<f64>()).powi(2) / p.variance
    };
    Some((slopes, points.iter().enumerate().map(of).sum()))
}

fn determinant(m: &[[f64; 3]; 3]) -> f64 {
    m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
        + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Poisson};

    /// Returns windows of a minute at levels that grow by half: the completions of a server of this capacity, with
    /// Poisson counts.
    fn measured(levels: &[f64], capacity: f64, slope: f64, rng: &mut ChaCha8Rng) -> Vec<Observation> {
        let of = |x: &f64| {
            let mean = 60.0 * (x.min(capacity) + slope * (x - capacity).max(0.0));
            let y = Poisson::new(mean).unwrap().sample(rng) / 60.0;
            Observation { x: *x, y, variance: y.max(1.0 / 60.0) / 60.0 }
        };
        levels.iter().map(of).collect()
    }

    const RAMP: [f64; 8] = [1.0, 1.5, 2.25, 3.4, 5.1, 7.6, 11.4, 17.1];

    /// 400 ramps of a server that keeps up, each tested after every step: hardly any has a knee.
    #[test]
    fn a_line_is_seldom_called_broken() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let broken = (0..400).filter(|_| {
            let all = measured(&RAMP, 1e9, 0.0, &mut rng);
            (3..=all.len()).any(|n| saturation(&all[..n]).is_some())
        });
        assert!(broken.count() <= 8, "2 % at the most");
    }

    /// Rows: levels, and the slope beyond the capacity of 20. Checks the place of the break and the coverage of its
    /// interval.
    #[test]
    fn a_saturated_server_is_found_where_it_saturates() {
        let refined: Vec<f64> = RAMP.iter().copied().chain([25.6, 20.9]).collect();
        let thrashing: Vec<f64> = refined.iter().copied().chain([23.1]).collect();
        for (levels, slope) in [(&refined, 0.0), (&thrashing, -0.3)] {
            let mut rng = ChaCha8Rng::seed_from_u64(3);
            let found: Vec<Break> =
                (0..200).filter_map(|_| saturation(&measured(levels, 20.0, slope, &mut rng))).collect();
            let near = found.iter().filter(|b| (b.at / 20.0 - 1.0).abs() <= 0.1).count();
            let held = found.iter().filter(|b| b.interval90[0] <= 20.0 && 20.0 <= b.interval90[1]).count();
            assert!(
                found.len() >= 190 && near >= 190 && held >= 160,
                "{slope}: {} {near} {held}",
                found.len()
            );
        }
    }

    #[test]
    fn a_bend_of_latency_is_found_and_a_power_is_none() {
        let curve = |of: fn(f64) -> f64| -> Vec<Observation> {
            let levels = (0..9).map(|i| 1.5_f64.powi(i));
            levels.map(|x| Observation { x: x.ln(), y: of(x), variance: 4e-4 }).collect()
        };
        let bent = bend(&curve(|x| 0.1 * x.ln() + 3.0 * (x / 8.0).ln().max(0.0))).unwrap();
        assert!((bent.at.exp() / 8.0 - 1.0).abs() < 0.05, "{bent:?}");
        assert!(bent.interval90[0] <= 8.0_f64.ln() && 8.0_f64.ln() <= bent.interval90[1], "{bent:?}");
        assert_eq!(bend(&curve(|x| 0.7 * x.ln())), None, "one slope");
        assert_eq!(bend(&curve(|x| -2.0 * (x / 8.0).ln().max(0.0))), None, "it falls");
    }

    /// Latencies of six steps around a boundary, in order of time.
    #[test]
    fn a_line_that_shifts_is_told_from_one_that_rises() {
        let points = |of: fn(usize, f64) -> f64| -> Vec<Observation> {
            let x = [0.0, -0.1, 0.05, -0.05, -0.15, 0.02];
            x.iter().enumerate().map(|(n, x)| Observation { x: *x, y: of(n, *x), variance: 4e-4 }).collect()
        };
        let slower = shift(&points(|n, x| 0.6 * x + if n >= 3 { 0.1 } else { 0.0 })).unwrap();
        assert!(slower.at == 3 && (slower.by - 0.1).abs() < 1e-9, "{slower:?}");
        assert_eq!(shift(&points(|_, x| 0.6 * x)), None, "a line");
        assert_eq!(shift(&points(|n, x| 0.6 * x + if n == 2 { 0.1 } else { 0.0 })), None, "one step alone");
        assert_eq!(shift(&points(|n, _| if n >= 3 { 0.1 } else { 0.0 })[..3]), None, "too few");
        let mut apart = points(|n, x| 0.6 * x + if n >= 3 { 0.1 } else { 0.0 });
        apart[3..].iter_mut().for_each(|p| p.x -= 1.0);
        assert_eq!(shift(&apart), None, "at other levels");
    }

    #[test]
    fn too_few_points_show_nothing() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_eq!(saturation(&measured(&[10.0, 40.0], 20.0, 0.0, &mut rng)), None);
        assert_eq!(saturation(&[]), None);
        assert_eq!(bend(&[]), None);
    }
}
