//! How many machines the load of a plan needs.

use super::preview::{levels, requests_per_s};
use crate::calibrate::Calibration;
use crate::level::Control;
use crate::load::descriptors;
use crate::plan::Plan;
use crate::units::{short, thousands};
use goodput_cluster::needed::{Ceiling, Demand, Needed, STREAMS, Scarce};
use goodput_load::load::host::rate_of_cores;

/// Ephemeral ports where the system does not tell: Linux's default range.
const PORTS: f64 = 28_232.0;

/// Returns the machines that the highest known level of a plan needs; `None` if it names none. `tokens` is the mean length of an answer.
/// Without a calibration of this machine, its ceiling is estimated from its cores.
pub(super) fn needed(plan: &Plan, tokens: f64, calibration: Option<&Calibration>) -> Option<Needed> {
    let series = plan.series();
    let all = series.iter().flat_map(|one| {
        let max = one.plan.search.max_rate.map(|r| (one.plan.workload.control(), r.get()));
        let known = levels(&one.plan).0.into_iter().map(|l| (l.control, l.value)).chain(max);
        known.map(move |(control, value)| demand(&one.plan, control, value)).collect::<Vec<_>>()
    });
    let ports = descriptors::ports().map_or(PORTS, |n| n as f64);
    let ceiling = Ceiling {
        rate: calibration.map_or_else(|| rate_of_cores(tokens), |c| c.ceiling_for(tokens)),
        streams: calibration.and_then(|c| c.streams).map_or(STREAMS, |s| s.open as f64),
        ports,
    };
    all.filter_map(|demand| Needed::of(demand, ceiling)).max_by_key(|n| n.workers)
}

fn demand(plan: &Plan, control: Control, value: f64) -> Demand {
    let level = crate::level::Level::new(control, value);
    let rate = requests_per_s(plan, level);
    // By Little's law, where answers take as long as the SLO allows: half of the default timeout.
    let streams = rate.map_or(value, |rate| rate * plan.timeout().as_secs_f64() / 2.0);
    let most = f64::from(plan.step.max_in_flight);
    Demand { rate, streams: Some(streams.min(most)), addresses: plan.server.target.urls().len() }
}

/// Describes the machines that a plan needs, as a line of `check`; empty if one is enough and was not calibrated.
pub(super) fn text(needed: Option<&Needed>, is_calibrated: bool) -> String {
    let Some(Needed { workers, limit, asked, each }) = needed else { return String::new() };
    let unit = match limit {
        Scarce::Rate => "requests/s",
        Scarce::Streams => "requests in flight",
        Scarce::Ports => "connections to one address",
    };
    let by = if is_calibrated { "by its calibration" } else { "by estimate: --calibration knows" };
    let (asked, each) = (thousands(asked.ceil()), thousands(each.floor()));
    match *workers {
        1 if is_calibrated => format!(
            "\n  workers   none: one machine sends up to {each} {unit} {by}, and the plan asks for {asked}"
        ),
        1 => String::new(),
        n => format!(
            "\n  workers   {} ({asked} {unit}; one machine sends {each} {by}): goodput sweep --bus tls://HOST:4222 --expect {n}",
            short(f64::from(n))
        ),
    }
}
