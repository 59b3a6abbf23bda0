//! Why a limit was missed, and what to change: short for a terminal, in full for the report.

use super::escape::{clip, markdown, plain};
use super::words::{self, finding};
use goodput_run::rundir::Run;
use goodput_stats::diagnosis::{Finding, Kind, Next, Untold};

/// So many findings stand in the terminal; the report has all.
const SHOWN: usize = 3;
/// Of several series, or of rows, so many each.
const SHOWN_EACH: usize = 2;

/// What stands before a finding where there are several series: `warm: `.
fn whose(run: &Run, series: &str) -> String {
    let several = run.steps.iter().any(|s| s.series != series);
    if several { format!("{}: ", plain(&clip(series, 40))) } else { String::new() }
}

fn whose_md(run: &Run, series: &str) -> String {
    match whose(run, series).trim_end() {
        "" => String::new(),
        name => format!("{} ", markdown(name)),
    }
}

/// A sentence's beginning.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    // A percentile keeps its name.
    if text.starts_with("p99") {
        return text.to_owned();
    }
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// The figures of a finding in one line.
fn evidence(f: &Finding) -> String {
    f.evidence.iter().map(|e| finding::evidence(&e.fact)).collect::<Vec<_>>().join("; ")
}

/// The findings for the terminal, what binds first, each with its first advice and what to measure next. Empty where there are none.
pub fn terminal(run: &Run) -> String {
    let mut out = String::new();
    // What sets the latency of a row of a matrix has been said with its answer.
    let told = |f: &&Finding| run.matrix.is_empty() || !of_latency(f.kind);
    let shown: Vec<&Finding> = run.why.findings.iter().filter(told).take(SHOWN).collect();
    if !shown.is_empty() {
        out.push_str("\nWhy, and what to change:\n");
    }
    for (i, f) in shown.iter().enumerate() {
        out.push_str(&format!(
            "{}. {}{} (confidence: {})\n   {}\n",
            i + 1,
            whose(run, &f.series),
            capital(finding::title(f.kind)),
            f.confidence.name(),
            plain(&capital(&evidence(f)))
        ));
        let advice = f.advice.first().map(finding::advice);
        out.push_str(&advice.map(|a| format!("   → {}\n", plain(&a))).unwrap_or_default());
        out.push_str(&format!("   next: {}\n", plain(&f.next.command)));
    }
    let more = run.why.findings.len() - shown.len();
    if more > 0 && !shown.is_empty() {
        out.push_str(&format!("   and {more} more in the report\n"));
    }
    let untold = untold_in_short(&run.why.untold);
    if !untold.is_empty() {
        let gap = if shown.is_empty() { "\n" } else { "" };
        out.push_str(&format!("{gap}{}\n", plain(&untold)));
    }
    out
}

/// Whether it is a part of the latency itself, and not something that makes it worse.
const fn of_latency(kind: Kind) -> bool {
    matches!(kind, Kind::PrefillBound | Kind::DecodeBound | Kind::BatchingTradeOff | Kind::Queueing)
}

/// The first findings of a part of a run of several series, a line each and its first advice.
pub fn of_part(part: &Run) -> String {
    let line = |f: &Finding| {
        let advice = f.advice.first().map(finding::advice);
        let advice = advice.map(|a| format!("  → {}\n", plain(&a))).unwrap_or_default();
        let (title, sure) = (capital(finding::title(f.kind)), f.confidence.name());
        format!("  Why: {title} (confidence: {sure}): {}\n{advice}", plain(&evidence(f)))
    };
    part.why.findings.iter().take(SHOWN_EACH).map(line).collect()
}

/// What cannot be told, in a line: `Cannot be told here: …`.
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

/// Kinds by what is missing, each once.
fn by_missing(untold: &[Untold]) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for u in untold {
        let missing: Vec<&str> = u.missing.iter().map(|source| finding::source(*source)).collect();
        let (missing, kind) = (missing.join(", or "), finding::question(u.kind).to_owned());
        match out.iter_mut().find(|(m, _)| *m == missing) {
            Some((_, kinds)) if kinds.contains(&kind) => {}
            Some((_, kinds)) => kinds.push(kind),
            None => out.push((missing, vec![kind])),
        }
    }
    out
}

