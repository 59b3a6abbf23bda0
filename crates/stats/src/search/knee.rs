//! The knee of a curve: where more load stops buying throughput and starts buying latency.
//!
//! It is tested if possible: throughput that stops following the load, else latency that begins to rise faster than the
//! load (`segmented`). If neither is shown, the knee is a mark by eye, after Satopää, Albrecht, Irwin & Raghavan,
//! "Finding a Kneedle in a Haystack", 2011.

use super::answer::{Knee, KneeBasis};
use super::log_median::{sigma, variance_under_load};
use super::segmented::{Break, Observation, bend, likely_saturation, saturation};
use crate::stats::step::{Abort, Step, StepKind, Verdict};
use goodput_core::level::Control;
use goodput_core::slo::Metric;

/// Sensitivity: number of mean distances by which the difference curve must fall below its maximum. 1 is the paper's
/// online value.
const SENSITIVITY: f64 = 1.0;

/// One step on the curve of latency against throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Offered level.
    pub level: f64,
    /// Achieved requests per second.
    pub throughput: f64,
    /// Latency in any unit.
    pub latency: f64,
}

/// Returns the knee of a convex, increasing curve given in order of level; `None` for fewer than four points or if none
/// stands out.
///
/// Throughput x and latency y are scaled to [0, 1]; the knee is the first local maximum of x − y that is followed by a
/// fall of more than the mean distance of x (S = 1). Nothing is smoothed: a sweep has a handful of points. Past
/// saturation throughput may fall again; the order by level keeps such points on the far side.
pub fn kneedle(points: &[Point]) -> Option<Knee> {
    if points.len() < 4 {
        return None;
    }
    let x = scaled(points.iter().map(|p| p.throughput))?;
    let y = scaled(points.iter().map(|p| p.latency))?;
    let d: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x - y).collect();
    let spacing = x.windows(2).map(|w| (w[1] - w[0]).abs()).sum::<f64>() / (x.len() - 1) as f64;
    for at in 1..d.len() - 1 {
        if d[at] < d[at - 1] || d[at] < d[at + 1] || d[at] <= 0.0 {
            continue;
        }
        let threshold = d[at] - SENSITIVITY * spacing;
        // Confirmed by a fall below the threshold before the curve rises above this maximum.
        let after = d[at + 1..].iter().find(|later| **later < threshold || **later > d[at]);
        if after.is_some_and(|later| *later < threshold) {
            return Some(Knee {
                rate: points[at].level,
                throughput: points[at].throughput,
                interval90: None,
                basis: KneeBasis::Kneedle,
            });
        }
    }
    None
}

/// Least number of requests of a step: a p99 of fewer is just the largest of them.
const ENOUGH: u64 = 100;

/// Returns the knee of a series' steps: of throughput, else of latency, else Kneedle's mark.
pub fn of_steps(steps: &[&Step]) -> Option<Knee> {
    of_throughput(steps).or_else(|| of_latency(steps)).or_else(|| marked(steps))
}

/// Least visible share of a step's window. If answers take longer than the settling period, the window shows only part
/// of what a server that keeps up would complete; a step with a smaller share is not used.
const SEEN: f64 = 0.3;
/// Standard errors that a step's throughput must lie below that of a server that keeps up.
const SIGNIFICANT: f64 = 3.0;
/// Least shortfall of a step's throughput, as a share of that of a server that keeps up.
const SHORTFALL: f64 = 0.03;
/// Variance of a median over that of a mean, for normal values.
const MEDIAN: f64 = std::f64::consts::FRAC_PI_2;
/// Smallest standard deviation of the logarithm of a latency.
const MIN_SIGMA: f64 = 0.01;

/// The throughput of a step against its load.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Flow {
    level: f64,
    /// Requests due per second; for conversations the level.
    load: f64,
    /// Requests completed per second, corrected for the start of the step: the larger of the rate in the visible share
    /// of the window, and the rate with half of those still being served.
    completed: f64,
    /// Variance of `completed`, its count taken as Poisson.
    variance: f64,
}

