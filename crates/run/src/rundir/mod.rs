//! File names and data formats of the run folder.

mod cache;
mod cell;
pub mod changed;
mod clear;
mod client_faults;
pub mod derive;
#[cfg(test)]
#[path = "documentation/tests.rs"]
mod documentation;
pub mod files;
mod first_requests;
pub mod forecasts;
mod gauges;
mod imported;
mod items;
pub mod json;
pub mod knobs;
pub mod matrix;
pub mod offline;
mod read;
pub mod recovery;
pub mod repeats;
pub(crate) mod requests;
mod resume;
mod run_lock;
mod scaled;
pub mod sensitivity;
mod sketch;
pub mod space;
mod split;
mod spoilt;
pub(crate) mod table;
mod tier;
mod traces;
pub mod tried;
pub mod variants;
mod view;
mod why;
mod write;

pub use cache::{At, Gain, Medians, Pair, common_level};
pub use clear::{check_free, remove_unfinished};
pub use files::{make_folder, no_link, replace};
pub use first_requests::FirstRequests;
pub use gauges::GaugeSamples;
pub use goodput_stats::search::view::Terms;
pub use imported::{Imported, ImportedStep, Tool};
pub use read::{answered, folder_and_part, read, read_tier, read_with_scale};
pub use resume::{InterruptedSweep, read_interrupted, tidy};
pub use run_lock::RunLock;
pub use scaled::{Reach, Scaled, SloScale};
pub use sketch::Sketch;
pub use space::Disk;
pub use table::variants_table;
pub use traces::{Latencies, Span, Trace, Traces, Ttft};
#[cfg(any(test, feature = "fixture"))]
pub(crate) use traces::{RequestTimes, Tracer};
pub use variants::{VariantAnswer, VariantRun};
pub use view::View;
pub use view::reach;
pub use why::settings::simulated as simulated_settings;
pub use why::{Why, facts as diagnosis_facts};
pub use write::{Histogram, Sample, Writer, write_result};

use goodput_core::caveat::Caveat;
use goodput_core::distribution::Distribution;
use goodput_plan::{MeasuredServer, MeasuredWorkload, Purpose};
use goodput_stats::calibration::Calibration;
use goodput_stats::search::answer::Answer;
use goodput_stats::server::facts::Facts;
use goodput_stats::stats::step::Step;
use goodput_workload::rate::WordRates;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The resolved plan.
pub const PLAN: &str = "plan.toml";
/// Answers, steps and metadata.
pub const RESULT: &str = "result.json";
/// One row per step.
pub const STEPS: &str = "steps.csv";
/// One row per step, tier, class and limit.
pub(crate) const LIMITS: &str = "limits.csv";
/// One row per step and class of a mix, or per step and turn of conversations.
pub(crate) const GROUPS: &str = "groups.csv";
/// One row per step and replica, if the plan names several.
pub const REPLICAS: &str = "replicas.csv";
/// One row per step and worker, if several load machines sent.
pub const WORKERS: &str = "workers.csv";
/// One row per step and check, if the plan has checks.
pub const CHECKS: &str = "checks.csv";
/// One row per request.
pub const REQUESTS: &str = "requests.csv";
/// Requests of steps that were aborted and measured again after a resume; same columns as `requests.csv`.
pub(crate) const PARTIAL: &str = "requests-partial.csv";
/// One row per step and kind of failure.
pub(crate) const FAILURES: &str = "failures.csv";
/// Pooled distributions per step and class.
pub(crate) const HISTOGRAMS: &str = "histograms.csv";
/// Samples of the server's own counters and of the series of `[[metrics]]`.
pub const METRICS: &str = "server-metrics.csv";
/// One row per series of each variant, if the plan has variants.
pub const VARIANTS: &str = "variants.csv";
/// The report as a page.
pub const REPORT_PAGE: &str = "report.html";
/// Folder with the server output of variants, one file each.
pub const LOGS: &str = "logs";
/// One row per step with the values of the server's own counters, if it exports any.
pub(crate) const SERVER: &str = "server.csv";
/// One row per step and series of `[[metrics]]`, if the plan has any.
pub(crate) const SUMMARIES: &str = "metrics.csv";

/// Metadata of a run, `meta` of `result.json`: versions, machine, server, workload and times. Contains no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Meta {
    /// Version of goodput.
    pub goodput_version: String,
    /// Operating system, architecture and cores of the client's machine.
    pub host: String,
    /// The plan's seed.
    pub seed: u32,
    /// Start time of the sweep (RFC 3339).
    pub started: String,
    /// The measured server.
    pub server: MeasuredServer,
    /// The requested model.
    pub model: String,
    /// The workload as sent.
    pub workload: MeasuredWorkload,
    /// One line per tier: `p99 TTFT ≤ 200 ms, p99 TPOT ≤ 50 ms`.
    pub slo: String,
    /// GPU model, if the plan declares one.
    pub gpu: Option<String>,
    /// Number of GPUs, if the plan declares it.
    pub gpus: Option<u32>,
    /// Free-text notes from the plan.
    pub notes: Option<String>,
    /// True if time was simulated.
    pub virtual_time: bool,
    /// Caveats raised during the sweep that cannot be derived from the other files.
    #[serde(default)]
    pub noted: Vec<Caveat>,
    /// Time budget of the sweep if its levels are listed; the adaptive search has its budget in the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<goodput_core::units::Span>,
    /// Word-to-token rates in use, so that prompts keep their lengths when the sweep is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<WordRates>,
    /// Measured limits of the client on this machine, if a calibration was available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Distributions of prompt and answer lengths, per series and class.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "Sent::one_or_many")]
    pub sent: Vec<Sent>,
    /// Notes on the files that were sent: skipped records, and properties of the identity prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<String>,
    /// Facts reported by the servers: version, lengths, flags, and the metrics that are read from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Facts>,
    /// The first requests to each model; empty if all requests go to one model that was there before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_requests: Vec<FirstRequests>,
    /// Free-form facts about the server declared by the plan: driver, precision, command, notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// One entry for each time the sweep was resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumed>,
    /// The state of each variant, in plan order; empty if the plan has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<VariantRun>,
    /// Pending `Retry-After` times by series, if each series has its own server; empty if there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_alone: BTreeMap<String, LeftAlone>,
    /// Source of the results, if another tool measured them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// The workers (load machines) that sent the requests, in the order of their numbers; empty with a single machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerMachine>,
    /// The plan when the sweep started or was last resumed; a resume under a different plan is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<serde_json::Value>,
}

