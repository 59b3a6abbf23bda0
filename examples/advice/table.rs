//! The tables.

use crate::trial::{Mark, Trial};

/// Returns what the changes of one server gain that are worth it, and what was advised.
pub(crate) fn one(t: &Trial) -> String {
    let gain = |goodput: f64| format!("{:+.0} %", 100.0 * (goodput / t.base - 1.0));
    let changes: Vec<String> = t
        .worthy
        .iter()
        .map(|(change, goodput)| {
            format!("  {} {}: {goodput:.2} ({})", change.knob.title(), change.label, gain(*goodput))
        })
        .collect();
    let advised = t.advised.as_ref().map_or("nothing".to_owned(), |(change, goodput)| {
        format!("{} {}: {goodput:.2} ({})", change.knob.title(), change.label, gain(*goodput))
    });
    format!(
        "{}: goodput {:.2}, answer {}; {} {:?} {:?} {:?}\n{}\n  advised {advised}: {}\n  found {}; not decided {}; says: {}",
        t.case.name,
        t.base,
        t.answer.map_or("–".into(), |x| format!("{x:.2}")),
        t.case.preset,
        t.case.settings,
        t.case.limits,
        t.case.workload,
        changes.join("\n"),
        t.mark().title(),
        t.findings.join(", "),
        t.untold.join(", "),
        t.said.as_deref().unwrap_or("–")
    )
}

/// Returns the table of all servers, with the shares below it.
pub(crate) fn all(trials: &[Trial]) -> String {
    let mut lines = vec![
        "| server | goodput | best single change | gives | first advice | gives | share of the gain | |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    lines.extend(trials.iter().map(row));
    let worth: Vec<&Trial> = trials.iter().filter(|t| t.best_change().is_some()).collect();
    let count = |mark: Mark| trials.iter().filter(|t| t.mark() == mark).count();
    let percent = |n: usize, of: usize| 100.0 * n as f64 / of.max(1) as f64;
    lines.push(format!(
        "\n{} servers, {} where a change gains 20 %: first advice good in {:.0} %, silent in {:.0} %; harmful in {:.0} % of all; \
         contradictions in {}",
        trials.len(),
        worth.len(),
        percent(count(Mark::Good), worth.len()),
        percent(count(Mark::Silent), worth.len()),
        percent(count(Mark::Harmful), trials.len()),
        trials.iter().filter(|t| t.contradicts).count()
    ));
    lines.join("\n")
}

fn row(t: &Trial) -> String {
    let change = |of: Option<&(crate::knob::Intervention, f64)>| {
        of.map_or(("–".to_owned(), "–".to_owned()), |(change, goodput)| {
            (format!("{} {}", change.knob.title(), change.label), format!("{goodput:.2}"))
        })
    };
    let ((best, best_gives), (advised, advised_gives)) =
        (change(t.best_change()), change(t.advised.as_ref()));
    let share = t.share().map_or("–".to_owned(), |share| format!("{:.0} %", 100.0 * share));
    format!(
        "| {} | {:.2} | {best} | {best_gives} | {advised} | {advised_gives} | {share} | {}{} |",
        t.case.name,
        t.base,
        t.mark().title(),
        if t.contradicts { ", contradicts itself" } else { "" }
    )
}
