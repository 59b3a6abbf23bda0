//! The limits of the SLO as the server's own histograms can tell them: which bucket, and what share was above it in each step.

use super::figures::Figures;
use goodput_core::slo::{Limit, Metric};
use goodput_stats::server::Latency;
use goodput_stats::stats::step::{Buckets, Step};

/// Burn rates of the error budget and their windows: the multi-window alerts of the SRE Workbook (chapter 5, "Alerting on SLOs"),
/// for a budget of 30 days. A burn rate of 1 spends the budget exactly.
pub(crate) const BURNS: [Burn; 4] = [
    Burn { rate: 14.4, long: "1h", short: "5m", severity: "page", hold: "2m" },
    Burn { rate: 6.0, long: "6h", short: "30m", severity: "page", hold: "5m" },
    Burn { rate: 3.0, long: "1d", short: "2h", severity: "ticket", hold: "15m" },
    Burn { rate: 1.0, long: "3d", short: "6h", severity: "ticket", hold: "30m" },
];

/// A burn rate that alerts, if it is exceeded over both windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Burn {
    pub(crate) rate: f64,
    pub(crate) long: &'static str,
    pub(crate) short: &'static str,
    pub(crate) severity: &'static str,
    /// Time that it must last before the alert fires.
    pub(crate) hold: &'static str,
}

/// The limits that alerts can be made of, and the reasons for the others.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Objectives {
    pub(crate) told: Vec<Objective>,
    /// The limits that the server's metrics do not tell, each with the reason: a sentence.
    pub(crate) untold: Vec<(String, String)>,
}

/// A limit with the bucket that stands for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Objective {
    pub(crate) limit: Limit,
    /// Name of the histogram on the server's page.
    pub(crate) histogram: String,
    /// Bound of the bucket, in seconds.
    pub(crate) bound_s: f64,
    /// The bounds on either side if none is the limit itself, in seconds.
    pub(crate) between: Option<[f64; 2]>,
    /// Share of requests above the bound in each step whose buckets are known, by number of the step.
    pub(crate) above: Vec<(u32, f64)>,
}

impl Objective {
    /// Returns the share of requests that may be above the limit.
    pub(crate) fn budget(&self) -> f64 {
        self.limit.percentile.miss_share()
    }

    /// Returns the name within metrics: `ttft_p99`.
    pub(crate) fn key(&self) -> String {
        self.limit.name().replace('.', "_")
    }

    /// Returns the name within alerts: `TtftP99`.
    pub(crate) fn camel(&self) -> String {
        let part = |p: &str| p[..1].to_uppercase() + &p[1..];
        self.key().split('_').map(part).collect()
    }

    /// Returns the alerts that can fire: a large budget cannot be spent fourteen times as fast.
    pub(crate) fn burns(&self) -> impl Iterator<Item = Burn> {
        let budget = self.budget();
        BURNS.into_iter().filter(move |b| b.rate * budget < 0.9)
    }

    /// Returns the share above the bound in a step.
    pub(crate) fn above_in(&self, step: u32) -> Option<f64> {
        self.above.iter().find(|(n, _)| *n == step).map(|(_, share)| *share)
    }
}

impl Objectives {
    pub(crate) fn of(f: &Figures<'_>) -> Self {
        let mut all = Self::default();
        for limit in f.slo.limits() {
            match objective(f, limit) {
                Ok(told) => all.told.push(told),
                Err(why) => all.untold.push((limit.to_string(), why)),
            }
        }
        if let Some(errors) = f.slo.error_rate {
            let name = format!("errors ≤ {} %", goodput_core::units::short(100.0 * errors.get()));
            let why = "the server's metrics do not count the requests that failed before they reached it: count them at the gateway";
            all.untold.push((name, why.into()));
        }
        if f.slo.limit_groups().len() > 1 {
            let why = "the server's histograms do not tell the classes of requests apart";
            all.untold.push(("limits of single classes".into(), why.into()));
        }
        all
    }
}

