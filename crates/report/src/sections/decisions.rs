//! Accepted and rejected levels with the evidence for each.

use super::cells;
use crate::document::{Block, Cell, Column, Field, Mark, Table, Text, emphasis, plain};
use crate::words;
use goodput_core::units::thousands;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::{LimitRow, Step, StepKind, Verdict};

/// A level of an answer with its verdict, and the steps that show it, the most informative first.
struct DecidedLevel<'a> {
    level: f64,
    verdict: Verdict,
    steps: Vec<&'a Step>,
}

/// Returns the levels by verdict, with the evidence for each; for each answer.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let (whole, run) = (run, &*run.in_levels());
    let several = run.answers.len() > 1;
    let mut blocks = Vec::new();
    for a in &run.answers {
        let all = decided(run, a);
        if several {
            blocks.push(Block::paragraph(format!("{}:", words::whose(run, a))));
        }
        let mut lines = by_fit(run, a);
        lines.extend(in_short(run, a, &all));
        blocks.push(Block::List(lines));
        blocks.extend(evidence(&WindowedRun { run, whole }, a, &all));
    }
    blocks
}

/// A run with the windows of each level combined, and the run as measured.
struct WindowedRun<'a> {
    run: &'a Run,
    whole: &'a Run,
}

/// Returns each level of an answer once, from the lowest. If a level was measured several times, a fail has priority
/// and is never outweighed.
fn decided<'a>(run: &'a Run, a: &Answer) -> Vec<DecidedLevel<'a>> {
    let mut steps = words::steps_of(run, a);
    steps.retain(|s| !s.kind.is_outside_search());
    let mut out: Vec<DecidedLevel<'a>> = Vec::new();
    for verdict in [Verdict::Fails, Verdict::Meets, Verdict::Invalid, Verdict::Undecided] {
        for s in steps.iter().filter(|s| run.judged(a, s).0 == verdict) {
            let same = |d: &&mut DecidedLevel<'_>| (d.level - s.level.value).abs() <= 1e-9 * d.level;
            match out.iter_mut().find(same) {
                Some(known) => known.steps.push(s),
                None => out.push(DecidedLevel { level: s.level.value, verdict, steps: vec![s] }),
            }
        }
    }
    out.sort_by(|x, y| x.level.total_cmp(&y.level));
    out
}

/// Returns the levels that an estimate accepts and rejects beyond the single steps; empty without an estimate.
fn by_fit(run: &Run, a: &Answer) -> Vec<Text> {
    let g = &a.goodput;
    let unit = a.control.unit();
    let ends = words::ends(a.control, g);
    let safe = usable_safe_rate(g)
        .map(|s| ends.as_ref().and_then(|e| e.1.clone()).unwrap_or(words::level_number(s)));
    let mut out: Vec<Text> = Vec::new();
    if let Some(safe) = safe {
        let said = format!(
            "accepted by all steps together: up to {safe}{unit}, the safe {} ({}{}{})",
            words::noun(a.control),
            words::chance_clause(run, g),
            words::flat_clause(g),
            words::scatter_clause(g),
        );
        out.push(said.into());
    }
    if let Some(([.., high], _)) = ends.filter(|_| g.status() != Status::NotReached) {
        let said =
            format!("rejected by all steps together: above {high}{unit}, the upper end of the 90 % interval");
        out.push(said.into());
    }
    out
}

/// Returns the levels in a line for each verdict.
fn in_short(run: &Run, a: &Answer, all: &[DecidedLevel<'_>]) -> Vec<Text> {
    let mut out = Vec::new();
    // Accepted levels first: readers look for these.
    for verdict in [Verdict::Meets, Verdict::Fails, Verdict::Invalid, Verdict::Undecided] {
        let say = |d: &DecidedLevel<'_>| {
            let mut notes: Vec<String> = words::measured(run, a, d.level).into_iter().collect();
            let binding = d.steps.first().and_then(|s| run.judged(a, s).1);
            notes.extend(binding.filter(|_| verdict == Verdict::Fails).map(|b| words::binding(&b)));
            let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
            format!("{}{notes}", words::level_number(d.level))
        };
        let levels: Vec<String> = all.iter().filter(|d| d.verdict == verdict).map(say).collect();
        if levels.is_empty() {
            continue;
        }
        let fitted = interval(&a.goodput).is_some() || usable_safe_rate(&a.goodput).is_some();
        let restarted = all.iter().flat_map(|d| &d.steps).any(|s| s.server.restarted);
        let title = match verdict {
            Verdict::Meets => "accepted, shown to meet the SLO",
            Verdict::Fails => "rejected, shown to fail",
            Verdict::Invalid if restarted => {
                "invalid, where the server was started anew or the client was the limit"
            }
            Verdict::Invalid => "invalid, where the client was the limit",
            Verdict::Undecided if fitted => "undecided by their own requests alone; all steps count together",
            Verdict::Undecided => "undecided, with too few requests to tell",
        };
        out.push(format!("{title} ({}): {}", a.control.unit().trim(), levels.join(", ")).into());
    }
    out
}

