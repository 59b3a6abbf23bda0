//! The plan: the TOML file as types, validated, with profiles and defaults filled in.

mod choices;
mod classes;
pub mod client;
mod environment;
mod extra;
mod files;
mod grid;
mod items;
mod measured;
mod neutral;
mod overlay;
mod parser_message;
mod purpose;
mod quote;
mod remedies;
mod resolve;
mod row;
mod schema;
pub mod sensitivity;
mod series;
pub mod server;
mod set;
mod source;
mod start;
mod tiers;
mod timeout;
mod turns;
mod variant;

pub use environment::Environment;
pub use extra::MetricsPage;
pub use grid::Grid;
pub use measured::{Evenness, MeasuredServer, MeasuredWorkload};
pub use parser_message::reworded;
pub use purpose::Purpose;
pub use remedies::Trial;
pub use row::{Bottleneck, MatrixRow};
pub use schema::schema;
pub use sensitivity::SensitivityPlan;
pub use series::{MAIN, Series, class_alone, measured_alone};
pub use set::apply as apply_set;
pub use source::{LARGEST_PLAN, SWEEPS, Source};
pub use start::{ReadyCommand, ReadyUrl, Start};
pub use tiers::Tiers;
pub use timeout::{PER_TOKEN, Timeout, TimeoutBasis};
pub use variant::Variant;

use crate::client::ClientLimits;
use crate::server::{PromptForm, Server, Target};
use anyhow::{Context, Result, anyhow, bail};
use goodput_core::check::Check;
use goodput_core::level::Control;
use goodput_core::slo::Slo;
use goodput_core::times::StepTimes;
use goodput_core::tokens::Tokenizer;
use goodput_core::units::Rate;
use goodput_engine::config::Simulated;
use goodput_stats::capacity::Hardware;
use goodput_stats::roofline::Model;
use goodput_stats::search::Search;
use goodput_stats::search::config::{Mode, Open, Over, SearchPlan};
use goodput_stats::search::profile::Profile;
use goodput_stats::search::recovery::Recovery;
use goodput_stats::stats::client::ClientTolerance;
use goodput_stats::stats::step::StepKind;
use goodput_workload as workload;
use goodput_workload::arrivals::Arrivals;
use goodput_workload::config::{Cache, Workload};
use goodput_workload::data::Counter;
use goodput_workload::lengths::{Lengths, TokenCount};
use goodput_workload::sources::Prompts;
use goodput_workload::synthetic::Synthetic;
use goodput_workload::traffic::Traffic;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// A sweep plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plan {
    /// Name of the sweep, used in reports and in the name of the run folder.
    pub name: String,
    /// Seed of all random numbers. The same plan with the same seed sends the same requests.
    #[serde(default = "Plan::first_seed")]
    pub seed: u32,
    /// Measures the variants in turns (ABBA…), each rate this many times on each variant, with the same arrivals and lengths. For comparing
    /// servers that run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternate: Option<std::num::NonZeroU32>,
    /// Free text, copied into the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Goal of the measurement; `"goodput"` by default.
    #[serde(default, skip_serializing_if = "Purpose::is_goodput")]
    pub purpose: Purpose,
    /// The server under test and how requests are sent to it.
    pub server: Server,
    /// The SLO: one table, or one `[[slo]]` per tier. Optional in a matrix, with a `purpose` other than goodput, and if every class of a mix
    /// has its own limits.
    #[serde(default, skip_serializing_if = "Tiers::is_left_out")]
    pub slo: Tiers,
    /// The requests to send. Optional if every row of a matrix sets its own lengths.
    #[serde(default = "Plan::no_workload")]
    pub workload: Workload,
    /// Durations and limits of a step.
    #[serde(default)]
    pub step: StepTimes,
    /// Sending threads, and limits on the client's own delay.
    #[serde(default)]
    pub client: ClientLimits,
    /// The levels to measure.
    #[serde(default)]
    pub search: SearchPlan,
    /// A final step under the server's profiler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// A surge after the search, to measure whether and how fast the server recovers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Paired steps after the search that measure how the goodput depends on the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<SensitivityPlan>,
    /// The hardware of the server and its cost.
    #[serde(default)]
    pub hardware: Hardware,
    /// The size of the model, from which the report calculates hardware limits to compare the measurement with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Free-form facts about the server that no API reports (driver, precision, command line); copied into the report.
    #[serde(default, skip_serializing_if = "Environment::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub environment: Environment,
    /// More metrics pages to read, besides the server's own.
    #[serde(default, rename = "metrics", skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<MetricsPage>,
    /// Checks on the text of answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<Check>,
    /// The rows of a matrix; each is a series with one level.
    #[serde(default, rename = "row", skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<MatrixRow>,
    /// The variants to compare; each is a series on its own server.
    #[serde(default, rename = "variant", skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// Variants generated from the values of one or more knobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<Grid>,
}

