//! The metrics of a running sweep in Prometheus' text format, for a dashboard next to that of the server.
//!
//! They are for viewing only: they include every request of a step as it finishes, those of the settling time too, and
//! no result is computed from them.

use goodput_core::level::{Control, Level};
use goodput_core::record::{Phase, Record};
use goodput_core::slo::{Metric, Slo};
use goodput_load::load::spec::Status;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::{Step, Verdict};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets of TTFT and e2e in seconds, each a third to a half above the last, from a millisecond to
/// ten minutes.
/// The limits of the SLO are bounds as well, so that attainment is exact.
const LONG: &[f64] = &[
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4,
    0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];
/// Upper bounds of the buckets of TPOT in seconds, from a fifth of a millisecond to five seconds.
const SHORT: &[f64] = &[
    0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06,
    0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0,
];

type Labels = Vec<(&'static str, String)>;
type Number = Family<Labels, Gauge<f64, AtomicU64>>;
type Count = Family<Labels, Counter>;
type Latency = Family<Labels, Histogram, Buckets>;

fn labels<const N: usize>(pairs: [(&'static str, &str); N]) -> Labels {
    pairs.map(|(name, value)| (name, value.to_owned())).into()
}

/// Constructor of histograms with these bounds.
#[derive(Debug, Clone)]
struct Buckets(Arc<[f64]>);

impl Buckets {
    fn of(bounds: &[f64], tiers: &[Slo], metric: Metric) -> Self {
        let parts = tiers.iter().flat_map(Slo::limit_groups);
        let limits = parts.flat_map(|p| p.slo.limits()).filter(|l| l.metric == metric);
        let mut all: Vec<f64> = limits.map(|l| l.limit.as_secs_f64()).chain(bounds.iter().copied()).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        Self(all.into())
    }
}

impl prometheus_client::metrics::family::MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Lock that makes the changes at the beginning and at the end of a step atomic for readers of the page.
#[derive(Debug, Clone, Default)]
struct PageLock(Arc<Mutex<()>>);

impl PageLock {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The page of metrics.
#[derive(Debug)]
pub(crate) struct Page {
    registry: Registry,
    lock: PageLock,
}

impl Page {
    /// Returns the current text of the page.
    pub(super) fn text(&self) -> String {
        let _guard = self.lock.lock();
        let mut text = String::new();
        match text::encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(e) => format!("# the metrics cannot be written: {e}\n# EOF\n"),
        }
    }
}

/// The metrics of a running sweep. Cheap to update: the director does so as requests finish.
#[derive(Debug)]
pub(crate) struct Live {
    lock: PageLock,
    ttft: Latency,
    tpot: Latency,
    e2e: Latency,
    requests: Count,
    output_tokens: Count,
    prompt_tokens: Count,
    in_flight: Gauge,
    worker_in_flight: Number,
    step: Gauge,
    level: Number,
    offered: Number,
    steps: Count,
    achieved: Number,
    attainment: Number,
    answer: Number,
}

impl Live {
    /// Registers the metrics of a sweep with these tiers. `about` are facts about the sweep, as names and values.
    pub(crate) fn new(tiers: &[Slo], about: Vec<(&'static str, String)>) -> (Self, Page) {
        let latency = |bounds, metric| Latency::new_with_constructor(Buckets::of(bounds, tiers, metric));
        let live = Self {
            lock: PageLock::default(),
            ttft: latency(LONG, Metric::Ttft),
            tpot: latency(SHORT, Metric::Tpot),
            e2e: latency(LONG, Metric::E2e),
            requests: Family::default(),
            output_tokens: Family::default(),
            prompt_tokens: Family::default(),
            in_flight: Gauge::default(),
            worker_in_flight: Family::default(),
            step: Gauge::default(),
            level: Family::default(),
            offered: Family::default(),
            steps: Family::default(),
            achieved: Family::default(),
            attainment: Family::default(),
            answer: Family::default(),
        };
        let mut registry = Registry::with_prefix("goodput");
        registry.register("sweep", "The sweep that runs", Info::new(about));
        live.register(&mut registry);
        registry.register_with_unit("slo_limit", "Limits of the SLO", Unit::Seconds, limits_of(tiers));
        let page = Page { registry, lock: live.lock.clone() };
        (live, page)
    }

    fn register(&self, registry: &mut Registry) {
        for (name, help, latency) in [
            ("ttft", "From the time that a request is due to its first token", &self.ttft),
            ("tpot", "Time per output token of a request after the first", &self.tpot),
            ("e2e", "From the time that a request is due to its last token", &self.e2e),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, latency.clone());
        }
        for (name, help, count) in [
            ("requests", "Requests that are over, by how they ended", &self.requests),
            ("output_tokens", "Tokens of answers, as the server counts them", &self.output_tokens),
            ("prompt_tokens", "Tokens of prompts, as the server counts them", &self.prompt_tokens),
            ("steps", "Steps that have ended, by verdict", &self.steps),
        ] {
            registry.register(name, help, count.clone());
        }
        for (name, help, gauge) in [
            ("in_flight", "Requests in flight", &self.in_flight),
            ("step", "Number of the step that runs; 0 between two", &self.step),
        ] {
            registry.register(name, help, gauge.clone());
        }
        for (name, help, number) in [
            ("level", "The level that the step holds; 0 between two", &self.level),
            ("worker_in_flight", "Requests in flight, by the worker that sends them", &self.worker_in_flight),
            (
                "offered_requests_per_second",
                "Requests offered per second by an open loop; 0 between two steps",
                &self.offered,
            ),
            (
                "last_step_achieved_requests_per_second",
                "Requests completed per second in the measured window of the last step",
                &self.achieved,
            ),
            ("last_step_attainment", "Share of the last step's requests that met a limit", &self.attainment),
            (
                "answer",
                "The goodput as it is known so far, in levels of the series: rate (median), low and high (90 % interval), safe, met, failed",
                &self.answer,
            ),
        ] {
            registry.register(name, help, number.clone());
        }
    }

    /// Records the start of a step. `per_s` is its offered rate in requests per second, for an open loop.
    pub(crate) fn begin(&self, series: &str, step: u32, level: Level, per_s: Option<f64>) {
        let _guard = self.lock.lock();
        self.step.set(i64::from(step));
        self.set_load(series, level.control, level.value, per_s.unwrap_or(0.0));
    }

    fn set_load(&self, series: &str, control: Control, level: f64, per_s: f64) {
        self.offered.get_or_create(&labels([("series", series)])).set(per_s);
        self.level.get_or_create(&labels([("series", series), ("control", control.name())])).set(level);
    }

    /// Sets the number of requests in flight.
    pub(crate) fn in_flight(&self, n: u64) {
        self.in_flight.set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// Sets the number of requests in flight of each worker.
    pub(crate) fn workers(&self, each: &[(String, Status)]) {
        for (id, status) in each {
            self.worker_in_flight.get_or_create(&labels([("worker", id)])).set(status.in_flight as f64);
        }
    }

    /// Counts a finished request of a step.
    pub(crate) fn add(&self, series: &str, class: &str, record: &Record) {
        if record.phase == Phase::Warmup {
            return;
        }
        let of = labels([("series", series), ("class", class)]);
        let of_series = labels([("series", series)]);
        for (tokens, counter) in
            [(record.output_tokens, &self.output_tokens), (record.input_tokens, &self.prompt_tokens)]
        {
            counter.get_or_create(&of_series).inc_by(u64::from(tokens.unwrap_or(0)));
        }
        if record.ok() {
            let observe = |family: &Latency, value: Option<Duration>| {
                if let Some(value) = value {
                    family.get_or_create(&of).observe(value.as_secs_f64());
                }
            };
            observe(&self.ttft, record.ttft());
            observe(&self.tpot, record.tpot());
            observe(&self.e2e, record.e2e());
        }
        let failure = record.failure.map_or("", |f| f.name());
        let of = labels([
            ("series", series),
            ("class", class),
            ("outcome", record.outcome.name()),
            ("failure", failure),
        ]);
        self.requests.get_or_create(&of).inc();
    }

    /// Records the end of a step and its results.
    pub(crate) fn end(&self, step: &Step) {
        let _guard = self.lock.lock();
        self.in_flight(0);
        self.step.set(0);
        self.set_load(&step.series, step.level.control, 0.0, 0.0);
        let series = step.series.as_str();
        // All verdicts exist from the first step on, so that `rate()` works on each of them.
        for verdict in Verdict::ALL {
            let of = labels([("series", series), ("verdict", verdict.name())]);
            self.steps.get_or_create(&of).inc_by(u64::from(verdict == step.verdict));
        }
        self.achieved.get_or_create(&labels([("series", series)])).set(step.achieved_rate);
        for row in &step.limits {
            let of = labels([
                ("series", series),
                ("tier", &row.tier),
                ("class", &row.class),
                ("limit", &row.limit),
            ]);
            self.attainment.get_or_create(&of).set(row.attainment.unwrap_or(f64::NAN));
        }
    }

    /// Updates the current answers.
    pub(crate) fn answers(&self, run: &Run) {
        for answer in &run.answers {
            self.answer(answer);
        }
    }

    fn answer(&self, answer: &Answer) {
        let g = &answer.goodput;
        let [low, high] = g.interval90().map_or([None; 2], |[low, high]| [Some(low), Some(high)]);
        for (figure, value) in [
            ("rate", g.rate()),
            ("low", low),
            ("high", high),
            ("safe", g.safe_rate()),
            ("met", g.bracket.met),
            ("failed", g.bracket.failed),
        ] {
            let of = labels([
                ("series", &answer.series),
                ("tier", &answer.tier),
                ("class", &answer.class),
                ("figure", figure),
            ]);
            match value {
                Some(value) => _ = self.answer.get_or_create(&of).set(value),
                // Later steps may put a known value in doubt again.
                None => _ = self.answer.remove(&of),
            }
        }
    }
}

/// Returns the limits on latencies, for lines on a dashboard.
fn limits_of(tiers: &[Slo]) -> Number {
    let family = Number::default();
    for slo in tiers {
        for part in slo.limit_groups() {
            for limit in part.slo.limits() {
                let of = labels([
                    ("tier", slo.tier()),
                    ("class", part.class()),
                    ("metric", limit.metric.name()),
                    ("percentile", &limit.percentile.to_string()),
                ]);
                family.get_or_create(&of).set(limit.limit.as_secs_f64());
            }
        }
    }
    family
}

#[cfg(test)]
mod tests;
