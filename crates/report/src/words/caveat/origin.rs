//! The words of caveats on figures that goodput did not measure on a real server.

use super::CaveatWords;
use goodput_core::caveat::OriginCaveat;

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

fn imported(tool: &str, missing: &[String], counted: &str) -> String {
    let missing = match missing {
        [] => String::new(),
        some => format!(" Not known: {}.", some.join("; ")),
    };
    format!("Imported from {tool}: that tool's client measured this, not goodput's. {counted}{missing}")
}