impl Plan {
    fn first_seed() -> u32 {
        1
    }

    /// Reads a plan, applies the overrides `sets` (`key=value`, in order), fills in profiles and defaults, and checks all that can be checked
    /// without a server.
    ///
    /// # Errors
    /// The plan cannot be read or is not valid. The message names the file and, for a mistake in the file, line and column.
    pub fn load(source: &Source, sets: &[String]) -> Result<Self> {
        let text = source.text()?;
        let title = source.title();
        let plan = if sets.is_empty() {
            Self::parse(&text).map_err(|e| anyhow!("in {title}: {}", quote::shown(&text, &e)))?
        } else {
            let mut table: toml::Table =
                toml::from_str(&text).map_err(|e| anyhow!("in {title}: {}", quote::shown(&text, &e)))?;
            for set in sets {
                set::apply(&mut table, set)?;
            }
            let merged = table.to_string();
            Self::parse(&merged).map_err(|e| match Self::parse(&text) {
                // The file has the same mistake without the overrides: point at the file.
                Err(in_file) if in_file.message() == e.message() => {
                    anyhow!("in {title}: {}", quote::shown(&text, &in_file))
                }
                _ => {
                    let keys: Vec<&str> =
                        sets.iter().filter_map(|s| Some(s.split_once('=')?.0.trim())).collect();
                    anyhow!("in {title} with {} changed: {}", keys.join(", "), quote::shown(&merged, &e))
                }
            })?
        };
        let mut plan = plan.resolve().map_err(|problem| anyhow!("in {title}: {problem}"))?;
        plan.redact_secrets();
        if let Source::File(path) = source {
            plan.resolve_paths(path.parent().unwrap_or(Path::new("")))?;
        }
        Ok(plan)
    }

    /// Returns the plan with overrides (`key=value`, as for `--set`) applied, in order.
    ///
    /// # Errors
    /// An override is not `key=value`, or the plan is not valid with them.
    pub fn with_overrides(&self, sets: &[String]) -> Result<Self> {
        let mut table = toml::Table::try_from(self).context("failed to write the plan as TOML")?;
        for set in sets {
            set::apply(&mut table, set)?;
        }
        Self::from_text(&table.to_string())
    }

    /// Registers the secrets in the start commands, so that they are redacted in every message and file from now on.
    fn redact_secrets(&self) {
        self.variants().iter().filter_map(Variant::start).for_each(|start| start.redact_secrets());
    }

    /// Returns the model of requests that belong to no class, such as the first ones to the server: that of the server, or of the first class
    /// if each has its own. `None` for the only model that the server lists.
    pub fn first_model(&self) -> Option<&str> {
        let classes = self.workload.classes();
        let of_class = || {
            classes.iter().map(|class| class.model.as_deref()).collect::<Option<Vec<_>>>()?.first().copied()
        };
        self.server.model.as_deref().or_else(of_class)
    }

