//! Writes the imported data as a run folder.

use super::results::{ImportedRequest, Requests, ResultStep, ToolResults};
use super::{Options, plan};
use crate::rundir::table::{OwnTokenCount, RowsWriter};
use crate::rundir::{self, Imported, ImportedStep, Meta, Run, Sent, Writer, json};
use anyhow::{Context, Result, bail};
use goodput_core::caveat::{Caveat, ImportedCount, OriginCaveat};
use goodput_core::distribution::LengthHistogram;
use goodput_core::level::Control;
use goodput_core::record::{Outcome, Phase};
use goodput_core::slo::{ALL, Slo};
use goodput_plan::{MAIN, MeasuredWorkload, Plan};
use goodput_stats::stats::compact_record::CompactRecord;
use goodput_stats::stats::itl::ItlTally;
use goodput_stats::stats::step::{Step, StepKind};
use goodput_stats::stats::summary::{StepInput, summarize};
use goodput_workload::summary::PromptSource;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Confidence of the verdicts of listed steps, on each side.
const CONFIDENCE: f64 = 0.95;
/// Smallest time step, to make a range exclusive.
const MOMENT: Duration = Duration::from_nanos(1);

/// The state of an import while its steps are written.
struct Writing<'a> {
    plan: &'a Plan,
    options: &'a Options,
    due_known: bool,
    writer: Writer,
    lengths: (LengthHistogram, LengthHistogram),
    steps: Vec<Step>,
    counted: Counted,
}

/// Writes a run folder, complete except for its reports.
pub(super) fn write(mut found: ToolResults, options: &Options, out: &Path) -> Result<()> {
    let longest =
        found.steps.iter().filter_map(|s| window(s, options)).map(|w| (w.end - w.start).as_secs_f64());
    let longest = longest.fold(1.0, f64::max);
    // The limits are needed from the start, but the lengths are known only at the end.
    let first = plan::describe(&found, options, None, None, longest)?;
    for step in &found.steps {
        if window(step, options).is_none_or(|w| w.is_empty()) {
            bail!(
                "{}: nothing is left of {} behind the --settle that is cut off",
                step.file.display(),
                step.level
            );
        }
    }
    let steps = std::mem::take(&mut found.steps);
    let mut imported = about(&found, options);
    let mut writing = Writing {
        plan: &first,
        options,
        due_known: found.due_known,
        writer: Writer::create(out, &first.to_toml()?, options.force)?,
        lengths: (LengthHistogram::default(), LengthHistogram::default()),
        steps: Vec::new(),
        counted: Counted::new(out),
    };
    let mut outlines = Vec::new();
    for (number, step) in (1..).zip(steps) {
        imported.steps.push(ImportedStep {
            step: number,
            file: step.file.display().to_string(),
            window_s: step.tool_window,
            reported: step.reported.clone(),
        });
        outlines.push(outline(&step));
        writing.step(number, step)?;
    }
    found.steps = outlines;
    writing.counted.end()?;
    let (input, output) = (writing.lengths.0.finish(), writing.lengths.1.finish());
    let plan = plan::describe(&found, options, input.as_ref(), output.as_ref(), longest)?;
    let text = plan.to_toml()?;
    rundir::replace(&out.join(rundir::PLAN), text.as_bytes())?;
    let sent = vec![Sent { series: MAIN.into(), class: ALL.into(), input, output }];
    let meta = meta(&plan, &found, options, sent, &writing.steps, imported);
    let noted = meta.noted.clone();
    let run = Run::assemble(&plan, text, meta, writing.steps, Vec::new(), noted)?;
    writing.writer.result(&json::result(&run))
}

/// Returns a step without its requests.
fn outline(step: &ResultStep) -> ResultStep {
    ResultStep {
        file: step.file.clone(),
        level: step.level,
        arrivals: step.arrivals,
        started: step.started,
        window: step.window.clone(),
        tool_window: step.tool_window,
        reported: Default::default(),
        requests: Requests::InMemory(Vec::new()),
    }
}

/// Returns the measured window of a step: the tool's own, else from the first request to the last, because nothing is
/// sent after that; without the part to be cut off. `None` if nothing was sent.
fn window(step: &ResultStep, options: &Options) -> Option<Range<Duration>> {
    let last = step.requests.last_due()?;
    let whole = step.window.clone().unwrap_or(Duration::ZERO..last + MOMENT);
    let cut = options.settle.map_or(Duration::ZERO, |s| s.0);
    Some(whole.start.max(cut)..whole.end)
}

fn about(found: &ToolResults, options: &Options) -> Imported {
    Imported {
        tool: found.tool,
        version: found.version.clone(),
        at: jiff::Timestamp::now().to_string(),
        files: options.files.iter().map(|f| f.display().to_string()).collect(),
        settle: options.settle,
        missing: found.missing.clone(),
        left_out: found.left_out.clone(),
        steps: Vec::new(),
    }
}

