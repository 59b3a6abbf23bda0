//! Files for operations, made from a run folder: Prometheus alerts with their tests, autoscaling, admission limits, a Grafana
//! dashboard and a CI workflow. Every figure in them is one that the run measured, and is named in a comment.

mod admission;
mod alerts;
mod alerts_test;
mod capacity;
mod dashboard;
mod early;
mod figures;
mod index;
mod objective;
mod promql;
mod rising;
mod scaling;
mod scatter;
mod text;
mod workflow;

pub use capacity::Replicas;
pub use figures::{Figures, NoFigures, Options};

use anyhow::Result;

/// One file that is handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffFile {
    /// Name of the file, and its folder.
    pub path: &'static str,
    /// Content of the file.
    pub text: String,
}

/// The files that are handed over.
#[derive(Debug, Clone, PartialEq)]
pub struct Handoff {
    /// The files, the index (`README.md`) first.
    pub files: Vec<HandoffFile>,
    /// Sentences on what is missing, each with its reason.
    pub missing: Vec<String>,
}

/// Makes the files from the figures of a run.
///
/// # Errors
/// A template cannot be filled in.
pub fn handoff(f: &Figures<'_>) -> Result<Handoff> {
    let objectives = objective::Objectives::of(f);
    let early = early::Signals::of(f);
    let mut files = Vec::new();
    let mut add = |path, text: Option<String>| files.extend(text.map(|text| HandoffFile { path, text }));
    add("alerts/goodput.rules.yaml", alerts::rules(f, &objectives, &early)?);
    add("alerts/goodput.rules.test.yaml", alerts_test::tests(f, &objectives, &early)?);
    add("scaling/keda-scaledobject.yaml", scaling::keda(f, &early)?);
    add("scaling/hpa.yaml", scaling::hpa(f, &early)?);
    add("admission/envoy.yaml", Some(admission::envoy(f)?));
    add("admission/nginx.conf", Some(admission::nginx(f)?));
    add("admission/litellm.yaml", Some(admission::litellm(f)?));
    add("dashboard/grafana.json", dashboard::grafana(f, &objectives, &early)?);
    add("ci/goodput.yaml", Some(workflow::github(f)?));
    add("ci/plan.toml", Some(f.run.plan_toml.clone()));
    let missing = index::missing(f, &objectives, &early);
    let index =
        HandoffFile { path: "README.md", text: index::page(f, &objectives, &early, &files, &missing)? };
    files.insert(0, index);
    Ok(Handoff { files, missing })
}

#[cfg(test)]
mod tests;
