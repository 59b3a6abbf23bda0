//! The figures of a run that the files rest on.

use super::capacity::Replicas;
use super::text::{Quoted, line, slug};
use goodput_core::slo::Slo;
use goodput_core::units::short;
use goodput_plan::MeasuredServer;
use goodput_run::rundir::{GaugeSamples, Run};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::server::facts::Facts;
use goodput_stats::server::{Engine, Signal};
use goodput_stats::stats::reason::step_verdict;
use goodput_stats::stats::step::{Step, Verdict};
use std::collections::BTreeMap;
use std::time::Duration;

/// URL of Prometheus where the user names none: that of its usual service within a cluster.
const PROMETHEUS: &str = "http://prometheus-server.monitoring.svc:80";

/// Largest difference of levels that count as equal, as a share.
const SAME_LEVEL: f64 = 0.015;

/// The user's choices.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Series, tier, or `series/tier` of the answer; the main answer without one.
    pub part: Option<String>,
    /// Labels that the metrics of the service have in Prometheus: names and values.
    pub labels: Vec<(String, String)>,
    /// Least and largest number of replicas, from `capacity.json`.
    pub replicas: Option<Replicas>,
    /// Time that a replica takes to start, in place of the measured one.
    pub start_up: Option<Duration>,
    /// Largest growth of the load per minute, as a share, that the servers bear until a new replica is ready.
    pub growth: f64,
    /// Name of the Kubernetes Deployment to scale; the model's without one.
    pub deployment: Option<String>,
    /// URL of Prometheus.
    pub prometheus: Option<String>,
}

/// The figures of a run, for one series and one tier of its SLO.
pub struct Figures<'a> {
    pub(crate) run: &'a Run,
    pub(crate) answer: &'a Answer,
    pub(crate) slo: &'a Slo,
    /// Safe rate in requests per second, of all measured servers together.
    pub(crate) safe: f64,
    /// Goodput in requests per second, and its 90 % interval if it has one.
    pub(crate) goodput: f64,
    pub(crate) interval: Option<[f64; 2]>,
    /// True if no level failed, so that the boundary is not known.
    pub(crate) not_reached: bool,
    /// Number of servers that were measured together.
    pub(crate) servers: u32,
    /// Steps under load that the search asked for and that are not invalid, by rising level.
    pub(crate) loaded: Vec<&'a Step>,
    /// The step with one request at a time.
    pub(crate) unloaded: Option<&'a Step>,
    pub(crate) engine: Option<Engine>,
    /// Names of the server's metrics by goodput's names of them.
    pub(crate) exposed: BTreeMap<String, String>,
    /// Matchers of PromQL that select the servers of the service: `job="llm"`.
    pub(crate) selector: Vec<String>,
    pub(crate) replicas: Option<Replicas>,
    pub(crate) deployment: String,
    pub(crate) prometheus: String,
    pub(crate) growth: f64,
    /// Time that a replica took to start, or takes by the user's word.
    pub(crate) start_up: Option<Duration>,
    /// Samples of the gauges of each step, by series and number.
    pub(crate) samples: GaugeSamples,
}

/// Why a run has no figures to hand over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoFigures {
    /// No answer goes by the name that was asked for; the names that exist.
    NoSuchPart {
        /// The name asked for.
        part: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The run has no answer at all.
    NoAnswer,
    /// No rate is shown to be safe.
    NoSafeRate {
        /// How the search ended.
        status: Status,
    },
}