impl Flow {
    /// Returns the flow of a step. A closed loop has none, because its load follows its throughput. Conversations send
    /// the next request only after an answer: their load is the level, and only steps of equal length compare.
    fn of(step: &Step, unqueued_ms: f64) -> Option<Self> {
        let told = step.verdict != Verdict::Invalid && matches!(step.abort, None | Some(Abort::Gross));
        if !told || step.due_n < ENOUGH || step.measure_s <= 0.0 || step.kind.is_outside_search() {
            return None;
        }
        let load = match step.level.control {
            Control::Rate | Control::TraceScale => step.offered_rate,
            Control::Sessions => step.level.value,
            Control::Concurrency => return None,
        };
        let seen = seen(step, unqueued_ms);
        let level = step.level.value;
        let completed = (step.achieved_rate / seen).max(step.achieved_rate + 0.5 * served_later(step));
        let least = 1.0 / step.measure_s;
        let variance = completed.max(least) / (step.measure_s * seen);
        (seen >= SEEN && load > 0.0).then_some(Self { level, load, completed, variance })
    }
}

/// Returns the growth of the requests being served, per second: the growth of those in flight without the growth of the
/// queue, which is throughput times the growth of TTFT. A batch that fills up has done work that no completed request
/// shows yet, on average half of each request; an engine near its capacity fills up for longer than a step lasts. Users
/// of conversations wait for answers, so the requests in flight stop growing. Answers in one piece have no first token,
/// by which the queue and the batch could be told apart: all growth counts as the queue's.
fn served_later(step: &Step) -> f64 {
    if step.response_metric() == Metric::E2e {
        return 0.0;
    }
    let queue = step.achieved_rate * step.ttft_slope.unwrap_or(0.0).max(0.0);
    match step.level.control {
        Control::Rate | Control::TraceScale => (step.in_flight_slope.unwrap_or(0.0) - queue).max(0.0),
        Control::Sessions | Control::Concurrency => 0.0,
    }
}

/// Returns the share of the window in which answers to requests of this step can arrive: none arrives before the first
/// has had its time. `unqueued_ms` is the time to the first token with hardly any load. It replaces the measured one
/// because the knee is about the queue, which must not excuse a low throughput.
fn seen(step: &Step, unqueued_ms: f64) -> f64 {
    let p50 = |metric| step.quantiles(metric).p50;
    let answers_s = match (p50(Metric::E2e), p50(Metric::Ttft)) {
        (Some(e2e), Some(ttft)) => ((e2e - ttft).max(0.0) + unqueued_ms.min(ttft)) / 1e3,
        (Some(e2e), None) => e2e.min(unqueued_ms) / 1e3,
        _ => 0.0,
    };
    ((step.settle_s + step.measure_s - answers_s.max(step.settle_s)) / step.measure_s).clamp(0.0, 1.0)
}

/// Returns the load and throughput of the steps of a curve, from the lowest level.
fn flows(steps: &[&Step]) -> Vec<Flow> {
    let loaded = || steps.iter().filter(|s| !s.kind.is_outside_search());
    let first = |s: &&&Step| s.quantiles(s.response_metric()).p50;
    let unqueued_ms = loaded().filter_map(|s| first(&s)).fold(f64::INFINITY, f64::min);
    let mut all: Vec<Flow> = loaded().filter_map(|s| Flow::of(s, unqueued_ms)).collect();
    let talks = loaded().any(|s| s.level.control == Control::Sessions);
    let lengths = loaded().map(|s| s.settle_s + s.measure_s);
    let (shortest, longest) = lengths.fold((f64::INFINITY, 0.0_f64), |(l, h), s| (l.min(s), h.max(s)));
    if talks && longest > 1.01 * shortest {
        all.clear();
    }
    all.sort_by(|a, b| a.level.total_cmp(&b.level));
    all
}

/// Returns the knee at which throughput stops following the load, if the test shows one.
pub(super) fn of_throughput(steps: &[&Step]) -> Option<Knee> {
    throughput_break(steps, saturation).map(|knee| Knee { basis: KneeBasis::Throughput, ..knee })
}

