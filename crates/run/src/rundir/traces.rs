//! Course of each step, from `requests.csv`: requests in flight and TTFT over time, and the latency distributions.
//!
//! The file is streamed, not loaded: a million rows take a few seconds and some hundred kilobytes per step.

use super::REQUESTS;
use super::sketch::Sketch;
use super::table::{CellError, Columns, TableRow, each_row};
use anyhow::Result;
use goodput_core::record::{Failure, Outcome, Phase, is_cut_off, is_sent_by_us};
use goodput_core::slo::{ALL, Metric};
use goodput_stats::stats::step::Step;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Number of equal time intervals of a step in which its requests are counted.
const PARTS: usize = 96;
/// Maximum number of single requests plotted per step: with more of them percentiles are more readable than points.
const POINTS: usize = 600;
/// Number of requests needed for a p99.
const PER_SPAN: u64 = 100;

/// Traces of the finished steps that `requests.csv` covers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traces {
    steps: Vec<Trace>,
}

/// One step over time, in seconds from its start.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Name of the series.
    pub series: String,
    /// Number of the step.
    pub step: u32,
    /// Duration of the step in seconds, including the drain.
    pub span_s: f64,
    /// Mean number of requests in flight, for equal parts of the span.
    pub in_flight: Vec<f64>,
    /// TTFT over time, by due time.
    ///
    /// If answers came in one piece, this is e2e instead.
    pub ttft: Ttft,
    /// Latencies of the measured requests.
    pub all: Latencies,
    /// Those of each class of a mix; empty without one.
    pub classes: BTreeMap<String, Latencies>,
    /// Measured requests that were cut off before their answer ended.
    pub cut: u64,
    measured: u64,
}

/// Latencies of the measured requests of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latencies {
    /// TTFT, TPOT and e2e in milliseconds, each if there are any values.
    pub of: BTreeMap<Metric, Sketch>,
    /// Requests that failed.
    pub failed: u64,
}

/// TTFT over the time of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Ttft {
    /// One point per request: due time in seconds, TTFT in milliseconds.
    Points(Vec<(f64, f64)>),
    /// Percentiles of successive time spans.
    Spans(Vec<Span>),
}

/// Percentiles of the requests due in one time span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Middle of the span in seconds from the start of the step.
    pub at_s: f64,
    /// Median TTFT in milliseconds.
    pub p50: f64,
    /// 99th percentile of TTFT in milliseconds.
    pub p99: f64,
}

/// The times and the size of a request, in milliseconds from the start of the step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RequestTimes {
    /// Part of the step.
    pub(crate) phase: Phase,
    /// Outcome of the request.
    pub(crate) outcome: Outcome,
    /// True if the request failed for another reason than our own timeout: see
    /// [`goodput_core::record::Record::is_broken`].
    pub(crate) broken: bool,
    /// Due time.
    pub(crate) due: f64,
    /// Send time, if it was sent.
    pub(crate) sent: Option<f64>,
    /// End time.
    pub(crate) end: f64,
    /// Time of the first event with a token.
    pub(crate) first_token: Option<f64>,
    /// Time of the last event with a token.
    pub(crate) last_token: Option<f64>,
    /// Number of output tokens after those of the first event.
    pub(crate) later_tokens: Option<u32>,
    /// Time spent decoding, summed over its choices, if it has several.
    pub(crate) decoding: Option<f64>,
    /// Length of its audio.
    pub(crate) audio: Option<f64>,
}

/// The columns of `requests.csv` that a trace needs: parsing all of them takes more than twice as long.
struct TracedRequest {
    series: String,
    step: u32,
    class: String,
    times: RequestTimes,
}

impl TableRow for TracedRequest {
    const FILE: &'static str = REQUESTS;

    fn empty() -> Self {
        let times = RequestTimes {
            phase: Phase::Measure,
            outcome: Outcome::Cut,
            broken: false,
            due: 0.0,
            sent: None,
            end: 0.0,
            first_token: None,
            last_token: None,
            later_tokens: None,
            decoding: None,
            audio: None,
        };
        Self { series: String::new(), step: 0, class: String::new(), times }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        let is_time = |ms: f64| ms >= 0.0;
        let t = &mut self.times;
        let (mut output_asked, mut output_tokens, mut first_event_tokens) = (0_u32, None::<u32>, None::<u32>);
        let (mut failure, mut items) = (None::<Failure>, 0_u16);
        c.cell("series", &mut self.series)?;
        c.cell("step", &mut self.step)?;
        c.cell("phase", &mut t.phase)?;
        c.later("class", &mut self.class)?;
        c.within("due_ms", &mut t.due, is_time)?;
        c.within("sent_ms", &mut t.sent, is_time)?;
        c.within("first_token_ms", &mut t.first_token, is_time)?;
        c.within("last_token_ms", &mut t.last_token, is_time)?;
        c.within("end_ms", &mut t.end, is_time)?;
        c.later("output_asked", &mut output_asked)?;
        c.cell("output_tokens", &mut output_tokens)?;
        c.cell("first_event_tokens", &mut first_event_tokens)?;
        c.cell("outcome", &mut t.outcome)?;
        c.cell("failure", &mut failure)?;
        c.later("items", &mut items)?;
        c.within("audio_ms", &mut t.audio, is_time)?;
        c.within("decoding_ms", &mut t.decoding, is_time)?;
        let sent_by_us = is_sent_by_us(output_asked, items, t.audio.is_some());
        t.broken = t.outcome == Outcome::Failed && !is_cut_off(t.outcome, failure, sent_by_us);
        t.later_tokens = output_tokens.map(|all| all.saturating_sub(first_event_tokens.unwrap_or(1)));
        Ok(())
    }
}

