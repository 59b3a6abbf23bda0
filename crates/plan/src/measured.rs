//! The measured server and workload of a plan, as results keep them.

use super::Plan;
use super::server::Target;
use goodput_engine::config::SimulatedSummary;
use goodput_stats::search::config::Mode;
use goodput_workload::arrivals::Arrivals;
use goodput_workload::summary::{Pacing, WorkloadSummary};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU8;

/// The server of a run. Carries no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredServer {
    /// One server by its URL, or the replicas of a service by theirs.
    Urls(Vec<String>),
    /// A simulated server.
    Simulated(SimulatedSummary),
    /// Another tool measured it, and its files name no server.
    NotRecorded,
    /// The line of text that folders of earlier versions have.
    #[serde(untagged)]
    Legacy(String),
}

impl MeasuredServer {
    /// Returns true if the server is simulated.
    pub fn is_simulated(&self) -> bool {
        match self {
            Self::Simulated(_) => true,
            Self::Urls(_) | Self::NotRecorded => false,
            Self::Legacy(text) => text.starts_with("simulated"),
        }
    }
}

impl Default for MeasuredServer {
    /// No server yet, as of a variant whose turn has not come.
    fn default() -> Self {
        Self::Urls(Vec::new())
    }
}

impl fmt::Display for MeasuredServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Urls(urls) => f.write_str(&urls.join(", ")),
            Self::Simulated(simulated) => simulated.fmt(f),
            Self::NotRecorded => f.write_str("not recorded"),
            Self::Legacy(text) => f.write_str(text),
        }
    }
}

/// The workload of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredWorkload {
    /// Requests of one workload.
    Traffic(WorkloadSummary),
    /// The rows of a matrix, each with a workload of its own.
    Matrix {
        /// The names of the rows.
        rows: Vec<String>,
    },
    /// The line of text that folders of earlier versions have.
    #[serde(untagged)]
    Legacy(String),
}

impl MeasuredWorkload {
    /// Returns how the requests of an open loop came; `None` for a closed loop, and for a matrix.
    pub fn evenness(&self) -> Option<Evenness> {
        match self {
            Self::Traffic(workload) => match workload.pacing {
                Pacing::Arrivals(arrivals) => Some(Evenness::of(arrivals)),
                pacing if pacing.is_closed() => None,
                _ => Some(Evenness::Unknown),
            },
            Self::Matrix { .. } => None,
            Self::Legacy(text) if !text.contains(" arrivals") => None,
            Self::Legacy(text) if text.contains("Poisson") => Some(Evenness::Poisson),
            Self::Legacy(_) => Some(Evenness::Unknown),
        }
    }
}

/// How evenly requests come, compared with those of independent users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evenness {
    /// As those of independent users.
    Poisson,
    /// More evenly.
    Steadier,
    /// In bursts.
    Burstier,
    /// Not known.
    Unknown,
}

impl Evenness {
    fn of(arrivals: Arrivals) -> Self {
        match arrivals.cv() {
            cv if cv > 1.0 => Self::Burstier,
            cv if cv < 1.0 => Self::Steadier,
            _ => Self::Poisson,
        }
    }
}

impl fmt::Display for MeasuredWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Traffic(workload) => workload.fmt(f),
            Self::Matrix { rows } => write!(f, "a matrix of {}: {}", rows.len(), rows.join(", ")),
            Self::Legacy(text) => f.write_str(text),
        }
    }
}

impl Plan {
    /// Returns the server that is asked: URLs, or what is simulated.
    pub fn measured_server(&self) -> MeasuredServer {
        match (&self.server.target, self.simulated()) {
            (Target::Simulated(_), Ok(Some(simulated))) => MeasuredServer::Simulated(simulated.summary()),
            (target, _) => MeasuredServer::Urls(target.urls().iter().map(ToString::to_string).collect()),
        }
    }

