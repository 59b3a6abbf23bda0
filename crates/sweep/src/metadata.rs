//! Facts about a sweep other than its steps: checks and metadata before the first step, and the metrics served while it
//! runs.

use super::journal::Shown;
use super::live::Live;
use super::machine::warn_of_descriptors;
use super::prepare::Prepared;
use super::watch::{LivePage, Watched};
use super::{Options, own_budget};
use anyhow::Result;
use goodput_core::caveat::{Caveat, OriginCaveat};
use goodput_load::client::route;
use goodput_load::load::host::machine;
use goodput_plan::{Plan, Series};
use goodput_run::rundir::{self, Meta, Sent};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Checks this machine and the routes to the servers before the first request, and logs warnings. Does nothing in
/// simulated time.
///
/// # Errors
/// A TLS file cannot be used, or the kind of a proxy is not supported.
pub(super) fn preflight(plan: &Plan, series: &[Series], virtual_time: bool) -> Result<()> {
    if virtual_time {
        return Ok(());
    }
    warn_of_descriptors(plan);
    series.iter().try_for_each(|one| route::check(&one.plan.server))?;
    for warning in route::warnings_of(series) {
        tracing::warn!("warning: {warning}");
    }
    Ok(())
}

/// Starts to serve the page and the metrics of a sweep with this plan.
pub(super) fn serve(plan: &Plan, address: SocketAddr, page: &LivePage, options: &Options) -> Result<Shown> {
    let about = vec![
        ("name", plan.name.clone()),
        ("server", plan.measured_server().to_string()),
        ("workload", plan.measured_workload().to_string()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let (live, metrics) = Live::new(plan.slo.as_slice(), about);
    let watched = Watched::new(plan, own_budget(plan, options.budget));
    let bound = options.served.start(address, metrics, page, watched.clone())?;
    if !address.ip().is_loopback() {
        tracing::warn!(
            "warning: --listen {address}: anyone who reaches this machine there can read the sweep's page and metrics, without a password; \
             --listen 127.0.0.1:{} keeps them on it",
            bound.port()
        );
    }
    tracing::info!("page of the sweep: http://{bound}/");
    tracing::info!("metrics of the sweep: http://{bound}/metrics");
    Ok(Shown { live, watched, page: page.clone() })
}

/// Sorts lengths in the order of the plan's series and classes, all classes together first.
pub(super) fn sent_in_order(mut sent: Vec<Sent>, plan: &Plan) -> Vec<Sent> {
    let series = plan.series();
    sent.sort_by_key(|s| {
        let own = series.iter().position(|one| one.name == s.series);
        let classes = own.map_or(&[][..], |i| series[i].plan.workload.classes());
        (own, classes.iter().position(|class| class.name == s.class))
    });
    sent
}

/// Returns the metadata known before the first step. `ready` is `None` if each variant has a separate server.
pub(super) fn meta(plan: &Plan, ready: Option<&Prepared>, virtual_time: bool) -> Meta {
    let of_all = || virtual_time.then_some(Caveat::Origin(OriginCaveat::VirtualTime)).into_iter().collect();
    Meta {
        goodput_version: env!("CARGO_PKG_VERSION").into(),
        host: machine(),
        seed: plan.seed,
        started: jiff::Timestamp::now().to_string(),
        server: plan.measured_server(),
        model: ready.map(|r| r.model.clone()).or_else(|| plan.server.model.clone()).unwrap_or_default(),
        workload: plan.measured_workload(),
        sent: Vec::new(),
        traffic: plan.workload.file_summaries.iter().filter_map(|f| f.note.clone()).collect(),
        slo: plan.slo.summary(),
        gpu: plan.hardware.gpu.clone(),
        gpus: plan.hardware.gpu_count(),
        notes: plan.notes.clone(),
        virtual_time,
        noted: ready.map_or_else(of_all, |r| r.noted.clone()),
        budget: None,
        words: ready.map(|r| r.load.terms().words.clone()),
        calibration: None,
        facts: ready.map(|r| r.facts.clone()).unwrap_or_default(),
        first_requests: ready.map(|r| r.first_requests.clone()).unwrap_or_default(),
        environment: plan.environment.clone().into(),
        resumed: Vec::new(),
        variants: Vec::new(),
        left_alone: BTreeMap::new(),
        imported: None,
        workers: Vec::new(),
        plan: rundir::changed::stored(plan).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_stand_in_the_order_of_the_plan() {
        let class = |name: &str| {
            format!(
                "[[workload.class]]\nname = \"{name}\"\nweight = 1\nprompts.synthetic = {{ input-tokens.fixed = 5, output-tokens.fixed = 2 }}\n"
            )
        };
        let text = format!(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n[workload]\nalone = true\n{}{}",
            class("chat"),
            class("all-in")
        );
        let sent = |series: &str, class: &str| Sent {
            series: series.into(),
            class: class.into(),
            input: None,
            output: None,
        };
        let want =
            vec![sent("mix", "all"), sent("mix", "chat"), sent("mix", "all-in"), sent("only chat", "all")];
        let got = sent_in_order(want.iter().rev().cloned().collect(), &Plan::from_text(&text).unwrap());
        assert_eq!(got, want);
    }
}