impl Traces {
    /// Reads the requests of the given steps; a step that the file does not cover gets no trace.
    ///
    /// Skips rows that are torn or do not parse; a missing file counts as empty.
    ///
    /// # Errors
    ///
    /// Fails if the file exists but cannot be read.
    pub fn read(dir: &Path, steps: &[Step]) -> Result<Self> {
        let mut tracer = Tracer::new(steps);
        each_row(dir, |row: &mut TracedRequest| tracer.request(row))?;
        Ok(tracer.finish(steps))
    }

    /// Returns the trace of a step, if there is one.
    pub fn of(&self, step: &Step) -> Option<&Trace> {
        self.steps.iter().find(|t| t.step == step.step && t.series == step.series)
    }
}

impl Trace {
    /// Returns 95 % bounds of the median TTFT in milliseconds, by rank (normal approximation of the binomial),
    /// assuming independent requests; `None` if there are too few requests.
    pub(crate) fn median_bounds(&self) -> Option<[f64; 2]> {
        let ttft = self.all.of.get(&Metric::Ttft)?;
        let n = ttft.n() as f64;
        // The standard deviation of a binomial count with p = 1/2 is sqrt(n) / 2.
        let half = 1.96 * 0.5 / n.sqrt();
        (n >= 10.0).then(|| Some([ttft.quantile(0.5 - half)?, ttft.quantile((0.5 + half).min(1.0))?]))?
    }
}

impl Latencies {
    fn add(&mut self, values: [(Metric, Option<f64>); 4], broken: bool) {
        self.failed += u64::from(broken);
        for (metric, value) in values {
            if let Some(value) = value {
                self.of.entry(metric).or_default().add(value);
            }
        }
    }
}

/// Builds traces from requests one at a time.
pub(crate) struct Tracer {
    open: Vec<Open>,
    by_step: HashMap<(String, u32), usize>,
    last: Option<((String, u32), Option<usize>)>,
}

/// A step whose requests are being added.
struct Open {
    trace: Trace,
    /// Change of the requests in flight in each part, and its correction for events within the part.
    change: Vec<f64>,
    within: Vec<f64>,
    parts: Vec<Sketch>,
    points: Vec<(f64, f64)>,
    answered: u64,
}

impl Tracer {
    /// Makes a tracer for the requests of these steps.
    pub(crate) fn new(steps: &[Step]) -> Self {
        let open = steps.iter().map(Open::new).collect();
        let by_step = steps.iter().enumerate().map(|(i, s)| ((s.series.clone(), s.step), i)).collect();
        Self { open, by_step, last: None }
    }

    fn request(&mut self, row: &TracedRequest) {
        if row.times.phase == Phase::Warmup {
            return;
        }
        // Requests of one step are adjacent, so one lookup per step suffices.
        let known =
            self.last.as_ref().filter(|((series, step), _)| *step == row.step && *series == row.series);
        let place = match known {
            Some((_, place)) => *place,
            None => {
                let key = (row.series.clone(), row.step);
                let place = self.by_step.get(&key).copied();
                self.last = Some((key, place));
                place
            }
        };
        if let Some(place) = place {
            self.add(place, &row.times, &row.class);
        }
    }

    /// Adds a request of a class to the step with index `place`.
    pub(crate) fn add(&mut self, place: usize, times: &RequestTimes, class: &str) {
        if let Some(open) = self.open.get_mut(place) {
            open.add(times, class);
        }
    }

    /// Returns the traces of the steps. Leaves out a step whose number of measured requests does not match its row.
    pub(crate) fn finish(self, steps: &[Step]) -> Traces {
        let whole = |(o, s): &(Open, &Step)| {
            let n = o.trace.measured;
            n > 0 && n <= s.due_n && n as f64 >= 0.99 * s.due_n as f64
        };
        let steps = self.open.into_iter().zip(steps).filter(whole).map(|(o, _)| o.finish()).collect();
        Traces { steps }
    }
}

