//! The cases: servers, workloads and limits whose true goodput is known.

mod changes;
mod curves;
mod dev;
mod draw;
mod drawn;
mod engines;
mod former;
mod held_out;
mod items;
mod limits;
mod talks;
mod truth;

use anyhow::{Context, Result};
use goodput::plan::Plan;
use goodput::search::answer::{Answer, Goodput};
use goodput::sim::config::Simulated;
use goodput::sim::engine::{
    Model,
    batch::{self, Batch},
    queue::{self, Queue},
    truth::boundary,
    variable_speed::VariableSpeed,
};
use goodput::slo::Metric;
use std::fmt::Write;
use std::time::Duration;

pub(crate) use changes::Change;
pub(crate) use dev::development;
pub(crate) use former::former;
pub(crate) use held_out::held_out;
pub(crate) use truth::{Truth, TruthLine};

/// A server, given by the settings of its model. The seeds in them are replaced.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    Queue(queue::Settings),
    Batch(batch::Settings),
    /// A preset of the simulated server, by name.
    Preset(&'static str),
}

impl Engine {
    /// Returns the server, idle, with random numbers from this seed.
    pub(crate) fn model(&self, seed: u64) -> Model {
        match self {
            Self::Queue(settings) => {
                Model::Queue(Box::new(Queue::new(queue::Settings { seed, ..*settings })))
            }
            Self::Batch(settings) => {
                Model::Batch(Box::new(Batch::new(batch::Settings { seed, ..settings.clone() })))
            }
            Self::Preset(name) => {
                let preset = Simulated::named(name).expect("a case names a preset that exists");
                Simulated { seed, ..preset }.build()
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
    Constant,
}

/// A limit on a percentile of a latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Target {
    pub(crate) metric: Metric,
    /// Percentile in percent: 99 for the p99.
    pub(crate) percentile: f64,
    pub(crate) ms: f64,
}

/// Rare requests with other lengths than the usual ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rare {
    /// Share of the requests.
    pub(crate) share: f64,
    /// Lengths in tokens, in the syntax of a plan.
    pub(crate) input: String,
    pub(crate) output: String,
}

/// The subject of a case. The tables summarize each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// A miss curve like that of most servers, with p99 limits.
    Ordinary,
    /// Almost no misses up to a rate, and only misses above it.
    Cliff,
    /// A true rate far below the capacity, or a miss curve that rises slowly.
    Flat,
    /// A percentile or a kind of limit other than a p99 of a latency.
    Limit,
    /// Several limits whose individual true rates lie within 1 %.
    Coincident,
    /// Requests of items or files: an embedder, a reranker, a vision model, a transcriber.
    Items,
    /// Conversations.
    Talk,
    /// A search over requests in flight.
    Closed,
    /// The server pauses once.
    Stall,
    /// The server's speed drifts.
    Drift,
    /// The server's speed jumps up and down.
    Scatter,
    /// The server's speed changes once, permanently.
    Break,
}

impl Group {
    pub(crate) const ALL: [Self; 12] = [
        Self::Ordinary,
        Self::Cliff,
        Self::Flat,
        Self::Limit,
        Self::Coincident,
        Self::Items,
        Self::Talk,
        Self::Closed,
        Self::Stall,
        Self::Drift,
        Self::Scatter,
        Self::Break,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Cliff => "cliffs",
            Self::Flat => "flat",
            Self::Limit => "other limits",
            Self::Coincident => "coincident limits",
            Self::Items => "items",
            Self::Talk => "conversations",
            Self::Closed => "closed loop",
            Self::Stall => "stalls",
            Self::Drift => "drift",
            Self::Scatter => "scatter",
            Self::Break => "breaks",
        }
    }

    /// Returns true if the server does not change during the sweep, so that no answer may report a change.
    pub(crate) const fn is_steady(self) -> bool {
        !matches!(self, Self::Stall | Self::Drift | Self::Scatter | Self::Break)
    }
}

