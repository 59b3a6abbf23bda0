//! The truth of a case by long direct simulation of its server.

mod long;
mod share;
mod talks;

use crate::cases::{Case, Truth};
use anyhow::{Context, Result};
use long::Long;
use share::{Fit, Share};

/// Requests of each simulation that only brackets the truth.
const COARSE: usize = 30_000;
/// First run number reserved for finding truths, so that no sweep uses those random numbers.
const FIRST_RUN: u32 = 1 << 24;
/// Requests in flight that saturate any server.
const SATURATED: u32 = 1024;
/// Width of the bracket to find with short runs, in logarithms; they are too noisy for a narrower one.
const BRACKET: f64 = 0.02;
/// Highest rate to simulate near a cliff, relative to the capacity: no queue settles above it.
const TOP: f64 = 0.999;
/// Maximum number of passes, after which the current estimate is final.
const PASSES: usize = 8;
/// Logarithm of misses over allowed misses beyond which a point is not used for the slope.
const STEEP: f64 = 2.5;

/// Returns the largest ratio of misses to allowed misses.
fn worst(shares: &[Share]) -> f64 {
    shares.iter().map(Share::excess).fold(0.0, f64::max)
}

/// Finds the truth of a case with about `n` requests, and remarks on it.
pub(crate) fn find(case: &Case, n: usize) -> Result<(Truth, String)> {
    if case.conversation.is_some() {
        return talks::find(case, n);
    }
    let mut long = Long::new(case)?;
    let allowed = case.strictest();
    let unloaded = worst(&long.closed(case, 1, (n / 10).max(COARSE))?.1);
    let (capacity, _) = long.closed(case, SATURATED, COARSE)?;
    let truth = Truth { capacity, unloaded: unloaded * allowed, allowed, ..Truth::UNKNOWN };
    if case.closed_loop {
        return in_flight(case, &mut long, n, truth);
    }
    if unloaded > 1.0 && worst(&long.open(case, capacity / 4096.0, COARSE)?) > 1.0 {
        return Ok((truth, "misses unloaded".into()));
    }
    let Some((center, slope)) = bracket(case, &mut long, capacity, (n / 30).max(COARSE))? else {
        let error = BRACKET / 2.0;
        let truth = Truth { error, ..Truth { capacity, ..Truth::cliff(capacity * (-error).exp(), allowed) } };
        return Ok((truth, "a cliff at the capacity".into()));
    };
    // Rare misses need more requests.
    let n = n * ((0.005 / allowed) as usize).clamp(1, 5);
    around(case, &mut long, n, truth, (center, slope))
}

/// Finds the approximate truth and the steepness of the curve there, by bisection with short runs. `None` if the limits
/// are met up to the capacity.
fn bracket(case: &Case, long: &mut Long, capacity: f64, n: usize) -> Result<Option<(f64, f64)>> {
    let (mut low, mut high) = ((capacity / 4096.0).ln(), capacity.ln());
    let mut seen: Vec<(f64, f64)> = vec![];
    let mut ends = [-STEEP, STEEP];
    while high - low > BRACKET {
        let middle = f64::midpoint(low, high);
        let misses = worst(&long.open(case, middle.exp(), n)?).max(1e-6).ln();
        seen.push((middle, misses));
        let clipped = misses.clamp(-STEEP, STEEP);
        if misses > 0.0 { (high, ends[1]) = (middle, clipped) } else { (low, ends[0]) = (middle, clipped) }
    }
    // No rate missed the limits.
    if high >= capacity.ln() {
        return Ok(None);
    }
    let slope = slope_of(&seen).unwrap_or((ends[1] - ends[0]) / (high - low));
    Ok(Some((f64::midpoint(low, high).exp(), slope.max(0.3))))
}

/// Returns the least-squares slope through the points near the allowed share; `None` if there are too few.
fn slope_of(seen: &[(f64, f64)]) -> Option<f64> {
    let near: Vec<&(f64, f64)> = seen.iter().filter(|(_, y)| y.abs() < 1.5).collect();
    let n = near.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| near.iter().map(|p| f(p)).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let xx: f64 = near.iter().map(|p| (p.0 - x).powi(2)).sum();
    let xy: f64 = near.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    (near.len() > 1 && xy > 0.0).then(|| xy / xx)
}