/// Returns the evidence for each level: the limit that decides it with its counts and bounds, and the reason.
fn evidence(of: &WindowedRun<'_>, a: &Answer, all: &[DecidedLevel<'_>]) -> Vec<Block> {
    let WindowedRun { run, .. } = of;
    // If nothing was tried under load, the unloaded server decides.
    let unloaded = run.steps.iter().rfind(|s| s.series == a.series && s.kind == StepKind::Baseline);
    let unloaded = unloaded.filter(|_| all.is_empty() && a.goodput.status() == Status::None);
    let unloaded: Vec<DecidedLevel<'_>> = unloaded
        .map(|s| DecidedLevel { level: 0.0, verdict: Verdict::Fails, steps: vec![s] })
        .into_iter()
        .collect();
    let rows: Vec<EvidenceRow<'_>> =
        all.iter().chain(&unloaded).filter_map(|d| EvidenceRow::of(of, a, d)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut said = Text::from(
        "The evidence for each. Bounds are those of the verdict, for the true share of requests within the limit; neighbours that missed \
         together count as fewer.",
    );
    if rows.iter().any(|r| decision(a, r.decided).by_fit) {
        said.push_str(" ");
        said.push(emphasis("(fit)"));
        said.push(plain(": its own requests are too few to tell; the fit to all steps together tells."));
    }
    vec![Block::Paragraph(said), table(run, a, &rows).into()]
}

/// A row of the table of evidence: a level.
struct EvidenceRow<'a> {
    decided: &'a DecidedLevel<'a>,
    /// The most informative step.
    first: &'a Step,
    /// The numbers of all its steps.
    steps: Vec<u32>,
    limit: Option<&'a LimitRow>,
    /// True if it fails because the backlog grows.
    grows: bool,
}

impl<'a> EvidenceRow<'a> {
    fn of(of: &WindowedRun<'a>, a: &Answer, d: &'a DecidedLevel<'a>) -> Option<Self> {
        let WindowedRun { run, whole } = of;
        let first: &'a Step = d.steps.first()?;
        // A level that was measured in windows has more steps than the one counted here.
        let in_windows = run.steps.len() < whole.steps.len();
        let steps = if in_windows { whole.steps_at(a, first.level.value) } else { d.steps.clone() };
        Some(Self {
            decided: d,
            first,
            steps: steps.iter().map(|s| s.step).collect(),
            limit: limit(run, a, first).filter(|l| l.limit != "stability" || l.n == 0),
            grows: d.verdict == Verdict::Fails && run.judged(a, first).1.as_deref() == Some("stability"),
        })
    }
}

