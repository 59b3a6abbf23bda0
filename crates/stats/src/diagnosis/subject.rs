//! The input of a rule: a step of a curve, with an unloaded one for comparison.

use super::facts::{Curve, Facts};
use super::figure::{LongerBy, Source};
use crate::stats::step::{LimitRow, Quantiles, Step, StepKind, Verdict};
use goodput_core::level::Control;
use goodput_core::slo::{ALL, AnswerPart, Metric, split_limit_key};
use std::cmp::Reverse;

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
        // Of several with as many requests the first: a later one may follow an overload.
        own()
            .filter(one)
            .max_by_key(|s| (s.due_n, Reverse(s.step)))
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

    /// See [`Curve::copies`].
    pub(super) fn copies(&self) -> f64 {
        f64::from(self.curve.copies())
    }

    /// Returns the limit on TPOT or ITL that the examined step has to keep, in milliseconds; `None` if neither is limited.
    pub(super) fn tpot_limit(&self) -> Option<f64> {
        self.token_limit().map(|(_, limit_ms)| limit_ms)
    }

    /// Returns the percentile of TPOT or ITL that this limit judges, at a step; of TPOT without a limit.
    pub(super) fn token_tail(&self, step: &Step) -> Option<(f64, &'static str)> {
        match self.token_limit() {
            Some((row, _)) => limited(step, row),
            None => self.tail(step, Metric::Tpot),
        }
    }

    /// Returns the median TPOT of the requests that this limit judges, at a step.
    pub(super) fn token_median(&self, step: &Step) -> Option<f64> {
        match self.token_limit() {
            Some((row, _)) => judged(step, &row.class, Metric::Tpot).p50,
            None => self.quantiles(step, Metric::Tpot).p50,
        }
    }

    /// Returns the row of the limit on TPOT or ITL that is examined, or else of the one that the examined step comes nearest
    /// to missing, with the limit in milliseconds.
    fn token_limit(&self) -> Option<(&'a LimitRow, f64)> {
        let all: Vec<(&LimitRow, f64)> = self.limits_of(&[Metric::Tpot, Metric::Itl]).collect();
        let examined = |row: &LimitRow| self.curve.limit.as_deref().is_some_and(|key| row.is(key));
        let used = |(row, limit_ms): &(&LimitRow, f64)| {
            limited(self.at, row).map_or(0.0, |(tail, _)| tail / limit_ms.max(f64::MIN_POSITIVE))
        };
        let nearest = |a: &(&LimitRow, f64), b: &(&LimitRow, f64)| {
            used(a).total_cmp(&used(b)).then(b.1.total_cmp(&a.1))
        };
        let own = all.iter().copied().find(|(row, _)| examined(row));
        own.or_else(|| all.iter().copied().max_by(nearest))
    }

    /// Returns true if the time to the first token, or that of the whole answer, is limited.
    pub(super) fn first_is_limited(&self) -> bool {
        self.limits_of(&[Metric::Ttft, Metric::Ttfc, Metric::E2e]).next().is_some()
    }

    /// Returns the class of the requests that the examined limit judges.
    fn class(&self) -> &'a str {
        self.curve.limit.as_deref().map_or(ALL, |limit| split_limit_key(limit).0)
    }

    /// Returns what is missing for a figure that needs this source: unloaded steps with too few requests, or an examined step
    /// whose latencies have no steady value, are not the lack of an unloaded step.
    pub(super) fn missing(&self, source: Source) -> Source {
        if source != Source::UnloadedStep {
            return source;
        }
        if self.alone.is_some_and(is_one) && self.at.stable == Some(false) {
            return Source::SteadyStep { step: self.at.step };
        }
        let unloaded = self.own().filter(|s| is_one(s) && s.verdict != Verdict::Invalid);
        let longest = unloaded.max_by_key(|s| s.completed).filter(|s| s.completed > 0 && !told(s));
        longest.map_or(source, |s| Source::UnloadedRequests {
            requests: s.completed,
            least: LEAST,
            by: if self.own().any(|s| s.kind == StepKind::Refine || s.kind == StepKind::Ramp) {
                LongerBy::Budget
            } else {
                LongerBy::StepLength
            },
        })
    }

    /// Returns the row of the examined limit at the examined step.
    pub(super) fn limit_row(&self) -> Option<&'a LimitRow> {
        let key = self.curve.limit.as_deref()?;
        let tier = self.curve.tier.as_deref();
        self.at.limits.iter().find(|row| row.is(key) && tier.is_none_or(|tier| row.tier == tier))
    }

    /// Returns the limits on these metrics, in milliseconds, that hold in the tier of the examined limit for its requests: for
    /// a limit of a class those of the class and of all requests, for a limit of all requests those of every class.
    fn limits_of<'b>(
        &'b self,
        metrics: &'b [Metric],
    ) -> impl Iterator<Item = (&'a LimitRow, f64)> + use<'b, 'a> {
        let (tier, class) = (self.curve.tier.as_deref(), self.class());
        let of = |key: &str| Metric::of_limit(key).is_some_and(|m| metrics.contains(&m));
        let with = move |row: &&LimitRow| {
            tier.is_none_or(|tier| row.tier == tier)
                && (class == ALL || row.class == ALL || row.class == class)
                && of(&row.limit)
        };
        self.at.limits.iter().filter(with).filter_map(|row| Some((row, row.limit_ms?)))
    }

    /// Returns the percentiles of a metric over the requests that the limit judges.
    pub(super) fn quantiles(&self, step: &Step, metric: Metric) -> Quantiles {
        judged(step, self.class(), metric)
    }

    /// Returns the value and the name of the limited percentile, or of p99.
    pub(super) fn tail(&self, step: &Step, metric: Metric) -> Option<(f64, &'static str)> {
        let limit = self.curve.limit.as_deref().map_or("", |limit| split_limit_key(limit).1);
        limited_percentile(&self.quantiles(step, metric), limit)
    }

    /// Returns the TTFT that a part of it is compared with, in milliseconds, with the percentile: the tail at the examined step, or
    /// its limit where the tail is within that. What is a small part of the limit cannot be why it is missed beyond. The percentile
    /// is `None` for the limit.
    pub(super) fn missed_ttft(&self) -> Option<(f64, Option<&'static str>)> {
        let (tail_ms, percentile) = self.tail(self.at, Metric::Ttft).filter(|(tail, _)| *tail > 0.0)?;
        let of_ttft = |row: &&LimitRow| Metric::of_limit(&row.limit) == Some(Metric::Ttft);
        let limit_ms = self.limit_row().filter(of_ttft).and_then(|row| row.limit_ms);
        match limit_ms.filter(|limit_ms| *limit_ms > tail_ms) {
            Some(limit_ms) => Some((limit_ms, None)),
            None => Some((tail_ms, Some(percentile))),
        }
    }

    /// Returns true if the step is of an open loop. In a closed loop the offered load follows the completed one.
    pub(super) fn is_open(&self) -> bool {
        self.at.level.control != Control::Concurrency
    }
}

