//! The cases: servers, workloads and limits whose true goodput is known.

mod dev;
mod drawn;
mod engines;
mod held_out;

use anyhow::{Context, Result};
use goodput::plan::Plan;
use goodput::sim::engine::{
    Model,
    batch::{self, Batch},
    queue::{self, Queue},
};
use goodput::slo::Metric;
use std::fmt::Write;

pub(crate) use dev::development;
pub(crate) use held_out::held_out;

/// A server, by the settings of its model; their seeds are replaced.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    Queue(queue::Settings),
    Batch(batch::Settings),
}

impl Engine {
    /// The server, idle, with its own random numbers.
    pub(crate) fn model(&self, seed: u64) -> Model {
        match self {
            Self::Queue(settings) => {
                Model::Queue(Box::new(Queue::new(queue::Settings { seed, ..*settings })))
            }
            Self::Batch(settings) => {
                Model::Batch(Box::new(Batch::new(batch::Settings { seed, ..settings.clone() })))
            }
        }
    }
}

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arrivals {
    Poisson,
    /// Gamma gaps with this coefficient of variation.
    Gamma(f64),
}

/// What is known of a case, from closed forms or by `accuracy truths`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Truth {
    /// The true goodput in requests/s; none where the unloaded server misses the SLO.
    pub(crate) rate: Option<f64>,
    /// Its standard error, relative; zero where it is exact.
    pub(crate) error: f64,
    /// d ln p / d ln r there, p being the share of misses of the limit that binds.
    pub(crate) slope: f64,
    /// Variance of the count of misses there over the binomial one, in blocks of 3000 requests.
    pub(crate) inflation: f64,
    /// Requests/s of the saturated server.
    pub(crate) capacity: f64,
    /// Share of misses one request at a time: the worst of the limits.
    pub(crate) unloaded: f64,
}

impl Truth {
    /// Whether it has been found: every server has a capacity.
    pub(crate) fn is_known(&self) -> bool {
        self.capacity > 0.0
    }

    /// The best that counting can do in `budget_s` at the true rate, its slope and inflation known: the standard deviation of
    /// the logarithm of the rate.
    pub(crate) fn bound(&self, budget_s: f64) -> Option<f64> {
        self.rate.map(|rate| (self.inflation / (0.01 * rate * budget_s)).sqrt() / self.slope)
    }
}

/// A server with a workload and an SLO.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) engine: Engine,
    pub(crate) arrivals: Arrivals,
    /// Lengths in tokens, as in a plan.
    pub(crate) input: String,
    pub(crate) output: String,
    /// Limits on p99, in milliseconds.
    pub(crate) limits: Vec<(Metric, f64)>,
    /// No rate above this share of the true one is offered.
    pub(crate) cap: Option<f64>,
    pub(crate) truth: Truth,
}

/// A line of `accuracy truths`: rate, relative standard error in %, slope, inflation, capacity, unloaded misses in %.
type Found = (&'static str, [f64; 6]);

/// What a sweep of a case should answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// The true goodput.
    Rate,
    /// That no rate meets the SLO.
    None,
    /// That the highest rate that may be offered meets it.
    NotReached,
}

impl Case {
    /// A case whose truth is still to be found.
    pub(crate) fn new(name: &str, engine: Engine) -> Self {
        let nothing =
            Truth { rate: None, error: 0.0, slope: 0.0, inflation: 1.0, capacity: 0.0, unloaded: 0.0 };
        Self {
            name: name.into(),
            engine,
            arrivals: Arrivals::Poisson,
            input: "{ fixed = 1 }".into(),
            output: "{ fixed = 2 }".into(),
            limits: vec![],
            cap: None,
            truth: nothing,
        }
    }

    pub(crate) fn limit(mut self, metric: Metric, ms: f64) -> Self {
        self.limits.push((metric, ms));
        self
    }

    /// Lengths, as in a plan.
    pub(crate) fn tokens(self, input: &str, output: &str) -> Self {
        Self { input: input.into(), output: output.into(), ..self }
    }

    pub(crate) fn bursts(self, cv: f64) -> Self {
        Self { arrivals: Arrivals::Gamma(cv), ..self }
    }

    /// Caps the rate at the true one divided by this.
    pub(crate) fn capped(self, ratio: f64) -> Self {
        Self { cap: Some(ratio), ..self }
    }

    /// With what `accuracy truths` found; without it where it has not been asked yet.
    fn with(self, truths: &[Found]) -> Self {
        let Some((_, found)) = truths.iter().find(|(name, _)| *name == self.name) else { return self };
        let [rate, error, slope, inflation, capacity, unloaded] = *found;
        let rate = (rate > 0.0).then_some(rate);
        let truth =
            Truth { rate, error: error / 100.0, slope, inflation, capacity, unloaded: unloaded / 100.0 };
        Self { truth, ..self }
    }

    /// The true rate in closed form.
    fn exactly(self, rate: f64) -> Self {
        Self { truth: Truth { rate: Some(rate), error: 0.0, ..self.truth }, ..self }
    }

    pub(crate) fn max_rate(&self) -> Option<f64> {
        Some(self.truth.rate? / self.cap?)
    }

    pub(crate) fn right(&self) -> Right {
        match (self.truth.rate, self.cap) {
            (None, _) => Right::None,
            (Some(_), Some(_)) => Right::NotReached,
            (Some(_), None) => Right::Rate,
        }
    }

    /// Whether counting can find the rate within 30 % in `budget_s`.
    pub(crate) fn resolvable(&self, budget_s: f64) -> bool {
        self.right() == Right::Rate && self.truth.bound(budget_s).is_some_and(|bound| bound <= 0.3)
    }

    /// A number that no other pair of case and run has: the seed of everything random in it.
    pub(crate) fn seed(&self, run: u32) -> u32 {
        // FNV-1a: runs of different cases have nothing in common.
        let bytes = self.name.bytes().chain(run.to_le_bytes());
        bytes.fold(0x811c_9dc5, |h: u32, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193))
    }

    /// The plan of a run and its server, each with random numbers of its own. `width` is where the search stops.
    pub(crate) fn build(&self, run: u32, budget_s: f64, width: f64) -> Result<(Plan, Model)> {
        let seed = self.seed(run);
        let mut text = format!(
            "name = \"accuracy\"\nseed = {seed}\nserver.simulated.preset = \"null\"\n[workload]\n\
             arrivals = {}\nprompts.synthetic = {{ input-tokens = {}, output-tokens = {} }}\n\
             [search]\nadaptive = {{ budget = \"{}ms\", width = {width} }}\n",
            match self.arrivals {
                Arrivals::Poisson => "\"poisson\"".to_owned(),
                Arrivals::Gamma(cv) => format!("{{ gamma = {{ cv = {cv} }} }}"),
            },
            self.input,
            self.output,
            (budget_s * 1e3).round()
        );
        if let Some(max) = self.max_rate() {
            writeln!(text, "max-rate = {max}")?;
        }
        writeln!(text, "[slo]")?;
        for (metric, ms) in &self.limits {
            writeln!(text, "{}.p99 = \"{}us\"", metric.name(), (ms * 1e3).round())?;
        }
        let plan =
            Plan::from_text(&text).with_context(|| format!("in the plan of {}:\n{text}", self.name))?;
        Ok((plan, self.engine.model(u64::from(seed) << 32 | 0x5eed)))
    }
}
