//! Caveats on the search and on how sure its answer is.

use super::Scope;
use super::number::number;
use crate::level::Control;
use crate::units::Percentile;
use serde::{Deserialize, Serialize};

/// A caveat on the search, or on how sure its answer is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SearchCaveat {
    /// Verdicts assume how much misses cluster.
    InflationAssumed {
        /// Factor assumed before the first miss: so many requests count as one independent request.
        #[serde(deserialize_with = "number")]
        inflation: f64,
        /// The limit that the verdicts hang on: `ttft.p99`.
        limit: String,
        /// Factor for that limit by all misses of the sweep.
        #[serde(deserialize_with = "number")]
        pooled: f64,
    },
    /// The answer is a bracket between two measured levels.
    BracketOnly,
    /// The ends of that bracket are far apart.
    WideBracket {
        /// The tier, where there are several.
        tier: Option<String>,
        /// Kind of the levels.
        control: Control,
        /// The level shown to fail divided by the one shown to meet.
        #[serde(deserialize_with = "number")]
        factor: f64,
    },
    /// Some steps have too few requests for an upper bound of the percentile that the SLO limits.
    FewRequests {
        /// Number of such steps.
        steps: u32,
        /// Number of refinement steps of an adaptive sweep, whose other steps are short on purpose.
        #[serde(default)]
        refine: Option<u32>,
        /// The percentile: the highest that the SLO limits, at most p99.
        #[serde(default = "p99")]
        percentile: Percentile,
        /// Least number of independent requests that give it an upper bound.
        #[serde(default = "least_for_p99")]
        least: u64,
    },
    /// The levels are numbers in flight.
    ClosedLoop,
}

/// Returns the percentile of caveats by earlier versions.
const fn p99() -> Percentile {
    Percentile::P99
}

/// Returns the least number of requests in caveats by earlier versions.
const fn least_for_p99() -> u64 {
    368
}

impl SearchCaveat {
    pub(super) const fn scope(&self) -> Scope {
        match self {
            Self::InflationAssumed { .. }
            | Self::BracketOnly
            | Self::WideBracket { .. }
            | Self::FewRequests { .. }
            | Self::ClosedLoop => Scope::RUN,
        }
    }
}