/// The time until which a server asked for no requests (`Retry-After`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LeftAlone {
    /// End by the wall clock (RFC 3339), because a resumed sweep runs in another process.
    pub until: String,
    /// Remaining time when this was written, in seconds; used in simulated time.
    pub left_s: f64,
}

/// Prompt and answer lengths over all steps of a series, in tokens as the server counts them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sent {
    /// Name of the series; empty in folders of earlier versions, which pool all series.
    #[serde(default)]
    pub series: String,
    /// Name of the class; `all` for all classes pooled.
    #[serde(default = "Sent::all")]
    pub class: String,
    /// Prompt lengths in tokens.
    pub input: Option<Distribution>,
    /// Answer lengths in tokens.
    pub output: Option<Distribution>,
}

impl Sent {
    fn all() -> String {
        goodput_core::slo::ALL.into()
    }

    /// Accepts a single object as well as a list: folders of earlier versions have one object.
    fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Self>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum OneOrMany {
            One(Sent),
            Many(Vec<Sent>),
        }
        Ok(match OneOrMany::deserialize(from)? {
            OneOrMany::One(sent) => vec![sent],
            OneOrMany::Many(all) => all,
        })
    }
}

/// One resume of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Resumed {
    /// Time of the resume (RFC 3339).
    pub at: String,
    /// Number of the first step measured after the resume.
    pub step: u32,
    /// Version of goodput that resumed.
    pub goodput_version: String,
}

/// A worker: one of several load machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WorkerMachine {
    /// Name of the worker, unique within the sweep.
    pub id: String,
    /// Name of its machine.
    pub host: String,
    /// Number of cores that it may use.
    pub cores: u32,
    /// Version of goodput.
    pub version: String,
    /// Maximum number of streams that it can have open at once, by its file descriptors.
    pub streams: u64,
    /// Number of its ephemeral ports, which limits its connections to one address.
    pub ports: u32,
    /// Requests per second that it was calibrated for; `None` without a calibration.
    pub max_rate: Option<f64>,
}

/// All data that a report may show, read from a run folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The plan's name.
    pub name: String,
    /// Metadata of the run.
    pub meta: Meta,
    /// The tiers of the SLO, resolved.
    pub tiers: Vec<goodput_core::slo::Slo>,
    /// True if the run is seen as one of several tiers of its SLO sees it.
    pub is_of_tier: bool,
    /// The resolved plan as TOML text.
    pub plan_toml: String,
    /// One answer per series, tier and class; the first is the main answer.
    pub answers: Vec<Answer>,
    /// Every finished step that counts, in order.
    pub steps: Vec<Step>,
    /// The steps that a worker spoilt, in order. Nothing rests on them: their levels were measured again, in the same series.
    pub spoilt: Vec<Step>,
    /// Caveats for the reader.
    pub caveats: Vec<Caveat>,
    /// Currency of the cost figures.
    pub currency: Option<String>,
    /// Cost of all GPUs together for one hour, in `currency`. Includes energy if the plan declares power draw and
    /// energy price; `None` if it declares neither price.
    pub price_per_hour: Option<f64>,
    /// Hardware of the server as declared by the plan.
    pub hardware: goodput_stats::capacity::Hardware,
    /// Delay that the client itself may add.
    pub allowed: goodput_stats::stats::client::ClientTolerance,
    /// Maximum number of requests in flight that the plan allows.
    pub max_in_flight: u32,
    /// Failures by step, kind and status.
    pub failures: Vec<FailureRow>,
    /// Target of the adaptive search; `None` if the plan lists its levels.
    pub terms: Option<Terms>,
    /// Purpose of the measurement.
    pub purpose: Purpose,
    /// Answers of the matrix, if the plan has one.
    pub matrix: Vec<matrix::RowAnswer>,
    /// Results of the variants, if the plan has any.
    pub variants: Vec<VariantAnswer>,
    /// Chart data of the search's fit; empty while a sweep runs.
    pub view: View,
    /// Reasons for missed limits and suggested changes; empty while a sweep runs.
    pub why: Why,
    /// The run of each series in measuring order, if there are several; each of them has no parts.
    pub parts: Vec<Self>,
}

/// A row of `failures.csv`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FailureRow {
    /// Series.
    pub series: String,
    /// Step; 0 for requests before the first step.
    pub step: u32,
    /// Class.
    pub class: String,
    /// Kind of failure.
    pub kind: String,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Number of failures.
    pub count: u64,
    /// Start of one response body, with control characters escaped.
    pub sample: String,
}
