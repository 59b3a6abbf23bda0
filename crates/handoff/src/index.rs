//! The index of the files: what each is for, the figures that they rest on, and what is missing.

use super::HandoffFile;
use super::early::{EarlySignal, NoAlert, Signals};
use super::figures::Figures;
use super::objective::Objectives;
use super::text::{cell, known};
use anyhow::{Context, Result};
use askama::Template;
use goodput_core::units::short;

#[derive(Template)]
#[template(path = "index.md", escape = "none")]
struct Page {
    title: String,
    source: Vec<String>,
    files: Vec<FileRow>,
    limits: Vec<LimitRow>,
    signals: Vec<SignalRow>,
    safe_steps: usize,
    steps_beyond: usize,
    missing: Vec<String>,
    adapt: Vec<String>,
}

struct FileRow {
    path: &'static str,
    purpose: &'static str,
}

struct LimitRow {
    limit: String,
    histogram: String,
    bound: String,
    safe: String,
    beyond: String,
}

struct SignalRow {
    name: String,
    at_safe: String,
    at_goodput: String,
    threshold: String,
    safe: String,
    beyond: String,
    apart: String,
    used: String,
}

/// Returns the sentences on what could not be made, each with its reason.
pub(crate) fn missing(f: &Figures<'_>, objectives: &Objectives, early: &Signals) -> Vec<String> {
    let mut all: Vec<String> =
        objectives.untold.iter().map(|(limit, why)| format!("No alert on {limit}: {why}.")).collect();
    if f.engine.is_none() {
        all.push(
            "No early alerts, no scaling and no dashboard: the run read no metrics of the server.".into(),
        );
    } else if early.alerting().next().is_none() {
        let why = if f.not_reached {
            "no rate that was tried missed the SLO, so nothing tells what precedes a miss"
        } else {
            "no signal rises beyond the goodput above what it scatters at the safe rate (README.md has the figures)"
        };
        all.push(format!("No early alerts: {why}."));
    }
    if f.replicas.is_none() && !f.exposed.is_empty() {
        all.push(
            "No scaling: the least and the largest number of replicas are not known. Make a plan with goodput capacity --out DIR, and give \
             its capacity.json to --capacity."
                .into(),
        );
    }
    if f.at_safe().is_none() {
        all.push("No limit on requests in flight: no step met the SLO.".into());
    }
    all
}

pub(crate) fn page(
    f: &Figures<'_>,
    objectives: &Objectives,
    early: &Signals,
    files: &[HandoffFile],
    missing: &[String],
) -> Result<String> {
    let share = |of: Option<f64>| of.map_or_else(|| "–".into(), |s| format!("{} %", short(100.0 * s)));
    let limits = objectives.told.iter().map(|o| LimitRow {
        limit: cell(&o.limit.to_string()),
        histogram: cell(&o.histogram),
        bound: match o.between {
            None => format!("{} s", o.bound_s),
            Some([low, high]) => format!("{} s (the limit is between {low} and {high} s)", o.bound_s),
        },
        safe: share(f.at_safe().and_then(|s| o.above_in(s.step))),
        beyond: share(f.beyond().and_then(|s| o.above_in(s.step))),
    });
    let page = Page {
        title: cell(&f.title()),
        source: super::alerts::source(f),
        files: files.iter().map(|file| FileRow { path: file.path, purpose: purpose(file.path) }).collect(),
        limits: limits.collect(),
        signals: early.0.iter().map(row).collect(),
        safe_steps: f.safe_steps().count(),
        steps_beyond: f.steps_beyond().count(),
        missing: missing.to_vec(),
        adapt: adapt(f, files),
    };
    page.render().context("failed to fill in the template of the index")
}

fn row(s: &EarlySignal) -> SignalRow {
    let alert = s.alert();
    let counts = alert.ok().map(|a| s.counts_above(a.threshold));
    let of = |n: usize, all: usize| format!("{n} of {all}");
    let dash = || "–".to_owned();
    SignalRow {
        name: format!("{}{}", s.title(), s.per()),
        at_safe: known(s.at_safe),
        at_goodput: known(s.at_goodput),
        threshold: known(alert.ok().map(|a| super::alerts::early_threshold(a.threshold))),
        safe: counts.map_or_else(dash, |[safe, _]| of(safe, s.safe.len())),
        beyond: counts.map_or_else(dash, |[_, beyond]| of(beyond, s.beyond.len())),
        apart: if s.safe.is_empty() || s.beyond.is_empty() { dash() } else { short(s.separation()) },
        used: match alert {
            Ok(a) if a.from <= 1.0 => format!("yes, over {} minutes", a.window_min),
            Ok(a) => format!("from {} × the goodput, over {} minutes", short(a.from), a.window_min),
            Err(NoAlert::Unknown) => "no: its values are not known".into(),
            Err(NoAlert::Level) => "no: it rises less than it scatters".into(),
            Err(NoAlert::NotApart) => "no: its threshold does not tell steps apart".into(),
            Err(NoAlert::FewSamples) => "no: too few samples tell how it scatters".into(),
        },
    }
}

fn purpose(path: &str) -> &'static str {
    match path {
        "alerts/goodput.rules.yaml" => {
            "Prometheus rules: burn rates of the error budget, early alerts, recorded load"
        }
        "alerts/goodput.rules.test.yaml" => {
            "their tests, with what the server reported in this run: `promtool test rules`"
        }
        "scaling/keda-scaledobject.yaml" => "autoscaling with KEDA",
        "scaling/hpa.yaml" => {
            "autoscaling with a HorizontalPodAutoscaler and an adapter for external metrics"
        }
        "admission/envoy.yaml" => "limits on requests per second and in flight for Envoy",
        "admission/nginx.conf" => "the same for NGINX",
        "admission/litellm.yaml" => "the same for LiteLLM's proxy",
        "dashboard/grafana.json" => "a Grafana dashboard with the measured figures as lines",
        "ci/goodput.yaml" => "a GitHub Actions workflow that measures a build and gates on its goodput",
        _ => "the plan of this run, for the workflow",
    }
}

/// Returns what only the reader knows and has to set.
fn adapt(f: &Figures<'_>, files: &[HandoffFile]) -> Vec<String> {
    let mut all = Vec::new();
    let has = |start: &str| files.iter().any(|file| file.path.starts_with(start));
    if has("alerts/") && f.selector.is_empty() {
        all.push(
            "The rules count every server of that Prometheus. `--label job=llm` picks those of one service."
                .into(),
        );
    }
    if has("scaling/") {
        all.push(format!(
            "The Deployment is called `{}` (`--deployment`), Prometheus is at `{}` (`--prometheus`).",
            cell(&f.deployment),
            cell(&f.prometheus),
        ));
    }
    all.push("Addresses of servers in `admission/` are examples. Its limits are those of one server.".into());
    all
}
