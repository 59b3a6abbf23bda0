//! Answers without a rate to plan with: the reason, and the advice.

use super::pick::left_out;
use crate::escape::clip;
use crate::words;
use goodput_core::caveat::{Caveat, ServerCaveat};
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::adaptive;
use goodput_stats::search::answer::{Answer, Status};
use serde::Serialize;
use std::path::Path;

/// An answer without a rate to plan with.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Refused {
    /// Name of the answer.
    pub name: String,
    /// Why there is no rate.
    pub why: String,
    /// Advice.
    pub advice: String,
}

/// Returns the refusal of a run without any answer.
pub(super) fn no_answer(run: &Run, name: &str) -> Refused {
    let why = match (run.purpose.is_goodput(), run.matrix.is_empty()) {
        (false, _) => format!("{} was asked for, which has no limit to keep", run.purpose.name()),
        (true, false) => "its plan is a matrix, whose rows have no rate to look for".into(),
        (true, true) => "no step was finished".into(),
    };
    let advice = "find the goodput with goodput sweep, or give a rate with --goodput".into();
    Refused { name: name.into(), why, advice }
}

/// Returns why an answer of the run in `folder` has no rate, with advice; `name` identifies it.
pub(super) fn refusal(run: &Run, answer: &Answer, name: String, folder: &Path) -> Refused {
    let resume = resume(folder);
    let unmeasured = run.variants.iter().find(|v| v.series == answer.series && v.answer.is_none());
    if let Some(v) = unmeasured {
        let why = clip(v.reason.as_deref().unwrap_or(v.state.name()), 160);
        return Refused { name, why, advice: format!("measure it: {resume}") };
    }
    let g = &answer.goodput;
    let why = match g.status() {
        Status::None => format!("no rate meets its SLO: {}", clip(&words::reason(&g.reason), 300)),
        status => format!(
            "its goodput is {}, and no rate is shown to meet its SLO: {}",
            status.name(),
            clip(&words::reason(&g.reason), 300)
        ),
    };
    let advice = match g.status() {
        // Imported measurements cannot be resumed.
        _ if run.meta.imported.is_some() => {
            "measure it with goodput sweep, import results of higher and lower rates, or give a rate of your own with --goodput".into()
        }
        Status::None => "change the server or the SLO and measure again, or give a rate of your own with --goodput".into(),
        Status::Invalid => "the client was the limit, or the server was started anew: see the caveats of its report, and measure again".into(),
        _ => format!("{}; or give a rate of your own with --goodput", decides(run.part(&answer.series), answer, &resume)),
    };
    let advice = match left_out(run, answer) {
        Some(said) => format!("{advice}; {said}"),
        None => advice,
    };
    Refused { name, why, advice }
}

/// Returns what would decide an open answer. If the search chose its levels, that is more time; a completed list does
/// not change, and needs longer steps or other levels.
fn decides(part: &Run, answer: &Answer, resume: &str) -> String {
    let gone = part.caveats.iter().any(|c| matches!(c, Caveat::Server(ServerCaveat::ServerGone { .. })));
    let remedy = words::remedy(part, answer);
    match remedy {
        _ if part.caveats.iter().any(Caveat::ends_sweep) => format!("measure the rest: {resume}"),
        Some(remedy) if gone => format!("{remedy}; then measure the rest: {resume}"),
        _ if adaptive(&part.steps) => format!("give it more time: {resume} --budget …"),
        Some(remedy) => format!("{remedy}: measure it anew with goodput sweep"),
        None => "measure it anew with longer steps (step.measure)".into(),
    }
}

/// Returns the command that resumes the run of a folder, quoted for a shell.
pub(super) fn resume(folder: &Path) -> String {
    let shown = folder.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%".contains(c);
    let shown = if shown.chars().all(plain) { shown } else { format!("'{}'", shown.replace('\'', r"'\''")) };
    format!("goodput sweep --resume {shown}")
}

#[cfg(test)]
mod tests {
    use super::super::candidate::{HardwareOverrides, of_run};
    use super::*;
    use goodput_core::caveat::SweepCaveat;
    use goodput_run::fixture;

    fn advice(run: &Run, folder: &str) -> String {
        of_run(run, ("r", Path::new(folder)), None, &HardwareOverrides::default()).unwrap().1[0]
            .advice
            .clone()
    }

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
    }

    /// Rows: case; text that its advice must and must not contain.
    #[test]
    fn advice_goes_with_the_kind_of_search() {
        for (name, says, not) in [
            ("adaptive-undecided", "goodput sweep --resume runs/deep/r --budget", "step.measure"),
            ("undecided", "longer steps at the undecided levels would decide it (step.measure", "--budget"),
            ("one-failing", "lower levels would decide it", "--budget"),
        ] {
            let said = advice(&case(name), "runs/deep/r");
            assert!(
                said.contains(says) && !said.contains(not) && said.ends_with("--goodput"),
                "{name}: {said}"
            );
        }
        let mut cut = case("undecided");
        cut.caveats.push(Caveat::Sweep(SweepCaveat::Interrupted));
        assert!(advice(&cut, "runs/r").starts_with("measure the rest: goodput sweep --resume runs/r;"));
    }

    #[test]
    fn the_command_takes_the_path_as_it_is() {
        let open = case("adaptive-undecided");
        assert!(advice(&open, "my runs/it's").contains(r"--resume 'my runs/it'\''s' --budget"));
    }

    /// `sweep --resume` refuses imported results.
    #[test]
    fn an_imported_run_without_an_answer_is_not_to_be_resumed() {
        let mut run = case("adaptive-undecided");
        let advice = |run: &Run| advice(run, "r");
        assert!(advice(&run).contains("--resume"));
        let imported = serde_json::json!({ "tool": "vllm", "at": "2026-11-20T10:15:00Z", "files": [], "missing": [], "steps": [] });
        run.meta.imported = Some(serde_json::from_value(imported).unwrap());
        assert!(!advice(&run).contains("--resume") && advice(&run).contains("import"), "{}", advice(&run));
    }
}
