//! Autoscaling: a KEDA ScaledObject, and a HorizontalPodAutoscaler for clusters with an adapter for external metrics.

use super::alerts::{REQUESTS, RUNNING, WAITING, source};
use super::early::Signals;
use super::figures::Figures;
use super::promql::{finished, total};
use super::text::{Quoted, floor3, known, slug};
use anyhow::{Context, Result};
use askama::Template;
use goodput_core::units::short;
use goodput_stats::server::Signal;

/// Shortest time without need before replicas are taken away, in seconds: the default of Kubernetes.
const LEAST_DOWN_S: f64 = 300.0;
/// Shortest time without need in multiples of the time that a replica takes to start, which it costs if it is soon needed again.
const DOWN_START_UPS: f64 = 5.0;

/// A load that replicas are counted by: total over threshold.
struct Trigger {
    comment: String,
    /// Name under which the rules record the load, and that of the external metric.
    record: &'static str,
    external: String,
    query: Quoted,
    threshold: String,
}

/// The figures of both files.
struct Scaling {
    source: Vec<String>,
    comments: Vec<String>,
    name: String,
    deployment: Quoted,
    service: String,
    prometheus: Quoted,
    least: u64,
    most: u64,
    down_s: u64,
    triggers: Vec<Trigger>,
}

#[derive(Template)]
#[template(path = "keda.yaml", escape = "none")]
struct Keda<'a> {
    s: &'a Scaling,
}

#[derive(Template)]
#[template(path = "hpa.yaml", escape = "none")]
struct Hpa<'a> {
    s: &'a Scaling,
}

/// Returns the ScaledObject; `None` without replicas from a capacity plan, or without a load that the server reports.
pub(crate) fn keda(f: &Figures<'_>, early: &Signals) -> Result<Option<String>> {
    let Some(scaling) = scaling(f, early) else { return Ok(None) };
    Keda { s: &scaling }.render().map(Some).context("failed to fill in the template of the ScaledObject")
}

/// Returns the HorizontalPodAutoscaler; `None` as for [`keda`].
pub(crate) fn hpa(f: &Figures<'_>, early: &Signals) -> Result<Option<String>> {
    let Some(scaling) = scaling(f, early) else { return Ok(None) };
    Hpa { s: &scaling }
        .render()
        .map(Some)
        .context("failed to fill in the template of the HorizontalPodAutoscaler")
}

fn scaling(f: &Figures<'_>, early: &Signals) -> Option<Scaling> {
    let replicas = f.replicas.as_ref()?;
    let triggers = triggers(f, early);
    if triggers.is_empty() {
        return None;
    }
    let start_up = f.start_up.map_or(0.0, |s| s.as_secs_f64());
    Some(Scaling {
        source: source(f),
        comments: comments(f),
        name: slug(&f.deployment),
        deployment: Quoted(f.deployment.clone()),
        service: f.service(),
        prometheus: Quoted(f.prometheus.clone()),
        least: replicas.least,
        most: replicas.most,
        down_s: (DOWN_START_UPS * start_up).max(LEAST_DOWN_S).ceil() as u64,
        triggers,
    })
}

fn triggers(f: &Figures<'_>, early: &Signals) -> Vec<Trigger> {
    let headroom = f.headroom();
    let with_headroom = if headroom > 1.0 { format!(" / {}", short(headroom)) } else { String::new() };
    let rate = finished(f).map(|query| Trigger {
        comment: format!(
            "Requests per second: the safe rate of a replica, {}{with_headroom}.",
            short(f.safe_each())
        ),
        record: REQUESTS,
        external: external(REQUESTS),
        query: Quoted(query),
        threshold: floor3(f.safe_each() / headroom).to_string(),
    });
    let signal = early.scaling().and_then(|(signal, at_safe)| {
        let record = if signal.signal == Signal::Running { RUNNING } else { WAITING };
        Some(Trigger {
            comment: format!(
                "{} per replica at the safe rate, {}{with_headroom}.",
                signal.title(),
                known(Some(at_safe))
            ),
            record,
            external: external(record),
            query: Quoted(total(f, signal.signal)?),
            threshold: floor3(at_safe / headroom).to_string(),
        })
    });
    rate.into_iter().chain(signal).collect()
}

/// Returns a name without colons, which Kubernetes does not allow.
fn external(record: &str) -> String {
    record.replace(':', "_")
}

fn comments(f: &Figures<'_>) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(replicas) = &f.replicas {
        all.push(format!("Replicas from capacity.json: {}", super::text::line(&replicas.summary)));
        all.push("The least serve the mean rate of a day, the most its peak with the headroom; both with the spare ones.".into());
    }
    match f.start_up.map(|s| s.as_secs_f64()) {
        Some(s) if f.growth > 0.0 => all.push(format!(
            "A replica takes {} s to start. Thresholds are divided by {}: until then the load grows by {} % a minute at the most.",
            short(s),
            short(f.headroom()),
            short(100.0 * f.growth),
        )),
        Some(s) => {
            let bears = 100.0 * (f.goodput / f.safe - 1.0);
            all.push(format!(
                "A replica takes {} s to start. Until then the load may grow by {} %, from the safe rate to the goodput.",
                short(s),
                short(bears.max(0.0)),
            ));
        }
        None => all.push(
            "The time that a replica takes to start is not known: set it with --start-up, and the growth of the load with --growth.".into(),
        ),
    }
    all
}
