//! The answer of a sweep, and its form in files.

use super::change::Change;
pub use super::conclusion::{AnswerLevel, Conclusion, Located, Status, Undecided};
use super::reason::Reason;
use crate::stats::step::Verdict;
use goodput_core::level::Control;
use serde::{Deserialize, Serialize};

/// The method by which an answer was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "AnswerBasis")]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(from = "Fields", into = "Fields")]
pub struct Goodput {
    /// Conclusion of the sweep, with its figures.
    pub conclusion: Conclusion,
    /// The levels that the verdicts of single steps decide.
    pub bracket: Bracket,
    /// The limit that binds at `failed`; `errors` if failed requests make up at least half of its misses.
    pub binding: Option<String>,
    /// Quality of the support that the steps give the answer.
    pub support: Support,
    /// The evidence the answer rests on, and why the search ended.
    pub reason: Reason,
    /// Method by which the conclusion was reached; the bracket always holds verdicts of single levels.
    pub basis: Basis,
}

/// The highest level shown to meet and the lowest shown to fail.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bracket {
    /// Highest level shown to meet, below the lowest shown to fail.
    pub met: Option<f64>,
    /// Lowest level shown to fail.
    pub failed: Option<f64>,
}

impl Goodput {
    /// Returns the kind of the conclusion.
    pub const fn status(&self) -> Status {
        match self.conclusion {
            Conclusion::Found(_) => Status::Found,
            Conclusion::None => Status::None,
            Conclusion::NotReached { .. } => Status::NotReached,
            Conclusion::Undecided(_) => Status::Undecided,
            Conclusion::Invalid { .. } => Status::Invalid,
        }
    }

    /// Returns the level that the answer states.
    pub fn rate(&self) -> Option<f64> {
        self.conclusion.level().map(|at| at.level)
    }

    /// Returns the completed requests per second at the rate.
    pub fn throughput(&self) -> Option<f64> {
        self.conclusion.level()?.throughput
    }

    /// Returns the rate per GPU, if the plan declares GPUs.
    pub fn per_gpu(&self) -> Option<f64> {
        self.conclusion.level()?.per_gpu
    }

    /// Returns the 90 % interval of the boundary; it begins at 0 if no level is shown to be safe. `None` if no honest
    /// interval can be given.
    pub fn interval90(&self) -> Option<[f64; 2]> {
        self.interval().map(|(ends, _)| ends)
    }

    /// Returns the seconds of further budget that would about halve the interval.
    pub fn halve_s(&self) -> Option<f64> {
        self.interval()?.1
    }

    const fn interval(&self) -> Option<([f64; 2], Option<f64>)> {
        match self.conclusion {
            Conclusion::Found(Located::Estimate { interval, halve_s, .. }) => Some((interval, halve_s)),
            Conclusion::Undecided(Undecided::Below { high, halve_s, .. }) => Some(([0.0, high], halve_s)),
            Conclusion::Found(Located::Bracket(_))
            | Conclusion::None
            | Conclusion::NotReached { .. }
            | Conclusion::Undecided(Undecided::Open | Undecided::Safe(_) | Undecided::Contradicted(_))
            | Conclusion::Invalid { .. } => None,
        }
    }

    /// Returns the level that is safe at the plan's confidence; `None` if the evidence does not support one.
    pub const fn safe_rate(&self) -> Option<f64> {
        match self.conclusion {
            Conclusion::Found(Located::Estimate { safe, .. })
            | Conclusion::Undecided(Undecided::Safe(safe)) => Some(safe),
            Conclusion::NotReached { safe, .. } | Conclusion::Invalid { safe } => safe,
            Conclusion::Found(Located::Bracket(_))
            | Conclusion::None
            | Conclusion::Undecided(Undecided::Open | Undecided::Below { .. } | Undecided::Contradicted(_)) => {
                None
            }
        }
    }

    /// Returns the level to run at: the safe one, or without a published interval the highest shown to meet.
    pub fn safe_or_met(&self) -> Option<f64> {
        self.safe_rate().or_else(|| self.bracket.met.filter(|_| self.interval90().is_none()))
    }
}