impl Open {
    fn new(step: &Step) -> Self {
        let span_s = (step.settle_s + step.measure_s + step.tail_s + step.drain_s).max(1e-3);
        let trace = Trace {
            series: step.series.clone(),
            step: step.step,
            span_s,
            in_flight: Vec::new(),
            ttft: Ttft::Points(Vec::new()),
            all: Latencies::default(),
            classes: BTreeMap::new(),
            cut: 0,
            measured: 0,
        };
        Self {
            trace,
            change: vec![0.0; PARTS + 1],
            within: vec![0.0; PARTS],
            parts: Vec::new(),
            points: Vec::new(),
            answered: 0,
        }
    }

    fn add(&mut self, r: &RequestTimes, class: &str) {
        if let Some(sent) = r.sent {
            self.flight(sent / 1e3, r.end / 1e3);
        }
        let ttft = r.first_token.map(|t| (t - r.due).max(0.0)).filter(|_| !r.broken);
        // If answers came in one piece, e2e takes the place of TTFT over time.
        let whole = || r.last_token.map(|t| (t - r.due).max(0.0)).filter(|_| r.outcome == Outcome::Ok);
        if let Some(ttft) = ttft.or_else(whole) {
            self.answered += 1;
            if self.points.len() < POINTS {
                self.points.push((r.due / 1e3, ttft));
            }
            let part = self.part(r.due / 1e3).min(PARTS as f64 - 1.0) as usize;
            if self.parts.len() <= part {
                self.parts.resize(part + 1, Sketch::default());
            }
            self.parts[part].add(ttft);
        }
        if r.phase != Phase::Measure {
            return;
        }
        self.trace.measured += 1;
        let ok = r.outcome == Outcome::Ok;
        self.trace.cut += u64::from(!ok && !r.broken);
        let tpot = match (r.first_token, r.last_token, r.later_tokens) {
            (Some(first), Some(last), Some(n)) if ok && n > 0 => {
                Some(r.decoding.unwrap_or((last - first).max(0.0)) / f64::from(n))
            }
            _ => None,
        };
        let e2e = r.last_token.filter(|_| ok).map(|t| (t - r.due).max(0.0));
        // In milliseconds per second of audio.
        let rtf = e2e.zip(r.audio.filter(|audio| *audio > 0.0)).map(|(e2e, audio)| 1e3 * e2e / audio);
        let values = [(Metric::Ttft, ttft), (Metric::Tpot, tpot), (Metric::E2e, e2e), (Metric::Rtf, rtf)];
        self.trace.all.add(values, r.broken);
        if !class.is_empty() && class != ALL {
            // No name is copied where the class is known already.
            match self.trace.classes.get_mut(class) {
                Some(own) => own.add(values, r.broken),
                None => self.trace.classes.entry(class.to_owned()).or_default().add(values, r.broken),
            }
        }
    }

    /// Converts a time to a position in parts of the span.
    fn part(&self, s: f64) -> f64 {
        (s / self.trace.span_s * PARTS as f64).clamp(0.0, PARTS as f64)
    }

    /// Counts a request in flight between two times: fully in the parts in between, and proportionally in the first
    /// and last part.
    fn flight(&mut self, from_s: f64, to_s: f64) {
        let (from, to) = (self.part(from_s), self.part(to_s.max(from_s)));
        for (at, sign) in [(from, 1.0), (to, -1.0)] {
            let part = (at.floor() as usize).min(PARTS);
            self.change[part] += sign;
            if let Some(within) = self.within.get_mut(part) {
                *within -= sign * (at - at.floor());
            }
        }
    }

    fn finish(mut self) -> Trace {
        let mut level = 0.0;
        for (change, within) in self.change.iter().zip(&self.within) {
            level += change;
            self.trace.in_flight.push((level + within).max(0.0));
        }
        self.trace.ttft = if self.answered as usize <= POINTS {
            Ttft::Points(self.points)
        } else {
            Ttft::Spans(spans(&self.parts, self.trace.span_s, self.answered))
        };
        self.trace
    }
}

/// Returns percentiles over groups of parts, each large enough for a p99.
fn spans(parts: &[Sketch], span_s: f64, answered: u64) -> Vec<Span> {
    let together = (PARTS as u64 * PER_SPAN).div_ceil(answered.max(1)).max(2) as usize;
    let width = span_s / PARTS as f64;
    let mut out = Vec::new();
    for (i, group) in parts.chunks(together).enumerate() {
        let mut all = Sketch::default();
        group.iter().for_each(|s| all.merge(s));
        // A last group with few requests has no p99.
        if let (Some(p50), Some(p99)) = (all.quantile(0.5), all.quantile(0.99))
            && all.n() >= PER_SPAN / 2
        {
            let at_s = width * (i * together) as f64 + width * group.len() as f64 / 2.0;
            out.push(Span { at_s, p50, p99 });
        }
    }
    out
}

#[cfg(test)]
mod tests;
