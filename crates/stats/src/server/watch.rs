//! What a server's readings say of a step, gathered as they come: memory does not grow with the length of the step.

use super::engine::{Engine, Signal};
use super::reading::Reading;
use std::ops::Range;
use std::time::Duration;

/// What all servers told at one moment, one after the other; times count from the start of the step.
#[derive(Debug, Clone)]
struct Moment {
    at: Duration,
    readings: Vec<Reading>,
}

/// Mean and largest of a gauge, as it is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gauge {
    n: u32,
    sum: f64,
    most: f64,
}

impl Gauge {
    fn add(&mut self, value: Option<f64>) {
        if let Some(v) = value {
            (self.n, self.sum, self.most) = (self.n + 1, self.sum + v, self.most.max(v));
        }
    }

    /// Mean of the samples; `None` where there is none.
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / f64::from(self.n))
    }

    /// The largest sample.
    pub fn most(&self) -> Option<f64> {
        (self.n > 0).then_some(self.most)
    }
}

/// The gauges over a part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gauges {
    /// How many moments were sampled.
    pub samples: u32,
    /// Requests being worked on.
    pub running: Gauge,
    /// Requests waiting.
    pub waiting: Gauge,
    /// Both together.
    pub in_server: Gauge,
    /// Use of the KV cache.
    pub kv_use: Gauge,
}

impl Gauges {
    fn add(&mut self, now: &Reading) {
        self.samples += 1;
        self.running.add(now.value(Signal::Running));
        self.waiting.add(now.value(Signal::Waiting));
        self.in_server.add(now.in_server());
        self.kv_use.add(now.value(Signal::KvUse));
    }
}

/// What the servers told of the part of a step that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Who told.
    pub engine: Engine,
    /// The gauges within it.
    pub gauges: Gauges,
    /// What was counted between the readings nearest to its two ends, and when these were; `None` where there are not two.
    pub counted: Option<(Range<Duration>, Reading)>,
    /// Whether a counter of any server went back between the start of the step and its end.
    pub restarted: bool,
}

/// The readings of a step as they come.
#[derive(Debug, Clone)]
pub struct Watch {
    settle: Duration,
    first: Option<Moment>,
    /// Nearest to the end of the settling.
    start: Option<Moment>,
    /// Nearest to the end of the window.
    end: Option<Moment>,
    last: Option<Moment>,
    settling: Gauges,
    window: Gauges,
    /// When a counter was first seen to have gone back.
    back: Option<Duration>,
}

impl Watch {
    /// Of a step that settles for so long; `before` is what the servers told just before it.
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

    /// Adds what every server told at a moment; `end` is where the window ends, as far as is known then.
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
        // Of those as near, the later: nothing of the window is left out.
        if at.abs_diff(end) <= off(&self.end, end) {
            self.end = Some(moment.clone());
        }
        self.first.get_or_insert_with(|| moment.clone());
        self.last = Some(moment);
    }

    /// What is known of `window`; `None` where no server told anything.
    pub fn over(&self, window: &Range<Duration>) -> Option<Seen> {
        let engine = self.first.as_ref()?.readings.first()?.engine;
        // A step that ended while it settled has nothing else.
        let settled = window.start >= self.settle;
        let (from, gauges) = if settled { (&self.start, self.window) } else { (&self.first, self.settling) };
        let counted = from.as_ref().zip(self.end.as_ref()).filter(|(from, to)| from.at < to.at);
        let counted = counted.and_then(|(from, to)| Some((from.at..to.at, difference(from, to)?)));
        let restarted = self.back.is_some_and(|at| at <= window.end + SLACK);
        Some(Seen { engine, gauges, counted: counted.filter(|_| !restarted), restarted })
    }

    /// What the servers told nearest to the beginning of the window, and when.
    pub fn at_start(&self) -> Option<(Duration, &[Reading])> {
        self.start.as_ref().map(|m| (m.at, m.readings.as_slice()))
    }
}

/// A restart shows in the first reading after it.
const SLACK: Duration = Duration::from_secs(2);

