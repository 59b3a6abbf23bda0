//! The truth of a case by long direct simulation of its server.

mod long;
mod share;
mod talks;

use crate::cases::{Case, Truth};
use anyhow::{Context, Result};
use long::Long;
use share::{Fit, Share};

/// Requests of each simulation that only brackets the truth.
const COARSE: usize = 60_000;
/// Runs of a case from here on belong to its truth, so that no sweep has the same random numbers.
const FIRST_RUN: u32 = 1 << 24;
/// Requests in flight that saturate any server.
const SATURATED: u32 = 1024;
/// A rate that is met at this share of the capacity is met up to the capacity: what lies between is a cliff.
const CLIFF: f64 = 0.985;

/// The largest number of misses over what is allowed.
fn worst(shares: &[Share]) -> f64 {
    shares.iter().map(Share::excess).fold(0.0, f64::max)
}

/// Finds the truth of a case with about `n` requests, and what else there is to say about it.
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
    let (mut low, mut high) = (capacity / 4096.0, capacity);
    if unloaded > 1.0 && worst(&long.open(case, low, COARSE)?) > 1.0 {
        return Ok((truth, "misses unloaded".into()));
    }
    while high / low > 1.02 && low < CLIFF * capacity {
        let middle = (low * high).sqrt();
        let misses = worst(&long.open(case, middle, COARSE)?);
        (low, high) = if misses > 1.0 { (low, middle) } else { (middle, high) };
    }
    if low >= CLIFF * capacity {
        let rate = (low * capacity).sqrt();
        let truth =
            Truth { error: (capacity / rate).ln(), ..Truth { capacity, ..Truth::cliff(rate, allowed) } };
        return Ok((truth, "a cliff at the capacity".into()));
    }
    around(case, &mut long, n, truth, (low * high).sqrt())
}

/// The truth near `center`, by two passes: the first says where, and how far apart the rates of the second are to be.
fn around(
    case: &Case,
    long: &mut Long,
    n: usize,
    mut truth: Truth,
    mut center: f64,
) -> Result<(Truth, String)> {
    let (mut slope, mut said) = (5.0, String::new());
    for n in [n / 5, n] {
        let spread = 0.15 / f64::max(slope, 0.3);
        let rates: Vec<f64> = (-2..=2).map(|k| center * (f64::from(k) * spread).exp()).collect();
        let shares: Vec<Vec<Share>> =
            rates.iter().map(|rate| long.open(case, *rate, n / 5)).collect::<Result<_>>()?;
        let binding = (0..shares[2].len())
            .max_by(|a, b| shares[2][*a].excess().total_cmp(&shares[2][*b].excess()))
            .context("a case has limits")?;
        let of_binding: Vec<Share> = shares.iter().map(|s| s[binding]).collect();
        let fit = Fit::of(&of_binding, spread);
        let inflation = of_binding.iter().map(|s| s.inflation).sum::<f64>() / 5.0;
        let rate = center * fit.root.exp();
        truth = Truth { rate: Some(rate), error: fit.error, slope: fit.slope, inflation, ..truth };
        let preempted = long.preemptions;
        said = format!(
            "{} at {:.4}, {preempted:.3} preemptions a request",
            percents(long, &shares[2]),
            rates[2]
        );
        (center, slope) = (rate, fit.slope);
    }
    Ok((truth, said))
}

fn percents(long: &Long, shares: &[Share]) -> String {
    let all = long.names().into_iter().zip(shares);
    all.map(|(name, s)| format!("{name} {:.3} %", 100.0 * s.p)).collect::<Vec<_>>().join(", ")
}

/// The truth of a closed loop: where the misses of whole numbers in flight, interpolated, cross what is allowed.
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
    // Neighbours of a large number hardly differ.
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

/// Percentiles of TTFT, TPOT and e2e at a rate, in milliseconds: for choosing limits that bind together.
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