/// Returns the knee at which throughput most likely stops following the load, for steps whose growing backlog shows
/// that it does.
pub(super) fn of_backlog(steps: &[&Step]) -> Option<Knee> {
    throughput_break(steps, likely_saturation).map(|knee| Knee { basis: KneeBasis::Backlog, ..knee })
}

fn throughput_break(steps: &[&Step], fit: fn(&[Observation]) -> Option<Break>) -> Option<Knee> {
    let all = flows(steps);
    let points: Vec<Observation> =
        all.iter().map(|f| Observation { x: f.load, y: f.completed, variance: f.variance }).collect();
    let Break { at, interval90, y } = fit(&points)?;
    // A trace at speed 1 has a rate of its own, so loads are converted to levels.
    let traced = steps.iter().any(|s| s.level.control == Control::TraceScale);
    let (levels, loads) = all.iter().fold((0.0, 0.0), |(v, l), f| (v + f.level, l + f.load));
    let unit = if traced { levels / loads } else { 1.0 };
    let interval90 = Some(interval90.map(|x| x * unit));
    Some(Knee { rate: at * unit, throughput: y, interval90, basis: KneeBasis::default() })
}

/// Returns true if the last step completed significantly less than a server that keeps up would, judged by the lower
/// steps.
pub(super) fn falls_behind(steps: &[&Step]) -> bool {
    let Some(last) = steps.last() else { return false };
    let all = flows(steps);
    let Some(own) = all.iter().find(|f| (f.level - last.level.value).abs() <= 1e-9 * f.level) else {
        return false;
    };
    let lower = all.iter().filter(|f| f.level < own.level * (1.0 - 1e-9));
    let (load, completed) =
        lower.fold((0.0, 0.0), |(l, c), f| (l + f.load / f.variance, c + f.completed / f.variance));
    let usual = match last.level.control {
        _ if load > 0.0 => completed / load,
        Control::Sessions => return false,
        _ => 1.0,
    };
    let due = usual * own.load;
    own.completed < (1.0 - SHORTFALL) * due && due - own.completed > SIGNIFICANT * own.variance.sqrt()
}

/// Returns the knee at which latency begins to grow faster than the load, if the test shows one: the median of TTFT, or
/// of e2e if answers came in one piece.
fn of_latency(steps: &[&Step]) -> Option<Knee> {
    let points: Vec<Observation> = steps.iter().filter_map(|s| latency(s)).collect();
    let Break { at, interval90: [low, high], .. } = bend(&points)?;
    let near = |s: &&&Step| (s.level.value.ln() - at).abs();
    let measured = steps.iter().filter(|s| latency(s).is_some());
    let step = measured.min_by(|a, b| near(a).total_cmp(&near(b)))?;
    let throughput = step.achieved_rate * at.exp() / step.level.value;
    let throughput = if step.level.control == Control::Concurrency { step.achieved_rate } else { throughput };
    let interval90 = Some([low.exp(), high.exp()]);
    Some(Knee { rate: at.exp(), throughput, interval90, basis: KneeBasis::Latency })
}

/// Returns the logarithm of a step's median latency over that of its level, with the variance of a median of log-normal
/// values.
fn latency(step: &Step) -> Option<Observation> {
    let q = step.quantiles(step.response_metric());
    let (p50, p90) = (q.p50?, q.p90?);
    let whole = step.abort.is_none() && step.verdict != Verdict::Invalid && !step.kind.is_outside_search();
    if !whole || q.n < ENOUGH || p50 <= 0.0 || step.level.value <= 0.0 {
        return None;
    }
    let sigma = sigma(p50, p90, MIN_SIGMA);
    let variance = variance_under_load(MEDIAN * sigma * sigma, q.n as f64);
    Some(Observation { x: step.level.value.ln(), y: p50.ln(), variance })
}

