//! The words of caveats on figures that goodput did not measure on a real server.

use super::CaveatWords;
use goodput_core::caveat::{ImportedCount, OriginCaveat};

/// Advice if a model was measured instead of a server.
const REAL_SERVER: &str = "Set server.url to measure a real server.";

pub(super) fn words(caveat: &OriginCaveat) -> CaveatWords {
    match caveat {
        OriginCaveat::Imported { tool, missing, counted } => CaveatWords::new(
            imported(tool, missing, counted),
            "Measure the level that matters with `goodput sweep` before promising it; `goodput report RUN --as TOOL` shows the figures \
             as the tool counts them.",
        ),
        OriginCaveat::VirtualTime => CaveatWords::new(
            "Time was simulated: the figures are those of the model, not of a machine.",
            REAL_SERVER,
        ),
        OriginCaveat::Simulated => CaveatWords::new("The server was simulated.", REAL_SERVER),
    }
}

fn imported(tool: &str, missing: &[String], counted: &ImportedCount) -> String {
    let missing = match missing {
        [] => String::new(),
        some => format!(" Not known: {}.", some.join("; ")),
    };
    format!(
        "Imported from {tool}: that tool's client measured this, not goodput's. {}{missing}",
        rules(counted)
    )
}

/// Returns the rules by which the requests of an imported step are counted.
fn rules(counted: &ImportedCount) -> String {
    let (due_known, closed_loop, settle, tool_window) = match counted {
        ImportedCount::Facts { due_known, closed_loop, settle, tool_window } => {
            (*due_known, *closed_loop, *settle, *tool_window)
        }
        ImportedCount::Text(text) => return text.clone(),
    };
    let from = match (due_known, closed_loop) {
        (true, _) => "",
        (false, true) => "Latency counts from when a request was sent. ",
        (false, false) => {
            "Latency counts from when a request was sent, not from when it was due: waiting in the client is not in it. "
        }
    };
    let settle = match settle {
        Some(settle) => format!("all but the first {settle}"),
        None => "all requests from the first on, the start into an empty server among them (--settle 5s cuts it off)".into(),
    };
    let until = if tool_window { "until the tool's own window ended" } else { "until the last one was sent" };
    format!("{from}Each step counts {settle}, {until}.")
}
