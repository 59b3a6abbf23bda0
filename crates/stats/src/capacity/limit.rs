//! A cost as a limit of acceptance: it falls with the rate, so it bounds the rate from below.

use super::{Capacity, positive};
use serde::Serialize;

/// Whether a limit on the cost is kept where the SLO is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// At the rate to plan with: the safe one, or the one shown to meet where there is no safe one.
    Accepted,
    /// Only between the safe rate and the goodput; or only above the goodput, where it is not shown that the SLO is missed.
    Undecided,
    /// At no rate at which the SLO is met.
    Rejected,
}

/// What is known of the rates above the goodput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Above {
    /// The limit was found: the SLO is missed there.
    Missed,
    /// They were not tried: the highest level meets.
    NotTried,
    /// Too little was measured to tell; the SLO is shown to be missed from this many requests per second on, where it is at all.
    Open(Option<f64>),
}

impl Above {
    /// Whether the SLO may be met at a rate above the goodput, for all that is known.
    fn may_meet(self, rate: f64) -> bool {
        match self {
            Self::Missed => false,
            Self::NotTried => true,
            Self::Open(missed_from) => missed_from.is_none_or(|missed| rate < missed),
        }
    }
}

impl Kept {
    /// The name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Undecided => "undecided",
            Self::Rejected => "rejected",
        }
    }
}

/// The rates that are accepted: from where the cost is kept to where the SLO is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostRange {
    /// The most that a million output tokens may cost.
    pub max_per_mtok: f64,
    /// Requests per second from which on the cost is kept: cost at the goodput × goodput / limit.
    pub from_rate: f64,
    /// Requests per second up to which the SLO is met: the goodput, or the highest rate shown to meet.
    pub to_rate: f64,
    /// The safe one, where there is one.
    pub safe_rate: Option<f64>,
    /// Cost of a million output tokens at the rate to plan with: the safe one, else the goodput.
    pub cost_per_mtok: f64,
    /// Whether there are such rates.
    pub kept: Kept,
}

impl CostRange {
    /// The range of a limit, from what the goodput amounts to, the safe rate where there is one, and what is known above. `None` where the
    /// cost is not known.
    pub fn of(max_per_mtok: f64, goodput: &Capacity, safe: Option<&Capacity>, above: Above) -> Option<Self> {
        let cost = positive(goodput.cost_per_mtok?)?;
        let planned = safe.and_then(|s| s.cost_per_mtok).unwrap_or(cost);
        let keeps = |cost: f64| cost <= max_per_mtok * (1.0 + 1e-9);
        let from_rate = cost * goodput.requests_per_s / max_per_mtok;
        let kept = match (keeps(planned), keeps(cost) || above.may_meet(from_rate)) {
            (true, _) => Kept::Accepted,
            (false, true) => Kept::Undecided,
            (false, false) => Kept::Rejected,
        };
        Some(Self {
            max_per_mtok,
            from_rate,
            to_rate: goodput.requests_per_s,
            safe_rate: safe.map(|s| s.requests_per_s),
            cost_per_mtok: planned,
            kept,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that costs 1.08 an hour, 0.0003 a second, with 30 output tokens a request: at 10 requests/s one a million tokens.
    fn at(rate: f64) -> Capacity {
        Capacity {
            step: 1,
            requests_per_s: rate,
            requests_per_minute: rate * 60.0,
            requests_per_hour: rate * 3_600.0,
            requests_per_day: rate * 86_400.0,
            output_tokens_per_s: Some(rate * 30.0),
            prompt_tokens_per_s: None,
            per_gpu: None,
            cost_per_mtok: Some(10.0 / rate),
            cost_per_1000_requests: None,
        }
    }

    /// Rows: limit, goodput, safe rate; then from which rate on it is kept, and whether that is accepted.
    #[test]
    fn the_cost_bounds_the_rate_from_below() {
        for (max, goodput, safe, from, kept) in [
            (0.5, 34.0, Some(31.0), 20.0, Kept::Accepted),
            (10.0 / 32.0, 34.0, Some(31.0), 32.0, Kept::Undecided),
            (0.25, 34.0, Some(31.0), 40.0, Kept::Rejected),
            (0.5, 34.0, None, 20.0, Kept::Accepted),
            (0.25, 34.0, None, 40.0, Kept::Rejected),
            (10.0 / 34.0, 34.0, None, 34.0, Kept::Accepted), // to the last bit
        ] {
            let r = CostRange::of(max, &at(goodput), safe.map(at).as_ref(), Above::Missed).unwrap();
            assert!((r.from_rate - from).abs() < 1e-9 && r.kept == kept, "{max}, {goodput}: {r:?}");
        }
        let free = Capacity { cost_per_mtok: None, ..at(10.0) };
        assert_eq!(CostRange::of(1.0, &free, None, Above::Missed), None);
    }

    /// Kept from 40 requests/s on, with a goodput of 34: rejected only where the SLO is shown to be missed at 40.
    #[test]
    fn what_was_not_tried_is_not_rejected() {
        for (above, kept) in [
            (Above::Missed, Kept::Rejected),
            (Above::NotTried, Kept::Undecided),
            (Above::Open(None), Kept::Undecided),
            (Above::Open(Some(48.0)), Kept::Undecided),
            (Above::Open(Some(40.0)), Kept::Rejected),
        ] {
            let r = CostRange::of(0.25, &at(34.0), Some(&at(31.0)), above).unwrap();
            assert!(r.kept == kept && (r.from_rate - 40.0).abs() < 1e-9, "{above:?}: {r:?}");
            let r = CostRange::of(0.5, &at(34.0), Some(&at(31.0)), above).unwrap();
            assert_eq!(r.kept, Kept::Accepted, "{above:?}");
        }
    }
}
