//! Why a limit was missed, and the recommended changes: short for a terminal, in full for the report.

use crate::document::{Block, Bullet, Entry, Section, Text, code, emphasis, plain, strong};
use crate::escape::clip;
use crate::words::{self, capital, finding};
use goodput_run::rundir::Run;
use goodput_run::rundir::forecasts::Attempt;
use goodput_run::rundir::tried::Outcome;
use goodput_stats::diagnosis::{Advice, Altered, Evidence, Fact, Finding, Kind, Next, Remedy, Untold};

/// Maximum number of findings on a terminal; the report has all.
const SHOWN: usize = 3;
/// Maximum number of findings for each of several series, or of several rows.
const SHOWN_EACH: usize = 2;

/// Returns the prefix of a finding if there are several series: `warm: `.
fn whose(run: &Run, series: &str) -> String {
    let several = run.steps.iter().any(|s| s.series != series);
    if several { format!("{}: ", clip(series, 40)) } else { String::new() }
}

/// Returns the figures of a finding in one line.
fn evidence(f: &Finding) -> String {
    f.evidence.iter().map(|e| finding::evidence(&e.fact)).collect::<Vec<_>>().join("; ")
}

/// Returns the findings for a terminal, the binding one first, each with its first advice and the next measurement.
/// Empty if there are none.
pub(super) fn brief(run: &Run) -> Vec<Section> {
    // The answer of a matrix row already names what sets its latency.
    let told = |f: &&Finding| run.matrix.is_empty() || !of_latency(f.kind);
    let shown: Vec<&Finding> = run.why.findings.iter().filter(told).take(SHOWN).collect();
    let mut entries: Vec<Entry> = shown.iter().enumerate().map(|(i, f)| entry(run, i + 1, f)).collect();
    let more = run.why.findings.len() - shown.len();
    if let Some(last) = entries.last_mut().filter(|_| more > 0) {
        last.below.push(Entry::line(format!("and {more} more in the report")));
    }
    let untold = untold_in_short(&run.why.untold);
    let untold = (!untold.is_empty()).then(|| Block::paragraph(untold));
    if entries.is_empty() {
        return vec![Section::untitled(untold.into_iter().collect())];
    }
    let blocks = [Block::Outline(entries)].into_iter().chain(untold).collect();
    vec![Section::titled("Why, and what to change", blocks)]
}

/// Returns a finding in short.
fn entry(run: &Run, number: usize, f: &Finding) -> Entry {
    let title = format!(
        "{}{} (confidence: {})",
        whose(run, &f.series),
        capital(finding::title(f)),
        f.confidence.name()
    );
    let mut below = vec![Entry::line(capital(&evidence(f)))];
    let known = |a: &Advice| earlier(run, number - 1, |before| before.advice.contains(a));
    below.extend(f.advice.first().map(|a| {
        let as_before = known(a).map(|n| format!("As for {n}."));
        Entry::new(Bullet::Arrow, as_before.unwrap_or_else(|| advice(run, f, a)))
    }));
    // Advice beyond the first is told here if it was tried.
    let tried = f.advice.iter().skip(1).filter(|a| tried(run, f, a).is_some());
    below.extend(tried.map(|a| Entry::new(Bullet::Arrow, advice(run, f, a))));
    if earlier(run, number - 1, |before| before.next.command == f.next.command).is_none() {
        below.push(Entry::line(format!("next: {}", f.next.command)));
    }
    Entry::new(Bullet::Number(number), title).over(below)
}

/// Returns the outcome of an advice that was tried.
fn tried<'a>(run: &'a Run, f: &Finding, advice: &Advice) -> Option<&'a Outcome> {
    run.why.tried.as_ref()?.of(&f.series, advice)
}

/// Returns the number of the first finding before the one at `i` in the list, of the same series, that a test holds for.
fn earlier(run: &Run, i: usize, holds: impl Fn(&Finding) -> bool) -> Option<usize> {
    let findings = &run.why.findings;
    let own = |f: &Finding| findings.get(i).is_some_and(|this| this.series == f.series);
    findings.iter().take(i).position(|f| own(f) && holds(f)).map(|at| at + 1)
}

/// Returns true if an advice is the first of its finding with this forecast, and the evidence does not have it: several changes may be
/// foreseen by one simulated change.
fn is_first_foreseen(f: &Finding, advice: &Advice) -> bool {
    let shown = |e: &Evidence| match &e.fact {
        Fact::Forecast { expected, .. } => advice.expected.as_ref() == Some(expected),
        _ => false,
    };
    if f.evidence.iter().any(shown) {
        return false;
    }
    let same = |other: &&Advice| {
        other.expected == advice.expected && Altered::of(&other.change) == Altered::of(&advice.change)
    };
    f.advice.iter().find(same).is_some_and(|first| first == advice)
}

