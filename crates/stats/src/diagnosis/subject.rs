//! The input of a rule: a step of a curve, with an unloaded one for comparison.

use super::facts::{Curve, Facts};
use crate::stats::step::{Quantiles, Step, StepKind, Verdict};
use goodput_core::level::Control;
use goodput_core::slo::{AnswerPart, Metric, split_limit_key};

/// Steps with up to this multiple of the examined step's load are also examined by some rules. What only more load fills
/// is an effect of that load.
const NO_MORE: f64 = 1.02;

/// Least number of answers of a step for a median: that of six lies between the least and the largest of them in 97 % of
/// all cases (1 − 2 / 2⁶), and a latency of one request alone hardly scatters. More are rare where answers are long.
pub(super) const LEAST: u64 = 6;

/// A step of a curve, with its reference.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) all: &'a [Step],
    pub(super) facts: &'a Facts,
    pub(super) curve: &'a Curve,
    /// The examined step.
    pub(super) at: &'a Step,
    /// The reference: one request at a time, or else far less load; `None` if there is neither.
    pub(super) alone: Option<&'a Step>,
}

impl<'a> Subject<'a> {
    /// Returns the examined step of a curve; `None` if it is not among the steps.
    pub(super) fn of(all: &'a [Step], facts: &'a Facts, curve: &'a Curve) -> Option<Self> {
        let at = all.iter().find(|s| s.series == curve.series && s.step == curve.step)?;
        let mut subject = Self { all, facts, curve, at, alone: None };
        subject.alone = subject.reference();
        Some(subject)
    }

    /// Returns the steps of the series.
    pub(super) fn own(&self) -> impl Iterator<Item = &'a Step> + use<'a> {
        let series = &self.curve.series;
        self.all.iter().filter(move |s| s.series == *series)
    }