/// A server with a workload and an SLO.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) group: Group,
    pub(crate) engine: Engine,
    pub(crate) arrivals: Arrivals,
    /// Lengths in tokens, in the syntax of a plan.
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) rare: Option<Rare>,
    /// The `[workload.prompts.items]` table of the plan, in place of lengths: an embedder or a reranker.
    pub(crate) items: Option<String>,
    /// The `[workload.prompts.audio]` table of the plan, in place of lengths: a transcriber.
    pub(crate) audio: Option<String>,
    /// The `images` table of the prompts: a vision model, whose encoder takes 20 µs a token.
    pub(crate) images: Option<String>,
    /// The `[workload.conversation]` table of the plan. With it, levels are sessions per second.
    pub(crate) conversation: Option<String>,
    pub(crate) targets: Vec<Target>,
    /// Largest share of requests that may fail.
    pub(crate) error_rate: Option<f64>,
    /// Share of requests that must meet all limits together. With it, the joint goodput is the answer.
    pub(crate) joint: Option<f64>,
    /// Request timeout in seconds; `None` for the plan's default.
    pub(crate) timeout_s: Option<f64>,
    /// Searches over requests in flight instead of rates.
    pub(crate) closed_loop: bool,
    /// Change of the server during a run.
    pub(crate) change: Option<Change>,
    /// Ratio of the true rate to the highest rate that may be offered.
    pub(crate) cap: Option<f64>,
    pub(crate) truth: Truth,
}

/// The correct answer to a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// The true goodput.
    Rate,
    /// No rate meets the SLO.
    None,
    /// The highest rate that may be offered meets the SLO.
    NotReached,
}

impl Case {
    /// Makes a case whose truth is still unknown.
    pub(crate) fn new(name: &str, engine: Engine) -> Self {
        Self {
            name: name.into(),
            group: Group::Ordinary,
            engine,
            arrivals: Arrivals::Poisson,
            input: "{ fixed = 1 }".into(),
            output: "{ fixed = 2 }".into(),
            rare: None,
            items: None,
            audio: None,
            images: None,
            conversation: None,
            targets: vec![],
            error_rate: None,
            joint: None,
            timeout_s: None,
            closed_loop: false,
            change: None,
            cap: None,
            truth: Truth::UNKNOWN,
        }
    }

    /// Limits the p99 of a metric.
    pub(crate) fn limit(self, metric: Metric, ms: f64) -> Self {
        self.limit_at(metric, 99.0, ms)
    }

    /// Limits another percentile of a metric.
    pub(crate) fn limit_at(mut self, metric: Metric, percentile: f64, ms: f64) -> Self {
        self.targets.push(Target { metric, percentile, ms });
        self
    }

