//! Where a run comes from that another tool measured.

use goodput_core::units::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What `import` says of each request that does not fit into `requests.csv`: step, id, and the output tokens by the tool's own count,
/// where that is another than the server's.
pub const COUNTED: &str = "imported.csv";

/// A tool whose results can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// `vllm bench serve`.
    Vllm,
    /// GuideLLM.
    Guidellm,
    /// AIPerf, which was GenAI-Perf.
    Aiperf,
    /// inference-perf.
    InferencePerf,
    /// genai-bench: known, and not imported, since it keeps no times.
    GenaiBench,
}

impl Tool {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Vllm, Self::Guidellm, Self::Aiperf, Self::InferencePerf, Self::GenaiBench];

    /// The name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Guidellm => "guidellm",
            Self::Aiperf => "aiperf",
            Self::InferencePerf => "inference-perf",
            Self::GenaiBench => "genai-bench",
        }
    }

    /// The name for people.
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

/// What is known of an imported run besides what it measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// Who measured it.
    pub tool: Tool,
    /// Its version, where the files tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When it was imported (RFC 3339).
    pub at: String,
    /// The files, as they were named.
    pub files: Vec<String>,
    /// How much of each step's beginning was cut off on import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Span>,
    /// What the files do not tell, each in a few words.
    pub missing: Vec<String>,
    /// What the files hold and was not imported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Each step, in order.
    pub steps: Vec<ImportedStep>,
}

/// One step of an imported run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedStep {
    /// Its number.
    pub step: u32,
    /// Where it stands.
    pub file: String,
    /// The time over which the tool reckons its rates: seconds from the start of the step.
    pub window_s: [f64; 2],
    /// What the tool itself reported, by its own names.
    pub reported: BTreeMap<String, f64>,
}

impl Imported {
    /// Who measured it, for people: `vLLM bench serve`, `AIPerf 0.13.0`.
    pub fn title(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.tool.title()),
            None => self.tool.title().to_owned(),
        }
    }

    /// What is known of a step.
    pub fn step(&self, step: u32) -> Option<&ImportedStep> {
        self.steps.iter().find(|s| s.step == step)
    }
}
