//! Long runs of a server without steps and client: only requests and their outcomes.

use super::FIRST_RUN;
use super::share::Share;
use crate::cases::Case;
use anyhow::{Context, Result};
use goodput::level::Level;
use goodput::plan::Plan;
use goodput::sim::config::Vision;
use goodput::sim::engine::{Emission, Model, Request};
use goodput::slo::{Limit, Metric};
use goodput::sweep::bare::engine_request;
use goodput::workload::chain::{Recipe, Start};
use goodput::workload::data::Counter;
use goodput::workload::draw::{Chains, StepKey};
use goodput::workload::traffic::Traffic;
use std::collections::VecDeque;
use std::time::Duration;

/// A requirement on each request.
#[derive(Debug, Clone, PartialEq)]
enum Asked {
    Latency(Limit),
    /// The request must not fail; at most this share may.
    Success(f64),
    /// The request must meet all of these limits; at most this share may not.
    Together(Vec<Limit>, f64),
}

impl Asked {
    fn allowed(&self) -> f64 {
        match self {
            Self::Latency(limit) => limit.percentile.miss_share(),
            Self::Success(share) | Self::Together(_, share) => *share,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Latency(limit) => limit.name(),
            Self::Success(_) => "error-rate".into(),
            Self::Together(..) => "joint".into(),
        }
    }
}

/// An open request.
struct Open {
    due: Duration,
    first: Option<Duration>,
    last: Duration,
    tokens: u32,
    /// Number of gaps between tokens, and of those above each ITL limit.
    gaps: u32,
    long_gaps: Vec<u32>,
}

/// Misses of one request, and the number of counted items: one, or its gaps. The latter is zero if the metric is
/// undefined for the request.
pub(super) type Count = (u32, u32);

/// The outcomes of the requests of a long run.
struct Tally<'a> {
    asked: &'a [Asked],
    itl: Vec<Duration>,
    open: VecDeque<Option<Open>>,
    /// Id of the first entry of `open`.
    base: u64,
    counts: Vec<Vec<Count>>,
    finished: usize,
    last: Duration,
    /// TTFT, TPOT and e2e in milliseconds, if they are requested.
    values: Option<[Vec<f32>; 3]>,
}

impl<'a> Tally<'a> {
    /// Makes a tally in which a request without any event counts as one miss.
    fn new(asked: &'a [Asked], n: usize) -> Self {
        let itl = asked.iter().filter_map(|a| match a {
            Asked::Latency(limit) if !limit.metric.is_per_request() => Some(limit.limit),
            _ => None,
        });
        Self {
            asked,
            itl: itl.collect(),
            open: VecDeque::new(),
            base: 0,
            counts: vec![vec![(1, 1); n]; asked.len()],
            finished: 0,
            last: Duration::ZERO,
            values: None,
        }
    }

    fn sent(&mut self, due: Duration) {
        let long_gaps = vec![0; self.itl.len()];
        let open = Open { due, first: None, last: due, tokens: 0, gaps: 0, long_gaps };
        self.open.push_back(Some(open));
    }

    fn slot(&mut self, id: u64) -> Option<&mut Option<Open>> {
        self.open.get_mut(usize::try_from(id.checked_sub(self.base)?).ok()?)
    }

    /// Abandons a request; returns true if it was open.
    fn give_up(&mut self, id: u64) -> bool {
        let open = self.slot(id).and_then(Option::take).is_some();
        self.forget();
        open
    }

    fn forget(&mut self) {
        while matches!(self.open.front(), Some(None)) {
            self.open.pop_front();
            self.base += 1;
        }
    }

    fn token(&mut self, emission: &Emission) {
        let itl = std::mem::take(&mut self.itl);
        if let Some(Some(open)) = self.slot(emission.id) {
            if open.first.is_some() {
                open.gaps += 1;
                for (limit, over) in itl.iter().zip(&mut open.long_gaps) {
                    *over += u32::from(emission.at - open.last > *limit);
                }
            }
            open.first.get_or_insert(emission.at);
            open.last = emission.at;
            open.tokens += emission.tokens;
        }
        self.itl = itl;
        if emission.finished {
            self.finish(emission);
        }
    }

    fn finish(&mut self, emission: &Emission) {
        let Some(open) = self.slot(emission.id).and_then(Option::take) else { return };
        let mut itl = open.long_gaps.iter();
        for (asked, counts) in self.asked.iter().zip(&mut self.counts) {
            let Some(count) = counts.get_mut(emission.id as usize) else { continue };
            // Refused requests have no tokens and remain missed.
            *count = match asked {
                _ if open.tokens == 0 => (1, 1),
                Asked::Latency(limit) if !limit.metric.is_per_request() => {
                    (itl.next().copied().unwrap_or(0), open.gaps)
                }
                Asked::Latency(limit) => match open.value(limit.metric) {
                    Some(value) => (u32::from(value > limit.limit), 1),
                    None => (0, 0),
                },
                Asked::Success(_) => (0, 1),
                Asked::Together(limits, _) => {
                    let misses = |l: &Limit| open.value(l.metric).is_some_and(|value| value > l.limit);
                    (u32::from(limits.iter().any(misses)), 1)
                }
            };
        }
        if let Some(values) = &mut self.values {
            for (metric, values) in Metric::PRINCIPAL.into_iter().zip(values) {
                values.extend(open.value(metric).map(|v| (v.as_secs_f64() * 1e3) as f32));
            }
        }
        self.finished += 1;
        self.last = emission.at;
        self.forget();
    }

    fn shares(&self, from: usize) -> Vec<Share> {
        let counts = self.counts.iter().zip(self.asked);
        counts.map(|(counts, asked)| Share::of(&counts[from.min(counts.len())..], asked.allowed())).collect()
    }
}