    /// Returns the reference, one request at a time: the baseline or a closed loop of one; else the lightest step with
    /// at most half the load.
    fn reference(&self) -> Option<&'a Step> {
        let (own, at) = (|| self.own().filter(|s| told(s)), self.at);
        let one = |s: &&Step| is_one(s);
        let lighter = |s: &&Step| {
            s.level.control == at.level.control
                && s.level.value <= 0.5 * at.level.value
                && !s.kind.is_auxiliary()
                && !s.overloaded()
        };
        own()
            .filter(one)
            .max_by_key(|s| s.due_n)
            .or_else(|| own().filter(lighter).min_by(|a, b| a.level.value.total_cmp(&b.level.value)))
    }

    /// Returns the lightest step under load that the server could take, with at most two thirds of this step's load;
    /// else the reference.
    pub(super) fn low(&self) -> Option<&'a Step> {
        let at = self.at;
        let lighter = |s: &&Step| {
            told(s)
                && !s.kind.is_outside_search()
                && s.level.control == at.level.control
                && s.level.value <= at.level.value / 1.5
                && !s.overloaded()
        };
        let by_level = |a: &&Step, b: &&Step| a.level.value.total_cmp(&b.level.value);
        self.own().filter(lighter).min_by(by_level).or(self.alone)
    }

    /// Returns the other steps of the curve with about as much load or less.
    pub(super) fn others(&self) -> Vec<&'a Step> {
        let at = self.at;
        let near = |s: &&Step| {
            s.step != at.step
                && !s.kind.is_outside_search()
                && s.level.control == at.level.control
                && s.level.value <= NO_MORE * at.level.value
        };
        self.own().filter(near).collect()
    }

    /// Returns the metric that is limited or asked about: TTFT or TPOT. For e2e, the part whose tail load has lengthened
    /// more; if load has added little, the longer part.
    pub(super) fn focus(&self) -> Option<Metric> {
        let key = self.curve.limit.as_deref().or(self.curve.question.as_deref())?;
        match split_limit_key(key).1 {
            "stability" => Some(Metric::Ttft),
            limit => match Metric::of_limit(limit).or_else(|| Metric::from_name(limit))?.part() {
                part @ (AnswerPart::First | AnswerPart::Pace) => Some(part.metric()),
                AnswerPart::Whole => Some(self.longer_part()),
            },
        }
    }

    fn longer_part(&self) -> Metric {
        // Its tail is limited, and so the tails of its parts decide.
        let of = |s: &Step| {
            let tail = |metric| self.tail(s, metric).map(|(tail, _)| tail).or(self.quantiles(s, metric).p50);
            let (first, token) = (tail(Metric::Ttft)?, tail(Metric::Tpot));
            let tokens = (s.output_tokens_mean.unwrap_or(1.0) - 1.0).max(0.0);
            let rest = match token {
                Some(token) => token * tokens,
                None => (tail(Metric::E2e)? - first).max(0.0),
            };
            Some((first, rest))
        };
        let Some((first, rest)) = of(self.at) else { return Metric::Ttft };
        let (first_alone, rest_alone) = self.alone.and_then(of).unwrap_or_default();
        let (first_more, rest_more) = (first - first_alone, rest - rest_alone);
        // If load has added little, the whole times are compared.
        let added = first_more + rest_more > 0.1 * (first + rest);
        let first_longer = if added { first_more > rest_more } else { first > rest };
        if first_longer { Metric::Ttft } else { Metric::Tpot }
    }

    /// Returns the number of engines whose counters are summed in [`Step::server`].
    pub(super) fn counted_copies(&self) -> f64 {
        f64::from(self.curve.settings.copies())
    }

    /// Returns the number of copies of the model that share the load: those whose counters are read, or those that the plan
    /// declares if they are more, as behind a load balancer.
    pub(super) fn copies(&self) -> f64 {
        f64::from(self.curve.settings.copies().max(self.curve.replicas.unwrap_or(1)))
    }

    /// Returns the strictest limit on TPOT or ITL of the examined step, in milliseconds; `None` if neither is limited.
    pub(super) fn tpot_limit(&self) -> Option<f64> {
        self.limits_of(&[Metric::Tpot, Metric::Itl]).reduce(f64::min)
    }

    /// Returns true if the time to the first token, or that of the whole answer, is limited.
    pub(super) fn first_is_limited(&self) -> bool {
        self.limits_of(&[Metric::Ttft, Metric::Ttfc, Metric::E2e]).next().is_some()
    }

    fn limits_of<'b>(&'b self, metrics: &'b [Metric]) -> impl Iterator<Item = f64> + use<'b, 'a> {
        let of = |key: &str| Metric::of_limit(key).is_some_and(|m| metrics.contains(&m));
        self.at.limits.iter().filter(move |row| of(&row.limit)).filter_map(|row| row.limit_ms)
    }

    /// Returns the percentiles of a metric over the requests that the limit judges.
    pub(super) fn quantiles(&self, step: &Step, metric: Metric) -> Quantiles {
        let class =
            self.curve.limit.as_deref().map_or(goodput_core::slo::ALL, |limit| split_limit_key(limit).0);
        let own = step.quantiles_of(class, metric);
        if own.n > 0 { own } else { step.quantiles(metric) }
    }

    /// Returns the value and the name of the limited percentile, or of p99.
    pub(super) fn tail(&self, step: &Step, metric: Metric) -> Option<(f64, &'static str)> {
        let q = self.quantiles(step, metric);
        let named = self
            .curve
            .limit
            .as_deref()
            .and_then(|limit| split_limit_key(limit).1.split_once('.'))
            .map(|(_, p)| p);
        match named {
            Some("p90") => q.p90.map(|v| (v, "p90")),
            Some("p95") => q.p95.map(|v| (v, "p95")),
            _ => q.p99.map(|v| (v, "p99")),
        }
    }

    /// Returns true if the step is of an open loop. In a closed loop the offered load follows the completed one.
    pub(super) fn is_open(&self) -> bool {
        self.at.level.control != Control::Concurrency
    }
}

/// Returns true if a step had one request at a time.
pub fn is_one(s: &Step) -> bool {
    let closed = s.level.control == Control::Concurrency && s.level.value < 1.5;
    s.kind == StepKind::Baseline || closed
}

/// Returns true if a step can be evaluated: it has enough answers, and the client was not the limit.
pub(super) fn told(s: &Step) -> bool {
    s.completed >= LEAST && s.verdict != Verdict::Invalid
}
