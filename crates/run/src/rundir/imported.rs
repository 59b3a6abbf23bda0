//! Origin of a run that another tool measured.

use goodput_core::units::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Per-request data of `import` that does not fit into `requests.csv`: step, id, and the output tokens by the tool's
/// own count, if it differs from the server's.
pub(crate) const COUNTED: &str = "imported.csv";

/// A benchmarking tool whose result files are recognised.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// `vllm bench serve`.
    Vllm,
    /// GuideLLM.
    Guidellm,
    /// AIPerf, formerly GenAI-Perf.
    Aiperf,
    /// inference-perf.
    InferencePerf,
    /// genai-bench: recognised but not imported, because its results have no times per request.
    GenaiBench,
}

impl Tool {
    /// All tools.
    pub const ALL: [Self; 5] =
        [Self::Vllm, Self::Guidellm, Self::Aiperf, Self::InferencePerf, Self::GenaiBench];

    /// Returns the name used on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Guidellm => "guidellm",
            Self::Aiperf => "aiperf",
            Self::InferencePerf => "inference-perf",
            Self::GenaiBench => "genai-bench",
        }
    }

    /// Returns the name shown to the user.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM bench serve",
            Self::Guidellm => "GuideLLM",
            Self::Aiperf => "AIPerf",
            Self::InferencePerf => "inference-perf",
            Self::GenaiBench => "genai-bench",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tool {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|tool| tool.name() == name)
            .ok_or_else(|| format!("the tools are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// Origin of an imported run, and the data that its files lack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Imported {
    /// Tool that measured the run.
    pub tool: Tool,
    /// Version of the tool, if the files contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Time of the import (RFC 3339).
    pub at: String,
    /// Imported files, as named by the user.
    pub files: Vec<String>,
    /// Length of the beginning of each step that was cut off on import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Span>,
    /// Data missing from the files, each in a few words.
    pub missing: Vec<String>,
    /// Data in the files that was not imported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<ImportedStep>,
}

/// One step of an imported run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ImportedStep {
    /// Number of the step.
    pub step: u32,
    /// File with the step.
    pub file: String,
    /// Window over which the tool computes its rates, in seconds from the start of the step.
    pub window_s: [f64; 2],
    /// Figures reported by the tool, under its own names.
    pub reported: BTreeMap<String, f64>,
}

impl Imported {
    /// Returns the tool and its version as shown to the user: `vLLM bench serve`, `AIPerf 0.13.0`.
    pub fn title(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.tool.title()),
            None => self.tool.title().to_owned(),
        }
    }

    /// Returns the imported step with this number.
    pub fn step(&self, step: u32) -> Option<&ImportedStep> {
        self.steps.iter().find(|s| s.step == step)
    }
}
