//! Collects a server's readings over a step as they come. Memory does not grow with the length of the step.

use super::engine::{Engine, Signal};
use super::reading::Reading;
use std::ops::Range;
use std::time::Duration;

/// Readings of all servers at one moment, in order of the servers; times count from the start of the step.
#[derive(Debug, Clone)]
struct Moment {
    at: Duration,
    readings: Vec<Reading>,
}

/// Mean and maximum of a sampled gauge.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gauge {
    n: u32,
    sum: f64,
    max: f64,
}

impl Gauge {
    fn add(&mut self, value: Option<f64>) {
        if let Some(v) = value {
            (self.n, self.sum, self.max) = (self.n + 1, self.sum + v, self.max.max(v));
        }
    }

    /// Returns the mean of the samples; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / f64::from(self.n))
    }

    /// Returns the largest sample.
    pub fn max(&self) -> Option<f64> {
        (self.n > 0).then_some(self.max)
    }
}

/// The gauges over a part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gauges {
    /// Number of moments sampled.
    pub samples: u32,
    /// Running requests.
    pub running: Gauge,
    /// Waiting requests.
    pub waiting: Gauge,
    /// Running and waiting requests together.
    pub in_server: Gauge,
    /// Share of the KV cache in use.
    pub kv_use: Gauge,
    /// Tokens that an iteration writes with speculative decoding.
    pub accepted_length: Gauge,
    /// Share of the drafted tokens that the model accepts.
    pub accepted_share: Gauge,
}

impl Gauges {
    fn add(&mut self, now: &Reading) {
        self.samples += 1;
        self.running.add(now.value(Signal::Running));
        self.waiting.add(now.value(Signal::Waiting));
        self.in_server.add(now.in_server());
        self.kv_use.add(now.value(Signal::KvUse));
        // Servers that draft nothing report a length of 0.
        let drafts = |signal| now.value(signal).filter(|_| now.value(Signal::AcceptedLength) > Some(0.0));
        self.accepted_length.add(drafts(Signal::AcceptedLength));
        self.accepted_share.add(drafts(Signal::AcceptedShare));
    }
}

/// The servers' metrics over the measured window of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedWindow {
    /// The engine of the servers.
    pub engine: Engine,
    /// The gauges within the window.
    pub gauges: Gauges,
    /// The counters' growth between the readings nearest to both ends of the window, with the times of these; `None` without two
    /// readings.
    pub counted: Option<(Range<Duration>, Reading)>,
    /// True if a counter of any server went back between the start of the step and its end.
    pub restarted: bool,
}

/// Collector of the readings of a step.
#[derive(Debug, Clone)]
pub struct Watch {
    settle: Duration,
    first: Option<Moment>,
    /// Reading nearest to the end of the settling phase.
    start: Option<Moment>,
    /// Reading nearest to the end of the window.
    end: Option<Moment>,
    last: Option<Moment>,
    settling: Gauges,
    window: Gauges,
    /// Time at which a counter was first seen to have gone back.
    back: Option<Duration>,
}

impl Watch {
    /// Creates a collector for a step with this settling time; `before` are the readings just before it.
    pub fn new(settle: Duration, before: Option<Vec<Reading>>) -> Self {
        let first = before.map(|readings| Moment { at: Duration::ZERO, readings });
        Self {
            settle,
            start: first.clone(),
            last: first.clone(),
            first,
            end: None,
            settling: Gauges::default(),
            window: Gauges::default(),
            back: None,
        }
    }

    /// Adds the readings of every server at a moment; `end` is the end of the window, as far as it is known then.
    pub fn add(&mut self, at: Duration, readings: Vec<Reading>, end: Duration) {
        let moment = Moment { at, readings };
        if let Some(last) = &self.last
            && self.back.is_none()
            && difference(last, &moment).is_none()
        {
            self.back = Some(at);
        }
        if let Some(now) = total(&moment.readings).filter(|_| at <= end) {
            if at < self.settle { &mut self.settling } else { &mut self.window }.add(&now);
        }
        let off = |m: &Option<Moment>, to: Duration| m.as_ref().map_or(Duration::MAX, |m| m.at.abs_diff(to));
        if at.abs_diff(self.settle) < off(&self.start, self.settle) {
            self.start = Some(moment.clone());
        }
        // Of two equally near readings the later: it covers the whole window.
        if at.abs_diff(end) <= off(&self.end, end) {
            self.end = Some(moment.clone());
        }
        self.first.get_or_insert_with(|| moment.clone());
        self.last = Some(moment);
    }

    /// Summarises the readings over `window`; `None` if no server reported anything.
    pub fn over(&self, window: &Range<Duration>) -> Option<ObservedWindow> {
        let engine = self.first.as_ref()?.readings.first()?.engine;
        // A step that ended while it settled has only its settling phase.
        let settled = window.start >= self.settle;
        let (from, gauges) = if settled { (&self.start, self.window) } else { (&self.first, self.settling) };
        let counted = from.as_ref().zip(self.end.as_ref()).filter(|(from, to)| from.at < to.at);
        let counted = counted.and_then(|(from, to)| Some((from.at..to.at, difference(from, to)?)));
        let restarted = self.back.is_some_and(|at| at <= window.end + RESTART_SLACK);
        Some(ObservedWindow { engine, gauges, counted: counted.filter(|_| !restarted), restarted })
    }