/// Returns the percentiles of a metric over the requests of a class, or over all where the step has none of that class.
fn judged(step: &Step, class: &str, metric: Metric) -> Quantiles {
    let own = step.quantiles_of(class, metric);
    if own.n > 0 { own } else { step.quantiles(metric) }
}

/// Returns the value and the name of the percentile that a limit judges at a step.
fn limited(step: &Step, row: &LimitRow) -> Option<(f64, &'static str)> {
    limited_percentile(&judged(step, &row.class, Metric::of_limit(&row.limit)?), &row.limit)
}

/// Returns the value and the name of the percentile that a limit without its class names (`ttft.p90`); of p99 for a limit
/// without a percentile, or with one that steps do not have.
fn limited_percentile(q: &Quantiles, limit: &str) -> Option<(f64, &'static str)> {
    match limit.split_once('.').map(|(_, percentile)| percentile) {
        Some("p50") => q.p50.map(|v| (v, "p50")),
        Some("p90") => q.p90.map(|v| (v, "p90")),
        Some("p95") => q.p95.map(|v| (v, "p95")),
        Some(_) | None => q.p99.map(|v| (v, "p99")),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use std::collections::BTreeMap;

    #[test]
    fn a_limit_names_its_percentile() {
        let q = Quantiles {
            n: 900,
            p50: Some(1.0),
            p90: Some(2.0),
            p95: Some(3.0),
            p99: Some(4.0),
            ..Quantiles::default()
        };
        for (limit, value, name) in [
            ("ttft.p50", 1.0, "p50"),
            ("ttft.p90", 2.0, "p90"),
            ("tpot.p95", 3.0, "p95"),
            ("ttft.p99", 4.0, "p99"),
            ("ttft.p99.9", 4.0, "p99"),
            ("stability", 4.0, "p99"),
            ("", 4.0, "p99"),
        ] {
            assert_eq!(limited_percentile(&q, limit), Some((value, name)), "{limit}");
        }
    }

    /// Rows: the examined limit with its tier, the limit on TPOT that holds with it, and whether the first token is limited.
    #[test]
    fn limits_are_compared_that_judge_the_same_requests() {
        let rows = [
            ("fast", ALL, "ttft.p99", 100.0),
            ("fast", "chat", "tpot.p99", 20.0),
            ("fast", "long", "tpot.p50", 30.0),
            ("slow", ALL, "tpot.p50", 12.0),
            ("slow", ALL, "tpot.p99", 50.0),
            ("other", "long", "e2e.p99", 900.0),
        ];
        let mut step = fixture::found()[0].clone();
        let row = step.limits[0].clone();
        let limit = |(tier, class, limit, ms): &(&str, &str, &str, f64)| LimitRow {
            tier: (*tier).into(),
            class: (*class).into(),
            limit: (*limit).into(),
            limit_ms: Some(*ms),
            ..row.clone()
        };
        step.limits = rows.iter().map(limit).collect();
        let q = Quantiles { n: 900, p50: Some(10.0), p99: Some(40.0), ..Quantiles::default() };
        step.latency = BTreeMap::from([(Metric::Tpot, q)]);
        step.groups.clear();
        for (tier, key, token, tail, first) in [
            (Some("fast"), "ttft.p99", Some(20.0), Some((40.0, "p99")), true),
            (Some("fast"), "chat/tpot.p99", Some(20.0), Some((40.0, "p99")), true),
            (Some("fast"), "long/tpot.p50", Some(30.0), Some((10.0, "p50")), true),
            (Some("fast"), "long/ttft.p99", Some(30.0), Some((10.0, "p50")), true),
            // Of two percentiles the one that is nearer to its limit: 10 of 12 ms, not 40 of 50.
            (Some("slow"), "stability", Some(12.0), Some((10.0, "p50")), false),
            (Some("slow"), "tpot.p99", Some(50.0), Some((40.0, "p99")), false),
            (Some("other"), "chat/error-rate", None, Some((40.0, "p99")), false),
            (Some("other"), "error-rate", None, Some((40.0, "p99")), true),
            (None, "error-rate", Some(20.0), Some((40.0, "p99")), true),
        ] {
            let curve = Curve {
                series: step.series.clone(),
                step: step.step,
                limit: Some(key.into()),
                tier: tier.map(Into::into),
                ..Curve::default()
            };
            let (steps, facts) = ([step.clone()], Facts::default());
            let s = Subject::of(&steps, &facts, &curve).unwrap();
            assert_eq!(s.tpot_limit(), token, "{tier:?} {key}");
            assert_eq!(s.token_tail(s.at), tail, "{tier:?} {key}");
            assert_eq!(s.first_is_limited(), first, "{tier:?} {key}");
        }
    }
}