impl Open {
    fn value(&self, metric: Metric) -> Option<Duration> {
        let first = self.first?;
        match metric {
            Metric::Ttft | Metric::Ttfc => Some(first - self.due),
            Metric::E2e => Some(self.last - self.due),
            Metric::Tpot => (self.tokens > 1).then(|| (self.last - first) / (self.tokens - 1)),
            // No case has audio.
            Metric::Itl | Metric::Rtf => None,
        }
    }
}

/// A case's plan and limits, for its long runs.
pub(super) struct Long {
    pub(super) plan: Plan,
    asked: Vec<Asked>,
    timeout: Option<Duration>,
    vision: Option<Vision>,
    runs: u32,
    /// Preemptions per request in the last run.
    pub(super) preemptions: f64,
}

impl Long {
    pub(super) fn new(case: &Case) -> Result<Self> {
        let (plan, _) = case.build(FIRST_RUN, 900.0, 0.1)?;
        let limits = plan.slo.as_slice().first().context("a case has limits")?.limits();
        let errors = case.error_rate.map(Asked::Success);
        let asked = match case.joint {
            Some(share) => vec![Asked::Together(limits, 1.0 - share)],
            None => limits.into_iter().map(Asked::Latency).chain(errors).collect(),
        };
        let timeout = case.timeout_s.map(Duration::from_secs_f64);
        let vision = plan.simulated()?.and_then(|sim| sim.vision);
        Ok(Self { plan, asked, timeout, vision, runs: FIRST_RUN, preemptions: 0.0 })
    }

    /// Returns the names of the requirements, in the order of the shares.
    pub(super) fn names(&self) -> Vec<String> {
        self.asked.iter().map(Asked::name).collect()
    }

    fn chains(&self, case: &Case, level: Level) -> Result<Chains> {
        let key = StepKey { seed: case.seed(self.runs), series: "truth".into(), step: 1 };
        Chains::new(&Traffic::open(&self.plan.workload, &Counter::default())?, &key, level)
            .map_err(anyhow::Error::msg)
    }

    fn server(&mut self, case: &Case) -> Model {
        self.runs += 1;
        case.settled_model(u64::from(case.seed(self.runs)))
    }

    /// Returns the shares of misses of the limits in steady state at `rate`, over `n` requests.
    pub(super) fn open(&mut self, case: &Case, rate: f64, n: usize) -> Result<Vec<Share>> {
        let asked = self.asked.clone();
        let mut tally = Tally::new(&asked, n + n / 20);
        self.run(case, rate, n + n / 20, &mut tally)?;
        Ok(tally.shares(n / 20))
    }

    /// Returns TTFT, TPOT and e2e of `n` requests at `rate`, sorted, in milliseconds.
    pub(super) fn values(&mut self, case: &Case, rate: f64, n: usize) -> Result<[Vec<f32>; 3]> {
        let mut tally = Tally::new(&[], n);
        tally.values = Some([vec![], vec![], vec![]]);
        self.run(case, rate, n, &mut tally)?;
        let mut values = tally.values.unwrap_or_default();
        values.iter_mut().for_each(|v| v.sort_by(f32::total_cmp));
        Ok(values)
    }

    fn run(&mut self, case: &Case, rate: f64, n: usize, tally: &mut Tally<'_>) -> Result<()> {
        let mut model = self.server(case);
        let mut deadlines: VecDeque<(Duration, u64)> = VecDeque::new();
        for (id, chain) in (0..).zip(self.chains(case, Level::rate(rate))?.take(n)) {
            let Start::At(due) = chain.start else { continue };
            while let Some((at, late)) = deadlines.front().copied().filter(|(at, _)| *at <= due) {
                deadlines.pop_front();
                model.advance(at).iter().for_each(|e| tally.token(e));
                if tally.give_up(late) {
                    model.cancel(at, late);
                }
            }
            model.advance(due).iter().for_each(|e| tally.token(e));
            tally.sent(due);
            deadlines.extend(self.timeout.map(|t| (due + t, id)));
            model.arrive(due, request(id, &chain.turns[0].request, self.vision));
        }
        // The last requests are served as if none came after them; these are too few to matter.
        model.advance(Duration::MAX).iter().for_each(|e| tally.token(e));
        self.preemptions = model.preemptions() as f64 / n as f64;
        Ok(())
    }

    /// Runs with a constant number of requests in flight. Returns the throughput in requests/s and the shares of
    /// misses.
    pub(super) fn closed(&mut self, case: &Case, in_flight: u32, n: usize) -> Result<(f64, Vec<Share>)> {
        let mut model = self.server(case);
        let asked = self.asked.clone();
        let mut tally = Tally::new(&asked, n);
        let mut chains = (0..).zip(self.chains(case, Level::concurrency(in_flight))?.take(n));
        let mut waiting: Vec<Duration> = vec![Duration::ZERO; in_flight as usize];
        loop {
            for at in waiting.drain(..) {
                let Some((id, chain)) = chains.next() else { break };
                tally.sent(at);
                model.arrive(at, request(id, &chain.turns[0].request, self.vision));
            }
            let Some(next) = model.next_event() else { break };
            for emission in model.advance(next) {
                tally.token(&emission);
                if emission.finished {
                    waiting.push(emission.at);
                }
            }
        }
        let rate = tally.finished as f64 / tally.last.as_secs_f64();
        // Skip the requests that all start at once: they are not the steady state of a closed loop.
        Ok((rate, tally.shares((n / 20).max(in_flight as usize).min(n / 2))))
    }
}

fn request(id: u64, recipe: &Recipe, vision: Option<Vision>) -> Request {
    Request { id, ..engine_request(recipe, vision) }
}
