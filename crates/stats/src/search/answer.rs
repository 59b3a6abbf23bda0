//! What a sweep answers.

use super::change::Change;
use super::reason::Reason;
use goodput_core::level::Control;
use serde::{Deserialize, Serialize};

/// What kind of answer was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// There is a level that is safe, and an interval for the boundary; where levels are listed, one shown to meet below one shown to
    /// fail.
    Found,
    /// No level of which the steps can speak meets the SLO; where levels are listed, the lowest is shown to fail, and not by overload. Or
    /// every request failed there.
    None,
    /// The highest level meets: that of the plan, or where levels are listed, the highest measured one.
    NotReached,
    /// The steps do not show enough.
    Undecided,
    /// The client was the limit.
    Invalid,
}

impl Status {
    /// The name used in files.
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

/// How an answer was reached.
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
    /// What kind of answer this is.
    pub status: Status,
    /// The level itself: the median of where the boundary may lie; `met` where only verdicts of single levels tell, and the middle of the
    /// bracket of decided steps where the fitted curve contradicts a step that fails.
    pub rate: Option<f64>,
    /// 90 % interval of the boundary; it begins at 0 where no level is shown to be safe. `None` where none is honest.
    pub interval90: Option<[f64; 2]>,
    /// The level that is safe at the plan's confidence; `None` where the evidence carries none.
    pub safe_rate: Option<f64>,
    /// Highest level shown to meet, below the lowest shown to fail.
    pub met: Option<f64>,
    /// Lowest level shown to fail.
    pub failed: Option<f64>,
    /// The limit that binds at `failed`; `errors` where failed requests make up at least half of its misses.
    pub binding: Option<String>,
    /// Completed requests per second at `rate`: for a closed loop, what its workers get; else the rate itself.
    #[serde(default)]
    pub throughput: Option<f64>,
    /// Seconds of further budget that would about halve the interval.
    #[serde(default)]
    pub halve_s: Option<f64>,
    /// `rate` per GPU, where the plan declares them.
    pub per_gpu: Option<f64>,
    /// How far the steps support the answer.
    #[serde(default)]
    pub support: Support,
    /// The evidence the answer rests on, and why the search ended.
    pub reason: Reason,
    /// How `rate`, `interval90` and `safe_rate` were reached; `met` and `failed` are verdicts of single levels always.
    #[serde(default)]
    pub basis: Basis,
}

/// How far the steps of an adaptive search support its answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Support {
    /// Chance that the curve of the limit that binds is flat at the boundary: that its misses grow with less than the 1.5th power of the
    /// level. On flat curves the safe rate is too high more often than its confidence says.
    pub flat: Option<f64>,
    /// The safe rate as it was held at the end of the budget.
    pub held: Option<Held>,
    /// The last change of the server that shows; the answer rests on the steps after it.
    pub change: Option<Change>,
    /// How many times as wide the interval is for steps that scatter more about the fitted curve than chance within them explains: √φ; `None`
    /// where they do not.
    pub scatter: Option<f64>,
    /// Why the interval is a bracket of decided steps, if it is.
    pub misfit: Option<Misfit>,
}

/// A step at the safe rate, at the end of the budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The level.
    pub level: f64,
    /// Seconds of the measured window.
    pub seconds: f64,
    /// `meets`, `fails`, `undecided` or `invalid`.
    pub verdict: String,
    /// Misses of the limit that was missed most, over the share that it allows.
    pub misses: u64,
    /// Requests that count for that limit.
    pub n: u64,
}

/// Why the fitted family of curves does not describe the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misfit {
    /// The fitted median lay below a level that is shown to meet.
    BelowMet,
    /// The fitted safe rate, or the median, lay above a level that is shown to fail.
    AboveFailed,
}

/// The evidence that a knee rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KneeBasis {
    /// Throughput stops following the load there: two lines fit it significantly better than one.
    Throughput,
    /// The backlog grows at the upper end of the interval and does not at its lower end, while throughput shows no break.
    Backlog,
    /// Latency begins to grow faster than the load there: two lines fit it significantly better than one.
    Latency,
    /// Kneedle's mark, which is no test.
    #[default]
    Kneedle,
}

impl KneeBasis {
    /// Returns true where a test shows the knee.
    pub const fn is_tested(self) -> bool {
        !matches!(self, Self::Kneedle)
    }
}

/// Where more load stops buying throughput and starts buying latency; never the SLO answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Offered level at the knee.
    pub rate: f64,
    /// Achieved requests per second there.
    pub throughput: f64,
    /// 90 % interval of `rate`; `None` where the knee is not tested.
    #[serde(default)]
    pub interval90: Option<[f64; 2]>,
    /// What shows it.
    #[serde(default)]
    pub basis: KneeBasis,
}

/// The answer for one series, tier and class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Series.
    pub series: String,
    /// Tier of the SLO.
    pub tier: String,
    /// Class of requests; `all` where there is only one.
    pub class: String,
    /// What the levels are.
    pub control: Control,
    /// Each limit at its own percentile.
    pub goodput: Goodput,
    /// The share of requests that meet all limits together is at least the target.
    pub joint_goodput: Goodput,
    /// The knee of the curve.
    pub knee: Option<Knee>,
}