/// Returns Kneedle's mark: p99 TTFT (e2e if answers came in one piece) against achieved rate, or the median if p99
/// shows none. Invalid steps and steps with fewer than a hundred requests are left out; of several steps at one level
/// the last counts.
fn marked(steps: &[&Step]) -> Option<Knee> {
    let mut by_level: Vec<&Step> = vec![];
    for step in steps
        .iter()
        .filter(|s| s.verdict != Verdict::Invalid && s.kind != StepKind::Baseline && s.due_n >= ENOUGH)
    {
        by_level.retain(|s| (s.level.value - step.level.value).abs() > 1e-9 * step.level.value);
        by_level.push(step);
    }
    by_level.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
    let curve = |latency: fn(&Step) -> Option<f64>| -> Vec<Point> {
        let point = |s: &&Step| {
            Some(Point { level: s.level.value, throughput: s.achieved_rate, latency: latency(s)? })
        };
        by_level.iter().filter_map(point).collect()
    };
    kneedle(&curve(|s| s.quantiles(s.response_metric()).p99))
        .or_else(|| kneedle(&curve(|s| s.quantiles(s.response_metric()).p50)))
}

/// Returns the values scaled to [0, 1]; `None` if all are equal or one is not finite.
fn scaled(values: impl Iterator<Item = f64> + Clone) -> Option<Vec<f64>> {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let range = values.clone().fold(f64::NEG_INFINITY, f64::max) - low;
    (range.is_finite() && range > 0.0).then(|| values.map(|v| (v - low) / range).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Server, usual};
    use goodput_core::level::Level;

    fn points(throughput: &[f64], latency: &[f64]) -> Vec<Point> {
        let pairs = throughput.iter().zip(latency).enumerate();
        pairs.map(|(i, (t, l))| Point { level: (i + 1) as f64, throughput: *t, latency: *l }).collect()
    }

    #[test]
    fn knees_of_known_shapes() {
        for (what, throughput, latency, level) in [
            ("hockey stick", &[1., 2., 3., 4., 5., 6.][..], &[10., 10., 10., 10., 60., 110.][..], Some(4.0)),
            (
                "saturation folds back",
                &[1., 2., 4., 8., 9., 8.5],
                &[10., 11., 12., 20., 300., 900.],
                Some(4.0),
            ),
            ("straight line", &[1., 2., 3., 4., 5.], &[1., 2., 3., 4., 5.], None),
            ("concave", &[1., 2., 3., 4., 5.], &[1., 8., 9., 9.5, 10.], None),
            ("flat", &[1., 2., 3., 4., 5.], &[7., 7., 7., 7., 7.], None),
            ("still before the knee", &[1., 2., 3., 4., 5.], &[10., 10.5, 11.2, 12., 12.8], None),
            ("three points", &[1., 2., 3.], &[1., 1., 9.], None),
        ] {
            let knee = kneedle(&points(throughput, latency));
            assert_eq!(knee.map(|k| k.rate.to_string()), level.map(|l: f64| l.to_string()), "{what}");
        }
    }

    #[test]
    fn the_knee_of_a_queue_lies_where_theory_puts_it() {
        // M/M/1: 1/(1 − x) on [0, 0.9]. The scaled slope is 1 where (1 − x)² = 0.1, at x = 0.684.
        let x: Vec<f64> = (0..=90).map(|i| f64::from(i) / 100.0).collect();
        let y: Vec<f64> = x.iter().map(|x| 1.0 / (1.0 - x)).collect();
        let knee = kneedle(&points(&x, &y)).unwrap();
        assert!((knee.throughput - 0.684).abs() < 0.01, "{knee:?}");
    }

    /// Answers in one piece have no TTFT, whose growth is the queue's share of the growth in flight.
    #[test]
    fn without_first_tokens_a_growing_queue_is_no_work_in_progress() {
        let mut step = Server::default().step(&usual(), 1, Level::rate(80.0));
        assert!(served_later(&step) > 0.0);
        step.latency.retain(|metric, _| *metric == Metric::E2e);
        assert!(served_later(&step) < f64::EPSILON);
    }
}