impl<'a> Figures<'a> {
    /// Takes the figures from a run and the samples of its gauges.
    ///
    /// # Errors
    /// The run has no such answer, or no safe rate.
    pub fn of(run: &'a Run, samples: GaugeSamples, options: Options) -> Result<Self, NoFigures> {
        let answer = picked(run, options.part)?;
        let part = run.part(&answer.series);
        let no_safe = || NoFigures::NoSafeRate { status: answer.goodput.status() };
        let safe = part.capacity_at_safe_rate(answer).map(|c| c.requests_per_s).filter(|r| *r > 0.0);
        let safe = safe.ok_or_else(no_safe)?;
        let goodput = part.capacity(answer).map_or(safe, |c| c.requests_per_s);
        let slo = run
            .tiers
            .iter()
            .find(|t| t.tier() == answer.tier)
            .or(run.tiers.first())
            .ok_or(NoFigures::NoAnswer)?;
        let of_series = |s: &&Step| s.series == answer.series;
        let asked = |s: &&Step| !s.kind.is_outside_search() && s.level.control == answer.control;
        let valid = |s: &&Step| s.verdict != Verdict::Invalid;
        let mut loaded: Vec<&Step> =
            part.steps.iter().filter(of_series).filter(asked).filter(valid).collect();
        loaded.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
        let variant = run.variants.iter().find(|v| v.series == answer.series);
        let own = variant.and_then(|v| run.meta.variants.iter().find(|own| own.name == v.variant));
        let facts = own.map(|v| &v.facts).filter(|f| !f.is_empty()).unwrap_or(&run.meta.facts);
        let ready = variant.and_then(|v| v.ready_s).map(Duration::from_secs_f64);
        Ok(Self {
            run,
            answer,
            slo,
            safe,
            goodput,
            interval: answer.goodput.interval90(),
            not_reached: answer.goodput.status() == Status::NotReached,
            servers: servers(part, facts),
            loaded,
            unloaded: part
                .steps
                .iter()
                .filter(of_series)
                .filter(|s| goodput_stats::diagnosis::is_one(s))
                .max_by_key(|s| s.completed),
            engine: facts.iter().find_map(|f| f.engine),
            exposed: facts.first().map(exposed).unwrap_or_default(),
            selector: options
                .labels
                .iter()
                .map(|(name, value)| format!("{name}={}", Quoted(value.clone())))
                .collect(),
            replicas: options.replicas,
            deployment: options.deployment.unwrap_or_else(|| slug(&run.meta.model)),
            prometheus: options.prometheus.unwrap_or_else(|| PROMETHEUS.into()),
            growth: options.growth,
            start_up: options.start_up.or(ready),
            samples,
        })
    }

    /// Checks that the options fit the run.
    ///
    /// # Errors
    /// The replicas were planned with another rate, or a growth was given without the time that a replica takes to start; the
    /// text says what to do.
    pub fn check(&self) -> Result<(), String> {
        if let Some(replicas) = self.replicas.as_ref().filter(|r| !r.is_of(self.safe_each())) {
            return Err(format!(
                "the capacity plan is for replicas of {} requests/s, and the safe rate of this run is {}: make it from this run, with \
                 goodput capacity RUN --out DIR",
                short(replicas.rate),
                short(self.safe_each())
            ));
        }
        if self.growth > 0.0 && self.start_up.is_none() {
            return Err("--growth needs the time that a replica takes to start: add --start-up".into());
        }
        Ok(())
    }

    /// Returns the safe rate of one server.
    pub(crate) fn safe_each(&self) -> f64 {
        self.safe / f64::from(self.servers)
    }

    /// Returns the factor by which the load grows until a new replica is ready; 1 if growth or start-up is not known.
    pub(crate) fn headroom(&self) -> f64 {
        1.0 + self.growth * self.start_up.map_or(0.0, |s| s.as_secs_f64() / 60.0)
    }

    /// Returns a value per server: of a total over all measured servers.
    pub(crate) fn each(&self, total: f64) -> f64 {
        total / f64::from(self.servers)
    }

    /// Returns the steps at or below the safe rate that did not miss the SLO.
    pub(crate) fn safe_steps(&self) -> impl DoubleEndedIterator<Item = &'a Step> + '_ {
        let most = self.answer.goodput.safe_rate().unwrap_or(0.0) * (1.0 + SAME_LEVEL);
        let missed = |s: &Step| step_verdict(s, &self.answer.tier).0 == Verdict::Fails;
        self.loaded.iter().copied().filter(move |s| s.level.value <= most && !missed(s))
    }

