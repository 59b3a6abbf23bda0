//! What can be compared: the names of the rows, their units, and which way is better.

use goodput_core::slo::Metric;
use serde::Serialize;

/// Percentiles of latencies that are compared, in thousandths.
pub const PERCENTILES: [u64; 3] = [500, 900, 990];

/// A figure that sides are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum Column {
    /// The highest level at which every limit is met.
    Goodput,
    /// The level that is safe at the plan's confidence.
    SafeRate,
    /// The same as the goodput, of all limits together.
    JointGoodput,
    /// Where more load stops buying throughput.
    Knee,
    /// Requests per second that met every limit: at the step that the reports tell them of, or at a level.
    GoodRate,
    /// Goodput of one GPU.
    PerGpu,
    /// Output tokens per second: at the goodput, or at a level.
    OutputTokens,
    /// Cost of a million output tokens at the goodput.
    CostPerMtok,
    /// Preemptions: in all steps under load, or at a level.
    Preemptions,
    /// Share of the prompt tokens from the server's prefix cache.
    HitRate,
    /// Share of requests that met every limit together.
    Attainment,
    /// Share of requests that failed or were cut off.
    Failures,
    /// Completed requests per second.
    AchievedRate,
    /// A percentile of a latency, in thousandths.
    Latency(Metric, u64),
}

impl Column {
    /// Those of a whole run, in their order.
    pub const WHOLE: [Self; 10] = [
        Self::Goodput,
        Self::SafeRate,
        Self::JointGoodput,
        Self::Knee,
        Self::GoodRate,
        Self::PerGpu,
        Self::OutputTokens,
        Self::CostPerMtok,
        Self::Preemptions,
        Self::HitRate,
    ];

    /// Those of a level besides latencies, in their order.
    pub const LEVEL: [Self; 7] = [
        Self::Attainment,
        Self::Failures,
        Self::AchievedRate,
        Self::GoodRate,
        Self::OutputTokens,
        Self::Preemptions,
        Self::HitRate,
    ];

    /// The latencies of a level, in their order.
    pub fn latencies() -> Vec<Self> {
        let metrics = [Metric::Ttft, Metric::Tpot, Metric::E2e, Metric::Itl];
        metrics.iter().flat_map(|m| PERCENTILES.map(|p| Self::Latency(*m, p))).collect()
    }

    /// The name in files and gates.
    pub fn name(self) -> String {
        let name = match self {
            Self::Goodput => "goodput",
            Self::SafeRate => "safe-rate",
            Self::JointGoodput => "joint-goodput",
            Self::Knee => "knee",
            Self::GoodRate => "good-rate",
            Self::PerGpu => "per-gpu",
            Self::OutputTokens => "output-tokens",
            Self::CostPerMtok => "cost-per-mtok",
            Self::Preemptions => "preemptions",
            Self::HitRate => "hit-rate",
            Self::Attainment => "attainment",
            Self::Failures => "failures",
            Self::AchievedRate => "achieved-rate",
            Self::Latency(metric, permille) => return format!("{}.p{}", metric.name(), permille / 10),
        };
        name.to_owned()
    }

    /// The name for people.
    pub fn title(self) -> String {
        let title = match self {
            Self::Goodput => "goodput",
            Self::SafeRate => "safe rate",
            Self::JointGoodput => "joint goodput",
            Self::Knee => "knee",
            Self::GoodRate => "good requests",
            Self::PerGpu => "goodput per GPU",
            Self::OutputTokens => "output tokens",
            Self::CostPerMtok => "cost per million output tokens",
            Self::Preemptions => "preemptions",
            Self::HitRate => "prefix cache hits",
            Self::Attainment => "attainment",
            Self::Failures => "failed requests",
            Self::AchievedRate => "achieved",
            Self::Latency(metric, permille) => return format!("p{} {}", permille / 10, metric.title()),
        };
        title.to_owned()
    }

    /// The unit of its values: `level` is that of the levels, such as `req/s`, `currency` that of the cost.
    pub fn unit(self, level: &str, currency: &str) -> String {
        match self {
            Self::Goodput | Self::SafeRate | Self::JointGoodput | Self::Knee | Self::PerGpu => {
                level.to_owned()
            }
            Self::GoodRate | Self::AchievedRate => "req/s".to_owned(),
            Self::OutputTokens => "tok/s".to_owned(),
            Self::CostPerMtok => currency.to_owned(),
            Self::Preemptions => String::new(),
            Self::HitRate | Self::Attainment | Self::Failures => "share".to_owned(),
            Self::Latency(..) => "ms".to_owned(),
        }
    }

    /// Whether more of it is better; `None` where it depends.
    pub const fn more_is_better(self) -> Option<bool> {
        match self {
            Self::Goodput
            | Self::SafeRate
            | Self::JointGoodput
            | Self::GoodRate
            | Self::PerGpu
            | Self::OutputTokens
            | Self::Attainment
            | Self::AchievedRate => Some(true),
            Self::CostPerMtok | Self::Preemptions | Self::Failures | Self::Latency(..) => Some(false),
            Self::Knee | Self::HitRate => None,
        }
    }

    /// Whether it is a share, whose changes are told in percentage points.
    pub const fn is_share(self) -> bool {
        matches!(self, Self::HitRate | Self::Attainment | Self::Failures)
    }

    /// Whether it hangs on the limits: tiers that are judged on the same steps differ in nothing else.
    pub const fn is_judged(self) -> bool {
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

    /// The one of that name.
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
            assert!(!column.title().is_empty());
        }
        assert_eq!(Column::named("ttft.p99"), Some(Column::Latency(Metric::Ttft, 990)));
        assert!(Column::named("ttft").is_none() && Column::named("p99").is_none());
    }
}