fn table(run: &Run, a: &Answer, rows: &[EvidenceRow<'_>]) -> Table {
    let share = |head: &str, of: fn(&LimitRow) -> Option<f64>| {
        Field::new(Column::number(head), move |r: &EvidenceRow<'_>| Cell::share(r.limit.and_then(of)))
    };
    let missed = |l: &LimitRow| {
        let words = format!("{} of {}", thousands(l.misses as f64), thousands(l.n as f64));
        Cell::figure(words, Some(l.misses as f64 / l.n as f64))
    };
    let fields = vec![
        Field::new(Column::text("decision"), |r: &EvidenceRow<'_>| decision(a, r.decided).cell()),
        Field::new(Column::level(), |r: &EvidenceRow<'_>| cells::bare_level(r.first)),
        Field::new(Column::number("steps"), |r: &EvidenceRow<'_>| {
            let numbers: Vec<String> = r.steps.iter().map(u32::to_string).collect();
            Cell::figure(numbers.join(", "), r.steps.first().map(|n| f64::from(*n)))
        }),
        Field::new(Column::number("requests"), |r: &EvidenceRow<'_>| Cell::Count(r.first.due_n as f64)),
        Field::new(Column::text("limit"), |r: &EvidenceRow<'_>| match r.limit {
            _ if r.grows => Cell::text(words::binding("stability")),
            limit => limit.map_or(Cell::Unknown, |l| Cell::text(words::binding(&l.key()))),
        }),
        Field::new(Column::number("missed"), |r: &EvidenceRow<'_>| {
            r.limit.filter(|l| l.n > 0).map_or(Cell::Unknown, missed)
        }),
        share("within", |l| l.attainment),
        share("at least", |l| l.low),
        share("at most", |l| l.high),
        Field::new(Column::text("why"), |r: &EvidenceRow<'_>| Cell::text(words::why(run, a, r.first))),
    ];
    Table::of(fields, rows).sorted_by_readers(1)
}

/// The decision on a level.
struct Decision {
    mark: Mark,
    word: &'static str,
    /// True if its requests alone are too few, and the fit of all steps decides.
    by_fit: bool,
}

impl Decision {
    fn cell(&self) -> Cell {
        Cell::marked(self.mark, format!("{}{}", self.word, if self.by_fit { " (fit)" } else { "" }))
    }
}

/// Returns the decision on a level: by its own requests, else by all steps together, if these decide.
fn decision(a: &Answer, d: &DecidedLevel<'_>) -> Decision {
    let g = &a.goodput;
    let high = interval(g).filter(|_| g.status() != Status::NotReached).map(|(_, [_, high])| high);
    let (mark, word, by_fit) = match d.verdict {
        Verdict::Meets => (Mark::Good, "accepted", false),
        Verdict::Fails => (Mark::Bad, "rejected", false),
        Verdict::Invalid => (Mark::Invalid, "invalid", false),
        Verdict::Undecided if usable_safe_rate(g).is_some_and(|safe| d.level <= safe) => {
            (Mark::Good, "accepted", true)
        }
        Verdict::Undecided if high.is_some_and(|high| d.level > high) => (Mark::Bad, "rejected", true),
        Verdict::Undecided => (Mark::Open, "undecided", false),
    };
    Decision { mark, word, by_fit }
}

/// Returns the limit that decides a step: the one that binds there, else that of the answer, else the one nearest to
/// being missed.
fn limit<'a>(run: &Run, a: &Answer, s: &'a Step) -> Option<&'a LimitRow> {
    let own = || s.limits.iter().filter(|l| l.tier == a.tier);
    let named = |name: Option<&str>| own().find(|l| name.is_some_and(|key| l.is(key)));
    let binding = run.judged(a, s).1;
    let worst = || {
        let judged = own().filter(|l| l.attainment.is_some() && l.limit != "joint");
        judged.min_by(|x, y| x.attainment.unwrap_or(1.0).total_cmp(&y.attainment.unwrap_or(1.0)))
    };
    named(binding.as_deref()).or_else(|| named(a.goodput.binding.as_deref())).or_else(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture;

    fn text(section: &[Block]) -> String {
        blocks(section, 3)
    }

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
    }

    #[test]
    fn every_level_has_its_evidence() {
        insta::assert_snapshot!(text(&section(&case("two-steps"))), @r#"
        - accepted, shown to meet the SLO (req/s): 20
        - rejected, shown to fail (req/s): 45 (p99 TTFT)

        The evidence for each. Bounds are those of the verdict, for the true share of requests within the limit; neighbours that missed together count as fewer.

        | decision | level | steps | requests | limit | missed | within | at least | at most | why |
        | --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- |
        | ● accepted | 20 req/s | 1 | 2,400 | p99 TTFT | 0 of 2,400 | 100 % | 99.60 % | 100 % | every limit is shown to be met |
        | ✕ rejected | 45 req/s | 2 | 5,400 | p99 TTFT | 5,400 of 5,400 | 0 % | 0 % | 0.4 % | the backlog grows |
        "#);
        let soak = text(&section(&case("soak")));
        assert!(
            soak.starts_with("- accepted by all steps together: up to 33 req/s, the safe rate (5 % chance"),
            "{soak}"
        );
        assert!(soak.contains("- rejected by all steps together: above 35.3 req/s"), "{soak}");
        assert!(soak.contains("all steps count together"), "{soak}");
        let top = text(&section(&case("top")));
        assert!(!top.contains("rejected by all steps"), "{top}");
        assert!(top.contains("measured 3 times: undecided, meets, meets"), "{top}");
    }

    /// In every case, rows have as many cells as their heads.
    #[test]
    fn every_case_has_whole_rows() {
        for (name, run) in fixture::cases() {
            let text = text(&section(&run));
            let cells: Vec<usize> = text
                .lines()
                .filter(|l| l.starts_with('|'))
                .map(|l| l.replace("\\|", "").matches('|').count())
                .collect();
            assert!(cells.windows(2).all(|w| w[0] == w[1]), "{name}: {text}");
            assert_eq!(text.is_empty(), run.answers.is_empty(), "{name}");
        }
    }
}
