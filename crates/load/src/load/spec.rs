//! The description of a load: everything that decides which requests are sent and when, as data that another machine
//! can be given.

use crate::client::encoder::{Encoder, Pinning};
use goodput_core::level::Level;
use goodput_core::record::Phase;
use goodput_plan::{Plan, Timeout};
use goodput_workload::draw::{StepKey, Surge};
use goodput_workload::part::StepPart;
use goodput_workload::rate::WordRates;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The load of one step, or one machine's part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The plan of the series being measured, with its overlays applied. It names the server, the workload, and the
    /// limits of the client.
    #[serde(with = "series_plan")]
    pub plan: Arc<Plan>,
    /// The facts about the server that its requests depend on.
    pub terms: Terms,
    /// The step.
    pub step: StepSpec,
    /// The level that the step holds.
    pub level: Level,
    /// The part of the step's chains that are sent.
    pub part: StepPart,
}

/// Serialization of a series' plan: its TOML, as in a run folder, and the class of a mix that is measured alone, which the plan format that
/// people write does not name. Reading it as TOML keeps the plan's types from being compiled for another format.
mod series_plan {
    use goodput_plan::Plan;
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    #[derive(Serialize, Deserialize)]
    struct SeriesPlan {
        toml: String,
        /// The class that is measured alone.
        only: Option<String>,
    }

    pub(super) fn serialize<S: Serializer>(plan: &Arc<Plan>, to: S) -> Result<S::Ok, S::Error> {
        let toml = plan.to_toml().map_err(S::Error::custom)?;
        SeriesPlan { toml, only: plan.workload.only.clone() }.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Plan>, D::Error> {
        let SeriesPlan { toml, only } = SeriesPlan::deserialize(from)?;
        let mut plan = Plan::parse(&toml).map_err(D::Error::custom)?;
        plan.workload.only = only;
        plan.apply_class_limits();
        Ok(Arc::new(plan))
    }
}

/// The facts about a server that its requests depend on, found before the first step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Name of the model, as the server lists it.
    pub model: String,
    /// The fields that hold the length of answers.
    pub pinning: Pinning,
    /// True if the server takes `stream_options`.
    pub usage: bool,
    /// The server's count of words.
    pub words: WordRates,
    /// How often the sweep was resumed: each time cold prompts get other nonces.
    pub resumed: u32,
    /// True if the director needs the text of answers.
    pub keep_text: bool,
}

impl Terms {
    /// Returns the encoder of requests whose class overrides nothing.
    pub fn encoder(&self, plan: &Plan) -> Encoder {
        plan_encoder(plan, &self.model, self.pinning, self.usage)
    }
}

/// Returns an encoder of a plan's requests.
pub fn plan_encoder(plan: &Plan, model: &str, pinning: Pinning, usage: bool) -> Encoder {
    let encoder = match &plan.server.template {
        Some(template) => Encoder::of_template(template, model),
        None => Encoder::new(plan.server.api, model, &plan.server.body.json(), pinning, usage),
    };
    if plan.server.streams() { encoder } else { encoder.whole() }
}

/// One step of a series, besides its level. Times count from its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepSpec {
    /// The key of the random numbers that prompts are made from.
    pub prompts: StepKey,
    /// The key of the random numbers that arrivals, lengths and the parts of the step are drawn from.
    pub arrivals: StepKey,
    /// Number of the step within its series, from 1; it decides where in a trace the step begins.
    pub in_series: u32,
    /// The chains of the step that are sent.
    pub selection: Selection,
    /// True if users do not think between the turns of a conversation.
    pub hurried: bool,
    /// A time of higher load within the step.
    pub surge: Option<Surge>,
    /// Most chains per second of a closed loop; `None` where its slots alone limit it.
    pub pace: Option<f64>,
    /// Phase of all requests, if it does not follow from their due times.
    pub phase: Option<Phase>,
    /// Time before the measured window.
    pub settle: Duration,
    /// Length of the measured window, before it is extended.
    pub measure: Duration,
    /// The longest time that a request may take.
    pub timeout: Timeout,
}

impl StepSpec {
    /// Returns true for requests that are sent before a step and not counted.
    pub(crate) fn is_warmup(&self) -> bool {
        self.phase == Some(Phase::Warmup)
    }
}

/// The chains of a step that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// All, for as long as the step lasts.
    All,
    /// The first `n` chains.
    First(u64),
    /// The shared prefixes of the first `n` chains, in turn, with one output token each.
    Prefixes(u64),
}

impl Selection {
    /// Returns the number of chains that are sent; `None` if it is not limited.
    pub const fn limit(self) -> Option<u64> {
        match self {
            Self::All => None,
            Self::First(n) | Self::Prefixes(n) => Some(n),
        }
    }
}

/// The state of a load that is being fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Status {
    /// Requests in flight.
    pub in_flight: u64,
    /// Requests due in the measured window, up to now, that have not finished.
    pub measured_open: u64,
    /// True while a chain that has yet to be sent is due in the measured window.
    pub to_come: bool,
    /// True once `max-in-flight` has been reached.
    pub client_limit: bool,
    /// True once the last request has been sent.
    pub sent_all: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_plan::Source;
    use std::path::Path;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sent {
        #[serde(with = "series_plan")]
        plan: Arc<Plan>,
    }

    /// Every series of every plan that comes with the program arrives at another machine as it was.
    #[test]
    fn a_plan_is_the_same_on_another_machine() {
        let mut count = 0;
        for folder in ["sweeps", "sweeps/traffic"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_none_or(|e| e != "toml") {
                    continue;
                }
                let plan = Plan::load(&Source::File(path.clone()), &[]).unwrap();
                for one in plan.series() {
                    let sent = Sent { plan: Arc::new(one.plan) };
                    let text = serde_json::to_string(&sent).unwrap();
                    let arrived: Sent = serde_json::from_str(&text).unwrap();
                    assert_eq!(arrived, sent, "{}: {}", path.display(), one.name);
                    count += 1;
                }
            }
        }
        assert!(count > 40, "{count}");
    }
}
