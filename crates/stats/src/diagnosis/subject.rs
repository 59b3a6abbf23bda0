//! What a rule looks at: a step of a curve, beside an unloaded one.

use super::facts::{Curve, Facts};
use crate::stats::step::{Quantiles, Step, StepKind, Verdict};
use goodput_core::level::Control;
use goodput_core::slo::{Metric, split_limit_key};

/// Steps with up to so many times the load of the one that is looked into still tell of it.
const NO_MORE: f64 = 1.25;

/// A step with fewer answers has no median to speak of: the 95 % bounds of the median of 20 lie at the 6th and the 15th.
pub(super) const LEAST: u64 = 20;

/// A step of a curve, and what it is held against.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) all: &'a [Step],
    pub(super) facts: &'a Facts,
    pub(super) curve: &'a Curve,
    /// The step.
    pub(super) at: &'a Step,
    /// One request at a time, or else far less load; `None` where there is neither.
    pub(super) alone: Option<&'a Step>,
}

impl<'a> Subject<'a> {
    /// The step of a curve that is looked into; `None` where it is not among the steps.
    pub(super) fn of(all: &'a [Step], facts: &'a Facts, curve: &'a Curve) -> Option<Self> {
        let at = all.iter().find(|s| s.series == curve.series && s.step == curve.step)?;
        let mut subject = Self { all, facts, curve, at, alone: None };
        subject.alone = subject.reference();
        Some(subject)
    }

    /// The steps of the series.
    pub(super) fn own(&self) -> impl Iterator<Item = &'a Step> + use<'a> {
        let series = &self.curve.series;
        self.all.iter().filter(move |s| s.series == *series)
    }

    /// One request at a time: the baseline, or a closed loop of one; else the lightest step of at most half the load.
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

    /// The lightest step under load, of at most two thirds of this one's, that the server could take; else the unloaded one.
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

    /// The other steps of the curve under about as much load or less.
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

    /// What is limited or asked about: TTFT or TPOT; of e2e the part of it that load has made longer, or else the longer one.
    pub(super) fn focus(&self) -> Option<Metric> {
        let key = self.curve.limit.as_deref().or(self.curve.question.as_deref())?;
        match split_limit_key(key).1 {
            "stability" => Some(Metric::Ttft),
            limit => match Metric::of_limit(limit)
                .or_else(|| Metric::ALL.into_iter().find(|m| m.name() == limit))?
            {
                Metric::Ttft | Metric::Ttfc => Some(Metric::Ttft),
                Metric::Tpot | Metric::Itl => Some(Metric::Tpot),
                Metric::E2e => Some(self.longer_part()),
            },
        }
    }

    fn longer_part(&self) -> Metric {
        let part = |s: &Step, metric| self.quantiles(s, metric).p50;
        let of = |s: &Step| {
            let (first, whole) = (part(s, Metric::Ttft)?, part(s, Metric::E2e)?);
            Some((first, (whole - first).max(0.0)))
        };
        let Some((first, rest)) = of(self.at) else { return Metric::Ttft };
        let (first_alone, rest_alone) = self.alone.and_then(of).unwrap_or_default();
        let (first_more, rest_more) = (first - first_alone, rest - rest_alone);
        // Where load has added little, what is there without it counts.
        let added = first_more + rest_more > 0.1 * (first + rest);
        let first_longer = if added { first_more > rest_more } else { first > rest };
        if first_longer { Metric::Ttft } else { Metric::Tpot }
    }

    /// Percentiles of a metric over the requests that the limit judges.
    pub(super) fn quantiles(&self, step: &Step, metric: Metric) -> Quantiles {
        let class =
            self.curve.limit.as_deref().map_or(goodput_core::slo::ALL, |limit| split_limit_key(limit).0);
        let own = step.quantiles_of(class, metric);
        if own.n > 0 { own } else { step.quantiles(metric) }
    }

    /// The percentile that is limited, or the p99, with its name.
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

    /// Whether the step is of an open loop: in a closed one what is offered follows what is done.
    pub(super) fn is_open(&self) -> bool {
        self.at.level.control != Control::Concurrency
    }
}

/// Whether a step had one request at a time.
pub fn is_one(s: &Step) -> bool {
    let closed = s.level.control == Control::Concurrency && s.level.value < 1.5;
    s.kind == StepKind::Baseline || closed
}

/// Whether a step can be read: enough answers, and the client was not the limit.
pub(super) fn told(s: &Step) -> bool {
    s.completed >= LEAST && s.verdict != Verdict::Invalid
}
