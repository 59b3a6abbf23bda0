//! What a diagnosis takes besides the steps.

use super::flags::Flags;
use crate::roofline::{Machine, Model};
use goodput_core::caveat::OwnFault;

/// What is known of a run besides its steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Every curve that is looked into.
    pub curves: Vec<Curve>,
    /// In which steps the client reached a limit of its own.
    pub own: Vec<OwnLimit>,
    /// TTFT by the length of prompts, one request at a time.
    pub lengths: Vec<LengthPoint>,
    /// Another tool measured the run.
    pub imported: bool,
    /// The command that measures the plan again, in the run folder.
    pub again: String,
}

/// What is known of a curve: of the steps of a series, and the answer that they have for one tier of the SLO.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// Its series.
    pub series: String,
    /// The step that is looked into: the lowest that misses the limit, or the highest that the server could take.
    pub step: u32,
    /// The limit that is missed there, or that binds: `ttft.p99`, `stability`; `None` where none is.
    pub limit: Option<String>,
    /// Where nothing was limited and a question was asked (a row of a matrix), what it was about: `ttft`.
    pub question: Option<String>,
    /// What was served, and on what: curves that are alike in this may be read together.
    pub deployment: String,
    /// What starts the server.
    pub flags: Option<Flags>,
    /// The GPU that the plan declares.
    pub gpu: Option<String>,
    /// How many GPUs hold one copy of the model, as the plan declares.
    pub tensor_parallel: Option<u32>,
    /// How many copies there are.
    pub replicas: Option<u32>,
    /// The most sequences that the server takes at a time, all copies together, where that is known.
    pub seats: Option<u32>,
    /// The share of the prompt tokens that a warm cache has; `None` where the cache is cold or the plan does not tell.
    pub shared: Option<f64>,
    /// The series that is the same but for a cold cache, where there is one.
    pub cold: Option<String>,
    /// Mean input tokens, where all prompts are synthetic and of one length: the key in the plan can then be set.
    pub fixed_input: Option<u32>,
    /// What the model's speed follows from, and the GPUs of one copy of it.
    pub hardware: Option<(Machine, Model)>,
}

/// A limit of the client's own that a step reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnLimit {
    /// The step.
    pub step: u32,
    /// The limit, and by how much it was exceeded.
    pub fault: OwnFault,
}

/// Median TTFT of prompts of one length, or of about one length, with one request at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthPoint {
    /// What was served, and on what.
    pub deployment: String,
    /// The step.
    pub step: u32,
    /// Mean tokens that had to be read: without those from the prefix cache, where that is known.
    pub tokens: f64,
    /// Median TTFT.
    pub ttft_ms: f64,
    /// Requests.
    pub n: u64,
}
