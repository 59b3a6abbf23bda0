//! The recovery of the server from a surge, in words.

use crate::document::{Block, Section};
use crate::words;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_run::rundir::recovery::Recovery;
use goodput_stats::search::recovery::NotMeasured;
use goodput_stats::stats::recovery::{IN_A_ROW, LEVEL, MissCounts, Recovered};

/// Returns sentences on the recovery of a run; none if the plan asks for none.
fn sentences(run: &Run) -> Vec<String> {
    let Some(r) = &run.view.recovery else { return Vec::new() };
    if let Some(why) = r.not_measured {
        return vec![not_measured(r, why)];
    }
    let (Some(level), Some(course)) = (r.level, r.course) else { return Vec::new() };
    let surge = words::level(level.control, level.value * r.factor);
    let what = format!(
        "{} at {surge}, {} × the rate held before and after it",
        words::span(course.surge_s),
        words::figure(r.factor)
    );
    let Some(outcome) = &r.outcome else {
        let why = r.abort.map_or_else(
            || "its requests are not in the folder".to_owned(),
            |abort| format!("the step ended early ({abort}) with {} failed requests", r.failed),
        );
        return vec![format!("Recovery from a surge ({what}) is not known: {why}.")];
    };
    let mut all = vec![recovered(r, outcome, &what, course.hold_s)];
    all.push(worst(r, outcome));
    all.push(history(outcome));
    if r.failed > 0 {
        all.push(format!("{} requests of the step failed.", words::count(r.failed as f64)));
    }
    all
}

fn not_measured(r: &Recovery, why: NotMeasured) -> String {
    match why {
        NotMeasured::NoSafeRate => {
            "Recovery from a surge was not measured: no rate is shown to be safe.".into()
        }
        NotMeasured::AboveMaxRate { surge, max } => format!(
            "Recovery from a surge was not measured: {} × the safe rate is {}, above search.max-rate ({}). Raise max-rate, or lower recovery.factor.",
            words::figure(r.factor),
            words::level_number(surge),
            words::level_number(max)
        ),
    }
}

/// Returns the answer: the time of recovery.
fn recovered(r: &Recovery, o: &Recovered, what: &str, hold_s: f64) -> String {
    let metric = r.metric.and_then(Metric::of_limit).map_or("TTFT", Metric::title);
    match o.recovery_s {
        Some(s) if s <= 0.0 => {
            format!("After {what}, requests in flight and {metric} were back within their band at once.")
        }
        Some(s) => format!(
            "After {what}, requests in flight and {metric} were back within their band {} after its end.",
            words::span(s)
        ),
        None => format!(
            "After {what}, the server did not recover within {}: requests in flight or {metric} stayed above what they were before.",
            words::span(hold_s)
        ),
    }
}

fn worst(r: &Recovery, o: &Recovered) -> String {
    let metric = r.metric.and_then(Metric::of_limit).map_or("TTFT", Metric::title);
    let time = |ms: Option<f64>| ms.map_or("no answer".to_owned(), words::latency);
    format!(
        "In windows of {}: in flight at most {} before and {} from the surge on; p90 {metric} at most {} and {}. Recovered means {IN_A_ROW} windows in a \
         row within the highest values of before.",
        words::span(o.window_s),
        words::figure(o.band.in_flight),
        words::figure(o.worst.in_flight),
        time(o.band.response_p90_ms),
        time(o.worst.response_p90_ms)
    )
}

fn history(o: &Recovered) -> String {
    let share = |c: &MissCounts| format!("{} of {}", words::count(c.misses as f64), words::count(c.n as f64));
    let both = format!(
        "{} requests missed before, {} in the second half of the last hold",
        share(&o.before),
        share(&o.late)
    );
    let percent = 100.0 * LEVEL;
    match o.history_p {
        None => format!("Whether the safe rate depends on history is not known: {both}."),
        Some(p) if o.depends_on_history() => format!(
            "The safe rate depends on history: {both} (permutation test, one-sided p = {}, level {percent} %).",
            p_value(p)
        ),
        Some(p) => format!(
            "That the safe rate depends on history is not shown: {both} (permutation test, one-sided p = {}, level {percent} %).",
            p_value(p)
        ),
    }
}

fn p_value(p: f64) -> String {
    match p {
        p if p < 0.001 => "below 0.001".into(),
        p if p > 0.9995 => "1".into(),
        p => format!("{p:.3}"),
    }
}

/// Returns the blocks of the section of the report; empty if there is nothing to say.
pub(super) fn section(run: &Run) -> Vec<Block> {
    Block::paragraphs(sentences(run))
}

/// Returns a line for a terminal.
pub(super) fn brief(run: &Run) -> Section {
    Section::untitled(vec![Block::paragraph(sentences(run).join(" "))])
}

/// Returns the rate of the surge in a few words, for charts.
pub(crate) fn surge_title(r: &Recovery) -> String {
    let control = r.level.map_or(Control::Rate, |l| l.control);
    r.held.map_or_else(String::new, |held| words::level(control, held * r.factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture::{self, surged};

    #[test]
    fn recovery_is_told() {
        let text = blocks(&section(&surged(true)), 3);
        assert!(text.contains("1.4 × the rate held") && text.contains("back within their band"), "{text}");
        assert!(text.contains("is not shown"), "{text}");
        let text = blocks(&section(&surged(false)), 3);
        assert!(
            text.contains("did not recover within 120 s") || text.contains("did not recover within 2 min"),
            "{text}"
        );
        assert!(text.contains("depends on history: 0 of"), "{text}");
        assert!(section(&fixture::found()).is_empty());
    }

    #[test]
    fn what_was_not_measured_says_why() {
        let mut run = surged(true);
        let of =
            |why| Recovery { outcome: None, not_measured: Some(why), ..run.view.recovery.clone().unwrap() };
        let (none, above) =
            (of(NotMeasured::NoSafeRate), of(NotMeasured::AboveMaxRate { surge: 28.0, max: 25.0 }));
        run.view.recovery = Some(none);
        assert!(sentences(&run).join(" ").contains("no rate is shown to be safe"));
        run.view.recovery = Some(above);
        assert!(sentences(&run).join(" ").contains("above search.max-rate (25)"));
    }
}