/// Of all servers together.
fn total(readings: &[Reading]) -> Option<Reading> {
    let (first, rest) = readings.split_first()?;
    Some(rest.iter().fold(first.clone(), |sum, r| sum.and(r)))
}

/// What all servers counted from one moment to another; `None` where one of them was started anew.
fn difference(from: &Moment, to: &Moment) -> Option<Reading> {
    since(&from.readings, &to.readings)
}

/// What all servers counted from one reading of each to another; `None` where one of them was started anew, or there are not as
/// many.
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

    fn tokens(seen: &Seen) -> Option<(u64, u64, f64)> {
        let (range, all) = seen.counted.as_ref()?;
        Some((range.start.as_secs(), range.end.as_secs(), all.value(Signal::GenerationTokens)?))
    }

    /// A step that settles until 10 s and is measured until 20 s, read once a second; a hundred tokens a second.
    fn watched(end: impl Fn(u64) -> u64) -> Watch {
        let mut watch = Watch::new(s(10), Some(vec![page(0, 0, 0)]));
        for at in 1..=30 {
            watch.add(s(at), vec![page(at as u32, 1, 100 * at as u32)], s(end(at)));
        }
        watch
    }

    #[test]
    fn counters_are_of_the_window_and_gauges_within_it() {
        let seen = watched(|_| 20).over(&(s(10)..s(20))).unwrap();
        assert_eq!(tokens(&seen), Some((10, 20, 1000.0)));
        let g = seen.gauges;
        assert_eq!((g.running.mean(), g.running.most(), g.samples), (Some(15.0), Some(20.0), 11));
        assert_eq!((g.in_server.mean(), g.kv_use.mean()), (Some(16.0), None));
        assert!(!seen.restarted);
    }

    #[test]
    fn a_window_that_moves_is_followed() {
        let longer = watched(|at| if at < 19 { 20 } else { 26 });
        assert_eq!(tokens(&longer.over(&(s(10)..s(26))).unwrap()), Some((10, 26, 1600.0)), "extended");
        let shorter = watched(|at| if at < 14 { 20 } else { 14 });
        assert_eq!(tokens(&shorter.over(&(s(10)..s(14))).unwrap()), Some((10, 14, 400.0)), "broken off");
        let mut early = Watch::new(s(10), Some(vec![page(0, 0, 0)]));
        (1..=4).for_each(|at| early.add(s(at), vec![page(2, 0, 10 * at as u32)], s(3)));
        let seen = early.over(&(s(0)..s(3))).unwrap();
        assert_eq!(tokens(&seen), Some((0, 3, 30.0)), "before it had settled");
        assert_eq!(seen.gauges.running.mean(), Some(2.0));
    }

    #[test]
    fn a_server_that_was_started_anew_is_noticed() {
        for (anew, restarted) in [(5, true), (15, true), (28, false)] {
            let mut watch = Watch::new(s(10), Some(vec![page(0, 0, 500), page(0, 0, 500)]));
            for at in 1..=30_u64 {
                // It soon counts more than ever before.
                let count = if at < anew { 500 + at } else { (at - anew) * 1000 };
                watch.add(s(at), vec![page(1, 0, 500 + at as u32), page(1, 0, count as u32)], s(20));
            }
            let seen = watch.over(&(s(10)..s(20))).unwrap();
            assert_eq!(seen.restarted, restarted, "at {anew} s");
            assert_eq!(tokens(&seen).is_none(), restarted, "at {anew} s: its counters mean nothing");
        }
    }

    #[test]
    fn who_tells_nothing_is_not_heard() {
        assert_eq!(Watch::new(s(1), None).over(&(s(1)..s(2))), None);
        let mut once = Watch::new(s(1), None);
        once.add(s(1), vec![page(3, 2, 1)], s(2));
        let seen = once.over(&(s(1)..s(2))).unwrap();
        assert_eq!(
            (seen.counted, seen.gauges.waiting.most()),
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
        let kept = [&watch.first, &watch.start, &watch.end, &watch.last];
        assert_eq!(kept.iter().filter_map(|m| m.as_ref()).map(|m| m.readings.len()).sum::<usize>(), 4);
    }
}