    /// Returns the token counter for texts: the plan's tokenizer, else an estimate.
    pub fn counter(&self) -> Result<Counter> {
        let Some(file) = &self.server.tokenizer else { return Ok(Counter::default()) };
        let tokenizer = Tokenizer::open(file)?;
        Ok(Counter::Exact(Arc::new(move |text| tokenizer.count(text))))
    }

    /// Opens the files of the workload and records their contents in `workload.file_summaries`.
    ///
    /// # Errors
    /// A file cannot be read, or its content is not valid; the message names file, line and field.
    pub fn open_files(&mut self) -> Result<Traffic> {
        let traffic = Traffic::open(&self.workload, &self.counter()?)?;
        if self.server.prompts == PromptForm::TokenIds && traffic.has_follow_ups() {
            bail!(
                "[server] prompts = \"token-ids\" sends single prompts of exact lengths, but rows of {} follow earlier answers: leave prompts out",
                self.workload
            );
        }
        self.workload.file_summaries = traffic.file_summaries();
        Ok(traffic)
    }

    /// Parses and resolves a plan from its text.
    ///
    /// # Errors
    /// As for [`Plan::load`], without the file name.
    pub fn from_text(text: &str) -> Result<Self> {
        let plan = Self::parse_explained(text)?;
        plan.resolve().map_err(|problem| anyhow!("{problem}"))
    }

