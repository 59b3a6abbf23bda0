//! The requests of a run under the definitions and names of other benchmarking tools, so that two teams can find out
//! why their figures differ.
//!
//! Everything is computed from the files of the run folder: `requests.csv`, and `histograms.csv` for the gaps between
//! tokens. Figures that need other data are listed and left out.

mod aiperf;
mod guidellm;
mod inference_perf;
mod requests;
mod statistics;
mod vllm;

use crate::rundir::{Run, Tool};
use anyhow::{Result, bail};
use goodput_core::slo::{Metric, Slo};
use goodput_stats::stats::step::Step;
use requests::{Gaps, Request};
use serde::Serialize;
use std::path::Path;

/// A run as another tool would report it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AsTool {
    /// The tool.
    pub tool: Tool,
    /// Version of the tool whose definitions are used.
    pub version: &'static str,
    /// True if that tool measured the run, so that its reported figures can be shown next to these.
    pub own: bool,
    /// All steps.
    pub steps: Vec<StepAs>,
    /// Differences between its definitions and ours, one line each.
    pub differences: &'static [&'static str],
    /// Figures that the tool reports but that a run folder has no data for.
    pub untold: &'static [&'static str],
}

/// A step as another tool would report it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepAs {
    /// Series of the step.
    pub series: String,
    /// Number of the step.
    pub step: u32,
    /// Load level: `7 req/s`.
    pub level: String,
    /// Length in seconds of the window that rates are computed over.
    pub duration_s: f64,
    /// The figures, under the tool's names.
    pub figures: Vec<Figure>,
}

/// A figure under a tool's name and definition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Name in the tool's own results.
    pub name: String,
    /// Unit in the tool's notation.
    pub unit: &'static str,
    /// The value; `None` if nothing was measured.
    pub value: Option<f64>,
    /// True if the value comes from the histogram of gaps, which has three significant figures.
    pub approximate: bool,
    /// Value reported by the tool itself, if it measured the run.
    pub reported: Option<f64>,
    /// Our name for the nearest figure.
    pub ours: Option<&'static str>,
    /// Value of our nearest figure, in the tool's unit.
    pub our_value: Option<f64>,
}

/// Input of a tool's definitions: the measured requests of one step.
struct Data<'a> {
    step: &'a Step,
    slo: Option<&'a Slo>,
    requests: &'a [Request],
    gaps: &'a Gaps,
    /// The window that rates are computed over, in ms from the start of the step.
    window: [f64; 2],
}

/// Computes the figures of a run under the definitions of a tool.
///
/// # Errors
/// Fails if the folder's `requests.csv` is missing or cannot be read, or if the tool's definitions are not
/// implemented.
pub fn of(run: &Run, dir: &Path, tool: Tool) -> Result<AsTool> {
    let (figures, differences, untold, version): (fn(&Data<'_>) -> Vec<Figure>, _, _, _) = match tool {
        Tool::Vllm => (vllm::figures, vllm::DIFFERENCES, vllm::UNTOLD, "0.32"),
        Tool::Guidellm => (guidellm::figures, guidellm::DIFFERENCES, guidellm::UNTOLD, "0.8"),
        Tool::Aiperf => (aiperf::figures, aiperf::DIFFERENCES, aiperf::UNTOLD, "0.13"),
        Tool::InferencePerf => {
            (inference_perf::figures, inference_perf::DIFFERENCES, inference_perf::UNTOLD, "0.5")
        }
        Tool::GenaiBench => bail!(
            "the definitions of genai-bench are not known here; of vllm, guidellm, aiperf and inference-perf they are"
        ),
    };
    let imported = run.meta.imported.as_ref().filter(|i| i.tool == tool);
    let all = requests::read(dir, &run.steps, imported.is_some())?;
    let gaps = requests::gaps(dir, &run.steps)?;
    let mut steps = Vec::new();
    for (i, step) in run.steps.iter().enumerate() {
        let own = imported.and_then(|i| i.step(step.step));
        // The tool's own window includes the requests that were cut off on import, so it is used only if none were.
        let whole = imported.is_some_and(|i| i.settle.is_none());
        let window = match own.filter(|_| whole) {
            Some(own) => own.window_s.map(|s| 1e3 * s),
            None => window(tool, step, &all[i]),
        };
        let data = Data { step, slo: run.tiers.first(), requests: &all[i], gaps: &gaps[i], window };
        let mut figures = figures(&data);
        for figure in &mut figures {
            figure.reported = own.and_then(|own| own.reported.get(&figure.name).copied());
        }
        steps.push(StepAs {
            series: step.series.clone(),
            step: step.step,
            level: step.level.to_string(),
            duration_s: (window[1] - window[0]) / 1e3,
            figures,
        });
    }
    Ok(AsTool { tool, version, own: imported.is_some(), steps, differences, untold })
}

/// Returns the window over which the tool would compute rates had it sent the measured requests. All but GuideLLM use
/// the time from the first send to the last end.
fn window(tool: Tool, step: &Step, requests: &[Request]) -> [f64; 2] {
    if tool == Tool::Guidellm {
        return [step.settle_s, step.settle_s + step.measure_s].map(|s| 1e3 * s);
    }
    let first = requests.iter().filter_map(|r| r.sent).fold(f64::INFINITY, f64::min);
    let last = requests.iter().filter(|r| r.sent.is_some()).map(|r| r.end).fold(first, f64::max);
    if first.is_finite() { [first, last] } else { [0.0, 0.0] }
}

impl Data<'_> {
    /// Returns the length of the rate window in seconds.
    fn seconds(&self) -> f64 {
        (self.window[1] - self.window[0]) / 1e3
    }

    /// Returns `n` per second of the window; `None` if the window is empty.
    fn per_s(&self, n: f64) -> Option<f64> {
        (self.seconds() > 0.0).then(|| n / self.seconds())
    }

    fn answered(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|r| r.ok())
    }

    fn failed(&self) -> usize {
        self.requests.iter().filter(|r| r.failed()).count()
    }

    /// Returns the SLO's limit on a metric in ms as a limit on single requests: the loosest if there are several
    /// percentiles.
    fn limit(&self, metric: Metric) -> Option<f64> {
        self.slo?.largest(metric).map(goodput_core::units::ms)
    }

    /// Returns true if any of these metrics has a limit.
    fn limits(&self, metrics: &[Metric]) -> bool {
        metrics.iter().any(|m| self.limit(*m).is_some())
    }

    /// Returns true if a value meets the limit on a metric. Without a limit any value does; with one, an unknown
    /// value does not.
    fn keeps(&self, metric: Metric, value: Option<f64>) -> bool {
        self.limit(metric).is_none_or(|limit| value.is_some_and(|v| v <= limit))
    }

    /// Makes a figure with the nearest figure of ours.
    fn figure(
        &self,
        name: &str,
        unit: &'static str,
        value: Option<f64>,
        ours: Option<(&'static str, Option<f64>)>,
    ) -> Figure {
        Figure {
            name: name.to_owned(),
            unit,
            value: value.filter(|v| v.is_finite()),
            approximate: false,
            reported: None,
            ours: ours.map(|(name, _)| name),
            our_value: ours.and_then(|(_, value)| value),
        }
    }
}
