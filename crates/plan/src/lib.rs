//! The plan: the TOML file as types, checked, with profiles and defaults filled in.

mod classes;
mod environment;
mod extra;
mod files;
mod grid;
mod measured;
mod overlay;
pub mod own;
mod purpose;
mod quote;
mod resolve;
mod row;
mod schema;
mod secret;
pub mod sensitivity;
mod series;
pub mod server;
mod set;
mod source;
mod tiers;
mod timeout;
mod turns;
mod variant;

pub use environment::Environment;
pub use extra::Extra;
pub use grid::Grid;
pub use measured::{MeasuredServer, MeasuredWorkload};
pub use purpose::Purpose;
pub use row::{Bottleneck, Row};
pub use schema::schema;
pub use sensitivity::SensitivityPlan;
pub use series::{MAIN, Series};
pub use set::apply as apply_set;
pub use source::{SWEEPS, Source};
pub use tiers::Tiers;
pub use timeout::{Basis, PER_TOKEN, Timeout};
pub use variant::{Filled, ReadyUrl, Start, Variant};

use crate::own::OwnLimits;
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
    /// Name of the sweep: in reports, and in the name of the run folder.
    pub name: String,
    /// Seed of every random number.
    #[serde(default = "Plan::first_seed")]
    pub seed: u32,
    /// Variants are measured in turns, ABBA…, each rate so many times on each, with the same arrivals and lengths: for comparing servers that
    /// are up at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternate: Option<std::num::NonZeroU32>,
    /// Free text, carried into the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// What is asked of the server; `"goodput"` where it is left out.
    #[serde(default, skip_serializing_if = "Purpose::is_goodput")]
    pub purpose: Purpose,
    /// Who is asked, and how.
    pub server: Server,
    /// What must hold; no limit at all only in a matrix, where the purpose is not the goodput, and where every class of a mix has
    /// limits of its own.
    #[serde(default, skip_serializing_if = "Tiers::is_left_out")]
    pub slo: Tiers,
    /// What is sent. Where every row of a matrix says it for itself: what the first one sends.
    #[serde(default = "Plan::no_workload")]
    pub workload: Workload,
    /// How long a step takes.
    #[serde(default)]
    pub step: StepTimes,
    /// What the client may use, and how much delay of its own it may have.
    #[serde(default)]
    pub client: OwnLimits,
    /// Which levels are measured.
    #[serde(default)]
    pub search: SearchPlan,
    /// A last step under the server's profiler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// A surge after the search: whether and how fast the server recovers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Which properties of the workload are moved after the search, to find what moves the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<SensitivityPlan>,
    /// What the server runs on.
    #[serde(default)]
    pub hardware: Hardware,
    /// What the speed of the model follows from: held against what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// What the server is and runs on, as far as nobody can be asked.
    #[serde(default, skip_serializing_if = "Environment::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub environment: Environment,
    /// Pages of metrics besides the server's own.
    #[serde(default, rename = "metrics", skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<Extra>,
    /// What answers must be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<Check>,
    /// The rows of the matrix: each is a series with one level.
    #[serde(default, rename = "row", skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// The variants that it names: each is a series of its own, on a server of its own.
    #[serde(default, rename = "variant", skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// Variants that differ in a knob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<Grid>,
}

impl Plan {
    fn first_seed() -> u32 {
        1
    }

