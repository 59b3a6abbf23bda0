//! The SLO: limits on percentiles, built-in profiles of published limits, and the judgement of single requests.

mod limit_group;
mod metric;
mod profile;
mod real_time_factor;

pub use limit_group::{ALL, ClassSlo, LimitGroup, limit_key, limit_percentile, split_limit_key};
pub use metric::{AnswerPart, Metric};
pub use profile::{PROFILES, Profile, ProfileName, profile_names};

use crate::record::{Outcome, Record};
use crate::units::{Fraction, Percentile, Positive, Span, duration_printer, ms, short};
use jiff::fmt::friendly::Spacing;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, time::Duration};

/// One limit: `percentile` of `metric` may be at most `limit`. That is, at most `percentile.miss_share()` of the
/// requests (for ITL, of the gaps) may lie above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit {
    /// Limited metric.
    pub metric: Metric,
    /// Percentile of the metric.
    pub percentile: Percentile,
    /// Largest value that meets the limit.
    pub limit: Duration,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printer = duration_printer(self.limit).spacing(Spacing::BetweenUnitsAndDesignators);
        let limit = match self.metric.is_ratio() {
            true => short(self.limit.as_secs_f64()),
            false => printer.unsigned_duration_to_string(&self.limit),
        };
        write!(f, "{} {} ≤ {limit}", self.percentile, self.metric.title())
    }
}

/// Judgement of one request by one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// Within the limit.
    Met,
    /// Above the limit, or the request failed.
    Missed,
    /// The request was cut off before the limit was decided.
    Unknown,
    /// The metric is undefined for the request (TPOT of a one-token answer).
    NotApplicable,
}

impl Limit {
    /// Returns the name in `limits.csv` and in `binding`: `ttft.p99`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.metric.name(), self.percentile)
    }

    /// Returns the longest time that a request with so much audio may take.
    pub fn longest(&self, audio: Duration) -> Duration {
        match self.metric.is_ratio() {
            true => Duration::try_from_secs_f64(self.limit.as_secs_f64() * audio.as_secs_f64())
                .unwrap_or(Duration::MAX),
            false => self.limit,
        }
    }

    /// Returns the limit in milliseconds.
    pub fn limit_ms(&self) -> f64 {
        ms(self.limit)
    }

    /// Judges one request. ITL limits judge gaps instead, and return `NotApplicable` here.
    ///
    /// A failure is a miss. A request that was cut off, at its step's end or by our own timeout, is judged by its value
    /// if that was known by then; else it is a miss if the wait so far already exceeds the limit, and unknown
    /// otherwise. An answer that ended without content misses TTFC.
    pub fn judge(&self, r: &Record) -> Judged {
        if !self.metric.is_per_request() {
            return Judged::NotApplicable;
        }
        match r.outcome {
            _ if r.is_cut_off() => self.judge_cut(r),
            Outcome::Failed | Outcome::Cut => Judged::Missed,
            Outcome::Ok => match self.metric.of(r) {
                Some(value) if value <= self.limit => Judged::Met,
                Some(_) => Judged::Missed,
                None if self.metric == Metric::Ttfc && r.lacks_content() => Judged::Missed,
                None => Judged::NotApplicable,
            },
        }
    }

    fn judge_cut(&self, r: &Record) -> Judged {
        let known = match self.metric.part() {
            AnswerPart::First => self.metric.of(r),
            AnswerPart::Pace | AnswerPart::Whole => None,
        };
        // Lower bound of the final value: the wait so far, for a pace spread over all tokens asked for.
        let at_least = match (self.metric.part(), r.first_token) {
            // Another tool's results do not say how long the answer could have become.
            (AnswerPart::Pace, Some(_)) if r.output_asked == 0 => Duration::ZERO,
            (AnswerPart::Pace, Some(first)) => {
                let after = r.output_asked.saturating_sub(r.first_event_tokens.unwrap_or(1)).max(1);
                // Choices decode at the same time, and all of their time counts.
                let so_far = r.decoding.unwrap_or_else(|| r.end.saturating_sub(first));
                so_far.div_f64(f64::from(after))
            }
            (AnswerPart::Pace, None) => Duration::ZERO,
            (AnswerPart::First | AnswerPart::Whole, _) => {
                self.metric.per_unit(r.end.saturating_sub(r.due), r.audio.unwrap_or_default())
            }
        };
        match known {
            Some(value) if value <= self.limit => Judged::Met,
            Some(_) => Judged::Missed,
            // The value is not known yet and can only be larger.
            None if at_least >= self.limit => Judged::Missed,
            None => Judged::Unknown,
        }
    }
}

