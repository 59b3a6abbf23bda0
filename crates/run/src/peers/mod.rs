//! The requests of a run as other tools count them: the same times under their definitions, with their own names, so that two teams can
//! find out why their figures differ.
//!
//! Everything is made from the files of the run folder: `requests.csv`, and `histograms.csv` for the gaps between tokens. What these do not
//! hold is named and left out.

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
    /// Which tool.
    pub tool: Tool,
    /// The definitions are those of this version.
    pub version: &'static str,
    /// Whether that tool measured the run itself, so that its own figures stand beside.
    pub own: bool,
    /// Every step.
    pub steps: Vec<StepAs>,
    /// Where its definitions differ from ours, a line each.
    pub differences: &'static [&'static str],
    /// What it reports and a run folder does not hold.
    pub untold: &'static [&'static str],
}

/// A step as another tool would report it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepAs {
    /// The curve it belongs to.
    pub series: String,
    /// Its number.
    pub step: u32,
    /// What was held: `7 req/s`.
    pub level: String,
    /// Seconds that rates are reckoned over.
    pub duration_s: f64,
    /// The figures, by the tool's names.
    pub figures: Vec<Figure>,
}

/// A figure by a tool's name and definition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its name in the tool's own results.
    pub name: String,
    /// The unit, as the tool has it.
    pub unit: &'static str,
    /// The value; `None` where nothing was measured.
    pub value: Option<f64>,
    /// Made from the histogram of gaps, which tells them to three significant figures.
    pub approximate: bool,
    /// What the tool itself reported, where it measured the run.
    pub reported: Option<f64>,
    /// Our name for what comes nearest, …
    pub ours: Option<&'static str>,
    /// … and its value, in the tool's unit.
    pub our_value: Option<f64>,
}

/// What a tool's definitions are applied to: the measured requests of one step.
struct Data<'a> {
    step: &'a Step,
    slo: Option<&'a Slo>,
    requests: &'a [Request],
    gaps: &'a Gaps,
    /// What rates are reckoned over, in ms from the start of the step.
    window: [f64; 2],
}

/// A run under the definitions of a tool.
///
/// # Errors
/// The folder's `requests.csv` is missing or cannot be read, or the tool's definitions are not known here.
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
        // What was cut off on import is not in the tool's own window either.
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

/// What the tool would reckon its rates over had it sent the measured requests: all but GuideLLM from the first sending to the last end.
fn window(tool: Tool, step: &Step, requests: &[Request]) -> [f64; 2] {
    if tool == Tool::Guidellm {
        return [step.settle_s, step.settle_s + step.measure_s].map(|s| 1e3 * s);
    }
    let first = requests.iter().filter_map(|r| r.sent).fold(f64::INFINITY, f64::min);
    let last = requests.iter().filter(|r| r.sent.is_some()).map(|r| r.end).fold(first, f64::max);
    if first.is_finite() { [first, last] } else { [0.0, 0.0] }
}

impl Data<'_> {
    /// Seconds that rates are reckoned over.
    fn seconds(&self) -> f64 {
        (self.window[1] - self.window[0]) / 1e3
    }

    /// So many a second; nothing where there is no time.
    fn per_s(&self, n: f64) -> Option<f64> {
        (self.seconds() > 0.0).then(|| n / self.seconds())
    }

    fn answered(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|r| r.ok())
    }

    fn failed(&self) -> usize {
        self.requests.iter().filter(|r| r.failed()).count()
    }

    /// The SLO's limit on a metric in ms, as a limit on single requests: the loosest where there are several percentiles.
    fn limit(&self, metric: Metric) -> Option<f64> {
        self.slo?.largest(metric).map(goodput_core::units::ms)
    }

    /// Whether any of these metrics is limited.
    fn limits(&self, metrics: &[Metric]) -> bool {
        metrics.iter().any(|m| self.limit(*m).is_some())
    }

    /// Whether a value keeps the limit on a metric: where there is one, a value that is not known does not.
    fn keeps(&self, metric: Metric, value: Option<f64>) -> bool {
        self.limit(metric).is_none_or(|limit| value.is_some_and(|v| v <= limit))
    }

    /// A figure with our nearest beside it.
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
