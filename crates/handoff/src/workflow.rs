//! A workflow of GitHub Actions that measures a build and compares it with the run that the files were made from.

use super::alerts::source;
use super::figures::Figures;
use super::text::slug;
use anyhow::{Context, Result};
use askama::Template;
use goodput_core::units::short;

#[derive(Template)]
#[template(path = "workflow.yaml", escape = "none")]
struct Page {
    source: Vec<String>,
    name: String,
    /// Largest loss of goodput that the gate allows, in percent.
    loss: String,
    /// How the loss was chosen.
    why: String,
    minutes: u64,
}

/// Smallest loss that the gate looks for, in percent, where the interval is narrower.
const LEAST_LOSS: f64 = 5.0;
/// Minutes beyond the budget of the sweep: the start of a server and the comparison.
const SLACK_MIN: u64 = 30;

pub(crate) fn github(f: &Figures<'_>) -> Result<String> {
    // What two runs of this precision can tell apart: half of the interval's width, of one of them.
    let half = f.interval.zip(f.answer.goodput.rate()).map(|([low, high], rate)| 50.0 * (high - low) / rate);
    let loss = half.unwrap_or(LEAST_LOSS).clamp(LEAST_LOSS, 50.0).ceil();
    let why = match half {
        Some(half) if half > LEAST_LOSS => {
            format!("half the width of the 90 % interval is {} % of the goodput", short(half))
        }
        _ => format!("the interval is narrower than {LEAST_LOSS} %"),
    };
    let end = f.run.steps.iter().map(|s| s.ended_s).fold(0.0, f64::max);
    let page = Page {
        source: source(f),
        name: slug(&f.run.name),
        loss: short(loss),
        why,
        minutes: (end / 60.0).ceil() as u64 + SLACK_MIN,
    };
    page.render().context("failed to fill in the template of the workflow")
}