/// The highest level at which every limit is met, and the evidence for it.
// A flat object, whatever the conclusion of the `Goodput`. serde cannot make it from the types, which hold a value only where the
// conclusion has one.
#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Goodput")]
struct Fields {
    /// Conclusion of the sweep.
    status: Status,
    /// Level that the answer states: the median estimate of the boundary; if `basis` is `bracket`, the highest level shown to meet.
    rate: Option<f64>,
    /// 90 % interval of the boundary; it begins at 0 if no level is shown to be safe. Null if `basis` is `bracket`.
    interval90: Option<[f64; 2]>,
    /// Level that is safe at the plan's confidence; null if the evidence supports none.
    safe_rate: Option<f64>,
    /// Highest level shown to meet, below the lowest shown to fail.
    met: Option<f64>,
    /// Lowest level shown to fail.
    failed: Option<f64>,
    /// The limit that binds at `failed`; `errors` if failed requests make up at least half of its misses.
    binding: Option<String>,
    /// Completed requests per second at `rate`.
    #[serde(default)]
    throughput: Option<f64>,
    /// Seconds of further budget that would about halve the interval.
    #[serde(default)]
    halve_s: Option<f64>,
    /// `rate` divided by the number of GPUs; null if the plan does not declare it.
    per_gpu: Option<f64>,
    /// How well the steps support the answer.
    #[serde(default)]
    support: Support,
    /// The evidence that the answer rests on, and why the search ended.
    reason: Reason,
    /// Method by which the answer was reached.
    #[serde(default)]
    basis: Basis,
}

impl From<Goodput> for Fields {
    fn from(g: Goodput) -> Self {
        Self {
            status: g.status(),
            rate: g.rate(),
            interval90: g.interval90(),
            safe_rate: g.safe_rate(),
            met: g.bracket.met,
            failed: g.bracket.failed,
            throughput: g.throughput(),
            halve_s: g.halve_s(),
            per_gpu: g.per_gpu(),
            binding: g.binding,
            support: g.support,
            reason: g.reason,
            basis: g.basis,
        }
    }
}

impl From<Fields> for Goodput {
    fn from(f: Fields) -> Self {
        let level = f.rate.map(|level| AnswerLevel { level, throughput: f.throughput, per_gpu: f.per_gpu });
        Self {
            conclusion: Conclusion::nearest(f.status, level, f.interval90, f.safe_rate, f.halve_s),
            bracket: Bracket { met: f.met, failed: f.failed },
            binding: f.binding,
            support: f.support,
            reason: f.reason,
            basis: f.basis,
        }
    }
}

/// Quality of the support that the steps of an adaptive search give its answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub struct Support {
    /// Probability that the curve of the binding limit is flat at the boundary: that its misses grow with less than the
    /// 1.5th power of the level. On flat curves the safe rate is too high more often than its confidence says.
    pub flat: Option<f64>,
    /// The step that held the safe rate at the end of the budget.
    pub held: Option<HoldingStep>,
    /// The last change of the server that the steps show; the answer rests on the steps after it.
    pub change: Option<Change>,
    /// Factor √φ by which the interval is widened, if the steps scatter more about the fitted curve than chance within
    /// them explains; `None` if they do not.
    pub scatter: Option<f64>,
    /// The reason why the interval is a bracket of decided steps, if it is one.
    pub misfit: Option<Misfit>,
}

/// A step that holds the safe rate at the end of the budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HoldingStep {
    /// The level.
    pub level: f64,
    /// Length of the measured window, in seconds.
    pub seconds: f64,
    /// Verdict on the tier of the answer.
    pub verdict: Verdict,
    /// Misses of the limit whose share of misses is the highest relative to the share it allows.
    pub misses: u64,
    /// Number of requests that count for that limit.
    pub n: u64,
}

/// The reason why the fitted family of curves does not describe the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Misfit {
    /// The fitted median was below a level shown to meet.
    BelowMet,
    /// The fitted safe rate, or the median, was above a level shown to fail.
    AboveFailed,
}

