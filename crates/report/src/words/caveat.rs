//! Caveats in English: the finding, and the advice.
//!
//! One file for each family of [`Caveat`], with one arm for each caveat that gives both its text and its advice.

mod answers;
mod cache;
mod client;
mod counters;
mod host;
mod lengths;
mod origin;
mod replicas;
mod route;
mod search;
mod server;
mod sweep;
mod trace;

use goodput_core::caveat::Caveat;
use goodput_run::rundir::Run;

/// A caveat in English.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CaveatWords {
    /// The finding, as one or more sentences.
    pub(crate) text: String,
    /// The advice, as one or more sentences.
    pub(crate) advice: &'static str,
}

/// The facts about a run that advice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Context {
    /// True if the search chose its levels, which has other plan keys than a list of levels.
    pub(crate) adaptive: bool,
    /// True if another tool measured it, whose client has other settings.
    pub(crate) imported: bool,
}

impl Context {
    /// Returns the context of a run.
    pub(crate) fn of(run: &Run) -> Self {
        Self { adaptive: run.is_adaptive(), imported: run.meta.imported.is_some() }
    }
}

/// Returns a caveat in English.
pub(crate) fn caveat(caveat: &Caveat, context: Context) -> CaveatWords {
    match caveat {
        Caveat::Search(caveat) => search::words(caveat, context),
        Caveat::Sweep(caveat) => sweep::words(caveat, context),
        Caveat::Origin(caveat) => origin::words(caveat),
        Caveat::Client(caveat) => client::words(caveat, context),
        Caveat::Host(caveat) => host::words(caveat),
        Caveat::Server(caveat) => server::words(caveat),
        Caveat::Counters(caveat) => counters::words(caveat),
        Caveat::Cache(caveat) => cache::words(caveat),
        Caveat::Replicas(caveat) => replicas::words(caveat),
        Caveat::Route(caveat) => route::words(caveat),
        Caveat::Lengths(caveat) => lengths::words(caveat),
        Caveat::Answers(caveat) => answers::words(caveat),
        Caveat::Trace(caveat) => trace::words(caveat),
    }
}

impl CaveatWords {
    fn new(text: impl Into<String>, advice: &'static str) -> Self {
        Self { text: text.into(), advice }
    }
}

/// Formats a share to a tenth of a per cent: `12.5 %`.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns the number of other steps in brackets; empty if there is only one step.
fn and_other_steps(steps: u32) -> String {
    match steps {
        0 | 1 => String::new(),
        2 => " (and in one more step)".into(),
        n => format!(" (and in {} more steps)", n - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every caveat as in result.json.
    const ALL: &str = include_str!("../../../core/tests/fixtures/caveats.json");

    #[test]
    fn every_caveat_in_english() {
        let all: Vec<Caveat> = serde_json::from_str(ALL).unwrap();
        let said = all.iter().map(|c| {
            let listed = caveat(c, Context::default());
            let adaptive = caveat(c, Context { adaptive: true, ..Context::default() });
            let imported = caveat(c, Context { imported: true, ..Context::default() });
            assert_eq!([&adaptive.text, &imported.text], [&listed.text; 2], "only advice depends on the run");
            let mut lines = vec![listed.text.clone(), format!("→ {}", listed.advice)];
            for (run, words) in [("adaptive", adaptive), ("imported", imported)] {
                if words.advice != listed.advice {
                    lines.push(format!("→ ({run}) {}", words.advice));
                }
            }
            lines.join("\n")
        });
        insta::assert_snapshot!(said.collect::<Vec<_>>().join("\n\n"));
    }

    #[test]
    fn other_steps_are_counted() {
        let said = [0, 1, 2, 3].map(and_other_steps);
        assert_eq!(said, ["", "", " (and in one more step)", " (and in 2 more steps)"]);
    }
}