    /// Returns what is sent. A closed loop has no arrivals of its own.
    pub fn measured_workload(&self) -> MeasuredWorkload {
        if !self.rows.is_empty() {
            return MeasuredWorkload::Matrix { rows: self.rows.iter().map(|row| row.name.clone()).collect() };
        }
        let max_rate = self.workload.pace;
        let pacing = match self.search.mode {
            Mode::Concurrency(_) | Mode::Ladder(_) => Pacing::ClosedLoop { max_rate },
            Mode::Burst(_) => Pacing::AllAtOnce { max_rate },
            Mode::Adaptive(_) | Mode::Rates(_) | Mode::Ramp(_) => self.workload.pacing(),
        };
        let mut summary = self.workload.summary(pacing);
        for (kind, choices) in summary.requests.iter_mut().zip(self.choices_by_class().iter()) {
            kind.choices = Some(*choices).filter(|n| *n > NonZeroU8::MIN);
        }
        MeasuredWorkload::Traffic(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: what `result.json` holds, and how it reads to people.
    #[test]
    fn servers_and_workloads_read_from_json() {
        let server = |json: &str| serde_json::from_str::<MeasuredServer>(json).unwrap();
        for (json, text, simulated) in [
            (r#"{"urls":["http://a:8000","http://b:8000"]}"#, "http://a:8000, http://b:8000", false),
            (
                r#"{"simulated":{"preset":"mmc","settings":[["servers","4"]]}}"#,
                "simulated mmc (servers 4)",
                true,
            ),
            (r#""not-recorded""#, "not recorded", false),
            (r#""simulated mmc (servers 4)""#, "simulated mmc (servers 4)", true),
            (r#""http://127.0.0.1:8000""#, "http://127.0.0.1:8000", false),
        ] {
            let server = server(json);
            assert_eq!((server.to_string().as_str(), server.is_simulated()), (text, simulated));
            let again = serde_json::to_string(&server).unwrap();
            assert_eq!(serde_json::from_str::<MeasuredServer>(&again).unwrap(), server);
        }
        let text = "600 in / 30 out tokens, gamma arrivals (cv 2), cold cache";
        let legacy: MeasuredWorkload = serde_json::from_str(&format!("{text:?}")).unwrap();
        assert_eq!((legacy.to_string().as_str(), legacy.evenness()), (text, Some(Evenness::Unknown)));
    }

    /// Rows: what the plan says, what its result reads like, and how evenly its requests come.
    #[test]
    fn a_plan_tells_what_it_measures() {
        for (search, workload, text, evenness) in [
            (
                "rates = [1]\nserver.body.n = 4",
                "",
                "9 in / 3 out tokens, 4 choices, Poisson arrivals, cold cache",
                Some(Evenness::Poisson),
            ),
            ("rates = [1]", "", "9 in / 3 out tokens, Poisson arrivals, cold cache", Some(Evenness::Poisson)),
            (
                "rates = [1]",
                "arrivals = { gamma.cv = 2 }",
                "9 in / 3 out tokens, gamma arrivals (cv 2), cold cache",
                Some(Evenness::Burstier),
            ),
            (
                "rates = [1]",
                "arrivals = \"constant\"",
                "9 in / 3 out tokens, constant arrivals, cold cache",
                Some(Evenness::Steadier),
            ),
            ("concurrency = [1]", "cache = \"warm\"", "9 in / 3 out tokens, closed loop, warm cache", None),
            ("burst = 4", "", "9 in / 3 out tokens, all at once, cold cache", None),
        ] {
            let plan = Plan::from_text(&format!(
                "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\nsearch.{search}\n[workload]\n{workload}\n\
                 prompts.synthetic = {{ input-tokens = {{ fixed = 9 }}, output-tokens = {{ fixed = 3 }} }}"
            ))
            .unwrap();
            let sent = plan.measured_workload();
            assert_eq!((sent.to_string().as_str(), sent.evenness()), (text, evenness));
            let json = serde_json::to_string(&sent).unwrap();
            assert_eq!(serde_json::from_str::<MeasuredWorkload>(&json).unwrap(), sent, "{json}");
            assert_eq!(plan.measured_server().to_string(), "http://127.0.0.1:1");
        }
    }
}
