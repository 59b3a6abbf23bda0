//! Names and formats of the run folder.

mod cache;
pub mod cell;
pub mod changed;
mod clear;
pub mod derive;
#[cfg(test)]
#[path = "documented/tests.rs"]
mod documented;
pub mod files;
mod hold;
pub mod imported;
pub mod json;
pub mod matrix;
pub mod offline;
mod own;
mod read;
pub mod recovery;
pub mod repeats;
pub(crate) mod requests;
mod resume;
mod scaled;
pub mod sensitivity;
mod sketch;
pub mod space;
mod split;
pub(crate) mod table;
mod traces;
pub mod variants;
mod view;
mod why;
mod write;

pub use cache::{At, Gain, Medians, Pair, common_level};
pub use clear::check_free;
pub use files::{make_folder, no_link, replace};
pub use goodput_stats::search::view::Terms;
pub use hold::Hold;
pub use imported::{Imported, ImportedStep, Tool};
pub use read::{folder_and_part, read, read_with_scale};
pub use resume::{Left, left, tidy};
pub use scaled::{Reach, Scaled, SloScale};
pub use sketch::Sketch;
pub use space::Disk;
pub use table::variants_table;
pub use traces::{Seen, Span, Trace, Tracer, Traces, Ttft};
pub use variants::{VariantAnswer, VariantRun};
pub use view::View;
pub use view::reach;
pub use why::Why;
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

/// The plan as resolved.
pub const PLAN: &str = "plan.toml";
/// Answers, steps and meta.
pub const RESULT: &str = "result.json";
/// A row per step.
pub const STEPS: &str = "steps.csv";
/// A row per step, tier, class and limit.
pub const LIMITS: &str = "limits.csv";
/// A row per step and class of a mix, or turn of conversations.
pub const GROUPS: &str = "groups.csv";
/// A row per step and replica, where the plan names several.
pub const REPLICAS: &str = "replicas.csv";
/// A row per step and check, where the plan has checks.
pub const CHECKS: &str = "checks.csv";
/// A row per request.
pub const REQUESTS: &str = "requests.csv";
/// Requests of steps that were broken off and measured again after a resume; the columns of `requests.csv`.
pub const PARTIAL: &str = "requests-partial.csv";
/// A row per step and kind of failure.
pub const FAILURES: &str = "failures.csv";
/// Pooled distributions per step and class.
pub const HISTOGRAMS: &str = "histograms.csv";
/// Samples of the server's own counters, and of the series of `[[metrics]]`.
pub const METRICS: &str = "server-metrics.csv";
/// A row per series of each variant, where the plan has variants.
pub const VARIANTS: &str = "variants.csv";
/// The folder with what the servers of variants wrote, a file each.
pub const LOGS: &str = "logs";
/// A row per step: what the server's own counters say of it, where it has any.
pub const SERVER: &str = "server.csv";
/// A row per step and series of `[[metrics]]`, where the plan has any.
pub const SUMMARIES: &str = "metrics.csv";

/// What was measured, with what, and when: `meta` of `result.json`. Carries no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of goodput.
    pub goodput_version: String,
    /// Operating system, architecture and cores of the client's machine.
    pub host: String,
    /// The plan's seed.
    pub seed: u32,
    /// When the sweep started (RFC 3339).
    pub started: String,
    /// The server that was asked.
    pub server: MeasuredServer,
    /// The model that was asked.
    pub model: String,
    /// The workload that was sent.
    pub workload: MeasuredWorkload,
    /// One line per tier: `p99 TTFT ≤ 200 ms, p99 TPOT ≤ 50 ms`.
    pub slo: String,
    /// GPU model, where the plan declares one.
    pub gpu: Option<String>,
    /// Number of GPUs, where the plan declares it.
    pub gpus: Option<u32>,
    /// The plan's free text.
    pub notes: Option<String>,
    /// Whether time was simulated.
    pub virtual_time: bool,
    /// What the sweep noticed that its other files do not tell.
    #[serde(default)]
    pub noted: Vec<Caveat>,
    /// The time after which no step was to end, where the levels are listed; the adaptive search has its own in the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<goodput_core::units::Span>,
    /// How words were counted as tokens, so that prompts keep their lengths when the sweep is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<WordRates>,
    /// What the client of this machine can do, where the sweep was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// How long prompts and answers were, in each series and of each class.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "Sent::one_or_many")]
    pub sent: Vec<Sent>,
    /// What is to be known of the files that were sent: what was left out, and what identity prefixes have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<String>,
    /// What the servers tell of themselves: version, lengths, flags, and what is read of their metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Facts>,
    /// What the plan declares of the server: driver, precision, command, notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Every time that the sweep was resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumed>,
    /// What became of each variant, in their order; empty where the plan has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<VariantRun>,
    /// Until when servers asked to be left alone, by series where each has its own; empty where none did.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_alone: BTreeMap<String, LeftAlone>,
    /// Where it comes from, where another tool measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// The plan as it was when the sweep began or went on: it goes on under no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<serde_json::Value>,
}