/// Finds the truth near `center` by passes of five rates each. The first pass gives the location, and the spacing of
/// the rates in the next one. Passes continue until the truth lies among the rates that it is derived from. On a
/// near-cliff, the first guess is off by many times their spacing.
fn around(
    case: &Case,
    long: &mut Long,
    n: usize,
    mut truth: Truth,
    (mut center, mut slope): (f64, f64),
) -> Result<(Truth, String)> {
    let mut said = String::new();
    // Change of ln p from one rate to the next: larger if the counts scatter more.
    let mut apart = 0.5;
    for pass in 0..PASSES {
        let n = if pass == 0 { n / 5 } else { n };
        let room = (TOP * truth.capacity / center).ln() / 2.0;
        let spread = (apart / slope).min(if room > 0.0 { room } else { f64::INFINITY });
        let rates: Vec<f64> = (-2..=2).map(|k| center * (f64::from(k) * spread).exp()).collect();
        let shares: Vec<Vec<Share>> =
            rates.iter().map(|rate| long.open(case, *rate, n / 5)).collect::<Result<_>>()?;
        let binding = (0..shares[2].len())
            .max_by(|a, b| shares[2][*a].excess().total_cmp(&shares[2][*b].excess()))
            .context("a case has limits")?;
        let of_binding: Vec<Share> = shares.iter().map(|s| s[binding]).collect();
        let fit = Fit::of(&of_binding, spread);
        if pass > 0 && !fit.error.is_finite() {
            // The slope is only noise: the previous pass is better.
            break;
        }
        let inflation = of_binding.iter().map(|s| s.inflation).sum::<f64>() / 5.0;
        let rate = center * fit.root.exp();
        truth = Truth { rate: Some(rate), error: fit.error, slope: fit.slope, inflation, ..truth };
        let preempted = long.preemptions;
        said = format!(
            "{} at {:.4}, {preempted:.3} preemptions a request",
            percents(long, &shares[2]),
            rates[2]
        );
        if pass > 0 && fit.root.abs() <= spread {
            break;
        }
        (center, slope) = (rate.min(TOP * truth.capacity), fit.slope);
        // The next pass has five times as many requests.
        apart = (3.0 * (of_binding[2].variance() / 5.0).sqrt()).clamp(0.15, 0.6);
    }
    Ok((truth, said))
}

fn percents(long: &Long, shares: &[Share]) -> String {
    let all = long.names().into_iter().zip(shares);
    all.map(|(name, s)| format!("{name} {:.3} %", 100.0 * s.p)).collect::<Vec<_>>().join(", ")
}

/// Finds the truth of a closed loop: the level at which the misses, interpolated between whole numbers in flight, cross
/// the allowed share.
fn in_flight(case: &Case, long: &mut Long, n: usize, truth: Truth) -> Result<(Truth, String)> {
    let (mut low, mut high) = (1, 2);
    while worst(&long.closed(case, high, COARSE)?.1) <= 1.0 {
        (low, high) = (high, high * 2);
        if high > 4096 {
            return Ok((truth, "meets with thousands in flight".into()));
        }
    }
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        let misses = worst(&long.closed(case, middle, COARSE)?.1);
        (low, high) = if misses > 1.0 { (low, middle) } else { (middle, high) };
    }
    // Neighbouring levels of a large number hardly differ.
    let apart = (low / 20).max(1);
    let ends = [low.saturating_sub(apart).max(1), high + apart];
    let shares: Vec<Share> = ends
        .iter()
        .map(|m| {
            let shares = long.closed(case, *m, n / 2)?.1;
            shares.into_iter().max_by(|a, b| a.excess().total_cmp(&b.excess())).context("a case has limits")
        })
        .collect::<Result<_>>()?;
    let [x, y] = [0, 1].map(|i| (f64::from(ends[i]).ln(), shares[i].excess().max(1e-6).ln()));
    let slope = (y.1 - x.1) / (y.0 - x.0);
    let at = x.0 - x.1 / slope;
    let error = (shares[0].variance() + shares[1].variance()).sqrt() / 2.0 / slope;
    let inflation = f64::midpoint(shares[0].inflation, shares[1].inflation);
    let said =
        format!("{:.3} and {:.3} of what is allowed at {} and {}", y.1.exp(), x.1.exp(), ends[1], ends[0]);
    Ok((Truth { rate: Some(at.exp()), error, slope, inflation, ..truth }, said))
}

/// Returns percentiles of TTFT, TPOT and e2e at a rate in milliseconds, for choosing limits that bind together.
pub(crate) fn quantiles(case: &Case, rate: f64, n: usize) -> Result<String> {
    let values = Long::new(case)?.values(case, rate, n)?;
    let lines = ["TTFT", "TPOT", "e2e"].into_iter().zip(values).map(|(name, values)| {
        let at =
            |p: f64| values.get((p * values.len() as f64).ceil() as usize - 1).copied().unwrap_or(f32::NAN);
        format!(
            "  {name} p90 {:.3}, p95 {:.3}, p99 {:.3}, p99.9 {:.3} ms",
            at(0.9),
            at(0.95),
            at(0.99),
            at(0.999)
        )
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
