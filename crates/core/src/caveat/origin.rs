//! What is said of figures that no client of ours measured on a server.

use super::Caveat;

/// What is the case, as a sentence; empty for a caveat about anything else.
pub(super) fn text(caveat: &Caveat) -> String {
    match caveat {
        Caveat::Imported { tool, missing, counted } => imported(tool, missing, counted),
        Caveat::VirtualTime => {
            "Time was simulated: the figures are those of the model, not of a machine.".into()
        }
        Caveat::Simulated => "The server was simulated.".into(),
        _ => String::new(),
    }
}

/// What to do about it.
pub(super) const fn advice(caveat: &Caveat) -> &'static str {
    match caveat {
        Caveat::Imported { .. } => {
            "Measure the level that matters with `goodput sweep` before promising it; `goodput report RUN --as TOOL` shows the figures \
             as the tool counts them."
        }
        _ => "Set server.url to measure a real server.",
    }
}

fn imported(tool: &str, missing: &[String], counted: &str) -> String {
    let missing = match missing {
        [] => String::new(),
        some => format!(" Not known: {}.", some.join("; ")),
    };
    format!("Imported from {tool}: its client measured this, not ours. {counted}{missing}")
}