    /// Reads a plan, applies `sets` (`key=value`, in order), and resolves it: profiles and defaults filled in, everything
    /// checked that can be checked without a server.
    ///
    /// Errors name the file and, for what is wrong in the file itself, line and column.
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
                // The same mistake stands in the file itself: show it there.
                Err(own) if own.message() == e.message() => {
                    anyhow!("in {title}: {}", quote::shown(&text, &own))
                }
                _ => {
                    let keys: Vec<&str> =
                        sets.iter().filter_map(|s| Some(s.split_once('=')?.0.trim())).collect();
                    anyhow!("in {title} with {} changed: {}", keys.join(", "), quote::shown(&merged, &e))
                }
            })?
        };
        let mut plan = plan.resolve().map_err(|problem| anyhow!("in {title}: {problem}"))?;
        plan.keep_secrets();
        if let Source::File(path) = source {
            plan.find_files(path.parent().unwrap_or(Path::new("")))?;
        }
        Ok(plan)
    }

    /// From now on the secrets of the commands that start its servers are left out of every message and file.
    fn keep_secrets(&self) {
        let named = self.variants();
        named.iter().filter_map(|v| v.start.as_ref()).for_each(Start::keep_secrets);
    }

    /// What counts the tokens of texts: the plan's tokenizer, else an estimate.
    pub fn counter(&self) -> Result<Counter> {
        let Some(file) = &self.server.tokenizer else { return Ok(Counter::default()) };
        let tokenizer = Tokenizer::open(file)?;
        Ok(Counter::Exact(Arc::new(move |text| tokenizer.count(text))))
    }

    /// Opens the files of the workload, and notes what they hold.
    ///
    /// # Errors
    /// A file cannot be read, or holds something that it should not: the message names file, line and field.
    pub fn open_files(&mut self) -> Result<Traffic> {
        let traffic = Traffic::open(&self.workload, &self.counter()?)?;
        if self.server.prompts == PromptForm::TokenIds && traffic.has_follow_ups() {
            bail!(
                "[server] prompts = \"token-ids\" makes single prompts of exact lengths, and rows of {} follow the answers to others: \
                 leave it out",
                self.workload
            );
        }
        self.workload.file_summaries = traffic.file_summaries();
        Ok(traffic)
    }

    /// Reads and resolves a plan from its text.
    ///
    /// # Errors
    /// As [`Plan::load`], without a file's name.
    pub fn from_text(text: &str) -> Result<Self> {
        let plan = Self::parse(text).map_err(|e| anyhow!("{}", quote::shown(text, &e)))?;
        plan.resolve().map_err(|problem| anyhow!("{problem}"))
    }

    /// Parses the text of a plan; the error shows line and column.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        // First the simulated server alone: its own types know where in the file a mistake stands.
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
        plan.settle_classes();
        let outer: Outer = toml::from_str(text)?;
        debug_assert!(outer.server.is_some());
        if outer.workload.is_none() {
            let Some(first) = plan.rows.first().cloned() else {
                return Err(serde::de::Error::missing_field("workload"));
            };
            if let Some(problem) = Row::lengths_missing(&plan.rows) {
                return Err(serde::de::Error::custom(problem));
            }
            let mut own = plan.clone();
            first.apply(&mut own);
            plan.workload = own.workload;
            plan.workload.pace = None;
        }
        if let Some(fault) = plan.variant_fault() {
            return Err(serde::de::Error::custom(fault.words(text)));
        }
        Ok(plan)
    }

    /// Stands where the plan has no `[workload]`, until [`Plan::parse`] has put something in its place.
    fn no_workload() -> Workload {
        let one = TokenCount::try_from(1).expect("one is at least one");
        let one = Lengths::Fixed(one);
        let prompts = Synthetic { input_tokens: one, output_tokens: one, shared_prefix: None };
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

    /// The search that the plan describes.
    ///
    /// # Errors
    /// What the search cannot do, with what to write instead.
    pub fn searcher(&self) -> Result<Search, String> {
        let (tiers, gpus) = (self.slo.as_slice(), self.hardware.gpu_count());
        let search = Search::new(&self.search, &self.step, tiers, self.open(), gpus)?;
        Ok(search.profiled(self.profile.as_ref()).with_recovery(self.recovery))
    }

    /// What an open loop steps through.
    fn open(&self) -> Open {
        let w = &self.workload;
        Open { control: w.control(), arrivals: w.shape(), per_level: w.per_level(), think_s: w.think_s() }
    }

    /// A closed loop of this kind of step sends no more chains a second than this. One request at a time, which the search measures by itself,
    /// keeps to `search.max-rate` as every rate does: a fast server would take hundreds a second.
    pub fn pace(&self, kind: StepKind) -> Option<f64> {
        let w = &self.workload;
        let most = self.search.max_rate.filter(|_| kind == StepKind::Baseline).map(Rate::get);
        // The rate of a trace is its speed.
        let chains = if w.control() == Control::TraceScale { w.per_level() } else { 1.0 };
        let most = most.map(|rate| rate * chains);
        w.pace.map(Rate::get).into_iter().chain(most).reduce(f64::min)
    }

    /// How much delay of its own the client may have.
    pub fn allowed(&self) -> ClientTolerance {
        let own = &self.client;
        ClientTolerance {
            lateness: own.max_lateness.get(),
            receive_lag: own.max_receive_lag.get(),
            starved: own.max_starved.get(),
        }
    }

    /// The simulated server, where the plan asks for one. Fails where its table does not parse (checked on loading).
    pub fn simulated(&self) -> Result<Option<Simulated>> {
        match &self.server.target {
            Target::Simulated(table) => Ok(Some(table.clone().try_into().context("in [server.simulated]")?)),
            Target::Url(_) | Target::Urls(_) => Ok(None),
        }
    }

    /// The plan as TOML, everything filled in; carries no secret, as the plan itself cannot.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).context("failed to write the plan as TOML")
    }

    /// Refuses what contradicts `--virtual-time`: a real server has its own clock.
    pub fn check_virtual(&self) -> Result<()> {
        if matches!(self.server.target, Target::Simulated(_)) {
            if !self.extra.is_empty() || !self.server.metrics.pages.is_empty() {
                bail!(
                    "--virtual-time reads no metrics over a network: leave out [[metrics]] and [server] metrics-url; the simulated \
                     server's own are read all the same"
                );
            }
            // On the real clock the client's own limits end such a ramp; simulated time has none.
            // A closed loop ends at max-in-flight.
            let endless = |plan: &Self| match &plan.search.mode {
                Mode::Ramp(_) => true,
                Mode::Adaptive(adaptive) => adaptive.over == Over::Rate,
                Mode::Rates(_) | Mode::Concurrency(_) | Mode::Ladder(_) | Mode::Burst(_) => false,
            };
            if self.search.max_rate.is_none() && self.series().iter().any(|s| endless(&s.plan)) {
                bail!(
                    "--virtual-time needs [search] max-rate unless the levels are listed: a simulated server may have no knee"
                );
            }
            for series in self.series() {
                if series.plan.simulated()?.is_some_and(|sim| !sim.takes_time()) {
                    bail!(
                        "--virtual-time needs a simulated server whose answers take time, or one request after the other would be sent in \
                         a single instant for ever: choose another [server.simulated] preset, or a longer ttft or service time"
                    );
                }
            }
            let faults = self.simulated()?.map(|sim| sim.faults.needing_socket()).unwrap_or_default();
            if !faults.is_empty() {
                bail!(
                    "--virtual-time has no connections, and these faults of [server.simulated] are played on them: {}; leave them out, \
                     or run on the real clock",
                    faults.join(", ")
                );
            }
            return Ok(());
        }
        bail!("--virtual-time needs [server] simulated: a server behind a URL keeps its own time")
    }
}

#[cfg(test)]
mod tests;
