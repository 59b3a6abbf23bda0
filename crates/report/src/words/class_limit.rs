//! A limit with the class of a mix that it judges.

use crate::escape::clip;
use goodput_core::slo::{ALL, Limit, Metric, limit_key};
use goodput_plan::measured_alone;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::{LimitRow, Quantiles, Step};

/// A limit on latency, of the requests of one class of a mix or of those of all classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClassLimit<'a> {
    /// Name of the class, or [`ALL`].
    pub(crate) class: &'a str,
    pub(crate) limit: Limit,
}

impl<'a> ClassLimit<'a> {
    /// Returns the limit that an answer is about: the one that binds, else the first of its tier.
    pub(crate) fn main(run: &'a Run, a: &Answer) -> Option<Self> {
        let tier = super::tier_of(run, a)?;
        let groups = tier.limit_groups();
        let one = |g: &goodput_core::slo::LimitGroup<'a>| {
            let class = g.class();
            g.slo.limits().into_iter().map(move |limit| Self { class, limit }).collect::<Vec<_>>()
        };
        let limits: Vec<Self> = groups.iter().flat_map(one).collect();
        let binding = a.goodput.binding.as_deref();
        let binds = limits.iter().find(|l| binding == Some(l.key().as_str()));
        binds.or(limits.first()).copied()
    }

    /// Returns the name of the limit that is unique within its tier: `chat/ttft.p99`.
    pub(crate) fn key(&self) -> String {
        limit_key(self.class, &self.limit.name())
    }

    /// Returns the counts of the limit in a step.
    pub(crate) fn row<'s>(&self, step: &'s Step, tier: &str) -> Option<&'s LimitRow> {
        step.row(tier, &self.key())
    }

    /// Returns the class and the metric to tell of: those of the limit, without one TTFT of all requests.
    pub(crate) fn told(limit: Option<Self>) -> (&'a str, Metric) {
        limit.map_or((ALL, Metric::Ttft), |l| (l.class, l.limit.metric))
    }

    /// Returns the percentiles of its metric in a step.
    pub(crate) fn quantiles(&self, step: &Step) -> Quantiles {
        class_quantiles(step, self.class, self.limit.metric)
    }
}

/// Returns words with a class, unless it stands for all: `requests of chat`.
pub(crate) fn of_class(what: &str, class: &str) -> String {
    if class == ALL { what.to_owned() } else { format!("{what} of {}", clip(class, 24)) }
}

/// Returns the percentiles of a metric in a step over the requests of a class; empty if the step has none of them. A series that measures
/// a class alone has those of its class.
pub(crate) fn class_quantiles(step: &Step, class: &str, metric: Metric) -> Quantiles {
    match measured_alone(&step.series).filter(|_| class != ALL) {
        Some(own) if own == class => step.quantiles(metric),
        Some(_) => Quantiles::default(),
        None => step.quantiles_of(class, metric),
    }
}