/// Returns an advice as a sentence, with what it gained if it was tried, or is expected to gain. Where others were tried it
/// says that it was not.
fn advice(run: &Run, f: &Finding, advice: &Advice) -> String {
    let expected = advice.expected.as_ref().filter(|_| is_first_foreseen(f, advice));
    let expected = expected.map(|of| format!(" {}", finding::expected(of, &advice.change)));
    let sentence = format!("{}{}", finding::advice(advice), expected.unwrap_or_default());
    match (&run.why.tried, tried(run, f, advice)) {
        (Some(all), Some(outcome)) => format!("{sentence} {}", finding::tried(all, outcome)),
        (Some(_), None) if Remedy::of(advice).is_some() => format!("{sentence} (Untried.)"),
        (Some(_) | None, _) => sentence,
    }
}

/// Returns true if a finding is a component of the latency, not a cause that increases it.
const fn of_latency(kind: Kind) -> bool {
    matches!(kind, Kind::PrefillBound | Kind::DecodeBound | Kind::BatchingTradeOff | Kind::Queueing)
}

/// Returns the first findings of one of several series, each in a line with its first advice.
pub(super) fn of_part(part: &Run) -> Vec<Entry> {
    let lines = |f: &Finding| {
        let (title, sure) = (capital(finding::title(f)), f.confidence.name());
        let mut all = vec![Entry::line(format!("Why: {title} (confidence: {sure}): {}", evidence(f)))];
        all.extend(f.advice.first().map(|a| Entry::new(Bullet::Arrow, advice(part, f, a))));
        all
    };
    part.why.findings.iter().take(SHOWN_EACH).flat_map(lines).collect()
}

/// Returns the questions that the data cannot answer, in a line: `Cannot be told here: …`.
fn untold_in_short(untold: &[Untold]) -> String {
    if untold.is_empty() {
        return String::new();
    }
    let each: Vec<String> = by_missing(untold)
        .into_iter()
        .map(|(missing, kinds)| format!("{} ({})", words::list(&kinds), takes(&missing)))
        .collect();
    format!("Cannot be told: {}.", each.join("; "))
}

fn takes(missing: &str) -> String {
    format!("that takes {missing}")
}

/// Groups kinds by the missing data, each once.
fn by_missing(untold: &[Untold]) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for u in untold {
        let missing: Vec<String> = u.missing.iter().map(|source| finding::source(*source)).collect();
        let (missing, kind) = (missing.join(", or "), finding::question(u.kind).to_owned());
        match out.iter_mut().find(|(m, _)| *m == missing) {
            Some((_, kinds)) if kinds.contains(&kind) => {}
            Some((_, kinds)) => kinds.push(kind),
            None => out.push((missing, vec![kind])),
        }
    }
    out
}

/// Returns the blocks of the section of the report; empty if nothing was found and nothing is missing.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let why = &run.why;
    if why.findings.is_empty() && why.untold.is_empty() && why.forecasts.is_empty() {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    if why.findings.is_empty() {
        blocks.push(Block::paragraph("No rule found a cause in what was measured."));
    } else {
        blocks.push(Block::Paragraph(Text::of([
            plain("What the steps and the server's own counters show, the most likely cause first. Confidence: "),
            emphasis("high"),
            plain(" where counters, or a comparison made for it, show the mechanism itself; "),
            emphasis("medium"),
            plain(" where latencies are shaped like it; "),
            emphasis("low"),
            plain(" where other causes would look the same."),
        ])));
    }
    for (i, f) in why.findings.iter().enumerate() {
        blocks.extend(finding_blocks(run, i + 1, f));
    }
    blocks.extend(forecasts(run));
    if !why.untold.is_empty() {
        blocks.push(Block::paragraph(strong("What cannot be told")));
        let missing = |(missing, kinds): (String, Vec<String>)| -> Text {
            format!("{}: {}.", capital(&words::list(&kinds)), takes(&missing)).into()
        };
        let mut lines: Vec<Text> = by_missing(&why.untold).into_iter().map(missing).collect();
        let mut told: Vec<&Next> = Vec::new();
        for n in why.untold.iter().filter_map(|u| u.next.as_ref()) {
            if !told.contains(&n) {
                told.push(n);
            }
        }
        lines.extend(told.into_iter().map(next));
        blocks.push(Block::List(lines));
    }
    blocks
}

