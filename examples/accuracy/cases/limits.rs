//! Development cases by their limits: other percentiles than p99, other metrics, several limits at once, and closed
//! loops.

use super::dev::{CHAT, SHORT, engine};
use super::engines::{Gpu, exponential, fixed, several, single};
use super::{Case, Group, TruthLine};
use goodput::sim::engine::truth::{md1_wait_cdf, mm1_sojourn_cdf, mmc_wait_cdf};
use goodput::slo::Metric::{E2e, Itl, Tpot, Ttfc, Ttft};
use std::time::Duration;

/// Found by `accuracy truths` with 300,000 requests. Those of coincident limits are one estimate from 2.4 million
/// requests of all three, as the limits are the percentiles at 15 req/s.
const TRUTHS: &[TruthLine] = &[
    ("8b-p99.9", [25.11636, 0.932, 9.904, 12.42, 30.690, 0.0000]),
    ("8b-p90", [21.50268, 0.682, 9.106, 38.23, 30.693, 0.3439]),
    ("8b-itl", [13.31297, 1.425, 2.029, 0.33, 30.599, 0.0000]),
    ("errors", [17.20301, 0.817, 19.352, 26.73, 20.000, 0.0000]),
    ("8b-joint", [17.70262, 1.122, 8.053, 10.12, 30.802, 0.0035]),
    ("stability-8b", [64.29330, 0.756, f64::INFINITY, 1.00, 64.781, 0.0000]),
    ("both-8b", [14.97000, 0.800, 2.178, 5.16, 30.590, 0.1500]),
    ("three-8b", [14.97000, 0.800, 2.200, 5.00, 30.844, 0.1500]),
    ("four-8b", [14.97000, 0.800, 2.200, 5.00, 30.823, 0.1500]),
    ("closed-8b", [39.57793, 0.617, 7.874, 5.30, 30.551, 0.0035]),
    ("closed-fast", [102.00528, 0.282, 23.721, 16.55, 657.732, 0.0000]),
    ("same-8b", [14.18210, 0.444, 2.213, 4.65, 30.664, 0.1162]),
];

pub(super) fn limits() -> Vec<Case> {
    let all = single_limits().into_iter().map(|c| c.group(Group::Limit));
    let all = all.chain(coincident().into_iter().map(|c| c.group(Group::Coincident)));
    all.chain(closed().into_iter().map(|c| c.group(Group::Closed))).map(|c| exact(c.with(TRUTHS))).collect()
}

fn mm1(name: &str) -> Case {
    Case::new(name, single(exponential(50.0)))
}

fn single_limits() -> Vec<Case> {
    vec![
        mm1("mm1-p90").limit_at(Ttft, 90.0, 250.0),
        mm1("mm1-p99.9").limit_at(Ttft, 99.9, 700.0),
        Case::new("md1-p95", single(fixed(50.0))).limit_at(Ttft, 95.0, 200.0),
        Case::new("mm32-p90", several(32, exponential(2000.0), 50.0)).limit_at(Ttft, 90.0, 200.0),
        engine("8b-p90", Gpu::B8, CHAT).limit_at(Ttft, 90.0, 150.0).limit_at(Tpot, 90.0, 20.0),
        engine("8b-p99.9", Gpu::B8, CHAT).limit_at(Ttft, 99.9, 500.0),
        engine("8b-itl", Gpu::B8, CHAT).limit(Itl, 60.0),
        // Requests time out after a second and count as failures, of which 1 % are allowed.
        Case {
            timeout_s: Some(1.0),
            error_rate: Some(0.01),
            ..Case::new("errors", several(8, fixed(400.0), 20.0)).limit_at(Ttft, 50.0, 900.0)
        },
        Case { joint: Some(0.99), ..engine("8b-joint", Gpu::B8, CHAT).limit(Ttft, 400.0).limit(Tpot, 22.0) },
        Case { joint: Some(0.95), ..mm1("mm1-joint-95").limit(Ttft, 500.0) },
        // Only the backlog binds.
        Case::new("stability-16", several(16, exponential(1000.0), 50.0)).limit(Tpot, 20_000.0),
        engine("stability-8b", Gpu::B8, SHORT).limit(Tpot, 1000.0),
        // First tokens come at once, last ones after 25 s on average and after two minutes at the p99.
        Case::new("long-answers", several(100, exponential(25_000.0), 100.0)).limit(Ttft, 1000.0),
    ]
}

/// Limits that bind together. In those named `same`, all limits are missed by exactly the same requests; in the others,
/// the server determines how they correlate.
fn coincident() -> Vec<Case> {
    vec![
        mm1("same-2").limit(Ttft, 500.0).limit(Ttfc, 500.0),
        mm1("same-3").limit(Ttft, 500.0).limit(Ttfc, 500.0).limit(E2e, 500.0),
        engine("same-8b", Gpu::B8, CHAT).limit(Ttft, 200.0).limit(Ttfc, 200.0),
        // Each of these limits alone has its true rate at 15 req/s: they are the percentiles at that rate.
        engine("both-8b", Gpu::B8, CHAT).limit(Ttft, 208.5).limit(Tpot, 18.05),
        engine("three-8b", Gpu::B8, CHAT).limit(Ttft, 208.5).limit(Tpot, 18.05).limit(E2e, 5325.0),
        engine("four-8b", Gpu::B8, CHAT)
            .limit_at(Ttft, 95.0, 121.9)
            .limit(Ttft, 208.5)
            .limit(Tpot, 18.05)
            .limit(E2e, 5325.0),
    ]
}

/// Cases whose levels are requests in flight.
fn closed() -> Vec<Case> {
    let closed = |case: Case| Case { closed_loop: true, ..case };
    vec![
        closed(engine("closed-8b", Gpu::B8, CHAT).limit(Ttft, 300.0).limit(Tpot, 20.0)),
        closed(engine("closed-fast", Gpu::B05, SHORT).limit(Tpot, 4.0)),
    ]
}

/// Sets the truths with a closed form.
fn exact(case: Case) -> Case {
    let ms = Duration::from_millis;
    let mm1 = |case: Case, inflation: f64, limit: u64| {
        case.closed_form(20.0, inflation, |r| mm1_sojourn_cdf(r, ms(50), ms(limit)))
    };
    match case.name.as_str() {
        "mm1-p90" => mm1(case, 10.5, 250),
        "mm1-p99.9" => mm1(case, 9.7, 700),
        "mm1-joint-95" => mm1(case, 33.2, 500),
        "same-2" | "same-3" => mm1(case, 10.6, 500),
        "md1-p95" => case.closed_form(20.0, 9.2, |r| md1_wait_cdf(r, ms(50), ms(150))),
        "mm32-p90" => case.closed_form(16.0, 61.5, |r| mmc_wait_cdf(r, ms(2000), 32, ms(150))),
        "long-answers" => {
            case.closed_form(4.0, 60.0, |r| mmc_wait_cdf(r, Duration::from_secs(25), 100, ms(900)))
        }
        "stability-16" => case.cliff_at(16.0),
        _ => case,
    }
}