/// The limits of a plan's `[slo]` table or of a profile, by metric and percentile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Slo {
    /// Name of the tier; needed if a plan has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The built-in profile that these limits override.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileName>,
    /// Largest share of requests that may fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<Fraction>,
    /// Count a request that was sent again (`client.retries`) as failed in `error-rate`, even if the second attempt was answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub count_retries: bool,
    /// Target share of requests that meet all limits together, for the joint goodput.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joint_attainment: Option<Fraction>,
    /// Limits on TTFT.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ttft: BTreeMap<Percentile, Span>,
    /// Limits on TTFC.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ttfc: BTreeMap<Percentile, Span>,
    /// Limits on TPOT.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tpot: BTreeMap<Percentile, Span>,
    /// Limits on ITL.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub itl: BTreeMap<Percentile, Span>,
    /// Limits on e2e.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub e2e: BTreeMap<Percentile, Span>,
    /// Limits on the real-time factor of transcripts, their e2e divided by the length of their audio: 0.2 is 200 ms per second of audio.
    #[serde(with = "real_time_factor", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<Percentile, Positive>")]
    pub rtf: BTreeMap<Percentile, Span>,
    /// SLOs of single classes of the mix. A plan has them in its classes; they are copied here when it is read.
    #[serde(skip)]
    pub classes: Vec<ClassSlo>,
}

impl Slo {
    fn table(&self, metric: Metric) -> &BTreeMap<Percentile, Span> {
        match metric {
            Metric::Ttft => &self.ttft,
            Metric::Ttfc => &self.ttfc,
            Metric::Tpot => &self.tpot,
            Metric::Itl => &self.itl,
            Metric::E2e => &self.e2e,
            Metric::Rtf => &self.rtf,
        }
    }

    fn table_mut(&mut self, metric: Metric) -> &mut BTreeMap<Percentile, Span> {
        match metric {
            Metric::Ttft => &mut self.ttft,
            Metric::Ttfc => &mut self.ttfc,
            Metric::Tpot => &mut self.tpot,
            Metric::Itl => &mut self.itl,
            Metric::E2e => &mut self.e2e,
            Metric::Rtf => &mut self.rtf,
        }
    }

    /// Returns the name of the tier; `main` if the plan gives none.
    pub fn tier(&self) -> &str {
        self.name.as_deref().unwrap_or("main")
    }

    /// Returns the tier's latency limits in the order of metrics and percentiles, without those of classes; see
    /// [`Slo::limit_groups`].
    pub fn limits(&self) -> Vec<Limit> {
        Metric::ALL
            .into_iter()
            .flat_map(|metric| {
                self.table(metric).iter().map(move |(p, l)| Limit { metric, percentile: *p, limit: l.0 })
            })
            .collect()
    }

