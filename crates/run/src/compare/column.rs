//! Comparable figures: names of the rows, their units, and the better direction.

use goodput_core::slo::Metric;
use serde::Serialize;

/// Compared percentiles of latencies, in thousandths.
pub(super) const PERCENTILES: [u64; 3] = [500, 900, 990];

/// A figure by which sides are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(into = "String")]
pub enum Column {
    /// Highest level at which every limit is met separately.
    Goodput,
    /// Highest level that is safe at the plan's confidence.
    SafeRate,
    /// Highest level at which all limits are met jointly.
    JointGoodput,
    /// Level at which more load stops raising throughput.
    Knee,
    /// Requests per second that met every limit, at a level or at the step that the reports show.
    GoodRate,
    /// Goodput per GPU.
    PerGpu,
    /// Output tokens per second, at the goodput or at a level.
    OutputTokens,
    /// Items (texts, documents, images) per second at the goodput.
    Items,
    /// Cost per million output tokens at the goodput.
    CostPerMtok,
    /// Cost of 1,000 items at the goodput.
    CostPer1000Items,
    /// Number of preemptions, in all steps under load or at a level.
    Preemptions,
    /// Share of prompt tokens from the server's prefix cache.
    HitRate,
    /// Share of requests that met every limit jointly.
    Attainment,
    /// Share of requests that failed or were cut off.
    Failures,
    /// Completed requests per second.
    AchievedRate,
    /// A percentile of a latency, in thousandths.
    Latency(Metric, u64),
}

impl Column {
    /// Figures of a whole run, in display order.
    pub const WHOLE: [Self; 12] = [
        Self::Goodput,
        Self::SafeRate,
        Self::JointGoodput,
        Self::Knee,
        Self::GoodRate,
        Self::PerGpu,
        Self::OutputTokens,
        Self::Items,
        Self::CostPerMtok,
        Self::CostPer1000Items,
        Self::Preemptions,
        Self::HitRate,
    ];

    /// Figures of a level other than latencies, in display order.
    pub const LEVEL: [Self; 7] = [
        Self::Attainment,
        Self::Failures,
        Self::AchievedRate,
        Self::GoodRate,
        Self::OutputTokens,
        Self::Preemptions,
        Self::HitRate,
    ];

    /// Returns the latency figures of a level, in display order.
    pub fn latencies() -> Vec<Self> {
        let pooled = Metric::ALL.into_iter().filter(|m| m.is_always_shown() && !m.is_per_request());
        Metric::PRINCIPAL
            .into_iter()
            .chain(pooled)
            .flat_map(|m| PERCENTILES.map(|p| Self::Latency(m, p)))
            .collect()
    }

    /// Returns the name used in files and gates.
    pub fn name(self) -> String {
        let name = match self {
            Self::Goodput => "goodput",
            Self::SafeRate => "safe-rate",
            Self::JointGoodput => "joint-goodput",
            Self::Knee => "knee",
            Self::GoodRate => "good-rate",
            Self::PerGpu => "per-gpu",
            Self::OutputTokens => "output-tokens",
            Self::Items => "items",
            Self::CostPerMtok => "cost-per-mtok",
            Self::CostPer1000Items => "cost-per-1000-items",
            Self::Preemptions => "preemptions",
            Self::HitRate => "hit-rate",
            Self::Attainment => "attainment",
            Self::Failures => "failures",
            Self::AchievedRate => "achieved-rate",
            Self::Latency(metric, permille) => return format!("{}.p{}", metric.name(), permille / 10),
        };
        name.to_owned()
    }

    /// Returns the unit of the values: `level` is the unit of levels, such as `req/s`, and `currency` that of costs.
    pub fn unit(self, level: &str, currency: &str) -> String {
        match self {
            Self::Goodput | Self::SafeRate | Self::JointGoodput | Self::Knee | Self::PerGpu => {
                level.to_owned()
            }
            Self::GoodRate | Self::AchievedRate => "req/s".to_owned(),
            Self::OutputTokens => "tok/s".to_owned(),
            Self::Items => "items/s".to_owned(),
            Self::CostPerMtok | Self::CostPer1000Items => currency.to_owned(),
            Self::Preemptions => String::new(),
            Self::HitRate | Self::Attainment | Self::Failures => "share".to_owned(),
            Self::Latency(..) => "ms".to_owned(),
        }
    }

    /// Returns true if higher values are better; `None` if neither direction is.
    pub(super) const fn more_is_better(self) -> Option<bool> {
        match self {
            Self::Goodput
            | Self::SafeRate
            | Self::JointGoodput
            | Self::GoodRate
            | Self::PerGpu
            | Self::OutputTokens
            | Self::Items
            | Self::Attainment
            | Self::AchievedRate => Some(true),
            Self::CostPerMtok
            | Self::CostPer1000Items
            | Self::Preemptions
            | Self::Failures
            | Self::Latency(..) => Some(false),
            Self::Knee | Self::HitRate => None,
        }
    }

    /// Returns true for shares, whose changes are given in percentage points.
    pub const fn is_share(self) -> bool {
        matches!(self, Self::HitRate | Self::Attainment | Self::Failures)
    }

    /// Returns true if the figure depends on the limits: tiers judged on the same steps differ only in these figures.
    pub(super) const fn is_judged(self) -> bool {
        !matches!(
            self,
            Self::Knee
                | Self::Preemptions
                | Self::HitRate
                | Self::Failures
                | Self::AchievedRate
                | Self::Latency(..)
        )
    }

    /// Returns the column with this name.
    pub fn named(name: &str) -> Option<Self> {
        let simple = Self::WHOLE.into_iter().chain(Self::LEVEL);
        simple.chain(Self::latencies()).find(|c| c.name() == name)
    }
}

impl From<Column> for String {
    fn from(column: Column) -> Self {
        column.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        let all = Column::WHOLE.into_iter().chain(Column::LEVEL).chain(Column::latencies());
        for column in all {
            assert_eq!(Column::named(&column.name()), Some(column));
        }
        assert_eq!(Column::named("ttft.p99"), Some(Column::Latency(Metric::Ttft, 990)));
        assert!(Column::named("ttft").is_none() && Column::named("p99").is_none());
    }
}