/// Returns a line for each series whose forecast assumed settings of the server, or that has none, with the reason.
fn forecasts(run: &Run) -> impl Iterator<Item = Block> + use<'_> {
    let line = |attempt: &Attempt| match attempt {
        Attempt::Made(forecast) => finding::assumed(&forecast.assumed),
        Attempt::NotMade(without) => Some(finding::without_forecast(&without.reason)),
    };
    run.why.forecasts.iter().filter_map(move |attempt| {
        Some(Block::paragraph(format!("{}{}", whose(run, attempt.series()), line(attempt)?)))
    })
}

/// Returns true if the step of a finding is none of the search: the one that kept the server full.
fn is_auxiliary(run: &Run, f: &Finding) -> bool {
    run.steps.iter().any(|s| s.series == f.series && s.step == f.step && s.kind.is_auxiliary())
}

fn finding_blocks(run: &Run, number: usize, f: &Finding) -> [Block; 2] {
    let about = match &f.limit {
        Some(limit) => format!(", where {} binds", words::binding(limit)),
        None if is_auxiliary(run, f) => ", which kept the server full".into(),
        None => String::new(),
    };
    let title = Text::of([
        strong(format!("{number}. {}{}", whose(run, &f.series), capital(finding::title(f)))),
        plain(format!(" (step {}{about}; confidence: {})", f.step, f.confidence.name())),
    ]);
    let mut lines: Vec<Text> =
        f.evidence.iter().map(|e| capital(&finding::evidence(&e.fact)).into()).collect();
    lines.extend(changes(run, number - 1, f));
    if earlier(run, number - 1, |before| before.next.command == f.next.command).is_none() {
        lines.push(Text::of([emphasis("Measure next:"), plain(" ")]).and(next(&f.next)));
    }
    [Block::Paragraph(title), Block::List(lines)]
}

/// Returns the advice of the finding at `i` in the list, without what an earlier finding of the series advises as well.
fn changes(run: &Run, i: usize, f: &Finding) -> Vec<Text> {
    let label = || emphasis("Change:");
    let known = |a: &Advice| earlier(run, i, |before| before.advice.contains(a));
    let new: Vec<&Advice> = f.advice.iter().filter(|a| known(a).is_none()).collect();
    let line = |(n, a): (usize, &&Advice)| match n {
        0 => Text::of([label(), plain(format!(" {}", advice(run, f, a)))]),
        _ => advice(run, f, a).into(),
    };
    match f.advice.first().and_then(known) {
        Some(number) if new.is_empty() => vec![Text::of([label(), plain(format!(" as for {number}."))])],
        _ => new.iter().enumerate().map(line).collect(),
    }
}