    /// Formats all limits in one line, prefixed with the tier's name if it has one: `p99 TTFT ≤ 200 ms, p99 TPOT ≤
    /// 50ms`. Limits of classes follow theirs.
    pub fn summary(&self) -> String {
        let name = self.name.as_ref().map(|n| format!("{n}: ")).unwrap_or_default();
        let line = |group: LimitGroup<'_>| {
            let mut limits: Vec<String> = group.slo.limits().iter().map(Limit::to_string).collect();
            let errors = group.slo.error_rate;
            limits.extend(errors.map(|e| format!("errors ≤ {} %", short(e.get() * 100.0))));
            let class =
                if group.class() == ALL { String::new() } else { format!("class {}: ", group.class()) };
            format!("{class}{}", limits.join(", "))
        };
        format!("{name}{}", self.limit_groups().into_iter().map(line).collect::<Vec<_>>().join("; "))
    }

    /// Returns the SLO under a new name with every latency limit, also of classes, multiplied by `factor`. Drops ITL
    /// limits, since run folders store no more than the distribution of gaps.
    pub fn scaled(&self, factor: f64, name: &str) -> Self {
        let scale = |table: &BTreeMap<Percentile, Span>| {
            table.iter().map(|(p, l)| (*p, Span(l.0.mul_f64(factor)))).collect::<BTreeMap<_, _>>()
        };
        // Every field by its name, so that the limits of a new metric cannot be left unscaled.
        Self {
            name: Some(name.to_owned()),
            profile: self.profile.clone(),
            error_rate: self.error_rate,
            count_retries: self.count_retries,
            joint_attainment: self.joint_attainment,
            ttft: scale(&self.ttft),
            ttfc: scale(&self.ttfc),
            tpot: scale(&self.tpot),
            itl: BTreeMap::new(),
            e2e: scale(&self.e2e),
            rtf: scale(&self.rtf),
            classes: self
                .classes
                .iter()
                .map(|c| ClassSlo { slo: c.slo.scaled(factor, name), ..c.clone() })
                .collect(),
        }
    }

    /// Returns the limits that a request must meet *together* to be good: for each metric the one with the highest
    /// percentile.
    ///
    /// A p95 limit next to a p99.9 limit on the same metric allows 5 % above it, so it cannot be required of every
    /// request.
    pub fn joint_limits(&self) -> Vec<Limit> {
        Metric::ALL
            .into_iter()
            .filter_map(|metric| {
                let (p, l) = self.table(metric).iter().next_back()?;
                Some(Limit { metric, percentile: *p, limit: l.0 })
            })
            .collect()
    }

    /// Judges how a request ended by the error rate; `attempts` is the number of times it was sent. A request that was
    /// cut off might still have been answered, so it is unknown.
    pub fn judge_error(&self, outcome: Outcome, attempts: u8) -> Judged {
        match outcome {
            Outcome::Failed => Judged::Missed,
            Outcome::Ok | Outcome::Cut if self.count_retries && attempts > 1 => Judged::Missed,
            Outcome::Ok => Judged::Met,
            Outcome::Cut => Judged::Unknown,
        }
    }

    /// Returns the tightest ITL limit, which each request's `itl_over` counts against.
    pub fn tightest_itl(&self) -> Option<Duration> {
        self.smallest(Metric::Itl)
    }

    /// Returns the largest limit on a metric, over the tier and its classes.
    pub fn largest(&self, metric: Metric) -> Option<Duration> {
        self.with_classes().flat_map(|slo| slo.table(metric).values()).map(|s| s.0).max()
    }

    /// Returns the smallest limit on a metric, over the tier and its classes.
    pub fn smallest(&self, metric: Metric) -> Option<Duration> {
        self.with_classes().flat_map(|slo| slo.table(metric).values()).map(|s| s.0).min()
    }

    /// Returns the smallest limit that counts from `due`, which a late client or a growing queue would miss; `None` if
    /// there is none.
    pub fn tightest_from_due(&self) -> Option<Duration> {
        Metric::ALL.into_iter().filter(|m| m.is_from_due()).filter_map(|m| self.smallest(m)).min()
    }

    /// Returns the smallest limit on the time between tokens, which only the receive lag of a client affects; `None` if there is none.
    pub fn tightest_pace(&self) -> Option<Duration> {
        Metric::ALL.into_iter().filter(|m| !m.is_from_due()).filter_map(|m| self.smallest(m)).min()
    }

    /// Returns the target of the joint goodput: as given, else the share of the highest limited percentile (of the
    /// tier; if it has no limits, of its classes).
    pub fn joint_target(&self) -> f64 {
        let strictest = |slo: &Self| slo.limits().iter().map(|l| l.percentile.share()).reduce(f64::max);
        let of_classes = || self.classes.iter().map(|c| c.slo.joint_target()).reduce(f64::max);
        let given = self.joint_attainment.map(Fraction::get);
        given.or_else(|| strictest(self)).or_else(of_classes).unwrap_or(0.99)
    }

    /// Fills in the profile's limits wherever this table does not set the same percentile of the same metric.
    pub fn resolve(mut self) -> Self {
        if let Some(profile) = &self.profile {
            let base = profile.profile().limits;
            for metric in Metric::ALL {
                for (p, limit) in base.table(metric) {
                    self.table_mut(metric).entry(*p).or_insert(*limit);
                }
            }
            self.error_rate = self.error_rate.or(base.error_rate);
            self.count_retries |= base.count_retries;
            self.joint_attainment = self.joint_attainment.or(base.joint_attainment);
        }
        self
    }

    /// Returns the first mistake in the table, as an error message: no limit at all, a limit of zero, a p99 limit below
    /// a p50 limit.
    pub fn problem(&self) -> Option<String> {
        self.problem_of(&self.name.as_deref().map_or(String::from("[slo]"), |n| format!("[[slo]] {n}")))
    }

    /// Checks the table as [`Slo::problem`] does, calling it `tier` in the message.
    pub fn problem_of(&self, tier: &str) -> Option<String> {
        if !self.has_limits() && !self.has_class_limits() {
            return Some(format!(
                "{tier} has no limit: set profile = \"chat\", or a limit such as ttft.p99 = \"200ms\" (profiles: {})",
                profile_names().join(", ")
            ));
        }
        if self.count_retries && self.error_rate.is_none() {
            return Some(format!(
                "{tier} has count-retries, but no error-rate in which to count them: set error-rate = 0.01, or leave count-retries out"
            ));
        }
        for metric in Metric::ALL {
            let table: Vec<_> = self.table(metric).iter().collect();
            if let Some((p, _)) = table.iter().find(|(_, l)| l.0.is_zero()) {
                return Some(format!("{tier} {}.{p} is zero: no request can meet it", metric.name()));
            }
            if let Some(w) = table.windows(2).find(|w| w[0].1 > w[1].1) {
                let shown = |limit: &Span| match metric.is_ratio() {
                    true => short(limit.0.as_secs_f64()),
                    false => limit.to_string(),
                };
                return Some(format!(
                    "{tier} {m}.{} = {} is above {m}.{} = {}: a lower percentile cannot have the larger limit",
                    w[0].0,
                    shown(w[0].1),
                    w[1].0,
                    shown(w[1].1),
                    m = metric.name()
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
