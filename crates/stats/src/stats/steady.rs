//! Steadiness of a step: requests in flight, trends, Little's law, and the verdict on stability.
//!
//! A request counts as in flight from `due` to its end, both in an open and in a closed loop (where it is due when its slot
//! becomes free): requests that the client has not sent yet belong to the backlog too.
//!
//! Functions take iterators that can be cloned and pass over the records many times, because a step of a million requests has no
//! memory for a copy in another form.

use super::compact_record::{CompactRecord, Nanos};
use goodput_core::record::{Outcome, Phase, Record};
use std::time::Duration;

/// Number of standard errors by which growth must exceed zero to be significant.
const SIGNIFICANT: f64 = 2.0;
/// Growth below this share of the requests due in the window is negligible: it corresponds to 1.03 × capacity.
pub(super) const GROWTH_OF_DUE: f64 = 0.03;
/// As [`GROWTH_OF_DUE`], for answers in one piece. A batching engine at nine tenths of its capacity fills its batch by some 6 %
/// of the requests due in the window, and that cannot be told from a queue. Loads below 1.18 × capacity are then detected by e2e
/// alone.
const GROWTH_IN_ONE_PIECE: f64 = 0.15;
/// Growth below this share of the mean is a fluctuation.
const GROWTH_OF_MEAN: f64 = 0.25;
/// Number of batches of the window used to estimate the random variation of the backlog.
const BATCHES: usize = 20;
/// End-to-end times that a batch is given to fill if queueing cannot be told from being answered.
const FILL_TIMES: f64 = 3.0;
/// Smallest number of requests due in the window that can show a trend.
pub(super) const MIN_REQUESTS: usize = 30;

/// An interval of a step, in seconds since its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Its beginning.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

impl Window {
    /// Returns the measured window.
    pub fn new(settle: Duration, measure: Duration) -> Self {
        Self { from: settle.as_secs_f64(), to: (settle + measure).as_secs_f64() }
    }

    fn length(self) -> f64 {
        (self.to - self.from).max(0.0)
    }

    fn contains(self, at: f64) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// A trend and its standard error, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// Growth per second.
    pub per_s: f64,
    /// Its standard error.
    pub se: f64,
}

/// Measures of how steady a step was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// Time average of the requests in flight.
    pub in_flight_mean: f64,
    /// Largest number of requests in flight.
    pub in_flight_max: u64,
    /// Growth of the requests in flight, requests/s; `None` for an empty window.
    pub in_flight_slope: Option<f64>,
    /// Growth of TTFT over `due`, s/s; `None` for fewer than three values.
    pub ttft_slope: Option<f64>,
    /// Little's law: (N − λ·W) / N with the measured requests' λ and W; `None` if nothing was in flight.
    pub little_residual: Option<f64>,
    /// True if the backlog stayed level; see [`stable`].
    pub stable: Option<bool>,
}

/// Measures the steadiness of a step from its records (all phases; warm-up is left out) over its measured window. `closed` is
/// true for a closed loop.
pub fn steady(records: impl Iterator<Item = CompactRecord> + Clone, window: Window, closed: bool) -> Steady {
    let stays = stays(records.clone());
    Steady {
        in_flight_mean: mean(stays.clone(), window),
        in_flight_max: max_in_flight(stays.clone(), window),
        in_flight_slope: slope(stays.clone(), window).map(|s| s.per_s),
        ttft_slope: ttft_slope(records.clone()),
        little_residual: little_residual(records.clone(), stays.clone(), window),
        stable: if closed { Some(true) } else { stable(records, window) },
    }
}