impl Writing<'_> {
    /// Judges and writes one step.
    fn step(&mut self, number: u32, found: ResultStep) -> Result<()> {
        let window = window(&found, self.options).context("the step has no request")?;
        let tiers = self.plan.slo.as_slice();
        let tightest = tiers.iter().filter_map(Slo::tightest_itl).min();
        let mut itl = ItlTally::new(tiers);
        let (mut kept, mut last_end): (Vec<CompactRecord>, _) = (Vec::new(), window.end);
        let (level, started) = (found.level, started(&found));
        found.requests.each(|seen| {
            let ImportedRequest { mut finished, counted } = seen;
            let record = &mut finished.record;
            record.phase = match record.due {
                due if due < window.start => Phase::Settle,
                due if due >= window.end => Phase::Tail,
                _ => Phase::Measure,
            };
            let over =
                |us: &&u32| tightest.is_some_and(|limit| Duration::from_micros(u64::from(**us)) > limit);
            record.itl_over = finished.gaps_us.iter().filter(over).count() as u32;
            last_end = last_end.max(record.end);
            self.writer.request(MAIN, number, ALL, &finished)?;
            self.counted.add(number, finished.record.id, counted)?;
            itl.add(&finished);
            kept.push(CompactRecord::from(&finished.record));
            if finished.record.outcome == Outcome::Ok {
                let r = &finished.record;
                r.input_tokens.into_iter().for_each(|n| self.lengths.0.push(n));
                r.output_tokens.into_iter().for_each(|n| self.lengths.1.push(n));
            }
            Ok(())
        })?;
        kept.sort_unstable_by_key(|r| (r.due, r.id));
        let began = self.steps.last().map_or(0.0, |s| s.ended_s);
        let step = summarize(&StepInput {
            series: MAIN,
            step: number,
            kind: StepKind::List,
            level,
            started_at: &started,
            started_s: began,
            ended_s: began + last_end.as_secs_f64(),
            settle: window.start,
            measure: window.end - window.start,
            tail: Duration::ZERO,
            drain: last_end - window.end,
            abort: None,
            records: &kept,
            classes: &[],
            itl: &itl,
            earlier: &self.steps,
            tiers,
            receive_lag_p99_ms: None,
            client_busy: None,
            client_waiting: None,
            confidence: CONFIDENCE,
            halts: &[],
            workers: &[],
            client_limit: false,
            in_flight_limit: None,
            allowed: self.plan.allowed(),
            max_error_share: None,
            price_per_hour: self.plan.hardware.total_price_per_hour(),
        });
        // If requests count from their send time, their lateness is unknown.
        let known = self.due_known;
        let step = Step {
            lateness_p50_ms: step.lateness_p50_ms.filter(|_| known),
            lateness_p99_ms: step.lateness_p99_ms.filter(|_| known),
            ..step
        };
        self.writer.step(&step, &[(ALL, "itl", itl.pooled().buckets())])?;
        self.steps.push(step);
        Ok(())
    }
}

/// Returns the start time of a step; the modification time of its file if it does not contain one.
fn started(step: &ResultStep) -> String {
    let written = || jiff::Timestamp::try_from(std::fs::metadata(&step.file).ok()?.modified().ok()?).ok();
    step.started.or_else(written).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

fn meta(
    plan: &Plan,
    found: &ToolResults,
    options: &Options,
    sent: Vec<Sent>,
    steps: &[Step],
    imported: Imported,
) -> Meta {
    let mut workload = plan.workload.summary(plan::pacing(found));
    workload.cache = None;
    for kind in &mut workload.requests {
        if let PromptSource::Synthetic(lengths) = &kind.prompts {
            kind.prompts = PromptSource::Measured(lengths.clone());
        }
    }
    let first = steps.iter().map(|s| s.started_at.as_str()).min().unwrap_or_default();
    let mut traffic: Vec<String> =
        imported.left_out.iter().map(|what| format!("Not imported: {what}.")).collect();
    if let Some(settle) = options.settle {
        traffic.push(format!("Requests that were due in the first {settle} of each step are not counted."));
    }
    Meta {
        goodput_version: env!("CARGO_PKG_VERSION").into(),
        host: format!("not recorded: the client was {}", imported.title()),
        seed: plan.seed,
        started: first.to_owned(),
        server: plan::measured_server(found, options),
        model: found.model.clone().unwrap_or_default(),
        workload: MeasuredWorkload::Traffic(workload),
        sent,
        traffic,
        slo: plan.slo.summary(),
        gpu: plan.hardware.gpu.clone(),
        gpus: plan.hardware.gpu_count(),
        notes: plan.notes.clone(),
        virtual_time: false,
        noted: vec![Caveat::Origin(OriginCaveat::Imported {
            tool: imported.title(),
            missing: imported.missing.clone(),
            counted: ImportedCount::Facts {
                due_known: found.due_known,
                closed_loop: found.steps.first().is_some_and(|s| s.level.control == Control::Concurrency),
                settle: options.settle,
                tool_window: found.steps.iter().any(|s| s.window.is_some()),
            },
        })],
        budget: None,
        words: None,
        calibration: None,
        facts: Vec::new(),
        first_requests: Vec::new(),
        environment: plan.environment.clone().into(),
        resumed: Vec::new(),
        variants: Vec::new(),
        left_alone: BTreeMap::new(),
        workers: Vec::new(),
        imported: Some(imported),
        plan: None,
    }
}

/// Writer of the tool's own counts of output tokens where they differ; creates the file only if there are any.
struct Counted {
    dir: std::path::PathBuf,
    rows: Option<RowsWriter<OwnTokenCount>>,
}

impl Counted {
    fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), rows: None }
    }

    fn add(&mut self, step: u32, id: u64, tokens: Option<u32>) -> Result<()> {
        let Some(output_tokens) = tokens else { return Ok(()) };
        let rows = match &mut self.rows {
            Some(rows) => rows,
            none => none.insert(RowsWriter::open(&self.dir)?),
        };
        rows.add(&mut OwnTokenCount { step, id, output_tokens })
    }

    fn end(&mut self) -> Result<()> {
        self.rows.as_mut().map_or(Ok(()), RowsWriter::flush)
    }
}
