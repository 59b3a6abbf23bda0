//! Acceptance limit on cost. Cost falls with the rate, so the limit bounds the rate from below.

use super::{Capacity, positive};
use serde::Serialize;

/// Verdict on a cost limit, over the rates at which the SLO is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CostVerdict {
    /// Met at the rate to plan with: the safe rate, or the highest rate shown to meet if there is no safe one.
    Accepted,
    /// Met only between the safe rate and the goodput, or only above the goodput where the SLO is not shown to be missed.
    Undecided,
    /// Met at no rate at which the SLO is met.
    Rejected,
}

/// Knowledge about the rates above the goodput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AboveGoodput {
    /// The boundary was found: the SLO is missed above it.
    Missed,
    /// Not tried: the highest level measured meets.
    NotTried,
    /// Too little was measured to decide. The SLO is shown to be missed from this rate (requests per second) on, if at any.
    Open(Option<f64>),
}

impl AboveGoodput {
    /// Returns true if, as far as is known, the SLO may be met at this rate above the goodput.
    fn may_meet(self, rate: f64) -> bool {
        match self {
            Self::Missed => false,
            Self::NotTried => true,
            Self::Open(missed_from) => missed_from.is_none_or(|missed| rate < missed),
        }
    }
}

impl CostVerdict {
    /// Returns the name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Undecided => "undecided",
            Self::Rejected => "rejected",
        }
    }
}

/// Accepted rates: from the rate at which the cost limit is met to the rate up to which the SLO is met.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CostRange {
    /// Largest accepted cost of a million output tokens.
    pub max_per_mtok: f64,
    /// Requests per second from which on the cost limit is met: cost at the goodput × goodput / limit.
    pub from_rate: f64,
    /// Requests per second up to which the SLO is met: the goodput, or the highest rate shown to meet.
    pub to_rate: f64,
    /// Safe rate in requests per second, if there is one.
    pub safe_rate: Option<f64>,
    /// Cost of a million output tokens at the rate to plan with: the safe rate, else the goodput.
    pub cost_per_mtok: f64,
    /// Verdict on the limit.
    #[serde(rename = "kept")]
    pub verdict: CostVerdict,
}

impl CostRange {
    /// Computes the range of a limit from the figures at the goodput and at the safe rate, and what is known above. `None` if the
    /// cost is not known.
    pub fn of(
        max_per_mtok: f64,
        goodput: &Capacity,
        safe: Option<&Capacity>,
        above: AboveGoodput,
    ) -> Option<Self> {
        let cost = positive(goodput.cost_per_mtok?)?;
        let planned = safe.and_then(|s| s.cost_per_mtok).unwrap_or(cost);
        let meets = |cost: f64| cost <= max_per_mtok * (1.0 + 1e-9);
        let from_rate = cost * goodput.requests_per_s / max_per_mtok;
        let verdict = match (meets(planned), meets(cost) || above.may_meet(from_rate)) {
            (true, _) => CostVerdict::Accepted,
            (false, true) => CostVerdict::Undecided,
            (false, false) => CostVerdict::Rejected,
        };
        Some(Self {
            max_per_mtok,
            from_rate,
            to_rate: goodput.requests_per_s,
            safe_rate: safe.map(|s| s.requests_per_s),
            cost_per_mtok: planned,
            verdict,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a server that costs 1.08 per hour, 0.0003 per second, with 30 output tokens per request: 1 per million tokens at 10
    /// requests/s.
    fn at(rate: f64) -> Capacity {
        Capacity {
            step: 1,
            requests_per_s: rate,
            requests_per_minute: rate * 60.0,
            requests_per_hour: rate * 3_600.0,
            requests_per_day: rate * 86_400.0,
            output_tokens_per_s: Some(rate * 30.0),
            items_per_s: None,
            cost_per_1000_items: None,
            prompt_tokens_per_s: None,
            per_gpu: None,
            cost_per_mtok: Some(10.0 / rate),
            cost_per_1000_requests: None,
        }
    }

    /// Rows: limit, goodput, safe rate; then the rate from which on the limit is met, and the verdict.
    #[test]
    fn the_cost_bounds_the_rate_from_below() {
        for (max, goodput, safe, from, kept) in [
            (0.5, 34.0, Some(31.0), 20.0, CostVerdict::Accepted),
            (10.0 / 32.0, 34.0, Some(31.0), 32.0, CostVerdict::Undecided),
            (0.25, 34.0, Some(31.0), 40.0, CostVerdict::Rejected),
            (0.5, 34.0, None, 20.0, CostVerdict::Accepted),
            (0.25, 34.0, None, 40.0, CostVerdict::Rejected),
            (10.0 / 34.0, 34.0, None, 34.0, CostVerdict::Accepted), // to the last bit
        ] {
            let r = CostRange::of(max, &at(goodput), safe.map(at).as_ref(), AboveGoodput::Missed).unwrap();
            assert!((r.from_rate - from).abs() < 1e-9 && r.verdict == kept, "{max}, {goodput}: {r:?}");
        }
        let free = Capacity { cost_per_mtok: None, ..at(10.0) };
        assert_eq!(CostRange::of(1.0, &free, None, AboveGoodput::Missed), None);
    }

    /// The limit is met from 40 requests/s on, with a goodput of 34: rejected only if the SLO is shown to be missed at 40.
    #[test]
    fn untried_rates_are_not_rejected() {
        for (above, kept) in [
            (AboveGoodput::Missed, CostVerdict::Rejected),
            (AboveGoodput::NotTried, CostVerdict::Undecided),
            (AboveGoodput::Open(None), CostVerdict::Undecided),
            (AboveGoodput::Open(Some(48.0)), CostVerdict::Undecided),
            (AboveGoodput::Open(Some(40.0)), CostVerdict::Rejected),
        ] {
            let r = CostRange::of(0.25, &at(34.0), Some(&at(31.0)), above).unwrap();
            assert!(r.verdict == kept && (r.from_rate - 40.0).abs() < 1e-9, "{above:?}: {r:?}");
            let r = CostRange::of(0.5, &at(34.0), Some(&at(31.0)), above).unwrap();
            assert_eq!(r.verdict, CostVerdict::Accepted, "{above:?}");
        }
    }
}