fn objective(f: &Figures<'_>, limit: Limit) -> Result<Objective, String> {
    let latency = latency(limit.metric).ok_or("the server has no histogram of it")?;
    let histogram = f.exposed.get(latency.name()).ok_or_else(|| match f.engine {
        None => "the run read no metrics of the server".to_owned(),
        Some(_) if f.exposed.is_empty() => {
            "the run was measured by an earlier version of goodput, which kept no names of metrics".to_owned()
        }
        Some(engine) => format!("{} has no histogram of it", engine.title()),
    })?;
    let limit_s = limit.limit.as_secs_f64();
    let known = f.loaded.iter().map(|s| buckets(s, latency)).find(|b| !b.0.is_empty());
    let bounds: Vec<f64> = known.ok_or("no step has buckets of it")?.0.iter().map(|b| b.0).collect();
    let with = |bound_s: f64, between| Objective {
        limit,
        histogram: histogram.clone(),
        bound_s,
        between,
        above: f.loaded.iter().filter_map(|s| Some((s.step, above(buckets(s, latency), bound_s)?))).collect(),
    };
    // An alert must be silent at the safe rate, as far as the server tells.
    let safe = |o: &Objective| f.at_safe().and_then(|s| o.above_in(s.step));
    let quiet = |o: &Objective| safe(o).is_none_or(|share| share < o.budget());
    if let Some(same) = bounds.iter().find(|b| (**b - limit_s).abs() < 1e-9 * limit_s) {
        let told = with(*same, None);
        return if quiet(&told) { Ok(told) } else { Err(disagree(safe(&told), *same)) };
    }
    let low = bounds.iter().copied().rfind(|b| *b < limit_s);
    let high = bounds.iter().copied().find(|b| *b > limit_s && b.is_finite());
    let between = Some([low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY)]);
    // The bound below alerts earlier.
    match (low.map(|b| with(b, between)).filter(quiet), high.map(|b| with(b, between))) {
        (Some(low), _) => Ok(low),
        (None, Some(high)) if quiet(&high) => Ok(high),
        (None, Some(high)) => Err(disagree(safe(&high), high.bound_s)),
        (None, None) => {
            Err("its buckets end below the limit, and at the safe rate too many requests are above them"
                .into())
        }
    }
}

/// Returns why a bucket is of no use that has more requests above it at the safe rate than the SLO permits.
fn disagree(share: Option<f64>, bound_s: f64) -> String {
    format!(
        "at the safe rate the server's own histogram has {} % above {bound_s} s, more than the SLO permits and than the client measured",
        goodput_core::units::short(100.0 * share.unwrap_or(1.0))
    )
}

/// Returns the server's latency that is the same quantity; `None` if servers have no such histogram.
pub(crate) const fn latency(metric: Metric) -> Option<Latency> {
    match metric {
        Metric::Ttft => Some(Latency::Ttft),
        Metric::Ttfc | Metric::Rtf => None,
        Metric::Tpot => Some(Latency::Tpot),
        Metric::Itl => Some(Latency::Itl),
        Metric::E2e => Some(Latency::E2e),
    }
}

/// Returns the buckets of a latency in a step; empty if there are none.
pub(crate) const fn buckets(step: &Step, latency: Latency) -> &Buckets {
    match latency {
        Latency::Tpot => &step.server.tpot_buckets,
        Latency::Itl => &step.server.itl_buckets,
        Latency::E2e => &step.server.e2e_buckets,
        Latency::Ttft | Latency::Queue | Latency::Prefill | Latency::Decode => &step.server.ttft_buckets,
    }
}

/// Returns the share of observations above a bound; `None` without any.
fn above(buckets: &Buckets, bound_s: f64) -> Option<f64> {
    let all = buckets.0.last().map(|b| b.1).filter(|n| *n > 0.0)?;
    let below = buckets.0.iter().find(|b| b.0.to_bits() == bound_s.to_bits())?.1;
    Some(1.0 - below / all)
}
