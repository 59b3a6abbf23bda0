//! Reasons that the steps and the search give, for people.

use super::limits::binding;
use super::units::thousands;
use goodput_stats::stats::summary::ERRORS;

/// The text of another part with names of limits, numbers and times as they are written here: `ttft.p99: 41 of 1200
/// missed` becomes `p99 TTFT: 41 of 1,200 missed`.
pub fn in_words(text: &str) -> String {
    let word = |word: &str| {
        let core = word.trim_matches(|c: char| "():;,".contains(c));
        let time = core.strip_suffix("ms").filter(|n| n.parse::<f64>().is_ok()).map(|n| format!("{n} ms"));
        let said = match core.parse::<f64>() {
            Ok(n) if n >= 1_000.0 && n.fract() == 0.0 => thousands(n),
            Ok(_) => core.to_owned(),
            Err(_) if core == ERRORS => core.to_owned(),
            Err(_) => time.unwrap_or_else(|| binding(core)),
        };
        if core.is_empty() { word.to_owned() } else { word.replacen(core, &said, 1) }
    };
    // A limit's name stands before a colon where it is one word that may mean something else.
    let keep = |w: &str| matches!(w, "joint" | "error-rate");
    text.split(' ').map(|w| if keep(w) { w.to_owned() } else { word(w) }).collect::<Vec<_>>().join(" ")
}
