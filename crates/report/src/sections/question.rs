//! The question and the system under test.

use crate::document::Block;
use crate::escape::clip;
use crate::words;
use goodput_core::level::Control;
use goodput_core::units::thousands;
use goodput_run::rundir::Run;

/// Returns the blocks of the section of the report; with several series, it names them.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let m = &run.meta;
    let control = run.answers.first().map_or(Control::Rate, |a| a.control);
    let what = match control {
        Control::Rate => "How many requests per second can",
        Control::Concurrency => "How many requests in flight can",
        Control::Sessions => "How many conversations per second can",
        Control::TraceScale => "How much faster than recorded can the trace be replayed while",
    };
    let many = words::plural(m);
    let verb = match (control, many) {
        (Control::TraceScale, true) => "keep",
        (Control::TraceScale, false) => "keeps",
        (_, true) => "take while they keep",
        (_, false) => "take while it keeps",
    };
    let its = if many { "their" } else { "its" };
    let question = format!("{what} {} {verb} {its} SLO?", words::lower(&words::subject(m)));
    vec![Block::paragraph(question), Block::facts(facts(run))]
}

fn facts(run: &Run) -> Vec<(String, String)> {
    let m = &run.meta;
    let mut all: Vec<(String, String)> = match run.tiers.as_slice() {
        [] => vec![("SLO".into(), m.slo.clone())],
        [one] => vec![("SLO".into(), words::slo(one))],
        tiers => tiers.iter().map(|t| (format!("SLO of {}", clip(t.tier(), 40)), words::slo(t))).collect(),
    };
    all.extend([
        ("workload".to_owned(), words::workload(run)),
        ("model".to_owned(), m.model.clone()),
        ("server".to_owned(), m.server.to_string()),
    ]);
    all.extend(m.gpu.as_ref().map(|g| ("hardware".to_owned(), format!("{} × {g}", m.gpus.unwrap_or(1)))));
    all.extend(words::workers(m).map(|workers| ("load".to_owned(), workers)));
    let steps = if run.steps.len() == 1 { "step" } else { "steps" };
    let requests = thousands(words::requests(run) as f64);
    let when = words::moment(&m.started);
    all.push(("measured".to_owned(), format!("{} {steps}, {requests} requests, {when}", run.steps.len())));
    if !run.parts.is_empty() {
        let names: Vec<String> = run.parts.iter().map(|p| clip(p.series(), 40)).collect();
        all.push(("series".to_owned(), words::list(&names)));
    }
    all
}