    /// Returns the steps at or above the goodput that did not meet the SLO; none if no rate missed it.
    pub(crate) fn steps_beyond(&self) -> impl Iterator<Item = &'a Step> + '_ {
        let least = self.answer.goodput.rate().filter(|_| !self.not_reached).unwrap_or(f64::INFINITY);
        let met = |s: &Step| step_verdict(s, &self.answer.tier).0 == Verdict::Meets;
        self.loaded.iter().copied().filter(move |s| s.level.value >= least && !met(s))
    }

    /// Returns the step that stands for the safe rate: the highest at or below it, the longest of equal ones.
    pub(crate) fn at_safe(&self) -> Option<&'a Step> {
        let highest = self.safe_steps().last()?.level.value;
        let near = self.safe_steps().filter(|s| s.level.value >= highest * (1.0 - SAME_LEVEL));
        near.max_by(|a, b| a.measure_s.total_cmp(&b.measure_s))
    }

    /// Returns the step that stands for loads beyond the goodput: the lowest that missed the SLO, else the lowest.
    pub(crate) fn beyond(&self) -> Option<&'a Step> {
        let missed = |s: &&Step| step_verdict(s, &self.answer.tier).0 == Verdict::Fails;
        self.steps_beyond().find(missed).or_else(|| self.steps_beyond().next())
    }

    /// Returns the samples of a gauge within the measured window of a step, of all servers together: seconds and values.
    pub(crate) fn window_of(&self, step: &Step, signal: Signal) -> Vec<(f64, f64)> {
        let window = step.settle_s..=step.settle_s + step.measure_s;
        let all = self.samples.of(&step.series, step.step, signal);
        all.iter().copied().filter(|(at, _)| window.contains(at)).collect()
    }

    /// Returns the name of the service in labels and names of groups.
    pub(crate) fn service(&self) -> String {
        slug(&self.title())
    }

    /// Returns the selector of a metric that the rules record for this service.
    pub(crate) fn recorded(&self, name: &str) -> String {
        format!("{name}{{service=\"{}\"}}", self.service())
    }

    /// Returns the name of the plan, with series and tier where there are several.
    pub(crate) fn title(&self) -> String {
        let mut title = self.run.name.clone();
        if self.run.answers.iter().any(|a| a.series != self.answer.series) {
            title = format!("{title}, {}", self.answer.series);
        }
        if self.run.tiers.len() > 1 {
            title = format!("{title}, {}", self.answer.tier);
        }
        // Prometheus expands templates in annotations.
        line(&title).replace("{{", "{ {")
    }
}

fn picked(run: &Run, part: Option<String>) -> Result<&Answer, NoFigures> {
    let main = || run.answers.first().ok_or(NoFigures::NoAnswer);
    let Some(part) = part else { return main() };
    main()?;
    let is = |a: &&Answer| part == a.series || part == a.tier || part == format!("{}/{}", a.series, a.tier);
    run.answers.iter().find(is).ok_or_else(|| {
        let mut known: Vec<String> = run.answers.iter().map(|a| format!("{}/{}", a.series, a.tier)).collect();
        known.dedup();
        NoFigures::NoSuchPart { part, known }
    })
}

/// Returns the names of a server's metrics that are names: a run folder may come from somebody else.
fn exposed(facts: &Facts) -> BTreeMap<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let named = |name: &str| !name.is_empty() && name.chars().all(plain);
    facts
        .exposed
        .iter()
        .filter(|(_, name)| named(name))
        .map(|(key, name)| (key.clone(), name.clone()))
        .collect()
}

/// Returns how many servers the rates are of: those that the plan names, else one.
fn servers(run: &Run, facts: &[Facts]) -> u32 {
    let named: usize = facts.iter().map(|f| f.servers.len()).sum();
    let urls = match &run.meta.server {
        MeasuredServer::Urls(urls) => urls.len(),
        _ => 0,
    };
    u32::try_from(named.max(urls).max(1)).unwrap_or(1)
}