/// Returns true if the backlog of an open loop stays level, false if it grows, and `None` if that cannot be decided. (A closed
/// loop cannot be unstable: its backlog is bounded by design.)
///
/// The backlog is the queue: requests between `due` and their first token. `Some(false)` needs all of:
///
/// - the queue grows by more than two standard errors of a *random walk* with the increments seen in the step, so that the slow
///   swings of a busy but stable queue are not taken for a trend,
/// - by at least 3 % of the requests due and 25 % of the mean queue,
/// - and TTFT grows as well, or measured requests were cut off before their first token.
///
/// Requests in flight alone would not do: a batching engine fills its batch for several end-to-end times, at any load, and that
/// looks like a growing backlog. If the requests in flight still grow and the queue does not, the result is `None`. It is also
/// `None` if the load ran for less than two median end-to-end times (of the requests due in the first fifth), with fewer than 30
/// requests, or with so few that not even the growth under 1.5 × capacity would be significant.
///
/// Shares of 200 simulated steps called unstable, with 10 s of settling and a measured window of 60 s (30 s), by load over
/// capacity. Those at 0.95 and below are false alarms; "–" means that most steps are `None`.
///
/// | | 0.5 | 0.9 | 0.95 | 1.0 | 1.1 | 1.2 | 1.5 |
/// |---|---|---|---|---|---|---|---|
/// | M/D/1, 20/s | 0 (0) | 0 (0) | 0 (.01) | .05 (.03) | .85 (.53) | 1 (.98) | 1 (1) |
/// | M/M/1, 20/s | 0 (0) | .01 (0) | .01 (.01) | .06 (.05) | .61 (.32) | .98 (.85) | 1 (1) |
/// | M/M/1, 3/s | 0 (0) | .01 (.01) | .03 (.02) | .04 (.03) | .16 (.12) | .38 (.20) | .97 (.74) |
/// | M/D/16, 16/s | 0 (0) | 0 (0) | .01 (0) | .04 (.02) | .74 (.37) | 1 (.89) | 1 (1) |
/// | M/M/32, 16/s | 0 (0) | 0 (.01) | .01 (.01) | .06 (.04) | .53 (.30) | .95 (.77) | 1 (1) |
/// | batching engine, 120/s | 0 (0) | 0 (0) | 0 (0) | .17 (.10) | 1 (.99) | 1 (1) | 1 (1) |
/// | batching engine, 21/s, e2e 2–12 s | 0 (0) | 0 (0) | 0 (0) | 0 (–) | – (–) | .89 (–) | 1 (1) |
/// | batching engine, 5/s, e2e 8–50 s | 0 (0) | – (–) | – (–) | – (–) | – (–) | – (–) | – (–) |
///
/// For answers in one piece it is unknown how long a request was queued: all requests in flight count as the queue, e2e as TTFT,
/// the batch is given three end-to-end times to fill, and the growth must be 15 % of the requests due.
pub fn stable(records: impl Iterator<Item = CompactRecord> + Clone, window: Window) -> Option<bool> {
    let (waits, stays) = (waits(records.clone()), stays(records.clone()));
    let (fills, least) =
        if in_one_piece(records.clone()) { (FILL_TIMES, GROWTH_IN_ONE_PIECE) } else { (1.0, GROWTH_OF_DUE) };
    let queue = Window { from: window.from.max(fills * median_stay(waits.clone(), window)?), to: window.to };
    let due = count(waits.clone(), queue);
    let trend = slope(waits.clone(), queue)?;
    let chance = SIGNIFICANT * trend.se * queue.length();
    if due >= MIN_REQUESTS
        && grows(waits, queue, least)
        && (cut_before_first_token(records.clone()) || response_slope(records).is_some_and(|s| s > 0.0))
    {
        return Some(false);
    }
    let fill = median_stay(stays.clone(), window)?;
    let late = Window { from: window.from.max(fill), to: window.to };
    if due < MIN_REQUESTS
        || late.length() < fill
        || chance > due as f64 / 3.0
        || grows(stays, late, GROWTH_OF_DUE)
    {
        return None;
    }
    Some(true)
}

/// Returns true if the number of requests inside grows: significantly, by more than the share `least` of those due, and by more
/// than a fluctuation.
fn grows(stays: impl Iterator<Item = Stay> + Clone, w: Window, least: f64) -> bool {
    let Some(trend) = slope(stays.clone(), w) else { return false };
    let growth = trend.per_s * w.length();
    growth > SIGNIFICANT * trend.se * w.length()
        && growth > least * count(stays.clone(), w) as f64
        && growth > GROWTH_OF_MEAN * mean(stays, w)
}

/// Returns the number of requests due within the window.
fn count(stays: impl Iterator<Item = Stay>, w: Window) -> usize {
    stays.filter(|s| w.contains(s.due)).count()
}

/// Returns the median length of the stays that began in the first fifth of the load: the time the system takes to fill.
fn median_stay(stays: impl Iterator<Item = Stay>, w: Window) -> Option<f64> {
    let mut took: Vec<f64> = stays.filter(|s| s.due < w.to / 5.0).map(|s| s.end - s.due).collect();
    took.sort_unstable_by(f64::total_cmp);
    super::percentile::order_statistic(&took, 500)
}

/// Stay of one request in the system or in the queue: due and end, in seconds.
#[derive(Debug, Clone, Copy)]
struct Stay {
    due: f64,
    end: f64,
}

/// Returns the stays in the system: from `due` to the end.
fn stays(records: impl Iterator<Item = CompactRecord> + Clone) -> impl Iterator<Item = Stay> + Clone {
    until(records, |r| r.end)
}

/// Returns the stays in the queue: from `due` to the first token, or to the end if none came.
fn waits(records: impl Iterator<Item = CompactRecord> + Clone) -> impl Iterator<Item = Stay> + Clone {
    until(records, |r| r.first_token.unwrap_or(r.end))
}

fn until(
    records: impl Iterator<Item = CompactRecord> + Clone,
    end: impl Fn(&CompactRecord) -> Nanos + Clone,
) -> impl Iterator<Item = Stay> + Clone {
    let loaded = records.filter(|r| r.phase != Phase::Warmup);
    loaded.map(move |r| Stay { due: secs(r.due), end: secs(end(&r).max(r.due)) })
}

fn secs(t: Nanos) -> f64 {
    t.get().as_secs_f64()
}

/// Clips the stays to the window, without those outside.
fn inside(stays: impl Iterator<Item = Stay>, w: Window) -> impl Iterator<Item = (f64, f64)> {
    stays.map(move |s| (s.due.max(w.from), s.end.min(w.to))).filter(|(a, b)| a < b)
}