/// The evidence for a knee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::answered;
    use crate::search::reason::Ended;
    use serde_json::{Value, json};

    const LEVEL: AnswerLevel = AnswerLevel { level: 9.5, throughput: Some(9.0), per_gpu: Some(4.75) };
    const FIGURES: [&str; 7] =
        ["status", "rate", "interval90", "safe_rate", "throughput", "halve_s", "per_gpu"];

    fn conclusions() -> Vec<Conclusion> {
        let safes = [None, Some(8.0)];
        let halves = [None, Some(600.0)];
        let interval = [8.5, 11.0];
        let mut all = vec![
            Conclusion::Found(Located::Bracket(LEVEL)),
            Conclusion::Found(Located::Bracket(AnswerLevel::new(9.5))),
            Conclusion::None,
            Conclusion::OPEN,
            Conclusion::Undecided(Undecided::Safe(8.0)),
            Conclusion::Undecided(Undecided::Contradicted(LEVEL)),
        ];
        all.extend(safes.map(|safe| Conclusion::NotReached { highest: LEVEL, safe }));
        all.extend(safes.map(|safe| Conclusion::Invalid { safe }));
        for halve_s in halves {
            all.push(Conclusion::Found(Located::Estimate { median: LEVEL, interval, safe: 8.0, halve_s }));
            let below = |median| Conclusion::Undecided(Undecided::Below { median, high: 11.0, halve_s });
            all.extend([None, Some(LEVEL)].map(below));
        }
        all
    }

    /// Returns the figures of a conclusion in files.
    fn figures(conclusion: Conclusion) -> [Value; 7] {
        let value = serde_json::to_value(answered(conclusion, None, None)).unwrap();
        FIGURES.map(|name| value[name].clone())
    }

    #[test]
    fn every_conclusion_is_read_as_it_was_written() {
        for conclusion in conclusions() {
            let answer = answered(conclusion, Some(8.0), Some(12.0));
            let text = serde_json::to_string(&answer).unwrap();
            assert_eq!(serde_json::from_str::<Goodput>(&text).unwrap(), answer, "{text}");
        }
    }

    /// Rows: the conclusion, and its figures in files: status, rate, interval, safe rate, throughput, time to halve the
    /// interval, and rate per GPU.
    #[test]
    fn files_have_a_flat_object() {
        let estimate =
            Located::Estimate { median: LEVEL, interval: [8.5, 11.0], safe: 8.0, halve_s: Some(600.0) };
        let below = Undecided::Below { median: Some(LEVEL), high: 11.0, halve_s: None };
        for (conclusion, figures_in_files) in [
            (Conclusion::Found(estimate), json!(["found", 9.5, [8.5, 11.0], 8.0, 9.0, 600.0, 4.75])),
            (Conclusion::Found(Located::Bracket(LEVEL)), json!(["found", 9.5, null, null, 9.0, null, 4.75])),
            (Conclusion::None, json!(["none", null, null, null, null, null, null])),
            (
                Conclusion::NotReached { highest: LEVEL, safe: Some(8.0) },
                json!(["not-reached", 9.5, null, 8.0, 9.0, null, 4.75]),
            ),
            (Conclusion::OPEN, json!(["undecided", null, null, null, null, null, null])),
            (
                Conclusion::Undecided(Undecided::Safe(8.0)),
                json!(["undecided", null, null, 8.0, null, null, null]),
            ),
            (Conclusion::Undecided(below), json!(["undecided", 9.5, [0.0, 11.0], null, 9.0, null, 4.75])),
            (
                Conclusion::Undecided(Undecided::Contradicted(LEVEL)),
                json!(["undecided", 9.5, null, null, 9.0, null, 4.75]),
            ),
            (Conclusion::Invalid { safe: Some(8.0) }, json!(["invalid", null, null, 8.0, null, null, null])),
        ] {
            assert_eq!(json!(figures(conclusion)), figures_in_files, "{conclusion:?}");
        }
        let names = serde_json::to_string(&answered(Conclusion::None, Some(1.0), None)).unwrap();
        let head = r#"{"status":"none","rate":null,"interval90":null,"safe_rate":null,"met":1.0,"failed":null,"binding":null,"#;
        assert!(names.starts_with(head), "the order of the fields stays: {names}");
    }

    /// Every combination of figures is read, and what was read is written and read again as it is.
    #[test]
    fn files_that_contradict_themselves_read_as_the_nearest_conclusion() {
        let optional = |value: Value| [Value::Null, value];
        for status in ["found", "none", "not-reached", "undecided", "invalid"] {
            for rate in optional(json!(9.5)) {
                for interval in optional(json!([8.5, 11.0])) {
                    for safe in optional(json!(8.0)) {
                        let file = json!({
                            "status": status, "rate": rate, "interval90": interval, "safe_rate": safe,
                            "met": null, "failed": null, "binding": null, "per_gpu": 2.0, "halve_s": 600.0,
                            "reason": { "evidence": [], "ended": Ended::NotSearched },
                        });
                        let g: Goodput = serde_json::from_value(file.clone()).unwrap();
                        assert!(g.status().name() == status || g.status() == Status::Undecided, "{file}");
                        assert!(g.safe_rate().is_none_or(|s| json!(s) == safe), "{file}: nothing is made up");
                        assert!(g.rate().is_none_or(|r| json!(r) == rate), "{file}");
                        let again = serde_json::from_value(json!(g)).unwrap();
                        assert_eq!(g, again, "{file}");
                    }
                }
            }
        }
    }
}