    /// Parses the text of a plan. Errors show the line in words of this program, without what may be a secret.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_explained(text: &str) -> Result<Self> {
        Self::parse(text).map_err(|e| anyhow!("{}", quote::shown(text, &e)))
    }

    /// Parses the text of a plan. Errors show line and column.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        // Parses the table of the simulated server by its own types, whose errors point into the file.
        #[derive(Deserialize)]
        struct Outer {
            server: Option<Inner>,
            workload: Option<serde::de::IgnoredAny>,
        }
        #[derive(Deserialize)]
        struct Inner {
            #[serde(rename = "simulated")]
            _simulated: Option<Simulated>,
        }
        let mut plan: Self = toml::from_str(text)?;
        plan.apply_class_limits();
        let outer: Outer = toml::from_str(text)?;
        debug_assert!(outer.server.is_some());
        if outer.workload.is_none() {
            let Some(first) = plan.rows.first().cloned() else {
                return Err(serde::de::Error::missing_field("workload"));
            };
            if let Some(problem) = MatrixRow::lengths_missing(&plan.rows) {
                return Err(serde::de::Error::custom(problem));
            }
            let mut with_row = plan.clone();
            first.apply(&mut with_row);
            plan.workload = with_row.workload;
            plan.workload.pace = None;
        }
        if let Some(problem) = plan.variant_problem() {
            return Err(serde::de::Error::custom(problem.with_line(text)));
        }
        Ok(plan)
    }

    /// Returns a placeholder for a missing `[workload]`, which [`Plan::parse`] replaces.
    fn no_workload() -> Workload {
        let one = Lengths::Fixed(TokenCount::ONE);
        let prompts = Synthetic { input_tokens: one, output_tokens: one, shared_prefix: None, images: None };
        Workload {
            arrivals: Arrivals::Poisson,
            cache: Cache::Cold,
            source: workload::config::Source::Prompts(Prompts::Synthetic(prompts)),
            conversation: None,
            pace: None,
            alone: false,
            file_summaries: Vec::new(),
            only: None,
        }
    }

    /// Returns the search that the plan describes.
    ///
    /// # Errors
    /// The search cannot do what the plan asks for; the message says what to write instead.
    pub fn searcher(&self) -> Result<Search, String> {
        let (tiers, gpus) = (self.slo.as_slice(), self.hardware.gpu_count());
        let search = Search::new(&self.search, &self.step, tiers, self.open(), gpus)?;
        Ok(search.profiled(self.profile.as_ref()).with_recovery(self.recovery))
    }

    /// Returns what an open loop varies: rates, conversations or trace speeds.
    fn open(&self) -> Open {
        let w = &self.workload;
        Open { control: w.control(), arrivals: w.shape(), per_level: w.per_level(), think_s: w.think_s() }
    }

    /// Returns the highest rate, in chains per second, at which a closed loop sends in a step of this kind; `None` for no limit.
    ///
    /// The baseline, one request at a time, also stays below `search.max-rate`: a fast server would answer hundreds per second.
    pub fn pace(&self, kind: StepKind) -> Option<f64> {
        let w = &self.workload;
        let max_level = self.search.max_rate.filter(|_| kind == StepKind::Baseline).map(Rate::get);
        // The level of a trace is its speed, not a rate.
        let chains = if w.control() == Control::TraceScale { w.per_level() } else { 1.0 };
        let max_rate = max_level.map(|level| level * chains);
        w.pace.map(Rate::get).into_iter().chain(max_rate).reduce(f64::min)
    }

    /// Returns the limits on the client's own delay.
    pub fn allowed(&self) -> ClientTolerance {
        let limits = &self.client;
        ClientTolerance {
            lateness: limits.max_lateness.get(),
            receive_lag: limits.max_receive_lag.get(),
            starved: limits.max_starved.get(),
        }
    }

    /// Returns the simulated server; `None` if the plan names a real one.
    ///
    /// # Errors
    /// Its table does not parse, which loading the plan has ruled out.
    pub fn simulated(&self) -> Result<Option<Simulated>> {
        match &self.server.target {
            Target::Simulated(table) => Ok(Some(table.clone().try_into().context("in [server.simulated]")?)),
            Target::Url(_) | Target::Urls(_) => Ok(None),
        }
    }

    /// Returns the plan as TOML, with profiles and defaults filled in and without secrets.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map(neutral::neutral).context("failed to write the plan as TOML")
    }

    /// Checks that the plan can run in simulated time.
    ///
    /// # Errors
    /// The plan needs the real clock, as any real server does.
    pub fn check_virtual(&self) -> Result<()> {
        if matches!(self.server.target, Target::Simulated(_)) {
            if !self.extra.is_empty() || !self.server.metrics.pages.is_empty() {
                bail!(
                    "--virtual-time reads no metrics over a network: leave out [[metrics]] and [server] metrics-url; the simulated \
                     server's own metrics are still read"
                );
            }
            // In real time the client's limits end such a search; in simulated time it has none. A closed loop ends at max-in-flight.
            let endless = |plan: &Self| match &plan.search.mode {
                Mode::Ramp(_) => true,
                Mode::Adaptive(adaptive) => adaptive.over == Over::Rate,
                Mode::Rates(_) | Mode::Concurrency(_) | Mode::Ladder(_) | Mode::Burst(_) => false,
            };
            if self.search.max_rate.is_none() && self.series().iter().any(|s| endless(&s.plan)) {
                bail!(
                    "--virtual-time needs [search] max-rate, unless the levels are listed: a simulated server may have no capacity limit"
                );
            }
            for series in self.series() {
                if series.plan.simulated()?.is_some_and(|sim| !sim.takes_time()) {
                    bail!(
                        "--virtual-time needs a simulated server whose answers take time, or the clock would never advance: choose another \
                         [server.simulated] preset, or a longer ttft or service time"
                    );
                }
            }
            let faults = self.simulated()?.map(|sim| sim.faults.needing_socket()).unwrap_or_default();
            if !faults.is_empty() {
                bail!(
                    "--virtual-time has no connections, but these faults of [server.simulated] need them: {}; leave them out, or run in \
                     real time",
                    faults.join(", ")
                );
            }
            return Ok(());
        }
        bail!("--virtual-time needs [server] simulated: a server behind a URL runs in real time")
    }
}

#[cfg(test)]
mod tests;