    pub(crate) fn group(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// Sets the lengths, in the syntax of a plan.
    pub(crate) fn tokens(self, input: &str, output: &str) -> Self {
        Self { input: input.into(), output: output.into(), ..self }
    }

    /// Adds rare requests with these lengths.
    pub(crate) fn rarely(self, share: f64, input: &str, output: &str) -> Self {
        Self { rare: Some(Rare { share, input: input.into(), output: output.into() }), ..self }
    }

    pub(crate) fn bursts(self, cv: f64) -> Self {
        Self { arrivals: Arrivals::Gamma(cv), ..self }
    }

    pub(crate) fn evenly(self) -> Self {
        Self { arrivals: Arrivals::Constant, ..self }
    }

    pub(crate) fn changing(self, change: Change) -> Self {
        let group = change.group();
        Self { change: Some(change), group, ..self }
    }

    /// Caps the offered rate at the true one divided by `ratio`.
    pub(crate) fn capped(self, ratio: f64) -> Self {
        Self { cap: Some(ratio), ..self }
    }

    /// Adds the truth found by `accuracy truths`, if it is in the list.
    fn with(self, truths: &[TruthLine]) -> Self {
        let Some((_, found)) = truths.iter().find(|(name, _)| *name == self.name) else { return self };
        let truth = Truth { allowed: self.strictest(), ..Truth::from(*found) };
        Self { truth, ..self }
    }

    /// Returns the smallest share of misses that any of its limits allows.
    pub(crate) fn strictest(&self) -> f64 {
        let latencies = self.targets.iter().map(|t| 1.0 - t.percentile / 100.0);
        let joint = self.joint.map(|share| 1.0 - share);
        joint.unwrap_or_else(|| latencies.chain(self.error_rate).fold(1.0, f64::min))
    }

    /// Sets the share of misses that the binding limit allows.
    fn allowing(self, allowed: f64) -> Self {
        let unloaded = self.truth.unloaded * allowed / self.truth.allowed;
        Self { truth: Truth { allowed, unloaded, ..self.truth }, ..self }
    }

    /// Sets the true rate from a closed form; the other parts of the truth are unchanged.
    fn exactly(self, rate: f64) -> Self {
        Self { truth: Truth { rate: Some(rate), error: 0.0, ..self.truth }, ..self }
    }

    /// Computes the true rate, and the slope of the misses there, from the share of requests `within` the limit as a
    /// function of the rate. `inflation` comes from simulation.
    fn closed_form(self, capacity: f64, inflation: f64, within: impl Fn(f64) -> f64) -> Self {
        let allowed = self.strictest();
        let rate = boundary(capacity, 1.0 - allowed, &within);
        let missed = |x: f64| (1.0 - within(rate * x)).ln();
        let slope = (missed(1.001) - missed(0.999)) / 0.002;
        let truth =
            Truth { rate: Some(rate), error: 0.0, slope, inflation, capacity, unloaded: 0.0, allowed };
        Self { truth, ..self }
    }

    /// Sets the true rate to the capacity, with both known exactly: no misses below it, and only misses above.
    fn cliff_at(self, rate: f64) -> Self {
        Self { truth: Truth::cliff(rate, self.strictest()), ..self }
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

    /// Returns true if counting misses can find the rate within 30 % in `budget_s`.
    pub(crate) fn resolvable(&self, budget_s: f64) -> bool {
        self.right() == Right::Rate && self.truth.bound(budget_s).is_some_and(|bound| bound <= 0.3)
    }

    /// Returns true if every strategy supports the case: the others support only open loops of single requests, and
    /// limits on latencies.
    pub(crate) fn suits_peers(&self) -> bool {
        self.conversation.is_none() && !self.closed_loop && self.error_rate.is_none()
    }

    /// Returns the maximum number of runs in a table: conversations take long to simulate, and constant arrivals at a
    /// fixed service time differ only by the noise of the search.
    pub(crate) fn most_runs(&self) -> u32 {
        let few = self.conversation.is_some() || self.arrivals == Arrivals::Constant;
        if few { 20 } else { u32::MAX }
    }

    /// Returns a number that is specific to this case and run: the seed of everything random in it.
    pub(crate) fn seed(&self, run: u32) -> u32 {
        // FNV-1a, so that runs of different cases have unrelated seeds.
        let bytes = self.name.bytes().chain(run.to_le_bytes());
        bytes.fold(0x811c_9dc5, |h: u32, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193))
    }

    /// Returns the plan of a run and its server, each with separate random numbers. `width` is the interval width at
    /// which the search stops.
    pub(crate) fn build(&self, run: u32, budget_s: f64, width: f64) -> Result<(Plan, Model)> {
        let over = if self.closed_loop { "over = \"concurrency\", " } else { "" };
        let budget_ms = (budget_s * 1e3).round();
        let search = format!("adaptive = {{ {over}budget = \"{budget_ms}ms\", width = {width} }}\n");
        let (plan, model) = self.build_with(run, &search)?;
        Ok((plan, self.changed(model, budget_s)))
    }

    /// Returns the plan and the server for another search than the adaptive one. The server has its initial speed.
    pub(crate) fn build_with(&self, run: u32, search: &str) -> Result<(Plan, Model)> {
        let seed = self.seed(run);
        let text = self.text(seed, search)?;
        let plan =
            Plan::from_text(&text).with_context(|| format!("in the plan of {}:\n{text}", self.name))?;
        Ok((plan, self.engine.model(u64::from(seed) << 32 | 0x5eed)))
    }

    /// Returns the server with the changes that are known before the run begins.
    fn changed(&self, model: Model, budget_s: f64) -> Model {
        let Some(change) = &self.change else { return model };
        let mut variable = VariableSpeed::new(model);
        change.plan(&mut variable, budget_s);
        Model::VariableSpeed(Box::new(variable))
    }

    /// Returns the server with the constant speed for which the truth holds.
    pub(crate) fn settled_model(&self, seed: u64) -> Model {
        let engine = self.engine.model(seed);
        let has_items = self.items.is_some() || self.audio.is_some();
        let model = if has_items { engine.with_items() } else { engine };
        let speed = self.change.map_or(1.0, Change::final_speed);
        if (speed - 1.0).abs() < f64::EPSILON {
            return model;
        }
        let mut variable = VariableSpeed::new(model);
        variable.set_speed(Duration::ZERO, speed);
        Model::VariableSpeed(Box::new(variable))
    }

    fn text(&self, seed: u32, search: &str) -> Result<String> {
        let arrivals = match self.arrivals {
            Arrivals::Poisson => "\"poisson\"".to_owned(),
            Arrivals::Constant => "\"constant\"".to_owned(),
            Arrivals::Gamma(cv) => format!("{{ gamma = {{ cv = {cv} }} }}"),
        };
        let mut text = format!("name = \"accuracy\"\nseed = {seed}\nserver.simulated.preset = \"null\"\n");
        if self.images.is_some() {
            writeln!(text, "server.simulated.vision.token-time = \"20us\"")?;
        }
        let api = self.items.as_ref().map(|_| "embeddings");
        if let Some(api) = api.or(self.audio.as_ref().map(|_| "transcriptions")) {
            writeln!(text, "server.api = \"{api}\"")?;
        }
        if let Some(s) = self.timeout_s {
            writeln!(text, "step.timeout = \"{}ms\"", (s * 1e3).round())?;
        }
        writeln!(text, "[workload]\narrivals = {arrivals}")?;
        let prompts = |input: &str, output: &str| {
            let images =
                self.images.as_ref().map(|images| format!(", images = {images}")).unwrap_or_default();
            format!("prompts.synthetic = {{ input-tokens = {input}, output-tokens = {output}{images} }}")
        };
        let usual = match (&self.items, &self.audio) {
            (Some(items), _) => format!("prompts.items = {items}"),
            (None, Some(audio)) => format!("prompts.audio = {audio}"),
            (None, None) => prompts(&self.input, &self.output),
        };
        match &self.rare {
            None => writeln!(text, "{usual}")?,
            Some(Rare { share, input, output }) => {
                let rare = prompts(input, output);
                writeln!(text, "[[workload.class]]\nname = \"usual\"\nweight = {}\n{usual}", 1.0 - share)?;
                writeln!(text, "[[workload.class]]\nname = \"rare\"\nweight = {share}\n{rare}")?;
            }
        }
        if let Some(conversation) = &self.conversation {
            writeln!(text, "[workload.conversation]\n{conversation}")?;
        }
        writeln!(text, "[search]\n{search}")?;
        if let Some(max) = self.max_rate() {
            writeln!(text, "max-rate = {max}")?;
        }
        writeln!(text, "[slo]")?;
        for Target { metric, percentile, ms } in &self.targets {
            writeln!(text, "{}.\"p{percentile}\" = \"{}us\"", metric.name(), (ms * 1e3).round())?;
        }
        if let Some(share) = self.error_rate {
            writeln!(text, "error-rate = {share}")?;
        }
        if let Some(share) = self.joint {
            writeln!(text, "joint-attainment = {share}")?;
        }
        Ok(text)
    }

    /// Returns the part of an answer that the case evaluates.
    pub(crate) fn read(&self, answer: Answer) -> Goodput {
        if self.joint.is_some() { answer.joint_goodput } else { answer.goodput }
    }
}