fn mean(stays: impl Iterator<Item = Stay>, w: Window) -> f64 {
    if w.length() > 0.0 { inside(stays, w).map(|(a, b)| b - a).sum::<f64>() / w.length() } else { 0.0 }
}

fn max_in_flight(stays: impl Iterator<Item = Stay>, w: Window) -> u64 {
    let (mut begin, mut end): (Vec<f64>, Vec<f64>) = inside(stays, w).unzip();
    begin.sort_unstable_by(f64::total_cmp);
    end.sort_unstable_by(f64::total_cmp);
    // Ends before beginnings at the same time: a slot that is freed and filled at once holds one request.
    let (mut over, mut most) = (0, 0);
    for (begun, at) in (1..).zip(begin) {
        over += end[over..].iter().take_while(|end| **end <= at).count();
        most = most.max(begun - over);
    }
    most as u64
}

/// Returns the least-squares slope of the step function N(t) over the window, exact: ∫(t − t̄)·N dt / (T³/12).
///
/// Its standard error is that of a driftless random walk, σ·√(6/5T) with σ² the variance per second of the increments of N
/// between batches. A queue at its capacity is such a walk. A stable one swings less, so the error is conservative whatever the
/// autocorrelation.
fn slope(stays: impl Iterator<Item = Stay> + Clone, w: Window) -> Option<Slope> {
    let t = w.length();
    if t <= 0.0 {
        return None;
    }
    let middle = 0.5 * (w.from + w.to);
    let moment: f64 =
        inside(stays.clone(), w).map(|(a, b)| 0.5 * ((b - middle).powi(2) - (a - middle).powi(2))).sum();
    let mut increments = [0.0_f64; BATCHES];
    let batch = |at: f64| (((at - w.from) / t * BATCHES as f64) as usize).min(BATCHES - 1);
    for s in stays {
        if w.contains(s.due) {
            increments[batch(s.due)] += 1.0;
        }
        if w.contains(s.end) {
            increments[batch(s.end)] -= 1.0;
        }
    }
    let n = BATCHES as f64;
    let drift = increments.iter().sum::<f64>() / n;
    let variance = increments.iter().map(|d| (d - drift).powi(2)).sum::<f64>() / (n - 1.0) * n / t;
    Some(Slope { per_s: moment / (t.powi(3) / 12.0), se: (1.2 * variance / t).sqrt() })
}

/// Returns true if the end of the step cut off measured requests before their first token. The client's own timeout does not
/// count: it also ends requests that a server has lost, however short its queue.
fn cut_before_first_token(mut records: impl Iterator<Item = CompactRecord>) -> bool {
    let cut = |r: &CompactRecord| r.outcome == Outcome::Cut && !r.is_timed_out();
    records.any(|r| r.phase == Phase::Measure && cut(&r) && r.first_token.is_none())
}

/// Returns true if answers came in one piece: with a last token but no first.
fn in_one_piece(mut records: impl Iterator<Item = CompactRecord>) -> bool {
    records.any(|r| r.first_token.is_none() && r.last_token.is_some())
}

/// Returns the least-squares slope of TTFT over `due`, for the measured requests that got a first token.
fn ttft_slope(records: impl Iterator<Item = CompactRecord> + Clone) -> Option<f64> {
    slope_of(records, Record::ttft)
}

/// Returns the least-squares slope of TTFT over `due`, or of e2e for answers in one piece.
fn response_slope(records: impl Iterator<Item = CompactRecord> + Clone) -> Option<f64> {
    slope_of(records, |r| r.ttft().or_else(|| r.e2e()))
}

/// Returns the least-squares slope of a latency over `due`, for the measured requests that have it and did not fail.
fn slope_of(
    records: impl Iterator<Item = CompactRecord> + Clone,
    latency: impl Fn(&Record) -> Option<Duration> + Clone,
) -> Option<f64> {
    let measured = records.filter(|r| r.phase == Phase::Measure && !r.is_broken());
    let points = measured.filter_map(|r| Some((secs(r.due), latency(&r.record())?.as_secs_f64())));
    let count = points.clone().count();
    let n = count as f64;
    let (x, y) = (points.clone().map(|p| p.0).sum::<f64>() / n, points.clone().map(|p| p.1).sum::<f64>() / n);
    let sxx: f64 = points.clone().map(|p| (p.0 - x).powi(2)).sum();
    let sxy: f64 = points.map(|p| (p.0 - x) * (p.1 - y)).sum();
    (count >= 3 && sxx > 0.0).then(|| sxy / sxx)
}

fn little_residual(
    records: impl Iterator<Item = CompactRecord>,
    stays: impl Iterator<Item = Stay>,
    w: Window,
) -> Option<f64> {
    let n = mean(stays, w);
    let measured = records.filter(|r| r.phase == Phase::Measure);
    // λ·W = Σ of the times in system / T.
    let stayed: f64 = measured.map(|r| r.end.get().saturating_sub(r.due.get()).as_secs_f64()).sum();
    (n > 0.0).then(|| (n - stayed / w.length()) / n)
}

#[cfg(test)]
mod tests;