    /// Returns the readings nearest to the start of the window, and when they were taken.
    pub fn at_start(&self) -> Option<(Duration, &[Reading])> {
        self.start.as_ref().map(|m| (m.at, m.readings.as_slice()))
    }
}

/// Time after the window in which a restart is still attributed to it, since it shows only in the next reading.
const RESTART_SLACK: Duration = Duration::from_secs(2);

/// Adds up the readings of all servers.
fn total(readings: &[Reading]) -> Option<Reading> {
    let (first, rest) = readings.split_first()?;
    Some(rest.iter().fold(first.clone(), |sum, r| sum.and(r)))
}

/// Returns what all servers counted between two moments; `None` if one of them restarted.
fn difference(from: &Moment, to: &Moment) -> Option<Reading> {
    since(&from.readings, &to.readings)
}

/// Returns what all servers counted between two readings of each; `None` if one of them restarted, or if their number differs.
pub fn since(from: &[Reading], to: &[Reading]) -> Option<Reading> {
    if from.len() != to.len() {
        return None;
    }
    let each: Option<Vec<Reading>> = to.iter().zip(from).map(|(to, from)| to.since(from).ok()).collect();
    total(&each?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(running: u32, waiting: u32, tokens: u32) -> Reading {
        let text = format!(
            "vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\nvllm:generation_tokens_total {tokens}\n"
        );
        Reading::read(&text).unwrap()
    }

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn tokens(seen: &ObservedWindow) -> Option<(u64, u64, f64)> {
        let (range, all) = seen.counted.as_ref()?;
        Some((range.start.as_secs(), range.end.as_secs(), all.value(Signal::GenerationTokens)?))
    }

    /// Builds a step that settles until 10 s and is measured until 20 s, read once per second; a hundred tokens per second.
    fn watch(end: impl Fn(u64) -> u64) -> Watch {
        let mut watch = Watch::new(s(10), Some(vec![page(0, 0, 0)]));
        for at in 1..=30 {
            watch.add(s(at), vec![page(at as u32, 1, 100 * at as u32)], s(end(at)));
        }
        watch
    }

    #[test]
    fn counters_and_gauges_cover_the_window() {
        let seen = watch(|_| 20).over(&(s(10)..s(20))).unwrap();
        assert_eq!(tokens(&seen), Some((10, 20, 1000.0)));
        let g = seen.gauges;
        assert_eq!((g.running.mean(), g.running.max(), g.samples), (Some(15.0), Some(20.0), 11));
        assert_eq!((g.in_server.mean(), g.kv_use.mean()), (Some(16.0), None));
        assert!(!seen.restarted);
    }

    #[test]
    fn a_changed_end_of_the_window_is_followed() {
        let longer = watch(|at| if at < 19 { 20 } else { 26 });
        assert_eq!(tokens(&longer.over(&(s(10)..s(26))).unwrap()), Some((10, 26, 1600.0)), "extended");
        let shorter = watch(|at| if at < 14 { 20 } else { 14 });
        assert_eq!(tokens(&shorter.over(&(s(10)..s(14))).unwrap()), Some((10, 14, 400.0)), "broken off");
        let mut early = Watch::new(s(10), Some(vec![page(0, 0, 0)]));
        (1..=4).for_each(|at| early.add(s(at), vec![page(2, 0, 10 * at as u32)], s(3)));
        let seen = early.over(&(s(0)..s(3))).unwrap();
        assert_eq!(tokens(&seen), Some((0, 3, 30.0)), "before it had settled");
        assert_eq!(seen.gauges.running.mean(), Some(2.0));
    }

    #[test]
    fn a_restart_is_detected() {
        for (anew, restarted) in [(5, true), (15, true), (28, false)] {
            let mut watch = Watch::new(s(10), Some(vec![page(0, 0, 500), page(0, 0, 500)]));
            for at in 1..=30_u64 {
                // Soon counts more than before the restart.
                let count = if at < anew { 500 + at } else { (at - anew) * 1000 };
                watch.add(s(at), vec![page(1, 0, 500 + at as u32), page(1, 0, count as u32)], s(20));
            }
            let seen = watch.over(&(s(10)..s(20))).unwrap();
            assert_eq!(seen.restarted, restarted, "at {anew} s");
            assert_eq!(tokens(&seen).is_none(), restarted, "at {anew} s: its counters mean nothing");
        }
    }

    #[test]
    fn without_readings_nothing_is_known() {
        assert_eq!(Watch::new(s(1), None).over(&(s(1)..s(2))), None);
        let mut once = Watch::new(s(1), None);
        once.add(s(1), vec![page(3, 2, 1)], s(2));
        let seen = once.over(&(s(1)..s(2))).unwrap();
        assert_eq!(
            (seen.counted, seen.gauges.waiting.max()),
            (None, Some(2.0)),
            "one reading is no difference"
        );
    }

    #[test]
    fn memory_does_not_grow() {
        let mut watch = Watch::new(s(0), None);
        for at in 0..10_000 {
            watch.add(s(at), vec![page(1, 1, at as u32)], s(20_000));
        }
        let moments = [&watch.first, &watch.start, &watch.end, &watch.last];
        assert_eq!(moments.iter().filter_map(|m| m.as_ref()).map(|m| m.readings.len()).sum::<usize>(), 4);
    }
}