/// Returns the next measurement, with the command as code.
fn next(n: &Next) -> Text {
    Text::of([plain(format!("{}: ", finding::next(&n.measurement))), code(n.command.as_str())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::render::{markdown, terminal};
    use goodput_core::level::Level;
    use goodput_run::fixture;
    use goodput_run::rundir::Why;
    use goodput_stats::diagnosis::{
        Change, Confidence, DeploymentChange, Diagnosis, Evidence, Expected, Figure, Flag, Measurement,
        MemoryChange, NoForecast, Place, ServerFact, Source, WithoutForecast,
    };

    fn finding_of(kind: Kind, series: &str) -> Finding {
        let at = Place { step: 4, level: Some(Level::rate(20.0)) };
        let evidence = Evidence {
            figure: Figure::KvMost,
            value: 0.99,
            steps: vec![4],
            fact: ServerFact::KvUse { most: 0.99, mean: None, at }.into(),
        };
        let flag = |name| Some(Flag { name, is_guess: false });
        Finding {
            kind,
            series: series.into(),
            limit: Some("ttft.p99".into()),
            step: 4,
            weight: 1.0,
            confidence: Confidence::High,
            evidence: vec![evidence],
            advice: vec![
                Advice {
                    change: MemoryChange::MoreKvCache.into(),
                    flag: flag("--gpu|memory"),
                    from: None,
                    to: None,
                    expected: None,
                },
                Advice {
                    change: DeploymentChange::MoreReplicas.into(),
                    flag: None,
                    from: None,
                    to: None,
                    expected: None,
                },
            ],
            next: Next {
                measurement: Measurement::LowerLevels,
                command: "goodput sweep plan.toml --set 'a=1'".into(),
            },
        }
    }

    fn run_with(findings: Vec<Finding>, untold: Vec<Untold>) -> Run {
        Run { why: Why { findings, untold, ..Why::default() }, ..fixture::found() }
    }

    #[test]
    fn the_terminal_has_the_first_and_the_report_all() {
        let kinds = [Kind::KvExhaustion, Kind::Queueing, Kind::PrefillBound, Kind::Unstable];
        let untold = Untold {
            kind: Kind::Preemption,
            series: "main".into(),
            missing: vec![Source::Counters],
            next: None,
        };
        let run = run_with(kinds.map(|k| finding_of(k, "main")).to_vec(), vec![untold]);
        let sections = brief(&run);
        let said = terminal::render(&Document::of(sections), &terminal::Screen::default());
        insta::assert_snapshot!(said.lines().take(5).collect::<Vec<_>>().join("\n"), @r"
        Why, and what to change:
        1. The KV cache is full (confidence: high)
           99 % of the KV cache in use at most, at 20 req/s (step 4)
           → Give the KV cache more memory: raise --gpu|memory.
           next: goodput sweep plan.toml --set 'a=1'
        ");
        assert!(said.contains("and 1 more in the report") && !said.contains("4. "), "{said}");
        assert!(said.contains("Cannot be told: preemption (that takes the server's counters)."), "{said}");
        let section = markdown::blocks(&section(&run), 3);
        assert_eq!(section.matches("*Measure next:*").count(), 1, "the same command once");
        assert_eq!(section.matches("*Change:* as for 1.").count(), 3, "the same advice once: {section}");
        assert!(section.contains("raise --gpu\\|memory"), "cells are escaped: {section}");
        assert!(section.contains("where p99 TTFT binds; confidence: high"), "{section}");
        assert!(
            section.contains("- Spread the load over more replicas.")
                && section.contains("`goodput sweep plan.toml --set 'a=1'`")
        );
    }

    #[test]
    fn a_finding_leaves_out_what_an_earlier_one_of_its_series_advises() {
        let mut second = finding_of(Kind::Queueing, "main");
        second.advice[0].change = DeploymentChange::LimitAdmission.into();
        let other = finding_of(Kind::Queueing, "other");
        let run = run_with(vec![finding_of(Kind::KvExhaustion, "main"), second, other], vec![]);
        let changes = |i: usize| {
            let lines = changes(&run, i, &run.why.findings[i]);
            markdown::blocks(&[Block::List(lines)], 3)
        };
        assert_eq!(changes(1).matches("Refuse requests beyond the safe rate").count(), 1, "{}", changes(1));
        assert!(!changes(1).contains("replicas") && !changes(1).contains("as for"), "{}", changes(1));
        assert!(changes(2).contains("raise") && changes(2).contains("replicas"), "{}", changes(2));
    }

    #[test]
    fn changes_with_one_forecast_show_it_once() {
        let expected = Expected { present: 5.0, changed: 9.0 };
        let of =
            |change: Change| Advice { change, flag: None, from: None, to: None, expected: Some(expected) };
        let mut finding = finding_of(Kind::DecodeBound, "main");
        finding.advice = vec![
            of(DeploymentChange::FasterMemory.into()),
            of(DeploymentChange::SpeculativeDecoding.into()),
            of(DeploymentChange::FasterCompute.into()),
        ];
        let shown = |f: &Finding| f.advice.iter().map(|a| is_first_foreseen(f, a)).collect::<Vec<_>>();
        assert_eq!(shown(&finding), [true, false, true]);
        finding.evidence[0].fact = Fact::Forecast { altered: Altered::FasterMemory, expected };
        finding.advice.truncate(2);
        assert_eq!(shown(&finding), [false, false], "the evidence has it");
    }

    #[test]
    fn a_run_without_a_forecast_says_why() {
        let reason = NoForecast::FewUnloaded { requests: 3, least: 6 };
        let mut run = run_with(vec![finding_of(Kind::Queueing, "main")], vec![]);
        run.why.forecasts = vec![Attempt::NotMade(WithoutForecast { series: "main".into(), reason })];
        let said = markdown::blocks(&section(&run), 3);
        assert_eq!(said.matches("No gains are foreseen: ").count(), 1, "{said}");
    }

    #[test]
    fn nothing_found_is_nothing_said() {
        let run = run_with(vec![], vec![]);
        assert!(brief(&run).iter().all(Section::is_empty) && section(&run).is_empty());
        assert_eq!(Diagnosis::default().findings, []);
    }
}