/// Until when a server asked to be left alone (`Retry-After`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftAlone {
    /// By the wall clock (RFC 3339): a sweep that goes on does so in another process.
    pub until: String,
    /// How long that was when it was written, in seconds: what is left in simulated time.
    pub left_s: f64,
}

/// How long prompts and answers were over all steps of a series, in tokens as the server counts them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// The series; empty in folders of earlier versions, which count all of them together.
    #[serde(default)]
    pub series: String,
    /// The class; `all` of all together.
    #[serde(default = "Sent::all")]
    pub class: String,
    /// Prompts.
    pub input: Option<Distribution>,
    /// Answers.
    pub output: Option<Distribution>,
}

impl Sent {
    fn all() -> String {
        goodput_core::slo::ALL.into()
    }

    /// Folders of earlier versions have one, not a list.
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

/// One time that a sweep was resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// When (RFC 3339).
    pub at: String,
    /// The first step that was measured then.
    pub step: u32,
    /// Version of goodput that went on.
    pub goodput_version: String,
}

/// Everything that a report may show, read from a run folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The plan's name.
    pub name: String,
    /// What was measured, with what, and when.
    pub meta: Meta,
    /// The tiers of the SLO, resolved.
    pub tiers: Vec<goodput_core::slo::Slo>,
    /// The plan as resolved, as text.
    pub plan_toml: String,
    /// One answer per series, tier and class; the first is *the* answer.
    pub answers: Vec<Answer>,
    /// Every finished step, in order.
    pub steps: Vec<Step>,
    /// What the reader must know.
    pub caveats: Vec<Caveat>,
    /// Currency of the cost figures.
    pub currency: Option<String>,
    /// What all GPUs together cost for an hour, in `currency`, with their energy where the plan declares what they draw and what that
    /// costs; `None` where it has neither price.
    pub price_per_hour: Option<f64>,
    /// What the server runs on, as the plan declares it.
    pub hardware: goodput_stats::capacity::Hardware,
    /// How much delay of its own the client was allowed.
    pub allowed: goodput_stats::stats::client::ClientTolerance,
    /// The most requests in flight that the plan allows.
    pub max_in_flight: u32,
    /// Failures: step, kind, status, count, sample.
    pub failures: Vec<FailureRow>,
    /// What the adaptive search was to find; `None` where the plan lists its levels.
    pub terms: Option<Terms>,
    /// What was asked of the server.
    pub purpose: Purpose,
    /// The answers of the matrix, where the plan has one.
    pub matrix: Vec<matrix::RowAnswer>,
    /// What each variant came to, where the plan has any.
    pub variants: Vec<VariantAnswer>,
    /// What the charts show of the adaptive search's fit; empty elsewhere, and while a sweep runs.
    pub view: View,
    /// Why its limits were missed, and what to change; empty while a sweep runs.
    pub why: Why,
    /// The run of each series, in the order in which they are measured, where there are several; each has none of its own.
    pub parts: Vec<Self>,
}

impl table::TableRow for FailureRow {
    const FILE: &'static str = FAILURES;
}

/// A row of `failures.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureRow {
    /// Series.
    pub series: String,
    /// Step; 0 for requests before the first step.
    pub step: u32,
    /// Class.
    pub class: String,
    /// Kind of failure.
    pub kind: String,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// How many.
    pub count: u64,
    /// The beginning of one body, control characters escaped.
    #[serde(default)]
    pub sample: String,
}
