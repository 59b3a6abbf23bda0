//! The input of a diagnosis in addition to the steps.

use super::flags::Flags;
use super::forecast::Forecast;
use super::settings::Settings;
use super::trial::Trial;
use crate::roofline::{Machine, Model};
use goodput_core::caveat::OwnFault;
use std::fmt;
use std::sync::Arc;

/// Facts about a run that its steps do not have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The curves to examine.
    pub curves: Vec<Curve>,
    /// The steps in which the client reached one of its limits.
    pub own: Vec<OwnLimit>,
    /// Failures by step and kind.
    pub failures: Vec<StepFailures>,
    /// TTFT by prompt length, one request at a time.
    pub lengths: Vec<LengthPoint>,
    /// Goodput of models of the servers under single changes, if they were simulated.
    pub forecasts: Vec<Forecast>,
    /// True if another tool measured the run.
    pub imported: bool,
    /// The command, run in the run folder, that measures the plan again.
    pub again: String,
    /// The command, run in the run folder, that tries the first advice.
    pub try_advice: String,
    /// The command, run in the run folder, that measures again the remedies that were tried.
    pub trial_again: String,
    /// The remedies that were tried.
    pub trials: Vec<Trial>,
    /// The check whether the plan takes an override.
    pub accepts: Accepts,
}

/// Returns true if the plan takes all of the overrides together.
type Check = dyn Fn(&[String]) -> bool + Send + Sync;

/// Checks whether a plan is still valid with overrides (`key=value`, as for `--set`). Accepts everything by default.
#[derive(Clone, Default)]
pub struct Accepts(Option<Arc<Check>>);

impl Accepts {
    /// Makes the check from a function that returns true if the plan takes all of the overrides together.
    pub fn new(check: impl Fn(&[String]) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(check)))
    }

    /// Returns true if the plan is valid with these overrides.
    pub fn all(&self, sets: &[String]) -> bool {
        self.0.as_ref().is_none_or(|check| check(sets))
    }
}

impl fmt::Debug for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accepts({})", if self.0.is_some() { "by the plan" } else { "everything" })
    }
}

impl PartialEq for Accepts {
    /// Functions cannot be compared: two checks are equal if they are the same one.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

/// Facts about a curve: the steps of a series, with their answer for one tier of the SLO.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// Name of the series.
    pub series: String,
    /// Number of the step to examine: the lowest that misses the limit, or the highest that the server could take.
    pub step: u32,
    /// Key of the limit that is missed there, or that binds: `ttft.p99`, `stability`; `None` if there is none.
    pub limit: Option<String>,
    /// Tier of the SLO of that limit; `None` if no tier is examined alone.
    pub tier: Option<String>,
    /// Subject of the question that was asked, if there was no limit (a row of a matrix): `ttft`.
    pub question: Option<String>,
    /// Identity of the deployment: the server and its hardware. Curves with equal values may be compared.
    pub deployment: String,
    /// The flags or keys that configure the server; `None` if the engine is unknown.
    pub flags: Option<Flags>,
    /// The present settings of the server, as far as they are known.
    pub settings: Settings,
    /// Keys of the plan that the variant of this series sets, so that an override of the plan does not change them.
    pub variant_keys: Vec<String>,
    /// The command with which the plan starts the server, if it does.
    pub command: Option<Vec<String>>,
    /// Number of GPUs that hold one copy of the model, as the plan declares.
    pub tensor_parallel: Option<u32>,
    /// Number of copies of the model.
    pub replicas: Option<u32>,
    /// Largest number of concurrent sequences of the server, all copies together, if known.
    pub seats: Option<u32>,
    /// Share of the prompt tokens that a warm cache holds; `None` if the cache is cold or the plan does not declare it.
    pub shared: Option<f64>,
    /// Name of the series that differs only in its cold cache, if there is one.
    pub cold: Option<String>,
    /// Mean input tokens, if all prompts are synthetic and of one length, so that the plan's key can be set.
    pub fixed_input: Option<u32>,
    /// The GPUs of one copy of the model, and the model's parameters for its speed.
    pub hardware: Option<(Machine, Model)>,
    /// The mix of classes; `None` if there are not several.
    pub mix: Option<Mix>,
}

/// A mix of several classes of requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mix {
    /// Its classes.
    pub classes: Vec<MixedClass>,
    /// Its goodput on all servers, in requests per second; `None` if it has no estimate.
    pub goodput: Option<f64>,
}

/// A class of a mix, in it and alone.
#[derive(Debug, Clone, PartialEq)]
pub struct MixedClass {
    /// Name of the class.
    pub name: String,
    /// Its share of the requests of the mix.
    pub share: f64,
    /// Mean input tokens of its requests.
    pub input_tokens: f64,
    /// Goodput of all servers with this class alone, in requests per second; `None` if it was not measured, or has no estimate.
    pub alone: Option<f64>,
}

impl Curve {
    /// Returns the number of copies of the model that share the load: those whose counters are read, or those that the plan
    /// declares if they are more, as behind a load balancer.
    pub fn copies(&self) -> u32 {
        self.settings.copies().max(self.replicas.unwrap_or(1))
    }
}

/// Failures of one kind in one step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepFailures {
    /// Number of the step.
    pub step: u32,
    /// Name of the kind: `http-status`, `timeout`.
    pub kind: String,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Number of failures.
    pub count: u64,
}

/// A limit of the client that a step reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnLimit {
    /// Number of the step.
    pub step: u32,
    /// The limit, with the excess.
    pub fault: OwnFault,
}

/// Median TTFT of prompts of one length, or of about one length, with one request at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthPoint {
    /// Identity of the deployment.
    pub deployment: String,
    /// Number of the step.
    pub step: u32,
    /// Mean tokens that had to be read: without those from the prefix cache, if known.
    pub tokens: f64,
    /// Median TTFT, in milliseconds.
    pub ttft_ms: f64,
    /// Number of requests.
    pub n: u64,
}