/// The section of the Markdown report; empty where nothing was found and nothing is missing.
pub(super) fn section(run: &Run) -> String {
    let why = &run.why;
    if why.findings.is_empty() && why.untold.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    if why.findings.is_empty() {
        out.push_str("No rule found a cause in what was measured.\n\n");
    } else {
        out.push_str(
            "What the steps and the server's own counters show, what binds first. Confidence: *high* where counters, or a comparison made for it, show the \
             mechanism itself; *medium* where latencies are shaped like it; *low* where other causes would look the same.\n\n",
        );
    }
    for (i, f) in why.findings.iter().enumerate() {
        out.push_str(&one(run, i + 1, f));
    }
    if !why.untold.is_empty() {
        out.push_str("**What cannot be told**\n\n");
        for (missing, kinds) in by_missing(&why.untold) {
            out.push_str(&format!(
                "- {}: {}.\n",
                markdown(&capital(&words::list(&kinds))),
                markdown(&takes(&missing))
            ));
        }
        let mut told: Vec<&Next> = Vec::new();
        for n in why.untold.iter().filter_map(|u| u.next.as_ref()) {
            if !told.contains(&n) {
                told.push(n);
            }
        }
        out.extend(told.into_iter().map(|n| format!("- {}\n", next(n))));
    }
    out
}

fn one(run: &Run, number: usize, f: &Finding) -> String {
    let about = match &f.limit {
        Some(limit) => format!(", where {} binds", words::binding(limit)),
        None => String::new(),
    };
    let mut out = format!(
        "**{number}. {}{}** ({}{}; confidence: {})\n\n",
        whose_md(run, &f.series),
        markdown(&capital(finding::title(f.kind))),
        markdown(&format!("step {}", f.step)),
        markdown(&about),
        f.confidence.name()
    );
    for e in &f.evidence {
        out.push_str(&format!("- {}\n", markdown(&capital(&finding::evidence(&e.fact)))));
    }
    for (i, a) in f.advice.iter().enumerate() {
        let head = if i == 0 { "*Change:* " } else { "" };
        out.push_str(&format!("- {head}{}\n", markdown(&finding::advice(a))));
    }
    out.push_str(&format!("- *Measure next:* {}\n\n", next(&f.next)));
    out
}

/// What to measure, with the command as code.
fn next(n: &Next) -> String {
    format!("{}: `{}`", markdown(&finding::next(&n.measurement)), plain(&n.command).replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::level::Level;
    use goodput_run::fixture;
    use goodput_run::rundir::Why;
    use goodput_stats::diagnosis::{
        Advice, Confidence, DeploymentChange, Diagnosis, Evidence, Figure, Flag, Measurement, MemoryChange,
        Place, ServerFact, Source,
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
                Advice { change: MemoryChange::MoreKvCache.into(), flag: flag("--gpu|memory"), start: None },
                Advice { change: DeploymentChange::MoreReplicas.into(), flag: None, start: None },
            ],
            next: Next {
                measurement: Measurement::LowerLevels,
                command: "goodput sweep plan.toml --set 'a=1'".into(),
            },
        }
    }

    fn run_with(findings: Vec<Finding>, untold: Vec<Untold>) -> Run {
        Run { why: Why { findings, untold, roofline: vec![] }, ..fixture::found() }
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
        let said = terminal(&run);
        insta::assert_snapshot!(said.lines().take(6).collect::<Vec<_>>().join("\n"), @r"

        Why, and what to change:
        1. The KV cache is full (confidence: high)
           99 % of the KV cache in use at most, at 20 req/s (step 4)
           → Give the KV cache more memory: raise --gpu|memory.
           next: goodput sweep plan.toml --set 'a=1'
        ");
        assert!(said.contains("and 1 more in the report") && !said.contains("4. "), "{said}");
        assert!(said.contains("Cannot be told: preemption (that takes the server's counters)."), "{said}");
        let section = section(&run);
        assert_eq!(section.matches("*Measure next:*").count(), 4);
        assert!(section.contains("raise --gpu\\|memory"), "cells are escaped: {section}");
        assert!(section.contains("where p99 TTFT binds; confidence: high"), "{section}");
        assert!(
            section.contains("- Or spread the load over more replicas.")
                && section.contains("`goodput sweep plan.toml --set 'a=1'`")
        );
    }

    #[test]
    fn nothing_found_is_nothing_said() {
        let run = run_with(vec![], vec![]);
        assert_eq!((terminal(&run), section(&run)), (String::new(), String::new()));
        assert_eq!(Diagnosis::default().findings, []);
    }
}
