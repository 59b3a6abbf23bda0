//! How to repeat the measurement, and the plan's free text.

use crate::document::{Block, Text, code, plain};
use crate::words;
use goodput_run::rundir::derive::usable_safe_rate;
use goodput_run::rundir::{Imported, Run};

/// Returns the blocks of the section of the report.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let m = &run.meta;
    if let Some(imported) = &m.imported {
        return of_import(run, imported);
    }
    let clock = if m.virtual_time { "simulated" } else { "real" };
    let command = match (m.virtual_time, m.workers.len()) {
        (true, _) => "goodput sweep plan.toml --virtual-time".to_owned(),
        (false, 0) => "goodput sweep plan.toml".to_owned(),
        (false, workers) => format!("goodput sweep plan.toml --bus URL --expect {workers}"),
    };
    let mut facts = vec![format!("goodput {}", m.goodput_version), format!("client: {}", m.host)];
    facts.extend(words::workers(m).map(|workers| format!("load: {workers}")));
    facts.extend([format!("seed: {}", m.seed), format!("clock: {clock}")]);
    let mut blocks = vec![
        Block::Paragraph(Text::of([
            plain("In the run folder, where "),
            code("plan.toml"),
            plain(" stands:"),
        ])),
        Block::Code { language: "sh", text: command },
        Block::list(facts),
        Block::Paragraph(Text::of([
            plain("The plan as resolved, which is what "),
            code("plan.toml"),
            plain(" says:"),
        ])),
        Block::Code { language: "toml", text: run.plan_toml.clone() },
    ];
    blocks.extend(for_operations(run));
    blocks
}

/// Returns the command that makes files for operations of a run with a safe rate; `None` for others.
fn for_operations(run: &Run) -> Option<Block> {
    run.answers.iter().any(|a| usable_safe_rate(&a.goodput).is_some()).then(|| {
        Block::Paragraph(Text::of([
            plain("For operations, "),
            code("goodput handoff . --out ops"),
            plain(" makes alerts, autoscaling, admission limits and a dashboard of these figures."),
        ]))
    })
}

/// Returns the source of an imported run. Its plan describes the measurement as far as it is known, but cannot repeat
/// it.
fn of_import(run: &Run, imported: &Imported) -> Vec<Block> {
    let said = format!(
        "{} measured it; imported by goodput {} on {} from",
        imported.title(),
        run.meta.goodput_version,
        words::moment(&imported.at)
    );
    vec![
        Block::paragraph(said),
        Block::list(imported.files.iter().map(String::as_str)),
        Block::paragraph("The plan that describes what was measured, as far as it is known:"),
        Block::Code { language: "toml", text: run.plan_toml.clone() },
    ]
}

/// Returns the plan's free text; empty if it has none.
pub(super) fn notes(run: &Run) -> Vec<Block> {
    let text = run.meta.notes.clone().unwrap_or_default();
    vec![Block::Code { language: "text", text }]
}
