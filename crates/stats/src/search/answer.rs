//! The answer of a sweep.

use super::change::Change;
use super::reason::Reason;
use goodput_core::level::Control;
use serde::{Deserialize, Serialize};

/// The kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// A level is safe and the boundary has an interval; for listed levels, one is shown to meet below one shown to
    /// fail.
    Found,
    /// No level that the steps can judge meets the SLO, or every request failed; for listed levels, the lowest is shown
    /// to fail, and not by overload.
    None,
    /// The highest level meets: that of the plan, or for listed levels the highest measured one.
    NotReached,
    /// The steps do not show enough for an answer.
    Undecided,
    /// The client was the limit.
    Invalid,
}

impl Status {
    /// Returns the name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::None => "none",
            Self::NotReached => "not-reached",
            Self::Undecided => "undecided",
            Self::Invalid => "invalid",
        }
    }
}

/// The method by which an answer was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A curve fitted to steps that the adaptive search placed around the boundary.
    Search,
    /// A curve fitted to levels that were chosen beforehand: a list, a ramp, or another tool's.
    Fit,
    /// The verdicts of single levels: the highest shown to meet and the lowest shown to fail.
    #[default]
    Bracket,
}

/// The highest level at which every limit is met, and the evidence for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// Kind of the answer.
    pub status: Status,
    /// The level itself: the median of the boundary's posterior. `met` if there are only verdicts of single levels, and
    /// the middle of the bracket of decided steps if the fitted curve contradicts a step that fails.
    pub rate: Option<f64>,
    /// 90 % interval of the boundary; it begins at 0 if no level is shown to be safe. `None` if no honest interval can
    /// be given.
    pub interval90: Option<[f64; 2]>,
    /// The level that is safe at the plan's confidence; `None` if the evidence does not support one.
    pub safe_rate: Option<f64>,
    /// Highest level shown to meet, below the lowest shown to fail.
    pub met: Option<f64>,
    /// Lowest level shown to fail.
    pub failed: Option<f64>,
    /// The limit that binds at `failed`; `errors` if failed requests make up at least half of its misses.
    pub binding: Option<String>,
    /// Completed requests per second at `rate`: for a closed loop, the throughput of its workers; else the rate itself.
    #[serde(default)]
    pub throughput: Option<f64>,
    /// Seconds of further budget that would about halve the interval.
    #[serde(default)]
    pub halve_s: Option<f64>,
    /// `rate` per GPU, if the plan declares GPUs.
    pub per_gpu: Option<f64>,
    /// Quality of the support that the steps give the answer.
    #[serde(default)]
    pub support: Support,
    /// The evidence the answer rests on, and why the search ended.
    pub reason: Reason,
    /// Method by which `rate`, `interval90` and `safe_rate` were reached; `met` and `failed` are always verdicts of
    /// single levels.
    #[serde(default)]
    pub basis: Basis,
}

/// Quality of the support that the steps of an adaptive search give its answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Support {
    /// Probability that the curve of the binding limit is flat at the boundary: that its misses grow with less than the
    /// 1.5th power of the level. On flat curves the safe rate is too high more often than its confidence says.
    pub flat: Option<f64>,
    /// The step that held the safe rate at the end of the budget.
    pub held: Option<Held>,
    /// The last change of the server that the steps show; the answer rests on the steps after it.
    pub change: Option<Change>,
    /// Factor √φ by which the interval is widened, if the steps scatter more about the fitted curve than chance within
    /// them explains; `None` if they do not.
    pub scatter: Option<f64>,
    /// The reason why the interval is a bracket of decided steps, if it is one.
    pub misfit: Option<Misfit>,
}

/// A step that holds the safe rate at the end of the budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The level.
    pub level: f64,
    /// Length of the measured window, in seconds.
    pub seconds: f64,
    /// `meets`, `fails`, `undecided` or `invalid`.
    pub verdict: String,
    /// Misses of the limit whose share of misses is the highest relative to the share it allows.
    pub misses: u64,
    /// Number of requests that count for that limit.
    pub n: u64,
}

/// The reason why the fitted family of curves does not describe the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misfit {
    /// The fitted median was below a level shown to meet.
    BelowMet,
    /// The fitted safe rate, or the median, was above a level shown to fail.
    AboveFailed,
}

/// The evidence for a knee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KneeBasis {
    /// Throughput stops following the load there: two lines fit it significantly better than one.
    Throughput,
    /// The backlog grows at the upper end of the interval and does not at its lower end, while throughput shows no break.
    Backlog,
    /// Latency begins to grow faster than the load there: two lines fit it significantly better than one.
    Latency,
    /// Mark of the Kneedle method, which is not a test.
    #[default]
    Kneedle,
}

impl KneeBasis {
    /// Returns true if a statistical test shows the knee.
    pub const fn is_tested(self) -> bool {
        !matches!(self, Self::Kneedle)
    }
}

/// The level at which more load stops buying throughput and starts buying latency. Never the answer for an SLO.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Offered level at the knee.
    pub rate: f64,
    /// Achieved requests per second there.
    pub throughput: f64,
    /// 90 % interval of `rate`; `None` if the knee was not tested.
    #[serde(default)]
    pub interval90: Option<[f64; 2]>,
    /// Evidence for the knee.
    #[serde(default)]
    pub basis: KneeBasis,
}

/// The answer for one series, tier and class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Name of the series.
    pub series: String,
    /// Tier of the SLO.
    pub tier: String,
    /// Class of requests; `all` if there is only one.
    pub class: String,
    /// Quantity that the levels count.
    pub control: Control,
    /// Goodput with each limit judged at its own percentile.
    pub goodput: Goodput,
    /// Goodput by the joint criterion: the share of requests that meet all limits at once is at least the target.
    pub joint_goodput: Goodput,
    /// The knee of the curve, if one was found.
    pub knee: Option<Knee>,
}
